"""The figures of large pools, counted in the background: a page of 300,000 queries costs what one of 10,000 does.

Pools of up to LARGE queries are counted live. For larger ones a schedule keeps a row of `PoolFigures`; pages read that and say when it
was counted. Nothing adds to it or subtracts from it, so it cannot drift: each time all is counted again from the rows themselves.
"""

import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from django.db.models import Count, Exists, Max
from django.db.models.functions import Now
from django.utils import timezone

from agents_app.models import AuditEntry, Pool
from datasets_app.figures import progress
from datasets_app.labeling import queue
from datasets_app.models import (
    Assignment,
    BulkChange,
    Draft,
    GoldAgent,
    Label,
    PoolFigures,
    Query,
    QueueItem,
    Suggestion,
)  # fmt: skip
from routerweb import hooks

#: Counting takes at most this share of a worker's time: a pool that took two seconds is left alone for 40.
SHARE = 0.05
#: What changes a figure and leaves no new row behind is seen after this long.
LONGEST = timedelta(hours=1)
#: A change of labels, of the queue or of queries adds a row to one of these.
SEEN = (Query, Label, GoldAgent, Suggestion, QueueItem, Assignment, Draft, BulkChange, AuditEntry)


def count_all() -> int:
    """Count the large pools in which something has changed, for the clock; how many that was."""
    counted = 0
    newest_keys = [kind._default_manager.aggregate(newest=Max("pk"))["newest"] for kind in SEEN]
    for pool in Pool.objects.in_use():
        if not is_large(pool):
            PoolFigures.objects.filter(pool=pool).delete()
            continue
        before = PoolFigures.objects.filter(pool=pool).first()
        counted += 1 if _is_due(before, newest_keys) and count(pool, newest_keys) else 0
    return counted


def is_large(pool: Pool) -> bool:
    """Whether the pool has more than LARGE queries; looks at so many at most."""
    return Query.objects.filter(dataset__pool=pool).order_by()[: progress.LARGE + 1].count() > progress.LARGE


def when_large(pool: Pool) -> Callable[[object], None]:
    """What counts the pool as soon as it is large, to be called while a file is read into it: until the clock comes round, every page
    would count what has come in."""
    counted = is_large(pool)

    def look(_read: object) -> None:
        nonlocal counted
        if not counted and is_large(pool):
            count(pool)
            counted = True

    return look


def _is_due(before: PoolFigures | None, newest: list[Any]) -> bool:
    if before is None:
        return True
    age = timezone.now() - before.counted_at
    if age > LONGEST:
        return True
    return before.seen != newest and age > timedelta(seconds=before.seconds / SHARE)


def count(pool: Pool, newest: list[Any] | None = None) -> PoolFigures:
    """Count a pool and keep its figures, whatever its size."""
    began = time.monotonic()
    counts: dict[str, Any] = dict(figures_of(pool))
    for more in hooks.pool_figures(pool):
        counts |= more
    fields = {"counts": counts, "seen": newest or [], "seconds": time.monotonic() - began, "counted_at": Now()}
    row, _made = PoolFigures.objects.update_or_create(pool=pool, defaults=fields)
    return row


def figures_of(pool: Pool) -> Mapping[str, Any]:
    """This package's figures, counted now. One statement for each, as a database joins for one what it would look up row by row for
    several."""
    queries = Query.objects.of(pool)
    labeled = queries.filter(progress.is_labeled())
    states = dict(queries.values_list("state").annotate(Count("pk")).order_by())
    gold = queries.filter(gold__isnull=False)
    passed = progress.passed([pool], None).values_list("person").annotate(Count("pk")).order_by()
    return {
        "states": states,
        "queries": sum(states.values()),
        "labeled": labeled.count(),
        "suggested": queries.filter(progress.is_suggested()).count(),
        "llm": queries.exclude(progress.is_labeled()).filter(Exists(progress.by_llm())).count(),
        "gold": gold.count(),
        "disputed": gold.filter(state=Query.State.DISAGREEMENT).count(),
        "agents": [list(pair) for pair in sorted(progress.needed(pool).items())],
        "open": queue.still_open(pool) + queue.not_filled(pool).count(),
        "passed": {str(person): count for person, count in passed},
    }
