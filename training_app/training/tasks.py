"""The job that trains. A worker of the train cluster runs `execute`; the command `train` runs the same in the foreground.

Only ids travel through the queue. The engine's training half, and with it torch, is imported inside the job: never before a
cluster has forked its workers.
"""

import logging
import os
import time
import uuid
from collections.abc import Callable
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from django.conf import settings
from django.db import InterfaceError, OperationalError, close_old_connections, connections
from django.utils import timezone
from django.utils.translation import gettext as _
from django_q.exceptions import TimeoutException

from agents_app import llm
from agents_app.background_work.jobs import Heartbeat, Stopped, raise_if_stopped
from datasets_app.labels import snapshots
from routerweb.observing import tracing
from training_app.engine import remote
from training_app.engine.config import ConfigError
from training_app.models import Checkpoint, Run, RunEvent
from training_app.training import runs
from training_app.versions import comparisons, fair_sample, handoffs, kinds, registry, standings

if TYPE_CHECKING:
    from training_app.engine.judging.llm_baseline import LanguageModel
    from training_app.engine.progress import Progress, Result

log = logging.getLogger(__name__)

#: Seconds between two writes of progress, and between two writes of a checkpoint.
REPORT_SECONDS = 1.0
CHECKPOINT_SECONDS = 15.0
#: Most log lines and curve points that one write adds, so that a fast training does not flood the database.
EVENTS_PER_REPORT = 5
#: A write is tried again for so long while the database is away.
PATIENCE_SECONDS = 300.0
#: The priority of a worker of the training cluster, of 0 to 19 (the lowest); other processes have 0.
NICE = 5

Tell = Callable[["Progress"], None]
T = TypeVar("T")


@tracing.job("training run")
def execute(key: str) -> str:
    """The queue's job: train the run, or another that waits where it is trained already; what became of it, in a word for the queue's
    list."""
    if os.environ.get("Q_CLUSTER_NAME") == runs.QUEUE and hasattr(os, "setpriority"):
        # Fits take all cores: a worker that does nothing but train gives way to whoever answers.
        os.setpriority(os.PRIO_PROCESS, 0, NICE)
    run_id = int(key)
    claimed = runs.claim_next(run_id)
    if claimed is None:
        log.info("run %d is not queued any more, and no other is; nothing to do", run_id)
        return "not queued"
    run_id, attempt = claimed
    try:
        ended = work(run_id, attempt)
    except Stopped:
        log.info("run %d goes back into the queue, as its worker is being stopped", run_id)
        with suppress(runs.AttemptLost):
            _patiently(lambda: runs.release(run_id, attempt))
        raise
    # This worker is free now; the messages of the runs that wait may all stand with clusters that are not.
    try:
        runs.deliver_unclaimed(seconds=0.5)
    except Exception as error:  # the database or the queue is away; the reapers look again
        log.warning("no waiting run could be handed over (%s: %s)", type(error).__name__, error)
    return ended


def work(run_id: int, attempt: uuid.UUID, tell: Tell | None = None) -> str:
    """Train a run under an attempt that `claim` gave: "done", "failed", or "lost" where the run was taken away meanwhile.

    `tell` sees every progress of the engine. An error ends the run as failed with its reason; the traceback is only logged.
    Raises Stopped, with the run still claimed, and TimeoutException, with the run failed.
    """
    try:
        # The heart beats first: on a busy machine the import of torch alone takes seconds.
        with Heartbeat(Run, run_id, attempt) as pulse:
            run = _patiently(lambda: Run.objects.select_related("snapshot__pool").get(pk=run_id))
            trainer = kinds.of(run.kind).trainer()
            try:
                _train(run, attempt, trainer, pulse, tell)
            except trainer.TrainError as error:
                raise runs.RunError(str(error)) from error
        _measure_models(run)
        return "done"
    except runs.AttemptLost:
        log.warning("run %d was cancelled or presumed dead; attempt %s writes nothing more", run_id, attempt)
        return "lost"
    except TimeoutException:
        reason = _("The run took longer than TRAIN_TIMEOUT, %(hours).1f hours. Raise it, or train less.") % {
            "hours": settings.TRAIN_TIMEOUT / 3600
        }
        _fail(run_id, attempt, reason)
        raise
    except (ConfigError, kinds.UnknownKind, registry.RegistryError, remote.ClusterError, runs.RunError) as error:
        log.warning("run %d failed: %s", run_id, error)
        return _fail(run_id, attempt, str(error))
    except Exception as error:  # a run that fails for any reason is marked so, with that reason
        raise_if_stopped()
        log.exception("run %d failed", run_id)
        return _fail(run_id, attempt, f"{type(error).__name__}: {error}".rstrip(": "))


def _train(run: Run, attempt: uuid.UUID, trainer: Any, pulse: Heartbeat, tell: Tell | None) -> None:
    checkpoint = _patiently(lambda: Checkpoint.objects.filter(run=run).first())
    journal = Journal(run.pk, attempt)
    if checkpoint:
        journal.note(_("Resuming from the checkpoint of step %(step)d") % {"step": checkpoint.step})
    try:
        result = _walk(run, trainer, bytes(checkpoint.content) if checkpoint else None, pulse, journal, tell)
    except trainer.TrainError as error:
        if checkpoint is None or journal.heard:
            raise
        # It does not fit any more, as when a query was erased from the snapshot meanwhile.
        journal.note(_("The checkpoint cannot be used, so the training starts over: %(why)s") % {"why": error})
        result = _walk(run, trainer, None, pulse, journal, tell)
    journal.write(last=True)
    artifact = result.artifact
    scorecard = dict(result.scorecard)
    if kinds.of(run.kind).answers:
        scorecard["fair_sample"] = _patiently(lambda: fair_sample.measure(artifact, run.snapshot))
        scorecard["handoffs"] = _patiently(
            lambda: handoffs.measure(artifact, run.snapshot, scorecard.get("cross_validated"))
        )
        scorecard["descriptions"] = _patiently(
            lambda: handoffs.of_descriptions(artifact, run.snapshot, scorecard.get("cross_validated"))
        )
    if run.snapshot.judges:
        scorecard["judges"] = run.snapshot.judges
    compared = _compared(run, artifact)
    _patiently(lambda: runs.finish(run.pk, attempt, artifact, scorecard, compared))


def _measure_models(run: Run) -> None:
    """The pool's models on the same queries, the new one too; the clock does it later where that fails."""
    try:
        standings.measure(run.pool)
    except Exception as error:  # the run is done whatever becomes of this
        raise_if_stopped()
        log.warning("the models beside run %d are measured later (%s: %s)", run.pk, type(error).__name__, error)


def _compared(run: Run, artifact: bytes) -> comparisons.Measured | None:
    """The new model beside the active one, outside of any transaction; None where the active one cannot be used."""
    try:
        return comparisons.with_active(artifact, run.snapshot, run.kind)
    except registry.RegistryError as error:
        log.warning("run %d is not compared with the active model: %s", run.pk, error)
    except (OperationalError, InterfaceError) as error:
        log.warning("run %d is compared later, the database cannot be reached: %s", run.pk, error)
        connections["default"].close()
    return None


def _walk(
    run: Run, trainer: Any, checkpoint: bytes | None, pulse: Heartbeat, journal: "Journal", tell: Tell | None
) -> "Result":
    """The engine's training from beginning or checkpoint to end. Raises AttemptLost as soon as the run was taken away."""
    kind = kinds.of(run.kind)
    config = kind.config(run.config)
    agents, examples = _patiently(lambda: (snapshots.agents(run.snapshot), list(snapshots.examples(run.snapshot))))
    material = _patiently(lambda: kind.material(run, config, examples))
    result: Result | None = None
    # Closing the generator ends a fit that is under way beside it.
    words = {"checkpoint": checkpoint, "llm": language_model(), **material}
    with closing(
        remote.training(
            trainer.train, (config, agents, examples), words, cluster=settings.RAY_ADDRESS, retries=settings.RUN_RETRIES
        )
    ) as training:
        for progress in training:
            pulse.check()
            journal.add(progress)
            if tell:
                tell(progress)
            result = progress.result or result
    if result is None:
        raise runs.RunError(_("The training ended without a model."))
    return result


def language_model() -> "LanguageModel | None":
    """The installation's LLM, which a run asks where its `llm_queries` says so; None where there is none."""
    from training_app.engine.judging.llm_baseline import LanguageModel

    connection = llm.connection()
    if not connection.ready:
        return None
    return LanguageModel(
        connection.base_url, connection.model, connection.key, connection.price_in, connection.price_out
    )


class Journal:
    """What a run tells, written at a bounded rate: its state once a second, a few log lines and curve points with it, and
    its newest checkpoint four times a minute. `heard` tells whether the engine has said anything yet."""

    def __init__(self, run_id: int, attempt: uuid.UUID, clock: Callable[[], float] = time.monotonic) -> None:
        self._run_id, self._attempt, self._clock = run_id, attempt, clock
        self._events: list[RunEvent] = []
        self._state: dict[str, Any] = {"phase": "", "step": 0, "total": 0, "metrics": {}}
        self._checkpoint: bytes | None = None
        self._written = self._saved = clock()
        self.heard = False

    def note(self, message: str) -> None:
        """A log line of the job itself."""
        self._events.append(RunEvent(run_id=self._run_id, message=message[:500]))

    def add(self, progress: "Progress") -> None:
        """Take in one progress; write if it is time. Raises AttemptLost."""
        self.heard = True
        begins = progress.phase != self._state["phase"]
        self._state |= {"phase": progress.phase, "step": progress.step, "total": progress.total}
        self._state["metrics"] = {**self._state["metrics"], **progress.metrics}
        if progress.checkpoint is not None:
            self._checkpoint = progress.checkpoint
        if begins or progress.message or progress.metrics:
            self._events.append(
                RunEvent(
                    run_id=self._run_id,
                    at=timezone.now(),
                    phase=progress.phase[:40],
                    step=progress.step,
                    message=progress.message[:500],
                    metrics=dict(progress.metrics),
                )
            )
        if begins or self._clock() - self._written >= REPORT_SECONDS:
            self.write()

    def write(self, last: bool = False) -> None:
        """Write what is new. While the database is away it stays here for the next time. Raises AttemptLost."""
        now = self._clock()
        self._written = now
        checkpoint = self._checkpoint if now - self._saved >= CHECKPOINT_SECONDS and not last else None
        self._events = _thinned(self._events)
        try:
            runs.report(self._run_id, self._attempt, self._events, checkpoint=checkpoint, **self._state)
        except (OperationalError, InterfaceError) as error:
            log.warning("run %d: progress could not be written (%s); trying again", self._run_id, error)
            connections["default"].close()
            return
        self._events = []
        if checkpoint is not None:
            self._checkpoint, self._saved = None, now


def _thinned(events: list[RunEvent]) -> list[RunEvent]:
    """At most EVENTS_PER_REPORT of them, in order: those that say most first (a message, then many metrics), later ones before
    earlier ones."""
    if len(events) <= EVENTS_PER_REPORT:
        return events
    order = sorted(
        range(len(events)), key=lambda i: (bool(events[i].message), len(events[i].metrics), i), reverse=True
    )  # fmt: skip
    return [events[i] for i in sorted(order[:EVENTS_PER_REPORT])]


def _fail(run_id: int, attempt: uuid.UUID, reason: str) -> str:
    try:
        _patiently(lambda: runs.fail(run_id, attempt, reason))
    except runs.AttemptLost:
        return "lost"
    return "failed"


def _patiently(act: Callable[[], T]) -> T:
    """Do what a job reads first or writes last, over and over while the database is away, for PATIENCE_SECONDS."""
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            close_old_connections()
            return act()
        except (OperationalError, InterfaceError) as error:
            raise_if_stopped()
            if time.monotonic() > until:
                raise
            log.warning("a run waits for the database (%s); trying again", error)
            connections["default"].close()
            time.sleep(2)
