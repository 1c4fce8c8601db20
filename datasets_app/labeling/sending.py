"""Whether a query is asked about at all: sent to the queue, closed by labels that decide it, and both taken back in any order.

A label that closes its query's item has `closed_before` in its provenance: whether the item was closed already.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet, Value
from django.db.models.functions import Greatest

from agents_app.models import Pool
from datasets_app.labeling.filling import COMES
from datasets_app.labeling.queue import OPEN, fill_these, resize, stored_settings
from datasets_app.models import Label, Query, QueueItem

#: What tells a reviewer's decision of one query from what was adjudicated in bulk.
REVIEWED = {"source": Label.Source.ADJUDICATION, "provenance__via": "review"}
#: What tells a label that has closed its query's item.
CLOSES = {"provenance__has_key": "closed_before"}


def is_reviewed(label: Label) -> bool:
    """Whether a label is a reviewer's decision, as REVIEWED has them."""
    return label.source == Label.Source.ADJUDICATION and label.provenance.get("via") == "review"


def unasked(queries: "QuerySet[Query]") -> "QuerySet[Query]":
    """Those of the queries that `send` would change: nobody is being asked about them, nor will be of itself."""
    items = QueueItem.objects.filter(query=OuterRef("pk"), agent__isnull=True)
    comes_by_itself = ~Exists(items) & ~Q(state=Query.State.GOLD) & COMES
    return queries.filter(deleted_at__isnull=True).exclude(Exists(items.filter(OPEN))).exclude(comes_by_itself)


def send(queries: "QuerySet[Query]", pool: Pool) -> int:
    """Ask people about these queries, whatever is known of them already; returns how many were not being asked before.

    A query that has all the answers it was to have is asked once more, of somebody who has not answered it. 1,000 queries at most.
    """
    fill_these(pool, list(queries.values_list("pk", flat=True)))
    settings = stored_settings(pool)
    closed = QueueItem.objects.filter(pool=pool, agent__isnull=True, query__in=queries.values("pk")).exclude(OPEN)
    line = round(settings.overlap_share * 10_000)
    count = 0
    for part, people in (
        (closed.filter(overlap_lot__lt=line), settings.overlap),
        (closed.filter(overlap_lot__gte=line), 1),
    ):
        count += part.update(
            wanted=True,
            decided=False,
            extra=Greatest(F("taken") + 1 - people, Value(0)),
            needed=Greatest(F("taken") + 1, Value(people)),
        )
    return count


class Place(NamedTuple):
    """How a query stands in the queue: whether it is asked about at all, how many answers beyond the settings' it is to have, and
    whether a reviewer's decision has closed it."""

    wanted: bool
    extra: int
    decided: bool


class Sent(NamedTuple):
    """What `send` did to a query: its place before, and the extra answers after."""

    before: Place
    extra: int

    @classmethod
    def of(cls, stored: Sequence[Any]) -> "Sent":
        """As `BulkChangeEntry.before` has it: wanted, extra and decided before, and extra after."""
        wanted, extra, decided, after = stored
        return cls(Place(bool(wanted), int(extra), bool(decided)), int(after))


def of(query_ids: Collection[int]) -> dict[int, Place]:
    """How each of these queries stands in the queue; 1,000 keys at most."""
    items = QueueItem.objects.filter(query__in=query_ids, agent__isnull=True)
    rows = items.values_list("query_id", "wanted", "extra", "decided")
    return {query: Place(wanted, extra, decided) for query, wanted, extra, decided in rows}


def take_back(pool: Pool, sent: Mapping[int, Sent]) -> int:
    """Undo `send`. Returns how many are as they were. Answers that came since stay, leases that run may still be finished, and what
    was sent once more since is left alone."""
    alike: dict[Sent, list[int]] = defaultdict(list)
    for query, what in sent.items():
        alike[what].append(query)
    count = 0
    with transaction.atomic():
        for (before, extra), queries in alike.items():
            items = QueueItem.objects.filter(pool=pool, agent__isnull=True, query__in=queries, wanted=True, extra=extra)
            if before.decided:  # closed again only if a label that had closed it still stands
                standing = Label.objects.not_withdrawn().filter(query=OuterRef("query"), **CLOSES)
                items.filter(Exists(standing)).update(decided=True)
            count += items.update(wanted=before.wanted, extra=before.extra)
        resize(stored_settings(pool), list(sent))
    return count


def decide(query: Query) -> bool:
    """Close a query's item because a reviewer has decided it; returns whether a decision had closed it before."""
    items = QueueItem.objects.filter(query=query, agent__isnull=True)
    before = items.filter(decided=True).exists()
    items.update(decided=True, needed=0)
    return before


def close_by(closers: Sequence[Label], *, untaken: bool = False) -> None:
    """Close the items of those queries that these labels have given gold, and note it in the labels, for `reopen`. `untaken`: only
    items that nobody holds or has answered."""
    items = QueueItem.objects.filter(agent__isnull=True, wanted=True, query__state=Query.State.GOLD)
    items = items.filter(query__in=[label.query_id for label in closers])
    before = dict((items.filter(taken=0) if untaken else items).values_list("query_id", "decided"))
    QueueItem.objects.filter(agent__isnull=True, query__in=before, decided=False).update(decided=True, needed=0)
    noted = [label for label in closers if label.query_id in before]
    for label in noted:
        label.provenance = {**label.provenance, "closed_before": before[label.query_id]}
    Label.objects.bulk_update(noted, ["provenance"])


def reopen(pool: Pool, withdrawn: Collection[Label]) -> None:
    """Ask about queries again as before these labels, which count no more, closed them. A query stays closed where a label that came
    later keeps it so; when that is taken back, it is as before both."""
    closers = {label.query_id: label for label in withdrawn if "closed_before" in label.provenance}
    standing = Label.objects.not_withdrawn().filter(query__in=closers, **CLOSES)
    standing = standing.exclude(pk__in=[label.pk for label in withdrawn])
    following: dict[int, Label] = {}
    for later in standing.order_by("-pk"):
        if later.pk > closers[later.query_id].pk:
            following[later.query_id] = later
    for query, later in following.items():
        later.provenance = {**later.provenance, "closed_before": closers[query].provenance["closed_before"]}
    Label.objects.bulk_update(following.values(), ["provenance"])
    again = [query for query in closers.keys() - following.keys() if not closers[query].provenance["closed_before"]]
    if QueueItem.objects.filter(query__in=again, agent__isnull=True, decided=True).update(decided=False):
        resize(stored_settings(pool), again)
