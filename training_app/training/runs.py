"""Training runs: launching, claiming, reporting, ending, and what happens when a worker dies.

Their life is that of every job, see `agents_app/background_work/jobs.py`. A run whose worker died goes back into the queue by
itself, RUN_RETRIES times, and goes on from its checkpoint.

Launching a failed or cancelled run again puts the same run back into the queue, with its checkpoint and its log: its snapshot and
its config cannot have changed, so the checkpoint still fits and one address tells the whole story. Other settings make another run.
"""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Now
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from agents_app import audit
from agents_app.audit import Actor, Who, actor_of
from agents_app.background_work import jobs
from agents_app.background_work.jobs import AttemptLost as AttemptLost
from agents_app.models import Pool
from datasets_app.labels import snapshots
from datasets_app.models import Snapshot, Split
from routerweb import hooks
from training_app.engine.data.prepared import LEAST_TRAIN, LEAST_VAL
from training_app.models import SET_ROUTER, Checkpoint, LaunchRule, Promotion, RouterModel, Run, RunEvent, Sweep
from training_app.versions import comparisons, gate, kinds, registry

QUEUE = "train"
#: A queued run is handed over again after so many seconds, where the queue holds fewer messages than runs that wait.
DELIVER_AGAIN_SECONDS = 3


class RunError(Exception):
    """Why a run cannot be launched, cancelled or launched again, in words for whoever asked for it."""


# ---------------------------------------------------------------------------------------------------- asked for by people


def launch(
    pool: Pool,
    *,
    kind: str = SET_ROUTER,
    config: Mapping[str, Any] | None = None,
    snapshot: Snapshot | None = None,
    promote: bool = False,
    author: Who = None,
    queue: bool = True,
    include_llm: bool | None = None,
    rule: LaunchRule | None = None,
    sweep: Sweep | None = None,
) -> Run:
    """Make a queued run and, once the transaction is committed, hand it to the train queue.

    Without a snapshot, one is taken now: of the pool's gold and, with `include_llm`, of what only an LLM has labeled; None includes
    that where gold is too little to learn from. `rule` and `sweep` say what launched it. `queue=False` leaves it to the caller to
    claim the run at once.
    Raises ConfigError, naming the field, for a bad setting, UnknownKind, and RunError where there is too little to train on. Then
    nothing has changed.
    """
    settings_of_run = kinds.of(kind).config(config or {})
    if pool.state != "active":
        raise RunError(_("The pool “%(pool)s” is archived or deleted. Restore it first.") % {"pool": pool.name})
    if problems := [problem for each in hooks.run_problems(pool, kind) for problem in each]:
        raise RunError(_("The pool is not ready. %(problems)s") % {"problems": " ".join(problems)})
    if snapshot is None:
        snapshot = _new_snapshot(pool, kind, author, include_llm)
    elif snapshot.pool_id != pool.pk:
        raise RunError(_("Snapshot %(snapshot)s belongs to another pool.") % {"snapshot": snapshot})
    elif kinds.of(kind).labels:
        _check_splits(snapshot)
    with transaction.atomic():
        run = Run.objects.create(
            pool=pool,
            kind=kind,
            snapshot=snapshot,
            config=settings_of_run.to_mapping(),
            seed=settings_of_run.seed,
            promote=promote,
            author=actor_of(author).user,
            rule=rule,
            sweep=sweep,
        )
        audit.record(
            "run.launched",
            actor=author,
            target=str(run),
            pool=pool,
            detail={"snapshot": str(snapshot), "config": settings_of_run.changed(), "promote": promote},
        )
        if queue:
            deliver(run.pk)
        else:
            Run.objects.filter(pk=run.pk).update(delivered_at=Now())
    return run


def _new_snapshot(pool: Pool, kind: str, author: Who, include_llm: bool | None) -> Snapshot:
    try:
        return snapshots.take(
            pool, author=actor_of(author).user, include_llm=include_llm, least=least_rows(kind),
            may_be_empty=not kinds.of(kind).labels,
        )  # fmt: skip
    except snapshots.SnapshotError as error:
        raise RunError(str(error)) from error


def least_rows(kind: str) -> dict[str, int]:
    """Split → the rows that a new snapshot must have there before a run of this kind is made of it. Without test queries the engine
    measures on the validation split, and says so."""
    if not kinds.of(kind).answers:
        return {Split.TRAIN: 1, Split.VAL: 1}
    return {Split.TRAIN: LEAST_TRAIN, Split.VAL: LEAST_VAL}


def _check_splits(snapshot: Snapshot) -> None:
    missing = [str(split.label) for split in (Split.TRAIN, Split.VAL) if not snapshot.split_sizes.get(split)]
    if missing:
        raise RunError(
            _("Snapshot %(snapshot)s has no queries in: %(missing)s. A run needs both: label or import more.")
            % {"snapshot": snapshot, "missing": ", ".join(missing)}
        )


def deliver(run_id: int) -> None:
    """Hand a queued run to the train queue when the present transaction is committed. Twice does no harm."""
    jobs.deliver(Run, run_id)


def cancel(run: Run, *, actor: Who) -> None:
    """End a queued or running run now. Its job notices at its next report or heartbeat, and writes nothing from here on.

    Raises RunError where the run has ended already.
    """
    with transaction.atomic():
        changed = _unended().filter(pk=run.pk).update(status=Run.Status.CANCELLED, finished_at=Now())
        if not changed:
            raise RunError(_("%(run)s has ended already.") % {"run": run})
        who = actor_of(actor).name
        RunEvent.objects.create(run=run, message=_("Cancelled by %(who)s") % {"who": who})
        audit.record("run.cancelled", actor=actor, target=str(run), pool=run.pool)
    run.refresh_from_db()


def relaunch(run: Run, author: Who) -> Run:
    """Put a failed or cancelled run back into the queue; it goes on from its checkpoint where it has one.

    Raises RunError for a run that is queued, running or done.
    """
    again = (Run.Status.FAILED, Run.Status.CANCELLED)
    with transaction.atomic():
        changed = Run.objects.filter(pk=run.pk, status__in=again).update(
            status=Run.Status.QUEUED, attempt=None, error="", finished_at=None, deliveries=0, losses=0
        )
        if not changed:
            raise RunError(_("%(run)s is not failed or cancelled, so it cannot be launched again.") % {"run": run})
        RunEvent.objects.create(run=run, message=_("Queued again"))
        audit.record("run.relaunched", actor=author, target=str(run), pool=run.pool)
        deliver(run.pk)
    run.refresh_from_db()
    return run


# ---------------------------------------------------------------------------------------------------- written by jobs


def claim(run_id: int) -> uuid.UUID | None:
    """A fresh attempt token for a queued run, or None where the run is not queued (any more)."""
    return jobs.claim(Run, run_id, phase="", step=0, total=0)


def claim_next(run_id: int) -> tuple[int, uuid.UUID] | None:
    """This run or, where another worker has it, the one that waits longest, with its attempt token; None where no run waits.

    A cluster takes messages ahead of its work, so a message may reach a busy one while another cluster is free. The message
    therefore says only that there is work: whoever has one, and is free, takes what waits.
    """
    if attempt := claim(run_id):
        return run_id, attempt
    # Those that were handed over: a run without is claimed by whoever launched it, or left by a worker that is being stopped.
    waiting = Run.objects.filter(status=Run.Status.QUEUED, deliveries__gt=0).order_by("pk")
    for other in waiting.values_list("pk", flat=True)[:100]:
        if attempt := claim(other):
            return other, attempt
    return None


def report(
    run_id: int,
    attempt: uuid.UUID,
    events: Sequence[RunEvent],
    *,
    phase: str,
    step: int,
    total: int,
    metrics: Mapping[str, Any],
    checkpoint: bytes | None = None,
) -> None:
    """Write where the training stands: log lines, curve points and, where given, a checkpoint. Raises AttemptLost."""
    with transaction.atomic():
        _write(
            run_id, attempt, heartbeat_at=Now(), phase=phase[:40], step=step, total=total, metrics=dict(metrics)
        )  # fmt: skip
        RunEvent.objects.bulk_create(events)
        if checkpoint is not None:
            Checkpoint.objects.update_or_create(run_id=run_id, defaults={"step": step, "content": checkpoint})


def finish(
    run_id: int,
    attempt: uuid.UUID,
    artifact: bytes,
    scorecard: Mapping[str, Any],
    compared: comparisons.Measured | None = None,
) -> RouterModel:
    """Register the artifact and end the run as done, in one transaction; promote the model where the run says so and the gate
    lets it. `compared` are its figures beside the active model, measured before the transaction.

    Raises AttemptLost, and then there is no model either; RegistryError for an artifact that cannot be loaded.
    """
    with transaction.atomic():
        _write(run_id, attempt, status=Run.Status.DONE, finished_at=Now(), heartbeat_at=Now())
        run = Run.objects.select_related("pool", "author").get(pk=run_id)
        model = registry.register(run, run.pool, artifact, scorecard, actor=Actor(str(run), run.author))
        if compared:
            comparisons.keep(model, compared, run.snapshot)
        Checkpoint.objects.filter(run_id=run_id).delete()
        message, refused = _("Done: %(model)s") % {"model": model.name}, ""
        if run.promote:
            reason = _("%(run)s was launched to be promoted when done") % {"run": run}
            try:
                if isinstance(gate.promote(model, actor=Actor(str(run), run.author), reason=reason), Promotion):
                    message = _("Done: %(model)s, promoted") % {"model": model.name}
                else:
                    message = _("Done: %(model)s, waits for somebody to approve its promotion") % {"model": model.name}
            except registry.RegistryError as error:
                refused = str(error)
                message = _("Done: %(model)s, not promoted. %(why)s") % {"model": model.name, "why": error}
        RunEvent.objects.create(run_id=run_id, message=message[:500])
        transaction.on_commit(lambda: _tell_end(run_id, refused), robust=True)
    return model


def _tell_end(run_id: int, refused: str = "") -> None:
    run = Run.objects.select_related("pool").get(pk=run_id)
    hooks.run_ended(run, refused)


def fail(run_id: int, attempt: uuid.UUID, reason: str) -> None:
    """End the run as failed for `reason`. Raises AttemptLost."""
    with transaction.atomic():
        _write(run_id, attempt, status=Run.Status.FAILED, error=reason, finished_at=Now())
        RunEvent.objects.create(run_id=run_id, message=reason.splitlines()[0][:500] if reason else "")
        transaction.on_commit(lambda: _tell_end(run_id), robust=True)


def release(run_id: int, attempt: uuid.UUID) -> None:
    """Put the run back into the queue because its worker is being stopped. Raises AttemptLost.

    It is not handed to the queue at once, or the cluster that is stopping might take it: `deliver_unclaimed` does it soon.
    """
    with transaction.atomic():
        jobs.release(Run, run_id, attempt)
        RunEvent.objects.create(run_id=run_id, message=_("The worker is being stopped; the run waits for another"))


def _write(run_id: int, attempt: uuid.UUID, /, **fields: Any) -> None:
    jobs.write(Run, run_id, attempt, **fields)


# ---------------------------------------------------------------------------------------------------- looked after by the reaper


def interrupted(run: Run, still: QuerySet[Run]) -> bool:
    """Put a run whose worker died back into the queue, RUN_RETRIES times since a person launched it; then it fails."""
    seconds = settings.DEAD_AFTER_SECONDS
    problem = _("The worker %(worker)s was killed, or gave no sign of life for %(seconds)d seconds.")
    problem = problem % {"worker": run.worker, "seconds": seconds}
    again = run.losses < settings.RUN_RETRIES
    fields: dict[str, Any]
    if again:
        fields = {"status": Run.Status.QUEUED, "attempt": None, "deliveries": 0}
        message = _("The run goes back into the queue, %(number)d of %(most)d times, and on from its last checkpoint.")
        message = problem + " " + message % {"number": run.losses + 1, "most": settings.RUN_RETRIES}
    else:
        fields = {
            "status": Run.Status.FAILED,
            "finished_at": Now(),
            "error": problem + " " + _what_to_do(run.losses + 1),
        }
        message = problem
    with transaction.atomic():
        if not still.update(losses=run.losses + 1, **fields):
            return False
        RunEvent.objects.create(run=run, message=message[:500])
        if again:
            deliver(run.pk)
    return True


def _what_to_do(losses: int) -> str:
    times = ngettext(
        "It was killed, or its machine is down.", "That was the worker number %(count)d of this run.", losses
    )
    advice = _(
        "Check the machine's log for a lack of memory. Training again continues from the last checkpoint; change the settings "
        "(fewer max_features, baselines off) if it needs more memory than there is."
    )
    return f"{times % {'count': losses}} {advice}"


def deliver_unclaimed(seconds: float = DELIVER_AGAIN_SECONDS) -> int:
    """Hand queued runs that wait for so many seconds to the queue again, where their messages may be lost; the number of them."""
    return jobs.deliver_again(jobs.kind_of(Run), seconds)


def _unended() -> QuerySet[Run]:
    return Run.objects.filter(Q(status=Run.Status.QUEUED) | Q(status=Run.Status.RUNNING))
