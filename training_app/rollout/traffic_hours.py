"""A pool's traffic by the hour: a worker counts each hour once, when it is over, and pages count what came since."""

from bisect import bisect_left
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from django.db.models import Count, Max, Q
from django.db.models.functions import TruncHour
from django.utils import timezone

from agents_app.models import Pool
from training_app.models import Decision, Outcome, TrafficHour

HOUR = timedelta(hours=1)
#: An hour is counted so long after its end: a process whose database was away writes its decisions late.
LATE = timedelta(minutes=10)
#: What is counted of a pool that has no counts yet: as far back as Home looks.
FURTHEST = timedelta(weeks=13)


def beginning(at: datetime) -> datetime:
    """When the hour of that time began, in UTC."""
    return at.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


class Hour(NamedTuple):
    """What a TrafficHour says of the hour that begins at `hour`."""

    hour: datetime
    answers: int = 0
    abstained: int = 0
    none: int = 0
    unsure: int = 0
    outcomes: int = 0
    successes: int = 0


def hours(pool: Pool, since: datetime) -> list[Hour]:
    """The hours from that of `since` on that had traffic, oldest first; those that no worker has counted yet are counted now."""
    first = beginning(since)
    rows = TrafficHour.objects.filter(pool=pool, hour__gte=first).order_by("hour").values_list(*Hour._fields)
    stored = [Hour(*row) for row in rows]
    return stored + _count(pool, stored[-1].hour + HOUR if stored else first)


def later(rows: Sequence[Hour], since: datetime) -> Sequence[Hour]:
    """Of these hours, oldest first, those from that of `since` on."""
    return rows[bisect_left(rows, beginning(since), key=lambda row: row.hour) :]


def count_all() -> int:
    """Store the hours that are over of every pool, for the clock; how many."""
    now, stored = timezone.now(), 0
    for pool in Pool.objects.in_use():
        start = _counted_to(pool) or beginning(now - FURTHEST)
        rows = _count(pool, start, beginning(now - LATE))
        TrafficHour.objects.bulk_create(
            [TrafficHour(pool=pool, **row._asdict()) for row in rows], ignore_conflicts=True
        )
        stored += len(rows)
    return stored


def _counted_to(pool: Pool) -> datetime | None:
    """Where the hours begin that are not stored; None where none is."""
    newest = TrafficHour.objects.filter(pool=pool).aggregate(newest=Max("hour"))["newest"]
    return newest + HOUR if newest else None


def _count(pool: Pool, start: datetime, end: datetime | None = None) -> list[Hour]:
    within = Q(pool=pool, at__gte=start) & (Q(at__lt=end) if end else Q())
    hour = TruncHour("at", tzinfo=UTC)
    answers = Decision.objects.filter(within).annotate(hour=hour).order_by().values("hour")
    answers = answers.annotate(
        answers=Count("pk"),
        abstained=Count("pk", filter=Q(abstained=True)),
        none=Count("pk", filter=Q(stop_reason="none")),
        unsure=Count("pk", filter=Q(confidence__lt=Decision.UNSURE)),
    )
    reported = Outcome.objects.filter(within).annotate(hour=hour).order_by().values("hour")
    reported = reported.annotate(outcomes=Count("pk"), successes=Count("pk", filter=Q(success=True)))
    rows: dict[datetime, Hour] = {}
    for counted in (*answers, *reported):
        rows[counted["hour"]] = rows.get(counted["hour"], Hour(counted["hour"]))._replace(**counted)
    return [rows[at] for at in sorted(rows)]
