"""The job that trains: what it writes, how it ends, and what it does not do once its run is not its own."""

import os
import signal
import threading
from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError
from django.utils import timezone
from django_q.exceptions import TimeoutException
from django_q.models import OrmQ

from agents_app import tasks as worker_tasks
from agents_app.background_work import reaper
from datasets_app.models import Query, Snapshot
from tests.training_app.told import TrainError, progress, result
from tests.waiting import until
from training_app.models import Checkpoint, RouterModel, Run, RunEvent
from training_app.training import runs, tasks

# The heartbeat's thread has a connection of its own, so what it reads must be committed.
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def quick(settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beats and reports come fast enough for a test."""
    settings.HEARTBEAT_SECONDS = 0.02
    monkeypatch.setattr(tasks, "REPORT_SECONDS", 0.0)
    monkeypatch.setattr(tasks, "CHECKPOINT_SECONDS", 0.0)


def test_a_run_becomes_a_model(run: Run, training: SimpleNamespace) -> None:
    training.steps = [
        progress("scorer", 1, 2, message="fold 1"),
        progress("policy", 5, 10, metrics={"val_jaccard": 0.5}, checkpoint=b"half way"),
        progress("policy", 10, 10, metrics={"val_jaccard": 0.75, "loss": 0.1}, result=result()),
    ]
    assert tasks.execute(run.pk) == "done"
    run.refresh_from_db()
    assert (run.status, run.phase, run.step, run.total, run.error) == ("done", "policy", 10, 10, "")
    assert run.metrics == {"val_jaccard": 0.75, "loss": 0.1}
    assert RouterModel.objects.get().run == run
    said = list(RunEvent.objects.filter(run=run).values_list("phase", "step", "message", "metrics"))
    assert said == [
        ("scorer", 1, "fold 1", {}),
        ("policy", 5, "", {"val_jaccard": 0.5}),
        ("policy", 10, "", {"val_jaccard": 0.75, "loss": 0.1}),
        ("", 0, "Done: support-1", {}),
    ]
    assert not Checkpoint.objects.exists()


def test_a_worker_of_the_training_cluster_gives_way_to_whoever_answers(
    run: Run, training: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, int, int]] = []
    monkeypatch.setattr(os, "setpriority", lambda *words: asked.append(words))
    tasks.execute(run.pk)
    assert asked == []
    monkeypatch.setenv("Q_CLUSTER_NAME", "train")
    tasks.execute(run.pk)
    assert asked == [(os.PRIO_PROCESS, 0, tasks.NICE)]


def test_a_run_may_ask_the_llm_of_the_settings(run: Run, training: SimpleNamespace, settings) -> None:
    settings.LLM_MODEL, settings.LLM_BASE_URL, settings.LLM_API_KEY = "tiny", "http://127.0.0.1:9/v1", "secret"
    settings.LLM_PRICE_IN, settings.LLM_PRICE_OUT = 0.5, 1.5
    tasks.execute(run.pk)
    (model,) = training.models
    assert (model.base_url, model.model, model.api_key) == ("http://127.0.0.1:9/v1", "tiny", "secret")
    assert (model.price_in, model.price_out) == (0.5, 1.5)


def test_a_run_may_learn_from_what_nobody_has_labeled(snapshot: Snapshot, training: SimpleNamespace) -> None:
    labeled = Query.objects.filter(dataset__pool=snapshot.pool, group__split="train")
    Query.objects.filter(pk=labeled.earliest("pk").pk).update(state=Query.State.UNLABELED)
    text = labeled.earliest("pk").text
    for settings in ({}, {"unlabeled": False}):
        tasks.execute(runs.launch(snapshot.pool, snapshot=snapshot, config=settings, queue=False).pk)
    assert training.unlabeled == [[text], ()]


def test_without_a_model_in_the_settings_no_llm_is_asked(run: Run, training: SimpleNamespace, settings) -> None:
    settings.LLM_MODEL = ""
    tasks.execute(run.pk)
    assert training.models == [None]


def test_a_run_that_is_delivered_twice_is_trained_once(run: Run, training: SimpleNamespace) -> None:
    assert tasks.execute(run.pk) == "done"
    assert tasks.execute(run.pk) == "not queued"
    assert len(training.checkpoints) == 1
    assert RouterModel.objects.count() == 1


def test_a_worker_that_is_free_hands_on_what_waits(run: Run, training: SimpleNamespace, snapshot: Snapshot) -> None:
    waits = runs.launch(snapshot.pool, snapshot=snapshot)
    OrmQ.objects.all().delete()  # a busy cluster has it
    Run.objects.filter(pk=waits.pk).update(delivered_at=timezone.now() - timedelta(seconds=2))
    assert tasks.execute(run.pk) == "done"
    assert OrmQ.objects.count() == 1
    assert tasks.execute(run.pk) == "done", "and whoever gets any message trains it"
    waits.refresh_from_db()
    assert waits.status == "done"


def test_the_reason_of_a_failure_can_be_read(
    run: Run, training: SimpleNamespace, caplog: pytest.LogCaptureFixture
) -> None:
    training.steps = [progress(), TrainError("no query of the training split needs an agent")]
    assert tasks.execute(run.pk) == "failed"
    run.refresh_from_db()
    assert run.error == "no query of the training split needs an agent"
    assert "Traceback" not in caplog.text


def test_a_surprise_is_named_and_its_traceback_only_logged(
    run: Run, training: SimpleNamespace, caplog: pytest.LogCaptureFixture
) -> None:
    training.steps = [ZeroDivisionError("division by zero")]
    assert tasks.execute(run.pk) == "failed"
    run.refresh_from_db()
    assert run.error == "ZeroDivisionError: division by zero"
    assert "Traceback" in caplog.text


def test_a_training_without_an_end_fails(run: Run, training: SimpleNamespace) -> None:
    training.steps = [progress()]
    assert tasks.execute(run.pk) == "failed"
    run.refresh_from_db()
    assert "without a model" in run.error


def test_an_artifact_that_cannot_be_loaded_fails_the_run(run: Run, training: SimpleNamespace) -> None:
    training.steps = [progress(result=result(b"nonsense"))]
    assert tasks.execute(run.pk) == "failed"
    run.refresh_from_db()
    assert "not an artifact" in run.error


def test_the_queues_time_limit_is_told(run: Run, training: SimpleNamespace, settings) -> None:
    settings.TRAIN_TIMEOUT = 7200
    training.steps = [TimeoutException()]
    with pytest.raises(TimeoutException):
        tasks.execute(run.pk)
    run.refresh_from_db()
    assert run.status == "failed"
    assert "TRAIN_TIMEOUT, 2.0 hours" in run.error


# ---------------------------------------------------------------------------------------------------- taken away


def test_cancelling_stops_the_job_at_its_next_word(run: Run, training: SimpleNamespace, ops: User) -> None:
    reached: list[int] = []
    training.steps = [
        progress(step=1, message="one"),
        lambda: runs.cancel(run, actor=ops),
        progress(step=2, message="two"),
        lambda: reached.append(3),
        progress(step=3, result=result()),
    ]
    assert tasks.execute(run.pk) == "lost"
    run.refresh_from_db()
    assert run.status == "cancelled"
    assert not reached
    assert [e.message for e in RunEvent.objects.filter(run=run)] == ["one", "Cancelled by ops-person"]
    assert not RouterModel.objects.exists()


def test_the_heartbeat_notices_too_when_nothing_is_written_for_long(
    run: Run, training: SimpleNamespace, ops: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "REPORT_SECONDS", 1000.0)
    reached: list[str] = []

    def cancel_and_wait() -> None:
        runs.cancel(run, actor=ops)
        until(lambda: not [t for t in threading.enumerate() if t.name == f"heartbeat of run {run.pk}"])
        reached.append("noticed")

    training.steps = [
        progress(),
        cancel_and_wait,
        progress(step=1),
        lambda: reached.append("too late"),
        progress(step=2),
    ]
    assert tasks.execute(run.pk) == "lost"
    assert reached == ["noticed"]


def test_a_job_taken_for_dead_that_comes_back_writes_nothing(run: Run, training: SimpleNamespace, settings) -> None:
    settings.HEARTBEAT_SECONDS = 60  # it is as if the process stood still

    def taken_for_dead() -> None:
        long_ago = timezone.now() - timedelta(hours=1)
        Run.objects.filter(pk=run.pk).update(
            heartbeat_at=long_ago, doubted_at=long_ago + timedelta(minutes=1), losses=settings.RUN_RETRIES
        )
        assert reaper.end_dead() == 1

    training.steps = [progress(), taken_for_dead, progress(step=10, message="late", result=result())]
    assert tasks.execute(run.pk) == "lost"
    run.refresh_from_db()
    assert run.status == "failed"
    assert "gave no sign of life" in run.error
    assert not RunEvent.objects.filter(message="late").exists()
    assert not RouterModel.objects.exists()


def test_a_failure_after_the_loss_is_not_written(run: Run, training: SimpleNamespace, ops: User) -> None:
    training.steps = [lambda: runs.cancel(run, actor=ops), ValueError("too late")]
    assert tasks.execute(run.pk) == "lost"
    run.refresh_from_db()
    assert (run.status, run.error) == ("cancelled", "")


def test_a_long_silence_of_the_engine_does_not_look_dead(run: Run, training: SimpleNamespace) -> None:
    def long_fit() -> None:
        begun = Run.objects.get(pk=run.pk).heartbeat_at
        until(lambda: Run.objects.get(pk=run.pk).heartbeat_at > begun)

    training.steps = [long_fit, progress(result=result())]
    assert tasks.execute(run.pk) == "done"


# ---------------------------------------------------------------------------------------------------- checkpoints


def test_a_run_launched_again_goes_on_from_its_checkpoint(run: Run, training: SimpleNamespace, ops: User) -> None:
    training.steps = [progress(step=4, checkpoint=b"step four"), progress(step=5), TrainError("the machine went down")]
    assert tasks.execute(run.pk) == "failed"
    assert bytes(Checkpoint.objects.get(run=run).content) == b"step four"
    runs.relaunch(run, ops)
    training.steps = [progress(step=10, result=result())]
    assert tasks.execute(run.pk) == "done"
    assert training.checkpoints == [None, b"step four"]
    run.refresh_from_db()
    assert run.attempts == 2
    assert RunEvent.objects.filter(run=run, message="Resuming from the checkpoint of step 4").exists()


def test_a_checkpoint_that_does_not_fit_any_more_starts_the_training_over(
    run: Run, training: SimpleNamespace, ops: User
) -> None:
    training.steps = [progress(step=4, checkpoint=b"step four"), progress(step=5), TrainError("the machine went down")]
    tasks.execute(run.pk)
    runs.relaunch(run, ops)

    def refuse_checkpoints() -> None:
        if training.checkpoints[-1] is not None:
            raise TrainError("made with other data")

    training.steps = [refuse_checkpoints, progress(step=10, result=result())]
    assert tasks.execute(run.pk) == "done"
    assert training.checkpoints == [None, b"step four", None]


# ---------------------------------------------------------------------------------------------------- stopping a worker


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_that_is_stopped_gives_its_run_back(run: Run, training: SimpleNamespace, number: int) -> None:
    before = signal.getsignal(number)
    training.steps = [progress(step=4, checkpoint=b"step four"), lambda: os.kill(os.getpid(), number), progress()]
    with pytest.raises(SystemExit):
        worker_tasks.execute("run", str(run.pk))
    run.refresh_from_db()
    assert (run.status, run.attempt, run.error) == ("queued", None, "")
    assert bytes(Checkpoint.objects.get(run=run).content) == b"step four"
    assert signal.getsignal(number) == before


# ---------------------------------------------------------------------------------------------------- the journal


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_database_is_written_to_at_a_bounded_rate(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "REPORT_SECONDS", 1.0)
    attempt, clock = runs.claim(run.pk), Clock()
    assert attempt
    journal = tasks.Journal(run.pk, attempt, clock)
    for step in range(1000):
        clock.now += 0.01
        journal.add(progress(step=step, metrics={"loss": 1.0 / (step + 1)}))
    journal.write(last=True)
    # Ten seconds: about ten writes, each of at most so many events.
    assert 10 <= RunEvent.objects.count() <= 12 * tasks.EVENTS_PER_REPORT
    assert RunEvent.objects.order_by("-pk")[0].step == 999
    run.refresh_from_db()
    assert run.step == 999


def test_what_says_most_is_kept_when_there_is_too_much() -> None:
    quiet = [RunEvent(step=step, metrics={"loss": 1.0}) for step in range(50)]
    quiet[10].message = "a word"
    quiet[20].metrics = {"loss": 1.0, "val_jaccard": 0.5}
    kept = [event.step for event in tasks._thinned(quiet)]
    assert kept == [10, 20, 47, 48, 49]


def test_while_the_database_is_away_nothing_said_is_lost(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    attempt = runs.claim(run.pk)
    assert attempt
    report, away = runs.report, True

    def sometimes(*arguments: object, **named: object) -> None:
        if away:
            raise OperationalError("the database is away")
        report(*arguments, **named)

    monkeypatch.setattr(runs, "report", sometimes)
    journal = tasks.Journal(run.pk, attempt, Clock())
    journal.add(progress(step=1, message="one", checkpoint=b"one"))
    away = False
    journal.add(progress(step=2, message="two"))
    assert list(RunEvent.objects.values_list("message", flat=True)) == ["one", "two"]
    assert bytes(Checkpoint.objects.get().content) == b"one"


def test_a_database_that_goes_away_at_the_start_is_waited_for(
    run: Run, training: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, failed = tasks.snapshots.examples, []

    def third_time(snapshot: Snapshot) -> object:
        if len(failed) < 2:
            failed.append(1)
            raise OperationalError("server closed the connection unexpectedly")
        return read(snapshot)

    monkeypatch.setattr(tasks.snapshots, "examples", third_time)
    monkeypatch.setattr(tasks.time, "sleep", lambda seconds: None)
    assert tasks.execute(run.pk) == "done"
    assert len(failed) == 2


def test_the_end_is_written_again_and_again(
    run: Run, training: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish, tries = runs.finish, []

    def third_time(*arguments: object) -> RouterModel:
        tries.append(1)
        if len(tries) < 3:
            raise OperationalError("the database is away")
        return finish(*arguments)

    monkeypatch.setattr(runs, "finish", third_time)
    monkeypatch.setattr(tasks.time, "sleep", lambda seconds: None)
    assert tasks.execute(run.pk) == "done"
    assert len(tries) == 3
