"""Changing everything that a search returns, as one of `bulk_actions` says: counted beforehand, done in batches, undone as one.

A bulk change never replaces a set. What is said about agents is recorded beside what stands, so every earlier label stays and the
change can be taken back, whatever came after it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from agents_app import audit
from agents_app.background_work import work
from agents_app.models import Agent, Pool
from datasets_app.labeling.bulk_actions import ACTIONS, BulkAction, delete, restore
from datasets_app.labels import gold
from datasets_app.models import BulkChange, BulkChangeEntry, Query

__all__ = [
    "ACCEPT", "ADD", "AT_ONCE", "DELETE", "REMOVE", "RESTORE", "SEND", "Preview", "apply", "carry_out", "delete", "go_on", "preview",
    "restore", "start", "undo",
]  # fmt: skip
BATCH = 1_000
#: Most queries that a change does while somebody waits.
AT_ONCE = 2_000
#: The codes of actions that other code asks for by name.
ADD, REMOVE, ACCEPT, SEND, DELETE, RESTORE = "add", "remove", "accept", "send", "delete", "restore"


@dataclass(frozen=True, slots=True)
class Preview:
    """What a change would do: how many queries fit, how many of them it changes, how many of those have no label yet."""

    matches: int
    changes: int
    unlabeled: int
    sample: Sequence[Query]


def preview(queries: "QuerySet[Query]", action: str, agent: Agent | None) -> Preview:
    """Count before changing; nothing is written."""
    changes = ACTIONS[action].affected(queries, agent)
    return Preview(
        matches=queries.count(),
        changes=changes.count(),
        unlabeled=changes.filter(gold__isnull=True).count(),
        sample=list(changes.order_by("pk")[:5]),
    )


def start(
    pool: Pool, queries: "QuerySet[Query]", action: str, agent: Agent | None, *, author: User, search: str = ""
) -> BulkChange:
    """Fix which queries the change touches; `go_on` then does it. The set is that of this moment, whatever a search finds later."""
    change = BulkChange.objects.create(pool=pool, action=action, agent=agent, author=author, search=search[:400])
    keys = iter(list(ACTIONS[action].affected(queries, agent).order_by("pk").values_list("pk", flat=True)))
    total = 0
    while batch := list(islice(keys, BATCH)):
        BulkChangeEntry.objects.bulk_create([BulkChangeEntry(change=change, query_id=key) for key in batch])
        total += len(batch)
    change.total = total
    change.save(update_fields=("total",))
    return change


def go_on(
    change: BulkChange, progress: Callable[[BulkChange], None] | None = None, alive: Callable[[], object] = bool
) -> BulkChange:
    """Do what is left of a change, 1,000 queries a transaction, and call `progress` after each. A call that was interrupted is
    continued by the next. `alive` is called in each transaction; what it raises takes that back and ends the change here."""
    while True:
        with transaction.atomic():
            alive()
            locked = BulkChange.objects.select_for_update(of=("self",)).select_related("agent").get(pk=change.pk)
            if locked.finished_at or locked.undone_at:
                break
            at = BulkChangeEntry.objects.filter(change=locked).order_by("query")[
                locked.changed : locked.changed + BATCH
            ]
            batch = list(at)
            if batch:
                _apply(locked, batch)
            locked.changed += len(batch)
            if len(batch) < BATCH:
                locked.finished_at = timezone.now()
                detail = {
                    "search": locked.search,
                    "agent": locked.agent and locked.agent.name,
                    "queries": locked.changed,
                }
                target = f"bulk change {locked.pk}"
                name = f"queries.{ACTIONS[locked.action].audited}"
                audit.record(name, actor=locked.author, target=target, pool=locked.pool, detail=detail)
            locked.save(update_fields=("changed", "finished_at"))
        if progress:
            progress(locked)
    return locked


def _apply(change: BulkChange, entries: Sequence[BulkChangeEntry]) -> None:
    """One batch. What was deleted since the change began is left alone, what was restored too by an action of deleted queries."""
    action = ACTIONS[change.action]
    locked = gold.lock([entry.query_id for entry in entries])
    keys = [query.pk for query in locked if (query.deleted_at is not None) == action.of_deleted and not query.erased_at]
    before = action.apply(change, keys)
    done = [entry for entry in entries if entry.query_id in before]
    for entry in done:
        entry.before = before[entry.query_id]
    BulkChangeEntry.objects.bulk_update(done, ["before"])


def apply(
    pool: Pool, queries: "QuerySet[Query]", action: str, agent: Agent | None, *, author: User, search: str = ""
) -> BulkChange:
    """Start a change and do it to its end."""
    return go_on(start(pool, queries, action, agent, author=author, search=search))


def carry_out(change: BulkChange) -> BulkChange:
    """Do a change that was started: at once up to AT_ONCE queries, else by a worker; `finished_at` says which."""
    if change.total <= AT_ONCE:
        return go_on(change)
    work.submit("bulk_change", change=change.pk)
    return change


def undo(change: BulkChange, actor: User) -> int:
    """Take a change back as one: what it said counts no more, whatever was said since, and that stays. Returns how many queries are
    changed by this."""
    if not BulkChange.objects.filter(pk=change.pk, undone_at__isnull=True).update(undone_at=timezone.now()):
        return 0
    action = ACTIONS[change.action]
    entries = BulkChangeEntry.objects.filter(change=change, before__isnull=False).order_by("query")
    rows, count = iter(list(entries.values_list("query", "before"))), 0
    while batch := dict(islice(rows, BATCH)):
        with transaction.atomic():
            gold.lock(list(batch))
            count += action.undo(change, _not_overlaid(change, action, batch), actor)
    audit.record("queries.undone", actor=actor, target=f"bulk change {change.pk}", pool=change.pool)
    return count


def _not_overlaid(change: BulkChange, action: BulkAction, before: Mapping[int, Any]) -> dict[int, Any]:
    """Those of the queries whose state no later change, which stands, has written again. The others' `before` goes to the next such
    change, which then leads back to how they were before both."""
    if not action.layer:
        return dict(before)
    same_layer = [other.code for other in ACTIONS.values() if other.layer == action.layer]
    later = BulkChangeEntry.objects.filter(
        change__pool=change.pool,
        change__action__in=same_layer,
        change__undone_at__isnull=True,
        change__gt=change.pk,
        query__in=before,
        before__isnull=False,
    ).select_related("change")
    following: dict[int, BulkChangeEntry] = {}
    for entry in later.order_by("-change"):
        following[entry.query_id] = entry
    for key, entry in following.items():
        entry.before = ACTIONS[entry.change.action].inherit(entry.before, before[key])
    BulkChangeEntry.objects.bulk_update(following.values(), ["before"])
    return {key: value for key, value in before.items() if key not in following}
