"""Queries that wait in the queue and read like the one on screen, so that a person can give all of them the same answer at once.

None is blind, of the evaluation sample, or a turn of a conversation: a blind one is answered on its own, nobody draws the sample, and
a conversation is read from its beginning. Compared are the next COMPARED items of the queue and the query's near-duplicates, so
that the cost does not grow with the pool.
"""

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from django.contrib.auth.models import User
from django.db.models import Exists, OuterRef, Q, QuerySet

from datasets_app.labeling import queue
from datasets_app.models import Assignment, Query, QueueItem, QueueSettings
from datasets_app.models.labeling import LINE, LOTS
from training_app.engine.reading.neighbours import Neighbours

#: Items next in line that a query is compared with, the characters of each that count, and how long the comparison is kept.
COMPARED, CHARACTERS, KEPT_SECONDS = 1_000, 600, 60
#: From which cosine of n-grams on two texts are alike (`engine.reading.neighbours`), and how many are offered at most: as many as
#: have a digit.
ALIKE, OFFERED = 0.5, 9


@dataclass(frozen=True, slots=True)
class Alike:
    """One query that waits, and how like the one on screen it is, 0 to 1."""

    query: Query
    likeness: float


def may_have(lease: Assignment) -> bool:
    """Whether similar queries are offered beside this item: it asks for a whole set, is not blind, and is no turn of a
    conversation."""
    return lease.item.agent_id is None and not lease.blind and lease.item.query.turn is None


def waiting(lease: Assignment) -> list[Alike]:
    """The queries most like that of the lease which its person could answer now, the most alike first. Writes nothing."""
    if not may_have(lease):
        return []
    query, pool = lease.item.query, lease.item.pool
    settings = queue.settings_of(pool)
    minute = int(time.monotonic() // KEPT_SECONDS)
    keys, compared = _compared(pool.pk, pool.created_at, settings.filled_to, _line(settings), minute)
    nearest = compared.nearest(query.text[:CHARACTERS], 3 * OFFERED)  # some of them are no longer open
    likeness = {keys[place]: share for place, share in nearest if share >= ALIKE}
    same = QueueItem.objects.filter(query__group=query.group_id, pool=pool, agent=None).order_by("pk")
    likeness |= dict.fromkeys(same.values_list("query", flat=True)[:OFFERED], 1.0)
    likeness.pop(query.pk, None)
    items = _answerable(settings, lease.person).filter(query__in=likeness).select_related("query")
    similar = [Alike(item.query, likeness[item.query_id]) for item in items]
    return sorted(similar, key=lambda match: (-match.likeness, match.query.pk))[:OFFERED]


def take(lease: Assignment, query_ids: Collection[int]) -> list[Assignment]:
    """Leases of the same person on those of these queries that they may answer together with that of the lease, by key: those that
    they hold already, and new ones where there is room. What is blind, answered or held by others is left out."""
    if not may_have(lease) or not query_ids:
        return []
    settings = queue.settings_of(lease.item.pool)
    others = [key for key in query_ids if key != lease.item.query_id][:OFFERED]
    items = (
        _answerable(settings, lease.person).filter(query__in=others).select_related("query", "pool").order_by("query")
    )
    return queue.take_these(settings, lease.person, list(items))


def _line(settings: QueueSettings) -> tuple[int, int]:
    """The lots from which on an item is neither blind nor of the evaluation sample."""
    return round(settings.blind_share * LOTS), round(settings.evaluation_share * LOTS)


def _answerable(settings: QueueSettings, person: User) -> "QuerySet[QueueItem]":
    leases = Assignment.objects.filter(item=OuterRef("pk"), person=person)
    holds = leases.filter(state=queue.HELD, blind=False, drawn=False)
    blind, evaluation = _line(settings)
    items = QueueItem.objects.filter(
        pool=settings.pool, agent=None, blind_lot__gte=blind, evaluation_lot__gte=evaluation, query__turn=None,
        query__deleted_at=None, query__erased_at=None,
    )  # fmt: skip
    return items.filter(Q(Exists(holds)) | (queue.OPEN & ~Exists(leases)))


@lru_cache(maxsize=4)
def _compared(
    pool: int, _made: datetime, _filled_to: int, line: tuple[int, int], _minute: int
) -> tuple[Sequence[int], Neighbours]:
    """The keys of the queries that are held or next in line, and their texts ready to be compared with; kept until more come in, for a
    minute at most. The database reads COMPARED items of each, whatever they are."""
    columns = ("query", "blind_lot", "evaluation_lot", "query__turn", "query__text")
    open_items = QueueItem.objects.filter(queue.OPEN, pool=pool, agent=None).order_by(*LINE)
    held = Assignment.objects.filter(item__pool=pool, item__agent=None, state=queue.HELD).order_by("leased_until")
    # What is open is read first: an item that somebody leases between the two is in both then, the other way round in neither.
    next_in_line = list(open_items.values_list(*columns)[:COMPARED])
    rows = [*held.values_list(*(f"item__{name}" for name in columns))[:COMPARED], *next_in_line]
    texts = {
        query: text[:CHARACTERS]
        for query, blind, evaluation, turn, text in rows
        if turn is None and blind >= line[0] and evaluation >= line[1]
    }
    return list(texts), Neighbours(list(texts.values()))
