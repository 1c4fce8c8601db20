"""Launching, claiming, ending: who owns a run, and that nobody else writes to it."""

import uuid
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from django_q.models import OrmQ

from agents_app.audit import Actor
from agents_app.background_work import jobs, reaper
from agents_app.models import AuditEntry, Pool
from datasets_app.models import Snapshot
from tests.at_once import at_once
from tests.training_app.told import artifact
from training_app.engine.config import ConfigError
from training_app.models import Checkpoint, RouterModel, Run, RunEvent
from training_app.training import runs
from training_app.versions import registry

pytestmark = pytest.mark.both_databases

SILENT = timedelta(hours=1)


def silence(run: Run) -> None:
    """No sign of life for long, also after a reaper wrote to the row."""
    long_ago = timezone.now() - SILENT
    Run.objects.filter(pk=run.pk).update(heartbeat_at=long_ago, doubted_at=long_ago + timedelta(seconds=20))


@pytest.fixture(autouse=True)
def default_retries(settings) -> None:
    settings.RUN_RETRIES = 2


# ---------------------------------------------------------------------------------------------------- launching


def test_launch_takes_a_snapshot_and_keeps_every_setting(
    labeled: Pool, ops: User, django_capture_on_commit_callbacks: Callable
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        run = runs.launch(labeled, config={"seed": "7", "total_steps": 50}, author=ops)
    assert run.status == "queued"
    assert run.snapshot.rows == 72
    assert (run.seed, run.config["total_steps"], run.config["batch_size"]) == (7, 50, 64)
    assert OrmQ.objects.get().key == "train"
    entry = AuditEntry.objects.get(action="run.launched")
    assert entry.actor == ops
    assert entry.detail["config"] == {"seed": 7, "total_steps": 50}


def test_a_launch_that_is_rolled_back_queues_nothing(
    labeled: Pool, django_capture_on_commit_callbacks: Callable
) -> None:
    with django_capture_on_commit_callbacks() as callbacks:
        runs.launch(labeled)
    assert len(callbacks) == 1
    assert not OrmQ.objects.exists()


@pytest.mark.parametrize(
    ("config", "field"), [({"no_such": 1}, "no_such"), ({"gamma": 2}, "gamma"), ({"encoder": "magic"}, "encoder")]
)
def test_a_bad_setting_launches_nothing_and_is_named(labeled: Pool, config: dict, field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        runs.launch(labeled, config=config)
    assert caught.value.field == field
    assert not Run.objects.exists()
    assert not Snapshot.objects.exists()


def test_nothing_labeled_is_said_so(pool: Pool) -> None:
    with pytest.raises(runs.RunError, match="no gold labels"):
        runs.launch(pool)


def test_a_snapshot_without_validation_queries_is_refused(snapshot: Snapshot) -> None:
    Snapshot.objects.filter(pk=snapshot.pk).update(split_sizes={"train": 60, "val": 0, "test": 12})
    snapshot.refresh_from_db()
    with pytest.raises(runs.RunError, match="no queries in: Validation"):
        runs.launch(snapshot.pool, snapshot=snapshot)


def test_another_pools_snapshot_is_refused(snapshot: Snapshot) -> None:
    other = Pool.objects.create(slug="other", name="Other")
    with pytest.raises(runs.RunError, match="another pool"):
        runs.launch(other, snapshot=snapshot)


# ---------------------------------------------------------------------------------------------------- claiming


@pytest.mark.django_db(transaction=True)
def test_of_many_workers_exactly_one_claims_a_run(run: Run) -> None:
    tokens = [found for found in at_once(6, lambda _: runs.claim(run.pk)) if found is not None]
    assert len(tokens) == 1
    run.refresh_from_db()
    assert run.attempt == tokens[0]
    assert (run.status, run.attempts) == ("running", 1)


def test_only_a_queued_run_is_claimed(run: Run, ops: User) -> None:
    assert runs.claim(run.pk)
    assert runs.claim(run.pk) is None
    runs.cancel(run, actor=ops)
    assert runs.claim(run.pk) is None
    assert runs.claim(run.pk + 1) is None


# ---------------------------------------------------------------------------------------------------- a lost attempt writes nothing


def lost_by_cancelling(run: Run, ops: User) -> None:
    runs.cancel(run, actor=ops)


def lost_by_silence(run: Run, ops: User) -> None:
    silence(run)
    assert reaper.end_dead() == 1


def lost_for_good(run: Run, ops: User) -> None:
    Run.objects.filter(pk=run.pk).update(losses=2)
    lost_by_silence(run, ops)


def lost_to_another_worker(run: Run, ops: User) -> None:
    lost_by_silence(run, ops)
    assert runs.claim(run.pk)


@pytest.mark.parametrize("lose", [lost_by_cancelling, lost_by_silence, lost_for_good, lost_to_another_worker])
@pytest.mark.parametrize("write", ["heartbeat", "report", "finish", "fail", "release"])
def test_a_job_that_lost_its_run_writes_nothing(
    run: Run, ops: User, told_router: None, lose: Callable, write: str
) -> None:
    attempt = runs.claim(run.pk)
    assert attempt
    lose(run, ops)
    before, events = Run.objects.values().get(pk=run.pk), RunEvent.objects.count()
    late: dict[str, Callable[[], object]] = {
        "heartbeat": lambda: jobs.beat(Run, run.pk, attempt),
        "report": lambda: runs.report(
            run.pk,
            attempt,
            [RunEvent(run=run, message="late")],
            phase="late",
            step=9,
            total=9,
            metrics={},
            checkpoint=b"x",
        ),
        "finish": lambda: runs.finish(run.pk, attempt, artifact(), {}),
        "fail": lambda: runs.fail(run.pk, attempt, "late"),
        "release": lambda: runs.release(run.pk, attempt),
    }
    with pytest.raises(runs.AttemptLost):
        late[write]()
    assert Run.objects.values().get(pk=run.pk) == before
    assert RunEvent.objects.count() == events
    assert not RouterModel.objects.exists()
    assert not Checkpoint.objects.exists()


def test_a_made_up_attempt_owns_nothing(run: Run) -> None:
    runs.claim(run.pk)
    with pytest.raises(runs.AttemptLost):
        jobs.beat(Run, run.pk, uuid.uuid4())


@pytest.mark.django_db(transaction=True)
def test_finishing_and_cancelling_at_once_leave_one_truth(run: Run, told_router: None) -> None:
    attempt = runs.claim(run.pk)
    assert attempt
    acts: list[Callable[[], object]] = [
        lambda: runs.finish(run.pk, attempt, artifact(), {}),
        lambda: runs.cancel(Run.objects.get(pk=run.pk), actor=Actor("test")),
    ]
    found = at_once(2, lambda number: acts[number]())
    run.refresh_from_db()
    assert run.status in ("done", "cancelled")
    assert RouterModel.objects.exists() == (run.status == "done")
    assert [isinstance(outcome, Exception) for outcome in found] == [run.status == "cancelled", run.status == "done"]


# ---------------------------------------------------------------------------------------------------- ending


def test_finish_keeps_the_model_and_drops_the_checkpoint(run: Run, told_router: None) -> None:
    attempt = runs.claim(run.pk)
    assert attempt
    runs.report(run.pk, attempt, [], phase="policy", step=5, total=9, metrics={}, checkpoint=b"half way")
    model = runs.finish(run.pk, attempt, artifact(), {"test": 1})
    run.refresh_from_db()
    assert run.status == "done"
    assert run.finished_at
    assert model.run == run
    assert model.state == "candidate"
    assert not Checkpoint.objects.exists()


def test_finish_promotes_where_the_run_says_so(labeled: Pool, told_router: None) -> None:
    run = runs.launch(labeled, promote=True, queue=False)
    attempt = runs.claim(run.pk)
    assert attempt
    model = runs.finish(run.pk, attempt, artifact(), {})
    assert registry.active(labeled) == model
    assert model.promotions.get().kind == "first"


def test_an_artifact_that_cannot_be_loaded_leaves_the_run_as_it_was(run: Run, told_router: None) -> None:
    attempt = runs.claim(run.pk)
    assert attempt
    with pytest.raises(registry.RegistryError, match="not an artifact"):
        runs.finish(run.pk, attempt, b"nonsense", {})
    run.refresh_from_db()
    assert run.status == "running"
    assert not RouterModel.objects.exists()


def test_cancel_ends_a_queued_run_and_says_who(run: Run, ops: User) -> None:
    runs.cancel(run, actor=ops)
    assert run.status == "cancelled"
    assert RunEvent.objects.get(run=run).message == "Cancelled by ops-person"
    assert AuditEntry.objects.filter(action="run.cancelled", actor=ops).count() == 1
    with pytest.raises(runs.RunError, match="ended already"):
        runs.cancel(run, actor=ops)


# ---------------------------------------------------------------------------------------------------- the dead, the lost, the repeated


def test_a_silent_run_is_dead_and_a_lively_one_is_not(run: Run, snapshot: Snapshot) -> None:
    lively = runs.launch(snapshot.pool, snapshot=snapshot, queue=False)
    queued = runs.launch(snapshot.pool, snapshot=snapshot, queue=False)
    Run.objects.filter(pk=run.pk).update(losses=2)
    runs.claim(run.pk)
    runs.claim(lively.pk)
    silence(run)
    assert reaper.end_dead() == 1
    assert reaper.end_dead() == 0
    states = dict(Run.objects.values_list("pk", "status"))
    assert states == {run.pk: "failed", lively.pk: "running", queued.pk: "queued"}
    run.refresh_from_db()
    assert "was killed, or gave no sign of life for 30 seconds" in run.error
    assert "Training again" in run.error


def test_a_run_whose_worker_died_goes_back_into_the_queue_a_few_times(
    run: Run, ops: User, settings, django_capture_on_commit_callbacks: Callable
) -> None:
    settings.RUN_RETRIES = 2
    found = []
    with django_capture_on_commit_callbacks(execute=True):
        for _ in range(3):
            attempt = runs.claim(run.pk)
            assert attempt
            runs.report(run.pk, attempt, [], phase="policy", step=5, total=9, metrics={}, checkpoint=b"half way")
            silence(run)
            assert reaper.end_dead() == 1
            run.refresh_from_db()
            found.append((run.status, run.losses, bool(run.error)))
    assert found == [("queued", 1, False), ("queued", 2, False), ("failed", 3, True)]
    assert OrmQ.objects.count() == 2
    assert bytes(Checkpoint.objects.get(run=run).content) == b"half way"
    said = list(RunEvent.objects.filter(run=run).values_list("message", flat=True))
    assert ["goes back into the queue, 1 of 2" in said[0], "2 of 2" in said[1], "goes back" in said[2]] == [
        True,
        True,
        False,
    ]
    runs.relaunch(run, ops)
    run.refresh_from_db()
    assert run.losses == 0


def test_a_run_whose_row_could_not_be_written_is_not_dead(run: Run) -> None:
    attempt = runs.claim(run.pk)
    assert attempt
    Run.objects.filter(pk=run.pk).update(heartbeat_at=timezone.now() - SILENT)  # as after a full disk
    assert reaper.end_dead() == 0
    run.refresh_from_db()
    assert run.doubted_at
    assert run.status == "running"
    jobs.beat(Run, run.pk, attempt)
    Run.objects.filter(pk=run.pk).update(doubted_at=timezone.now() - timedelta(seconds=15))
    assert reaper.end_dead() == 0
    run.refresh_from_db()
    assert run.status == "running"


def test_silence_after_it_could_write_again_is_death(run: Run, settings) -> None:
    settings.DEAD_AFTER_SECONDS = 30
    runs.claim(run.pk)
    Run.objects.filter(pk=run.pk).update(heartbeat_at=timezone.now() - SILENT)
    assert reaper.end_dead() == 0
    doubted = Run.objects.get(pk=run.pk).doubted_at
    assert doubted
    Run.objects.filter(pk=run.pk).update(doubted_at=doubted - timedelta(seconds=9))
    assert reaper.end_dead() == 0, "it has a third of the time to answer"
    Run.objects.filter(pk=run.pk).update(doubted_at=doubted - timedelta(seconds=11))
    assert reaper.end_dead() == 1


@pytest.mark.django_db(transaction=True)
def test_of_many_reapers_one_ends_a_dead_attempt(run: Run) -> None:
    runs.claim(run.pk)
    silence(run)
    assert sum(at_once(4, lambda _: reaper.end_dead())) == 1
    assert RunEvent.objects.filter(run=run).count() == 1
    assert OrmQ.objects.count() == 1


def test_a_sign_of_life_in_the_last_moment_counts(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    attempt = runs.claim(run.pk)
    assert attempt
    silence(run)
    atomic = runs.transaction.atomic

    def after_a_sign_of_life() -> object:
        Run.objects.filter(pk=run.pk).update(heartbeat_at=timezone.now())
        return atomic()

    monkeypatch.setattr(runs.transaction, "atomic", after_a_sign_of_life)
    assert reaper.end_dead() == 0
    run.refresh_from_db()
    assert run.status == "running"


@pytest.mark.parametrize("status", ["queued", "running", "done"])
def test_only_failed_and_cancelled_runs_are_launched_again(run: Run, ops: User, status: str) -> None:
    runs.claim(run.pk)
    Run.objects.filter(pk=run.pk).update(status=status)
    with pytest.raises(runs.RunError, match="cannot be launched again"):
        runs.relaunch(run, ops)


def test_relaunch_keeps_the_checkpoint_and_forgets_the_failure(
    run: Run, ops: User, django_capture_on_commit_callbacks: Callable
) -> None:
    attempt = runs.claim(run.pk)
    assert attempt
    runs.report(run.pk, attempt, [], phase="policy", step=5, total=9, metrics={}, checkpoint=b"half way")
    runs.fail(run.pk, attempt, "no more memory")
    with django_capture_on_commit_callbacks(execute=True):
        again = runs.relaunch(run, ops)
    assert (again.pk, again.status, again.error, again.attempt) == (run.pk, "queued", "", None)
    assert bytes(Checkpoint.objects.get(run=run).content) == b"half way"
    assert OrmQ.objects.count() == 1


def test_an_unclaimed_run_is_handed_over_again_once_its_message_is_taken(
    run: Run, django_capture_on_commit_callbacks: Callable
) -> None:
    def age() -> None:
        Run.objects.filter(pk=run.pk).update(delivered_at=timezone.now() - SILENT)

    def handed() -> int:
        with django_capture_on_commit_callbacks(execute=True):
            return runs.deliver_unclaimed()

    assert handed() == 0
    age()
    assert handed() == 1
    age()
    assert handed() == 0, "its message still waits in the queue"
    assert OrmQ.objects.count() == 1
    OrmQ.objects.update(lock=timezone.now() + SILENT)  # a cluster has taken it ahead of its work, or was killed
    assert handed() == 1
    runs.claim(run.pk)
    age()
    assert handed() == 0


def test_as_many_are_handed_over_as_messages_are_missing(
    run: Run, snapshot: Snapshot, django_capture_on_commit_callbacks: Callable
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        for _ in range(3):
            runs.launch(snapshot.pool, snapshot=snapshot)
    assert OrmQ.objects.count() == 3
    Run.objects.update(delivered_at=timezone.now() - SILENT)
    with django_capture_on_commit_callbacks(execute=True):
        assert runs.deliver_unclaimed() == 1
    assert OrmQ.objects.count() == 4


def test_a_message_gives_work_even_where_another_worker_has_its_run(run: Run, snapshot: Snapshot) -> None:
    waiting = [runs.launch(snapshot.pool, snapshot=snapshot) for _ in range(2)]
    assert runs.claim(run.pk)
    first = runs.claim_next(waiting[1].pk)
    second = runs.claim_next(waiting[1].pk)
    assert [first and first[0], second and second[0]] == [waiting[1].pk, waiting[0].pk]
    assert runs.claim_next(waiting[1].pk) is None


def test_a_run_that_was_not_handed_over_is_nobodys_next(run: Run, snapshot: Snapshot) -> None:
    """It is claimed by the command that launched it, or was left by a worker that is being stopped."""
    assert runs.claim_next(run.pk + 1) is None
    assert runs.claim(run.pk)


@pytest.mark.django_db(transaction=True)
def test_of_many_reapers_one_hands_a_run_on(run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(delivered_at=timezone.now() - SILENT)
    assert sum(at_once(4, lambda _: runs.deliver_unclaimed())) == 1
    assert OrmQ.objects.count() == 1


def test_a_released_run_waits_before_it_is_handed_on(run: Run) -> None:
    attempt = runs.claim(run.pk)
    assert attempt
    runs.release(run.pk, attempt)
    run.refresh_from_db()
    assert (run.status, run.attempt) == ("queued", None)
    assert runs.deliver_unclaimed() == 0
    assert runs.claim(run.pk)
