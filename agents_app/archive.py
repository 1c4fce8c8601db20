"""Pools that are put away: archived, deleted, brought back, and after a while purged with all that was theirs.

An archived pool can be read. A deleted one is kept for KEPT and can be brought back until then; the daily job `purge_due` deletes
it for good. Of either, nothing is routed, labeled, trained or asked any more: every process knows within two seconds.
"""

import logging
from datetime import datetime, timedelta
from typing import Any

from django.apps import apps
from django.db import DEFAULT_DB_ALIAS, models, transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from agents_app import audit, keys
from agents_app.audit import Actor, Who
from agents_app.checks import PoolError
from agents_app.models import ApiKey, Pool, Stamp
from routerweb import hooks

log = logging.getLogger(__name__)

#: How long a deleted pool can be brought back.
KEPT = timedelta(days=30)
#: Rows that one transaction of a purge deletes, so that nobody who writes has to wait for long.
AT_ONCE = 2_000


def holds(pool: Pool) -> list[tuple[str, int]]:
    """What goes with the pool, as (words, how many); nothing that there is none of."""
    mine = [(_("Agents"), pool.agents.count()), (_("API keys that open no other pool"), len(_keys_alone(pool)))]
    return [(name, count) for part in (mine, *hooks.pool_contents(pool)) for name, count in part if count]


def archive(pool: Pool, *, actor: Who) -> Pool:
    """Put a pool away: it can be read, and nothing happens in it. Archiving an archived or a deleted pool changes nothing."""
    return _put_away(pool, "archived_at", "pool.archived", actor, archived_at=None, deleted_at=None)


def delete(pool: Pool, typed: str, *, actor: Who) -> Pool:
    """Delete a pool, for KEPT only on trial. Raises PoolError unless its name or slug was typed."""
    if " ".join(typed.split()) not in (pool.name, pool.slug):
        raise PoolError(_("Type the pool's name, “%(name)s”, to delete it.") % {"name": pool.name}, "typed")
    return _put_away(pool, "deleted_at", "pool.deleted", actor, deleted_at=None)


def _put_away(pool: Pool, column: str, action: str, actor: Who, **there: None) -> Pool:
    with transaction.atomic():
        if Pool.objects.filter(pk=pool.pk, **there).update(**{column: timezone.now()}):
            hooks.pool_put_away(pool, actor)
            audit.record(action, actor=actor, target=pool.slug, pool=pool)
            Stamp.bump()
    pool.refresh_from_db()
    return pool


def bring_back(pool: Pool, *, actor: Who) -> Pool:
    """Take an archived or deleted pool into use again, with its keys. What was cancelled as it went stays cancelled."""
    with transaction.atomic():
        if Pool.objects.put_away().filter(pk=pool.pk).update(archived_at=None, deleted_at=None):
            audit.record("pool.restored", actor=actor, target=pool.slug, pool=pool)
            Stamp.bump()
    pool.refresh_from_db()
    return pool


def purged_at(pool: Pool) -> datetime | None:
    """When a deleted pool is deleted for good; None of others."""
    return pool.deleted_at + KEPT if pool.deleted_at else None


def purge_due(now: datetime | None = None) -> int:
    """Delete for good what was deleted KEPT ago; how many pools. A schedule calls it; one that was cut off goes on next time."""
    due = list(Pool.objects.filter(deleted_at__lte=(now or timezone.now()) - KEPT))
    for pool in due:
        purge(pool)
    return len(due)


def purge(pool: Pool) -> None:
    """Delete a deleted pool's rows from every table, in short transactions, the pool's own last. Raises PoolError of one that is
    not deleted."""
    if not Pool.objects.filter(pk=pool.pk, deleted_at__isnull=False).exists():
        raise PoolError(_("Only a deleted pool can be purged."))
    had = dict(holds(pool))
    for key in _keys_alone(pool):
        keys.revoke(key, Actor("purge"))
    for model, path in _tables():
        rows = model._base_manager.filter(**{path: pool.pk}).order_by("pk")
        for field in _of_its_own(model):
            rows.exclude(**{field.name: None}).update(**{field.name: None})
        while batch := list(rows.values_list("pk", flat=True)[:AT_ONCE]):
            with transaction.atomic():
                _drop(model, batch)
    with transaction.atomic():
        audit.record("pool.purged", actor=Actor("purge"), target=pool.slug, detail={"name": pool.name, "held": had})
        _drop(Pool, [pool.pk])
        Stamp.bump()
    log.info("The pool %s was purged.", pool.slug)


def _keys_alone(pool: Pool) -> list[ApiKey]:
    """Keys that open this pool and no other."""
    others = ApiKey.pools.through.objects.filter(apikey=models.OuterRef("pk")).exclude(pool=pool)
    return list(ApiKey.objects.filter(pools=pool, revoked_at=None).exclude(models.Exists(others)))


def _drop(model: type[models.Model], rows: list[Any]) -> None:
    """Delete rows and nothing else; what pointed at them softly points at nothing."""
    for relation in model._meta.get_fields(include_hidden=True):
        if isinstance(relation, models.ManyToOneRel) and relation.on_delete is models.SET_NULL:
            field = relation.remote_field
            relation.related_model._base_manager.filter(**{f"{field.name}__in": rows}).update(**{field.name: None})
    model._base_manager.filter(pk__in=rows)._raw_delete(using=DEFAULT_DB_ALIAS)


def _owner(field: Any) -> bool:
    """Whether a row goes with what the column points at."""
    return isinstance(field, models.ForeignKey) and field.remote_field.on_delete is not models.SET_NULL


def _tables() -> list[tuple[type[models.Model], str]]:
    """Every table with rows of a pool and the look-up from it to the pool, those that point at others before those others."""
    every = [
        model for model in apps.get_models(include_auto_created=True) if model._meta.managed and not model._meta.proxy
    ]
    owners = {
        model: [f for f in model._meta.concrete_fields if _owner(f) and f.related_model is not model] for model in every
    }
    paths: dict[type[models.Model], str] = {Pool: "pk"}
    # By a column that is never empty where there is one: rows of the site, such as its alarms, have no pool.
    for may_be_empty in (False, True):
        while fresh := {
            model: field.name if (path := paths[field.related_model]) == "pk" else f"{field.name}__{path}"
            for model in every
            for field in owners[model]
            if model not in paths and field.related_model in paths and (may_be_empty or not field.null)
        }:
            paths |= fresh
    del paths[Pool]
    ordered: list[tuple[type[models.Model], str]] = []
    while paths:
        pointed_at = {field.related_model for model in paths for field in owners[model]}
        free = [model for model in paths if model not in pointed_at]
        ordered += [(model, paths.pop(model)) for model in free]
    return ordered


def _of_its_own(model: type[models.Model]) -> list[Any]:
    """The columns by which rows of a table hold each other back."""
    return [field for field in model._meta.concrete_fields if _owner(field) and field.related_model is model]
