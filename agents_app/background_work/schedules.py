"""What the default cluster does by the clock. After every migrate `install` adds what is missing and drops what is gone; `troubles`
names what fails, or does not run."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import connection
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django_q.models import Schedule

from agents_app.background_work import work
from agents_app.background_work.work import FUNCTION, SCHEDULED, Failing, Work
from agents_app.models import BackgroundJob

#: Work that fails for so long is in trouble, and work that is so late: what one hiccup delays is not.
TROUBLE = timedelta(minutes=15)
#: The first turn of hourly, daily or weekly work comes so long after its installation: in the first minutes it would find nothing, and
#: keep other work waiting.
FIRST_TURN = timedelta(hours=1)
#: How long one turn may take.
LONGEST_TURN = timedelta(days=1)
Status = BackgroundJob.Status


@dataclass(frozen=True, slots=True)
class Trouble:
    """Scheduled work that fails, or, without `failing`, that has not run since then."""

    work: Work
    since: datetime
    failing: Failing | None = None


def install(**_signal: Any) -> None:
    """Add the schedules that are missing, and drop those of work that this version does not know, as after a rename. One that an admin
    has changed stays as it is."""
    if Schedule._meta.db_table not in connection.introspection.table_names():
        return  # only some applications are migrated yet
    needed = {work.arguments_of(name): scheduled for name, scheduled in _scheduled().items()}
    schedules = Schedule.objects.filter(func=FUNCTION)
    schedules.exclude(args__in=needed).delete()
    there = set(schedules.values_list("args", flat=True))
    now = timezone.now()
    for arguments, scheduled in needed.items():
        if arguments not in there:
            seldom = timedelta(minutes=scheduled.every or 0) >= FIRST_TURN
            Schedule.objects.create(
                name=scheduled.title, func=FUNCTION, args=arguments, schedule_type=Schedule.MINUTES, minutes=scheduled.every,
                intended_date_kwarg="due", cluster="default", next_run=now + FIRST_TURN if seldom else now,
            )  # fmt: skip


def _scheduled() -> dict[str, Work]:
    return {name: scheduled for name, scheduled in work.every().items() if scheduled.every is not None}


def troubles(fails_for: timedelta = TROUBLE) -> list[Trouble]:
    """The scheduled work that has failed for so long, and that has not run, the longest first. One that an admin has stopped or taken
    out of the schedules is not missed."""
    return sorted(_troubles(timezone.now(), fails_for), key=lambda trouble: trouble.since)


def _troubles(now: datetime, fails_for: timedelta) -> Iterator[Trouble]:
    needed = {work.arguments_of(name): scheduled for name, scheduled in _scheduled().items()}
    last = {job.work: job for job in BackgroundJob.objects.filter(key=SCHEDULED)}
    for schedule in Schedule.objects.filter(func=FUNCTION, args__in=needed).exclude(repeats=0):
        scheduled = needed[schedule.args]
        job = last.get(scheduled.name)
        failing = job and work.failing_of(job)
        longest = TROUBLE + 2 * timedelta(minutes=schedule.minutes or scheduled.every or 0)
        if job and job.status == Status.RUNNING:
            longest = max(longest, LONGEST_TURN)
        if failing and failing.since <= now - fails_for:
            yield Trouble(scheduled, failing.since, failing)
        elif schedule.next_run < now - TROUBLE:
            yield Trouble(scheduled, schedule.next_run)  # no cluster asks the schedules
        elif job and _last(job) < now - longest:
            yield Trouble(scheduled, _last(job))


def _last(job: BackgroundJob) -> datetime:
    """When a turn of scheduled work last ended, or began, or was due."""
    return job.finished_at or job.started_at or parse_datetime(job.arguments.get("due", "")) or job.created_at
