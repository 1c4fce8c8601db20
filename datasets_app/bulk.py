"""Changing everything that a search returns: add or remove one agent, accept, send to the queue, delete; each counted beforehand and
undone as one.

A bulk change never replaces a set. It records, for each query, an adjudication about that one agent (or adds it to the one that
stands), so every earlier label stays and the change can be taken back.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.utils import timezone

from agents_app import audit
from agents_app.models import Agent, Pool
from datasets_app import disagreement, gold, labels, queue, suggestions
from datasets_app.models import BulkChange, BulkChangeEntry, GoldAgent, Label, Query, QueueItem, Suggestion

BATCH = 1_000
ADD, REMOVE, DELETE = BulkChange.Action.ADD, BulkChange.Action.REMOVE, BulkChange.Action.DELETE
ACCEPT, SEND = BulkChange.Action.ACCEPT, BulkChange.Action.SEND
#: What needs an agent to be named.
ABOUT_AN_AGENT = (ADD, REMOVE)


@dataclass(frozen=True, slots=True)
class Preview:
    """What a change would do: how many queries fit, how many of them it changes, how many of those have no label yet."""

    found: int
    changes: int
    unlabeled: int
    sample: Sequence[Query]


def affected(queries: "QuerySet[Query]", action: str, agent: Agent | None) -> "QuerySet[Query]":
    """Those of the queries that the change changes: whose gold does not already say so."""
    if action == DELETE:
        return queries.filter(deleted_at__isnull=True)
    if action == ACCEPT:
        return _suggested(queries)
    if action == SEND:
        return queue.unasked(queries)
    queries = queries.filter(erased_at__isnull=True)
    has = Exists(GoldAgent.objects.filter(gold__query=OuterRef("pk"), agent=agent))
    return queries.exclude(has) if action == ADD else queries.filter(has)


def _suggested(queries: "QuerySet[Query]") -> "QuerySet[Query]":
    """Those without gold for which something is suggested; what an unreadable answer fell back to is no suggestion to accept."""
    machine = Label.objects.current().filter(query=OuterRef("pk"), source=Label.Source.LLM)
    model = Suggestion.objects.filter(query=OuterRef("pk"))
    open_ones = queries.exclude(state=Query.State.GOLD).filter(erased_at__isnull=True)
    return open_ones.filter(Exists(machine.filter(provenance__fallback__isnull=True)) | Exists(model))


def preview(queries: "QuerySet[Query]", action: str, agent: Agent | None) -> Preview:
    """Count before changing; nothing is written."""
    changes = affected(queries, action, agent)
    return Preview(
        found=queries.count(),
        changes=changes.count(),
        unlabeled=changes.filter(gold__isnull=True).count(),
        sample=list(changes.order_by("pk")[:5]),
    )


def start(
    pool: Pool, queries: "QuerySet[Query]", action: str, agent: Agent | None, *, author: User, search: str = ""
) -> BulkChange:
    """Fix which queries the change touches; `go_on` then does it. The set is that of this moment, whatever a search finds later."""
    change = BulkChange.objects.create(pool=pool, action=action, agent=agent, author=author, search=search[:400])
    keys = iter(list(affected(queries, action, agent).order_by("pk").values_list("pk", flat=True)))
    total = 0
    while batch := list(islice(keys, BATCH)):
        BulkChangeEntry.objects.bulk_create([BulkChangeEntry(change=change, query_id=key) for key in batch])
        total += len(batch)
    change.total = total
    change.save(update_fields=("total",))
    return change


def go_on(change: BulkChange) -> BulkChange:
    """Do what is left of a change, 1,000 queries a transaction. A call that was interrupted is gone on with by the next."""
    while True:
        with transaction.atomic():
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
                done = "sent" if locked.action == SEND else locked.action
                audit.record(f"queries.{done}", actor=locked.author, target=target, pool=locked.pool, detail=detail)
            locked.save(update_fields=("changed", "finished_at"))
    return locked


def _apply(change: BulkChange, entries: Sequence[BulkChangeEntry]) -> None:
    keys = [entry.query_id for entry in entries]
    if change.action == DELETE:
        delete(keys)
        return
    if change.action == SEND:
        _send(change.pool, entries)
        return
    made = labels.record_many(_accepted(change, keys) if change.action == ACCEPT else _one_agent(change, keys))
    for entry, label in zip(entries, made, strict=True):
        entry.label = label
    BulkChangeEntry.objects.bulk_update(entries, ["label"])
    disagreement.measure(keys)


def _send(pool: Pool, entries: Sequence[BulkChangeEntry]) -> None:
    queue.fill(pool, everything=True)
    keys = [entry.query_id for entry in entries]
    before = queue.places(keys)
    queue.send(Query.objects.filter(pk__in=keys), pool)
    after = queue.places(keys)
    for entry in entries:
        if before.get(entry.query_id) != after.get(entry.query_id):
            entry.place = [*before[entry.query_id], after[entry.query_id][1]]
    BulkChangeEntry.objects.bulk_update(entries, ["place"])


def _one_agent(change: BulkChange, keys: Sequence[int]) -> Iterator[labels.NewLabel]:
    assert change.agent is not None
    number = change.agent.number
    for key in keys:
        yield labels.NewLabel(
            query_id=key,
            source=Label.Source.ADJUDICATION,
            author=change.author,
            required=[number] if change.action == ADD else [],
            asked=[number],
            provenance={"via": "bulk", "change": change.pk},
            extend=True,
        )


def _accepted(change: BulkChange, keys: Sequence[int]) -> Iterator[labels.NewLabel]:
    agents = list(change.pool.agents.active().values_list("number", flat=True))
    found = suggestions.offers(keys)
    for key in keys:
        offers = [offer for offer in found[key] if not offer.fallback]
        shown = [offer.as_json() for offer in offers]
        yield labels.NewLabel(
            query_id=key,
            source=Label.Source.ADJUDICATION,
            author=change.author,
            required=suggestions.proposed(offers, agents),
            asked=agents,
            provenance={"via": "accepted", "change": change.pk, "shown": shown},
        )


def apply(
    pool: Pool, queries: "QuerySet[Query]", action: str, agent: Agent | None, *, author: User, search: str = ""
) -> BulkChange:
    """Start a change and do it to its end."""
    return go_on(start(pool, queries, action, agent, author=author, search=search))


def undo(change: BulkChange, actor: User) -> int:
    """Take a change back as one; what was said of a query since then stays. Returns how many queries are as they were."""
    if not BulkChange.objects.filter(pk=change.pk, undone_at__isnull=True).update(undone_at=timezone.now()):
        return 0
    entries = (
        BulkChangeEntry.objects.filter(change=change).order_by("query").values_list("query_id", "label_id", "place")
    )
    rows, count = iter(list(entries)), 0
    while batch := list(islice(rows, BATCH)):
        with transaction.atomic():
            keys = [query for query, _label, _place in batch]
            if change.action == DELETE:
                count += restore(change.pool, keys)
            elif change.action == SEND:
                count += queue.take_back(change.pool, {query: tuple(place) for query, _label, place in batch if place})
            else:
                count += _withdraw(keys, [label for _query, label, _place in batch if label], actor)
    audit.record("queries.undone", actor=actor, target=f"bulk change {change.pk}", pool=change.pool)
    return count


def _withdraw(queries: Sequence[int], label_ids: Sequence[int], actor: User) -> int:
    gold.lock(queries)
    standing = list(Label.objects.current().filter(pk__in=label_ids))
    now = timezone.now()
    for label in standing:
        label.superseded_at = now
        label.provenance = {**label.provenance, "withdrawn_by": actor.get_username()}
    Label.objects.bulk_update(standing, ["superseded_at", "provenance"])
    Label.objects.filter(superseded_by__in=standing).update(superseded_at=None, superseded_by=None)
    gold.recompose(queries)
    disagreement.measure(queries)
    return len(standing)


def delete(query_ids: Sequence[int]) -> int:
    """Put queries aside: no list, queue, export or snapshot holds them, and `restore` brings them back."""
    QueueItem.objects.filter(query__in=query_ids).update(needed=0)
    return Query.objects.filter(pk__in=query_ids, deleted_at__isnull=True).update(deleted_at=timezone.now())


def restore(pool: Pool, query_ids: Sequence[int]) -> int:
    """Bring deleted queries back, with everything that is known of them; erased ones stay erased."""
    count = Query.objects.filter(pk__in=query_ids, erased_at__isnull=True).update(deleted_at=None)
    queue.resize(queue.settings_of(pool))
    return count
