"""The HTTP API of launch rules, with the scope `ops`: list, make, read, change, delete."""

from collections.abc import Mapping
from typing import Any

from django.core.exceptions import ValidationError
from django.db import models
from django.urls import reverse

from training_app import rules
from training_app.addresses import Table
from training_app.calls import Call, asked_of, body_of
from training_app.engine.config import Config, ConfigError
from training_app.models import LaunchRule
from training_app.operations_api import config_of, key_name, pool_named
from training_app.replies import Refused, Reply, reply
from training_app.serving import Caller

#: What a body may say of a rule beside `config` and `active`, in the model's own words.
FIELDS = ("name", "trigger", "hour", "labels", "rest_hours", "only_new", "include_llm", "promote")


def list_rules(call: Call, caller: Caller) -> Reply:
    """GET /api/rules/?pool=: the pool's rules by name, each with what it waits for."""
    pool = pool_named(asked_of(call).get("pool"), caller)
    found = LaunchRule.objects.filter(pool=pool).select_related("pool")
    return reply({"pool": pool.slug, "rules": [_rule_json(rule) for rule in found]})


def make_rule(call: Call, caller: Caller) -> Reply:
    """POST /api/rules/: make a rule; 201 with it."""
    body = body_of(call)
    rule = LaunchRule(pool=pool_named(body.get("pool"), caller))
    if body.get("name") is None:
        raise Refused(400, "missing", "name is missing.", field="name")
    return reply(_rule_json(_save(rule, body, caller)), 201)


def one_rule(call: Call, caller: Caller, rule_id: str) -> Reply:
    """GET /api/rules/ID/: one rule."""
    return reply(_rule_json(_rule(caller, rule_id)))


def change_rule(call: Call, caller: Caller, rule_id: str) -> Reply:
    """POST /api/rules/ID/: change what the body names; the rest stays."""
    return reply(_rule_json(_save(_rule(caller, rule_id), body_of(call), caller)))


def delete_rule(call: Call, caller: Caller, rule_id: str) -> Reply:
    """POST /api/rules/ID/delete/: delete it; its runs and models stay."""
    rule = _rule(caller, rule_id)
    told = _rule_json(rule)
    rules.delete(rule, actor=None, actor_name=key_name(caller))
    return reply(told)


def _save(rule: LaunchRule, body: Mapping[str, Any], caller: Caller) -> LaunchRule:
    """The rule with what the body says, stored. `active` alone pauses it or lets it go on."""
    named = [name for name in FIELDS if name in body]
    for name in named:
        setattr(rule, name, _value(name, body[name]))
    if "config" in body:
        try:
            rule.config = Config.from_mapping(config_of(body)).changed()
        except ConfigError as error:
            field = f"config.{error.field}"
            raise Refused(400, "invalid", f"{field}: {error.reason}", field=field) from None
    active = body.get("active", rule.active)
    if not isinstance(active, bool):
        raise Refused(400, "invalid", "active must be true or false.", field="active")
    try:
        rule.clean_fields(exclude={field.name for field in rule._meta.fields} - set(FIELDS))
    except ValidationError as error:
        field, reasons = next(iter(error.message_dict.items()))
        raise Refused(400, "invalid", f"{field}: {reasons[0]}", field=field) from None
    if LaunchRule.objects.filter(pool=rule.pool, name=rule.name).exclude(pk=rule.pk).exists():
        raise Refused(400, "invalid", "name: another rule of this pool has that name.", field="name")
    if named or "config" in body or rule.pk is None:
        rules.save(rule, actor=None, actor_name=key_name(caller))
    rules.switch(rule, active, actor=None, actor_name=key_name(caller))
    return rule


def _value(name: str, value: Any) -> Any:
    field = LaunchRule._meta.get_field(name)
    if isinstance(field, models.BooleanField):
        fits, wanted = isinstance(value, bool), "true or false"
    elif isinstance(field, models.CharField):
        fits, wanted = isinstance(value, str) and "\0" not in value, "a text"
    else:
        fits, wanted = isinstance(value, int) and not isinstance(value, bool), "a whole number"
    if not fits:
        raise Refused(400, "invalid", f"{name} must be {wanted}.", field=name)
    return value.strip() if isinstance(value, str) else value


def _rule(caller: Caller, rule_id: str) -> LaunchRule:
    known = LaunchRule.objects.select_related("pool").filter(pool__slug__in=caller.pools)
    # Longer numbers than the database has would be an error there.
    rule = known.filter(pk=int(rule_id)).first() if len(rule_id) < 18 else None
    if rule is None:
        raise Refused(404, "not_found", f"There is no rule {rule_id[:20]} in the pools that this API key opens.")
    return rule


def _rule_json(rule: LaunchRule) -> dict[str, Any]:
    outlook = rules.outlook(rule)
    return {
        "id": rule.pk,
        "pool": rule.pool.slug,
        **{name: getattr(rule, name) for name in FIELDS},
        "config": rule.config,
        "active": rule.active,
        "waits_for": str(outlook.text),
        "next_at": outlook.at.isoformat() if outlook.at else None,
        "last_fired_at": rule.last_fired_at.isoformat() if rule.last_fired_at else None,
        "last_reason": rule.last_reason,
        "problem": rule.problem,
        "page": reverse("run_rule", args=[rule.pool.slug, rule.pk]),
    }


ENDPOINTS: Table = {
    "/api/rules/": {"GET": list_rules, "POST": make_rule},
    "/api/rules/{rule_id}/": {"GET": one_rule, "POST": change_rule},
    "/api/rules/{rule_id}/delete/": {"POST": delete_rule},
}
