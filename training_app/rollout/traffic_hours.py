"""A pool's traffic by the hour: a worker counts each hour once, when it is over, and pages count what came since."""

from datetime import UTC, datetime, timedelta

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


def hours(pool: Pool, since: datetime) -> list[TrafficHour]:
    """The hours from that of `since` on that had traffic, oldest first. The last ones, which no worker has counted, are not stored."""
    first = beginning(since)
    stored = list(TrafficHour.objects.filter(pool=pool, hour__gte=first).order_by("hour"))
    return stored + _count(pool, max(first, _counted_to(pool) or first))


def count_all() -> int:
    """Store the hours that are over of every pool, for the clock; how many."""
    now, stored = timezone.now(), 0
    for pool in Pool.objects.in_use():
        start = _counted_to(pool) or beginning(now - FURTHEST)
        rows = _count(pool, start, beginning(now - LATE))
        TrafficHour.objects.bulk_create(rows, ignore_conflicts=True)
        stored += len(rows)
    return stored


def _counted_to(pool: Pool) -> datetime | None:
    """Where the hours begin that are not stored; None where none is."""
    newest = TrafficHour.objects.filter(pool=pool).aggregate(newest=Max("hour"))["newest"]
    return newest + HOUR if newest else None


def _count(pool: Pool, start: datetime, end: datetime | None = None) -> list[TrafficHour]:
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
    rows: dict[datetime, TrafficHour] = {}
    for counted in (*answers, *reported):
        row = rows.setdefault(counted["hour"], TrafficHour(pool=pool, hour=counted["hour"]))
        for name, value in counted.items():
            setattr(row, name, value)
    return [rows[at] for at in sorted(rows)]
