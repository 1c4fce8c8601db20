"""Launch rules: list, make, read, change, delete."""

from typing import Any

from django.core.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from agents_app.audit import Actor
from training_app.api import examples
from training_app.api.errors import Refused
from training_app.api.once import once
from training_app.api.schema import operation
from training_app.api.serializers import runs as shapes
from training_app.api.views.runs import ListView, OpsView, bad_config
from training_app.engine.config import ConfigError
from training_app.models import LaunchRule
from training_app.training import rules
from training_app.versions import kinds

OF = "Training rules"
#: What a body may say of a rule beside `config` and `active`, in the model's own words.
FIELDS = ("name", "trigger", "hour", "labels", "rest_hours", "only_new", "include_llm", "promote")
MADE = {"pool": "support", "name": "nightly", "trigger": "nightly", "hour": 3, "config": {"total_steps": 5000}}


class RulesView(ListView):
    """A pool's rules."""

    order = ("name", "pk")

    @operation(
        "rules", "The pool's training rules by name", of=OF, query_string=shapes.PageParameters,
        answers={200: (shapes.RulesSerializer, "The rules, each with what it waits for",
                   {"pool": "support", "rules": [examples.RULE]})},
    )  # fmt: skip
    def get(self, request: Request) -> Response:
        """The rules of a pool, each with what it waits for. At most a hundred at a time; the header Link leads on."""
        self.chosen = self.query_string(shapes.PageParameters)
        pool = self.pool(self.chosen["pool"])
        rows = self.part(LaunchRule.objects.filter(pool=pool).select_related("pool"))
        return self.listed(shapes.RulesSerializer({"pool": pool.slug, "rules": rows}).data)

    @operation(
        "makeRule", "Make a rule that launches runs", of=OF, keyed=True, body=shapes.MakeRule, example=MADE,
        answers={201: (shapes.RuleSerializer, "The rule", examples.RULE)},
    )  # fmt: skip
    @once
    def post(self, request: Request) -> Response:
        """Make a rule: every night, after so many new gold labels, or on drift."""
        body = self.body(shapes.MakeRule)
        rule = LaunchRule(pool=self.pool(body["pool"]), model_kind=body["kind"])
        return Response(shapes.RuleSerializer(save(rule, body, self.access.actor)).data, status=201)


class OfRule(OpsView):
    """One rule."""

    def rule(self, rule_id: int) -> LaunchRule:
        """The rule of that id. Raises Refused."""
        return self.one_of(LaunchRule.objects.select_related("pool"), rule_id, "rule")


class RuleView(OfRule):
    """Reading and changing a rule."""

    @operation(
        "rule", "One training rule", of=OF, parts=("rule_id",), any_pool=False,
        answers={200: (shapes.RuleSerializer, "The rule", examples.RULE)}, errors=("not_found",),
    )  # fmt: skip
    def get(self, request: Request, rule_id: int) -> Response:
        """One rule with what it waits for, when and why it launched last, and its problem where it could not."""
        return Response(shapes.RuleSerializer(self.rule(rule_id)).data)

    @operation(
        "changeRule", "Change what the body names of a rule", of=OF, keyed=True,
        parts=("rule_id",), any_pool=False, body=shapes.ChangeRule,
        example={"active": False}, answers={200: (shapes.RuleSerializer, "The rule", examples.RULE | {"active": False})},
        errors=("not_found",),
    )  # fmt: skip
    @once
    def post(self, request: Request, rule_id: int) -> Response:
        """Change what the body names; the rest stays. `active` false pauses it."""
        rule = self.rule(rule_id)
        body = self.body(shapes.ChangeRule)
        return Response(shapes.RuleSerializer(save(rule, body, self.access.actor)).data)


class DeleteRuleView(OfRule):
    """Deleting a rule."""

    @operation(
        "deleteRule", "Delete a rule; its runs and models stay", of=OF, keyed=True, parts=("rule_id",), any_pool=False,
        answers={200: (shapes.RuleSerializer, "The rule as it was", examples.RULE)}, errors=("not_found",),
    )  # fmt: skip
    @once
    def post(self, request: Request, rule_id: int) -> Response:
        """Delete a rule; its runs and models stay. No body is needed."""
        rule = self.rule(rule_id)
        answer = shapes.RuleSerializer(rule).data
        rules.delete(rule, actor=self.access.actor)
        return Response(answer)


def save(rule: LaunchRule, values: dict[str, Any], by: Actor) -> LaunchRule:
    """The rule with what was told of it, stored. `active` alone pauses it or lets it go on. Raises Refused."""
    named = [name for name in FIELDS if name in values]
    for name in named:
        setattr(rule, name, values[name])
    if "config" in values:
        try:
            rule.config = kinds.of(rule.model_kind).config(values["config"]).changed()
        except ConfigError as error:
            raise bad_config(error) from None
    try:
        rule.clean_fields(exclude={field.name for field in rule._meta.fields} - set(FIELDS))
    except ValidationError as error:
        field, reasons = next(iter(error.message_dict.items()))
        raise Refused(400, "invalid", f"{field}: {reasons[0]}", field=field) from None
    if LaunchRule.objects.filter(pool=rule.pool, name=rule.name).exclude(pk=rule.pk).exists():
        raise Refused(400, "invalid", "name: another rule of this pool has that name.", field="name")
    if named or "config" in values or rule.pk is None:
        rules.save(rule, actor=by)
    rules.switch(rule, values.get("active", rule.active), actor=by)
    return rule
