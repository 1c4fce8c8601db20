"""Small pieces of background work: registered by name, submitted from anywhere, each done by a worker as a `BackgroundJob`.

A package registers its `Work` through `routerweb.hooks.background_work`. `submit` makes a job of it in the present transaction; a
worker of the default cluster does it once that is committed. Work that is killed is done again with the `progress` that it saved, so
whatever has several steps saves in the transaction of each step how far it is.
"""

import logging
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.module_loading import import_string
from django.utils.translation import gettext as _
from django_q.models import Schedule

from agents_app.background_work import jobs
from agents_app.background_work.jobs import AttemptLost, Heartbeat, JobKind
from agents_app.models import BackgroundJob
from routerweb import hooks
from routerweb.observing import tracing

log = logging.getLogger(__name__)

KIND = "work"
#: The key of work that is scheduled: the row of its last turn is that of the next.
SCHEDULED = "schedule"
#: What a schedule has a worker call, with the name of the work.
FUNCTION = "agents_app.tasks.scheduled"
#: Work that failed is due again after so long, if its next turn is later.
AGAIN = timedelta(hours=1)
#: How long the row of a job stays that has ended.
KEPT = timedelta(days=7)
Status = BackgroundJob.Status


class Running:
    """A job while it is done: its `arguments`, and the `progress` that an earlier attempt saved."""

    def __init__(self, job: BackgroundJob, attempt: uuid.UUID) -> None:
        self.key, self._attempt = job.pk, attempt
        self.arguments: dict[str, Any] = job.arguments
        self.progress: dict[str, Any] = job.progress

    def save(self, **progress: Any) -> None:
        """Save how far it is, in the present transaction. Raises AttemptLost where the job is another worker's by now."""
        self.progress = {**self.progress, **progress}
        jobs.beat(BackgroundJob, self.key, self._attempt, progress=self.progress)


@dataclass(frozen=True, slots=True)
class Work:
    """A registered piece of work. `run` does a job of it and returns what came of it, in a word or a number.

    `every`: the minutes between two turns of work that is scheduled, None for work that is submitted. `title` names such work in
    the list of schedules, and `remedy` says in an alarm what to do while it fails. `kept`: whether the job's row stays when it is
    done; what names a person does not.
    """

    name: str
    run: Callable[[Running], object]
    title: str = ""
    every: int | None = None
    kept: bool = True
    remedy: str | Promise = ""


@dataclass(frozen=True, slots=True)
class Failing:
    """How scheduled work fails: since when, in how many turns in a row, and why the last time."""

    since: datetime
    turns: int
    error: str


@cache
def every() -> dict[str, Work]:
    """All registered work, by name."""
    return {work.name: work for registered in hooks.background_work() for work in registered}


def by_the_clock(function: str, title: str, minutes: int, remedy: str | Promise = "", name: str = "") -> Work:
    """Work that calls this function, a dotted name, every so many minutes. It is imported by the worker that does it.

    Schedules and jobs have the work's name, which is the function's. One whose function has moved keeps its first `name`: rows of the
    release before find it, and workers of both releases do each other's.
    """
    return Work(name or function, lambda _running: import_string(function)(), title, minutes, remedy=remedy)


def arguments_of(name: str) -> str:
    """How the schedule of that work has its arguments."""
    return f"('{name}',)"


def submit(name: str, **arguments: Any) -> BackgroundJob:
    """A queued job of that work, handed to a worker once the present transaction is committed. The arguments go into JSON."""
    with transaction.atomic():
        job = BackgroundJob.objects.create(work=every()[name].name, arguments=arguments)
        jobs.deliver(BackgroundJob, job.pk)
    return job


def due(name: str, at: str) -> BackgroundJob | None:
    """The job of a turn of scheduled work that was due at this time, queued and not handed to anybody; None where there was such a job
    already, or where the last turn has not ended."""
    arguments: dict[str, Any] = {"due": at}
    last = BackgroundJob.objects.filter(work=name, key=SCHEDULED).first()
    if last is None:
        with suppress(IntegrityError), transaction.atomic():  # another worker may be first
            return BackgroundJob.objects.create(work=name, key=SCHEDULED, delivered_at=Now(), arguments=arguments)
        return None
    if last.status not in (Status.DONE, Status.FAILED) or last.arguments.get("due", "") >= at:
        return None
    if failing := failing_of(last):
        arguments["failing"] = {"since": failing.since.isoformat(), "turns": failing.turns, "error": failing.error}
    still = BackgroundJob.objects.filter(pk=last.pk, status=last.status, attempts=last.attempts)
    queued = still.update(
        arguments=arguments, progress={}, status=Status.QUEUED, attempt=None, losses=0, deliveries=0, delivered_at=Now()
    )
    return last if queued else None


def failing_of(job: BackgroundJob) -> Failing | None:
    """How scheduled work fails, by its job: from its first turn that failed until one is done. None while it does not."""
    if job.status == Status.DONE:
        return None
    stored = job.arguments.get("failing")
    earlier = Failing(datetime.fromisoformat(stored["since"]), stored["turns"], stored["error"]) if stored else None
    if job.status != Status.FAILED or job.finished_at is None:
        return earlier
    since, turns = (earlier.since, earlier.turns) if earlier else (job.finished_at, 0)
    return Failing(since, turns + 1, job.error)


def prune() -> int:
    """Delete the jobs that were done KEPT ago, and those that failed as long ago; how many. A schedule calls it."""
    old = BackgroundJob.objects.filter(key="", finished_at__lt=Now() - KEPT)
    return int(old.filter(status__in=(Status.DONE, Status.FAILED)).delete()[0])


def execute(key: str) -> str:
    """Do a background job; returns how it ended in a word. Does nothing where another worker has it."""
    attempt = jobs.claim(BackgroundJob, int(key))
    if attempt is None:
        return "not queued"
    job = BackgroundJob.objects.get(pk=key)
    work = every().get(job.work)
    if work is None:
        return _end(job, attempt, Status.FAILED, error=_("There is no such work: %(name)s.") % {"name": job.work})
    return tracing.job(job.work.replace("_", " "))(_do)(job.pk, job, work, attempt)


def _do(_key: int, job: BackgroundJob, work: Work, attempt: uuid.UUID) -> str:
    try:
        with Heartbeat(BackgroundJob, job.pk, attempt):
            result = work.run(Running(job, attempt))
    except AttemptLost:
        log.warning("%s was presumed dead; attempt %s writes nothing more", job, attempt)
        return "lost"
    except Exception as error:  # work that fails for any reason is marked so, with that reason
        jobs.raise_if_stopped()
        log.exception("%s failed", job)
        if job.key == SCHEDULED:
            soon = timezone.now() + AGAIN
            Schedule.objects.filter(args=arguments_of(job.work), func=FUNCTION, next_run__gt=soon).update(next_run=soon)
        return _end(job, attempt, Status.FAILED, error=f"{type(error).__name__}: {error}".rstrip(": ")[:2_000])
    return _end(job, attempt, Status.DONE, result="" if result is None else str(result)[:400])


def _end(job: BackgroundJob, attempt: uuid.UUID, status: str, **fields: str) -> str:
    work = every().get(job.work)
    if work is not None and not work.kept:
        return status if jobs.owned(BackgroundJob, job.pk, attempt).delete()[0] else "lost"
    try:
        jobs.write(BackgroundJob, job.pk, attempt, status=status, finished_at=Now(), **fields)
    except AttemptLost:
        return "lost"
    return status


def _interrupted(job: BackgroundJob, still: "QuerySet[BackgroundJob]") -> bool:
    reason = _("Its worker died %(count)d times.") % {"count": job.losses + 1}
    return jobs.interrupted(job, still, reason)


def kinds() -> tuple[JobKind, ...]:
    """The kind of job that all of this is, for the hook."""
    return (JobKind(KIND, BackgroundJob, "agents_app.background_work.work.execute", _interrupted, lost_after=15.0),)
