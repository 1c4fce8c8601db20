"""Changing everything that a search returns: add or remove one agent, accept, send to the queue, delete; each counted beforehand and
undone as one.

A bulk change never replaces a set. It records, for each query, an adjudication about that one agent beside what stands, so every
earlier label stays and the change can be taken back, whatever came after it. Accepting suggestions decides what nothing has decided
yet, about the agents that the suggestions speak of.
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
from datasets_app.labels import disagreement, gold, labels, places, queue, reask, suggestions, trust
from datasets_app.models import BulkChange, BulkChangeEntry, Gold, GoldAgent, Label, Query, Suggestion

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
        return places.unasked(queries)
    queries = queries.filter(deleted_at__isnull=True)
    has = Exists(GoldAgent.objects.filter(gold__query=OuterRef("pk"), agent=agent))
    return queries.exclude(has) if action == ADD else queries.filter(has)


def _suggested(queries: "QuerySet[Query]") -> "QuerySet[Query]":
    """Those without gold for which something is suggested; what an unreadable answer fell back to is no suggestion to accept."""
    machine = Label.objects.current().filter(query=OuterRef("pk"), source=Label.Source.LLM)
    model = Suggestion.objects.filter(query=OuterRef("pk"))
    open_ones = queries.exclude(state=Query.State.GOLD).filter(deleted_at__isnull=True)
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
    alive = {query.pk for query in gold.lock([entry.query_id for entry in entries]) if query.deleted_at is None}
    entries = [
        entry for entry in entries if entry.query_id in alive
    ]  # what was deleted since the change began is left alone
    keys = [entry.query_id for entry in entries]
    if change.action == DELETE:
        delete(keys)
        return
    if change.action == SEND:
        _send(change.pool, entries)
        return
    statements = list(_accepted(change, keys) if change.action == ACCEPT else _one_agent(change, keys))
    made = {label.query_id: label for label in labels.record_many(statements)}
    for entry in entries:
        entry.label = made.get(entry.query_id)
    BulkChangeEntry.objects.bulk_update(entries, ["label"])
    if change.action == ACCEPT:
        reask.ask_about_the_rest(change.pool, list(made))
    disagreement.measure(keys)


def _send(pool: Pool, entries: Sequence[BulkChangeEntry]) -> None:
    queue.fill(pool, everything=True)
    keys = [entry.query_id for entry in entries]
    before = places.of(keys)
    places.send(Query.objects.filter(pk__in=keys), pool)
    after = places.of(keys)
    for entry in entries:
        if before.get(entry.query_id) != after.get(entry.query_id):
            entry.place = [*before[entry.query_id], after[entry.query_id].extra]
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
            partial=True,
        )


def _accepted(change: BulkChange, keys: Sequence[int]) -> Iterator[labels.NewLabel]:
    agents = frozenset(change.pool.agents.active().values_list("number", flat=True))
    decided = {
        key: frozenset(asked) for key, asked in Gold.objects.filter(query__in=keys).values_list("query", "asked")
    }
    found = suggestions.offers(keys)
    weights = trust.weights(change.pool)
    for key in keys:
        offers = [offer for offer in found[key] if not offer.fallback]
        asked = frozenset().union(*(offer.asked for offer in offers)) & agents - decided.get(key, frozenset())
        if not asked:
            continue
        yield labels.NewLabel(
            query_id=key,
            source=Label.Source.ADJUDICATION,
            author=change.author,
            required=suggestions.proposed(offers, asked, weights),
            asked=asked,
            provenance={"via": "accepted", "change": change.pk, "shown": [offer.as_json() for offer in offers]},
            partial=True,
        )


def apply(
    pool: Pool, queries: "QuerySet[Query]", action: str, agent: Agent | None, *, author: User, search: str = ""
) -> BulkChange:
    """Start a change and do it to its end."""
    return go_on(start(pool, queries, action, agent, author=author, search=search))


def undo(change: BulkChange, actor: User) -> int:
    """Take a change back as one: what it said counts no more, whatever was said since, and that stays. Returns how many queries are
    changed by this."""
    if not BulkChange.objects.filter(pk=change.pk, undone_at__isnull=True).update(undone_at=timezone.now()):
        return 0
    entries = BulkChangeEntry.objects.filter(change=change).order_by("query")
    rows, count = iter(list(entries)), 0
    while batch := list(islice(rows, BATCH)):
        with transaction.atomic():
            keys = [entry.query_id for entry in batch]
            if change.action == DELETE:
                count += restore(change.pool, _not_deleted_since(change, keys))
            elif change.action == SEND:
                count += _unsend(change, batch)
            else:
                count += _withdraw(keys, [entry.label_id for entry in batch if entry.label_id], actor)
    audit.record("queries.undone", actor=actor, target=f"bulk change {change.pk}", pool=change.pool)
    return count


def _withdraw(queries: Sequence[int], label_ids: Sequence[int], actor: User) -> int:
    kept = [query.pk for query in gold.lock(queries) if query.erased_at is not None]  # their gold counts as it is
    made = Label.objects.filter(pk__in=label_ids).exclude(query__in=kept)
    standing = list(made.exclude(pk__in=made.withdrawn().values("pk")))
    counted = sum(label.superseded_at is None for label in standing)
    labels.withdraw_many(standing, actor)
    gold.recompose(queries)
    disagreement.measure(queries)
    return counted


def _not_deleted_since(change: BulkChange, keys: Sequence[int]) -> list[int]:
    """Those of the queries that no later change, which stands, has deleted once more."""
    again = BulkChangeEntry.objects.filter(
        change__action=DELETE,
        change__undone_at__isnull=True,
        change__gt=change.pk,
        change__changed__gt=0,
        query__in=keys,
    )
    return sorted(set(keys) - set(again.values_list("query", flat=True)))


def _unsend(change: BulkChange, entries: Sequence[BulkChangeEntry]) -> int:
    sent = {entry.query_id: places.Sent.of(entry.place) for entry in entries if entry.place}
    later = BulkChangeEntry.objects.filter(
        change__pool=change.pool,
        change__undone_at__isnull=True,
        change__gt=change.pk,
        query__in=sent,
        place__isnull=False,
    )
    after: dict[int, BulkChangeEntry] = {}
    for entry in later.order_by("-change"):
        after[entry.query_id] = entry
    # What was sent once more since stays sent; when that is undone, its place is the one before this change.
    for query, entry in after.items():
        entry.place = [*sent.pop(query).before, places.Sent.of(entry.place or ()).extra]
    BulkChangeEntry.objects.bulk_update(after.values(), ["place"])
    return places.take_back(change.pool, sent)


def delete(query_ids: Sequence[int]) -> int:
    """Put queries aside: no list, queue, export or snapshot holds them, nobody holds them any more, and `restore` brings them back."""
    with transaction.atomic():
        gold.lock(query_ids)
        count = Query.objects.filter(pk__in=query_ids, deleted_at__isnull=True).update(deleted_at=timezone.now())
        queue.close(query_ids)
    return count


def restore(pool: Pool, query_ids: Sequence[int]) -> int:
    """Bring deleted queries back, with everything that is known and asked of them; erased ones stay erased."""
    with transaction.atomic():
        gold.lock(query_ids)
        count = Query.objects.filter(pk__in=query_ids, erased_at__isnull=True, deleted_at__isnull=False).update(
            deleted_at=None
        )
        queue.resize(queue.settings_of(pool), query_ids)
    return count
