"""The one life of all background work: queued, claimed, alive, ended or dead.

Training runs, imports, pre-labeling and episodes have tables of their own. All else is a `BackgroundJob`, see `work.py`.
Packages register their kinds of job through `routerweb.hooks.job_kinds`.

A job is owned through its attempt token. `claim` hands a fresh one to exactly one caller; every later write of that job names the
token and changes nothing once the job no longer runs under it, so that one which was cancelled, or presumed dead and comes back,
writes nothing. Whether a job runs at all is decided here, not by the queue, which may deliver a message twice, late, or never.

Every time in these rows is the database's, so that machines whose clocks differ agree on who is dead.
"""

import logging
import os
import signal
import socket
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from types import FrameType
from typing import Any, TypeVar

from django.conf import settings
from django.db import close_old_connections, connections, models, transaction
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Coalesce, Now
from django.utils.translation import gettext_lazy as _
from django_q.brokers import get_broker
from django_q.tasks import async_task

from routerweb import hooks
from routerweb.background import Background
from routerweb.holds import Holds

log = logging.getLogger(__name__)

QUEUED, RUNNING, FAILED = "queued", "running", "failed"
#: The job cluster that this process belongs to, "" outside of clusters. `manage.py up` gives each a slot, and its successor the same.
SLOT = os.environ.get("ROUTERWEB_CLUSTER", "")

_stop_asked = threading.Event()


class AttemptLost(Exception):
    """The job is no longer running under this attempt: it was cancelled, or presumed dead. Nothing was written."""


class Stopped(BaseException):
    """This process is asked to end (SIGTERM, or Ctrl-C in the foreground): its job goes back into the queue."""


class Job(models.Model):
    """What every job keeps of its life; the kinds of job add what they do, and their own states beyond queued and running.

    `attempt` is the token of the worker that owns it, `attempts` how many began. `deliveries` counts how often it was handed to
    the queue since it was last queued, `losses` how often its worker died since a person asked for it. `doubted_at` is when the
    row of a silent job was last written by a reaper, which proves that a living worker could have written to it too.
    """

    status = models.CharField(_("status"), max_length=9, default=QUEUED)
    attempt = models.UUIDField(null=True, editable=False)
    attempts = models.PositiveIntegerField(default=0, editable=False)
    deliveries = models.PositiveIntegerField(default=0, editable=False)
    delivered_at = models.DateTimeField(null=True, blank=True, editable=False)
    losses = models.PositiveSmallIntegerField(default=0, editable=False)
    worker = models.CharField(_("worker"), max_length=100, blank=True, editable=False)
    error = models.TextField(_("error"), blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True, blank=True, editable=False)
    heartbeat_at = models.DateTimeField(null=True, blank=True, editable=False)
    doubted_at = models.DateTimeField(null=True, blank=True, editable=False)
    finished_at = models.DateTimeField(null=True, blank=True, editable=False)
    holds = Holds(remark=[error], person=[error], neither=[status, worker])

    class Meta:
        abstract = True


J = TypeVar("J", bound=Job)
#: What names a job: its primary key, or that as a text.
Key = int | uuid.UUID | str


@dataclass(frozen=True, slots=True)
class JobKind:
    """One kind of job. `execute` is the dotted name of the function that does a job of that key, imported by the worker that does it;
    "" where the queue plays no part. `interrupted` gets a job whose worker died, and its row as it still has to stand: it changes
    that, and returns whether it did. A queued job that nobody began is handed over again after `lost_after` seconds."""

    name: str
    model: type[Job]
    execute: str
    interrupted: Callable[[Any, "QuerySet[Any]"], bool]
    cluster: str = "default"
    lost_after: float = 60.0


@cache
def kinds() -> dict[str, JobKind]:
    """Every registered kind of job, by name."""
    return {kind.name: kind for registered in hooks.job_kinds() for kind in registered}


def kind_of(model: type[Job]) -> JobKind:
    """The kind whose jobs are rows of that model."""
    return next(kind for kind in kinds().values() if kind.model is model)


def _all(kind: type[J]) -> "QuerySet[J]":
    return kind._default_manager.all()


# ---------------------------------------------------------------------------------------------------- written by jobs


def claim(kind: type[J], key: Key, **fields: Any) -> uuid.UUID | None:
    """A fresh attempt token for a queued job, or None where it is not queued (any more). `fields` begin again with it."""
    attempt = uuid.uuid4()
    claimed = (
        _all(kind)
        .filter(pk=key, status=QUEUED)
        .update(**{**begun(attempt), "attempts": F("attempts") + 1, "error": "", "finished_at": None, **fields})
    )
    return attempt if claimed else None


def this_worker() -> str:
    """What this process is called in its jobs: machine, process id and, in a cluster, its slot."""
    return f"{socket.gethostname()[:70]}:{os.getpid()}" + (f":{SLOT}" if SLOT else "")


def begun(attempt: uuid.UUID) -> dict[str, Any]:
    """The fields of a job that this process has just begun under that attempt."""
    return {
        "status": RUNNING,
        "attempt": attempt,
        "worker": this_worker(),
        "started_at": Now(),
        "heartbeat_at": Now(),
    }


def owned(kind: type[J], key: Key, attempt: uuid.UUID | None) -> "QuerySet[J]":
    """The job, as long as it is running under this attempt; empty otherwise."""
    return _all(kind).filter(pk=key, attempt=attempt, status=RUNNING)


def write(kind: type[J], key: Key, attempt: uuid.UUID | None, /, **fields: Any) -> None:
    """Change the job under its attempt. Raises AttemptLost where it is no longer its own."""
    if not owned(kind, key, attempt).update(**fields):
        raise AttemptLost(f"{kind._meta.verbose_name} {key} is no longer running under attempt {attempt}")


def beat(kind: type[J], key: Key, attempt: uuid.UUID | None, /, **fields: Any) -> None:
    """Say that the job is alive, and write how far it is. Raises AttemptLost."""
    write(kind, key, attempt, heartbeat_at=Now(), **fields)


def release(kind: type[J], key: Key, attempt: uuid.UUID | None) -> None:
    """Put the job back into the queue because its worker is asked to end. Raises AttemptLost.

    It is not handed to the queue at once, or the cluster that ends might take it: the reaper does that soon.
    """
    write(kind, key, attempt, status=QUEUED, attempt=None, deliveries=0, delivered_at=Now())


def release_mine(kind: type[J], key: Key) -> int:
    """Put the job back into the queue if this process has it; how many were."""
    mine = _all(kind).filter(pk=key, status=RUNNING, worker=this_worker())
    return mine.update(status=QUEUED, attempt=None, deliveries=0, delivered_at=Now())


@contextmanager
def stop_signals() -> Iterator[None]:
    """Within it, SIGTERM and SIGINT raise Stopped; outside the main thread it does nothing.

    django-q2's workers die of SIGTERM and ignore SIGINT: a job could not hand itself back to the queue.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(_number: int, _frame: FrameType | None) -> None:
        _stop_asked.set()
        raise Stopped

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        _stop_asked.clear()
        for number, action in before.items():
            signal.signal(number, action)


def raise_if_stopped() -> None:
    """Raise Stopped where this process was asked to end since its job began.

    Whoever marks a job as failed by whatever was raised calls this first: a library that was interrupted in the middle of a statement
    may raise an error of its own in place of Stopped.
    """
    if _stop_asked.is_set():
        raise Stopped


class Heartbeat:
    """A light thread that says a job is alive, so that work of minutes does not look dead; it has its own database connection.

    `check` raises AttemptLost in the job once it was taken away: cancelled, or presumed dead.
    """

    def __init__(self, kind: type[Job], key: int, attempt: uuid.UUID) -> None:
        self._kind, self._key, self._attempt = kind, key, attempt
        self._lost = False
        self._thread = Background(f"heartbeat of {kind._meta.model_name} {key}", self._turn, always=True)

    def __enter__(self) -> "Heartbeat":
        self._thread.start(rest=self._rest())
        return self

    def __exit__(self, *_raised: object) -> None:
        self._thread.stop(30)

    def check(self) -> None:
        """Raises AttemptLost once the job was taken away."""
        if self._lost:
            raise AttemptLost(f"{self._kind._meta.verbose_name} {self._key} was taken away from {self._attempt}")

    @staticmethod
    def _rest() -> float:
        # Cancelling is to be noticed within seconds, so it beats faster than HEARTBEAT_SECONDS may ask.
        return float(min(settings.HEARTBEAT_SECONDS, 2.0))

    def _turn(self) -> float:
        try:
            close_old_connections()
            beat(self._kind, self._key, self._attempt)
        except AttemptLost:
            self._lost = True
            self._thread.stop()  # there is nothing left to say
        except Exception as error:  # the work goes on; a missed heartbeat is made up for
            log.warning("job %d: no heartbeat could be written (%s); trying on", self._key, error)
        finally:
            connections["default"].close()
        return self._rest()


# ---------------------------------------------------------------------------------------------------- looked after by the reaper


def end_dead(kind: type[J], end: Callable[[J, "QuerySet[J]"], bool]) -> int:
    """Take every running job away from a worker that is silent for DEAD_AFTER_SECONDS; the number of them.

    The row of a silent job is written first: only a worker that is silent after that, for a third of the time, is dead. While no
    row can be written, as on a full disk, nobody is. `end` is given the job and the row as it still has to stand; it changes
    that, and tells whether it did.
    """
    seconds = settings.DEAD_AFTER_SECONDS
    silent = _all(kind).filter(status=RUNNING, heartbeat_at__lt=Now() - timedelta(seconds=seconds * 2 / 3))
    for job in silent.filter(Q(doubted_at=None) | Q(doubted_at__lt=F("heartbeat_at"))).only("pk"):
        silent.filter(pk=job.pk).update(doubted_at=Now())
    dead = silent.filter(
        heartbeat_at__lt=Now() - timedelta(seconds=seconds),
        doubted_at__gt=F("heartbeat_at"),
        doubted_at__lt=Now() - timedelta(seconds=seconds / 3),
    )
    # The conditions again, and the attempt: it may have given a sign of life since, or be another's by now.
    return sum(end(job, dead.filter(pk=job.pk, attempt=job.attempt)) for job in dead)


def end_of_slot(slot: str) -> int:
    """Take every running job away from the workers of a cluster whose processes have ended; the number of them."""
    if not slot:
        return 0
    ended = 0
    for kind in kinds().values():
        running = _all(kind.model).filter(status=RUNNING, worker__endswith=f":{slot}")
        ended += sum(kind.interrupted(job, running.filter(pk=job.pk, attempt=job.attempt)) for job in running)
    return ended


def interrupted(job: Job, still: "QuerySet[Any]", reason: str) -> bool:
    """Put a job whose worker died back into the queue, RUN_RETRIES times; then it fails for `reason`. Returns whether it changed."""
    if job.losses >= settings.RUN_RETRIES:
        return bool(still.update(status=FAILED, error=reason, attempt=None, losses=F("losses") + 1, finished_at=Now()))
    with transaction.atomic():
        again = still.update(status=QUEUED, attempt=None, losses=F("losses") + 1, deliveries=0)
        if again:
            deliver(type(job), job.pk)
    return bool(again)


def deliver(model: type[Job], key: Key) -> None:
    """Hand a queued job to its queue when the present transaction is committed. Twice does no harm: the claim decides."""
    kind = kind_of(model)
    _all(model).filter(pk=key, status=QUEUED).update(deliveries=F("deliveries") + 1, delivered_at=Now())
    transaction.on_commit(lambda: send(kind, key))


def send(kind: JobKind, key: Key) -> None:
    """Put a message into the queue: this job waits."""
    async_task("agents_app.tasks.execute", kind.name, str(key), q_options={"cluster": kind.cluster})


def deliver_again(kind: JobKind, seconds: float | None = None) -> int:
    """Hand queued jobs that wait for so many seconds to their queue again, where it holds fewer messages than they are; the number
    of them.

    A message is lost when a cluster is killed that had taken it but not begun; and a busy cluster takes some ahead of its work, while
    another may be free. Those that nobody has taken count, so that a long queue, or one without workers, does not grow.
    """
    queued = _all(kind.model).filter(status=QUEUED)
    waiting = queued.alias(since=Coalesce("delivered_at", "created_at"))
    before = Now() - timedelta(seconds=kind.lost_after if seconds is None else seconds)
    late = list(waiting.filter(since__lt=before).order_by("since", "pk").values_list("pk", "deliveries")[:1_000])
    if not late:
        return 0
    handed = 0
    for key, deliveries in late[: max(0, len(late) - get_broker(kind.cluster).queue_size())]:
        with transaction.atomic():
            # Of several reapers that see this, one changes the row.
            if queued.filter(pk=key, deliveries=deliveries).update(deliveries=deliveries + 1, delivered_at=Now()):
                transaction.on_commit(lambda key=key: send(kind, key))  # type: ignore[misc]
                handed += 1
    return handed
