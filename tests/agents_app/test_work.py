"""Small pieces of background work: submitted, done once, gone on with after a worker's death."""

import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import OperationalError, transaction
from django_q.models import OrmQ

from agents_app import tasks
from agents_app.background_work import jobs, work
from agents_app.background_work.jobs import AttemptLost
from agents_app.background_work.work import Running, Work
from agents_app.models import BackgroundJob
from routerweb import hooks

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
Do = Callable[[Running], object]


class Doing:
    """What the work of the tests does; a test says what that is."""

    def __init__(self) -> None:
        self.do: Do = lambda running: None

    def __call__(self, running: Running) -> object:
        return self.do(running)


@pytest.fixture
def doing() -> Iterator[Doing]:
    made = Doing()

    def registered() -> tuple[Work, ...]:
        return Work("try", made), Work("secret", made, kept=False)

    hooks.background_work.register(registered)
    work.every.cache_clear()
    yield made
    hooks.background_work._implementations.remove(registered)
    work.every.cache_clear()


def after(job: BackgroundJob) -> Any:
    job.refresh_from_db()
    return job


def test_it_is_handed_to_a_worker_when_the_transaction_is_committed(
    doing: Doing, django_capture_on_commit_callbacks: Any
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        job = work.submit("try", number=7)
        assert not OrmQ.objects.exists()
    assert OrmQ.objects.get().key == "default"
    assert (after(job).status, job.arguments, job.deliveries) == ("queued", {"number": 7}, 1)


def test_it_is_done_once_and_says_what_came_of_it(doing: Doing) -> None:
    doing.do = lambda running: running.arguments["number"] + 1
    job = work.submit("try", number=7)
    assert tasks.execute("work", str(job.pk)) == "done"
    assert tasks.execute("work", str(job.pk)) == "not queued"
    assert (after(job).status, job.result, job.attempts) == ("done", "8", 1)
    assert job.finished_at


def test_what_it_raises_is_why_it_failed(doing: Doing) -> None:
    def fail(running: Running) -> None:
        raise ValueError("no such number")

    doing.do = fail
    job = work.submit("try")
    assert tasks.execute("work", str(job.pk)) == "failed"
    assert (after(job).status, job.error) == ("failed", "ValueError: no such number")


def test_the_row_of_a_job_that_names_somebody_goes_with_its_end(doing: Doing) -> None:
    job = work.submit("secret", address="ana@example.com")
    assert tasks.execute("work", str(job.pk)) == "done"
    assert not BackgroundJob.objects.filter(work="secret").exists()


def test_a_worker_that_dies_leaves_its_progress_to_the_next(doing: Doing) -> None:
    steps: list[int] = []

    def walk(running: Running) -> int:
        for step in range(running.progress.get("steps", 0), 4):
            with transaction.atomic():
                steps.append(step)
                running.save(steps=step + 1)
            if step == 1 and running.progress.get("died") is None:
                running.save(died=True)
                raise SystemExit(9)  # as good as killed: nothing after it is done
        return len(steps)

    doing.do = walk
    job = work.submit("try")
    with pytest.raises(SystemExit):
        tasks.execute("work", str(job.pk))
    assert after(job).status == "running"
    BackgroundJob.objects.update(worker="here:1:a-slot")
    assert jobs.end_of_slot("another-slot") == 0
    assert jobs.end_of_slot("a-slot") == 1
    assert (after(job).status, job.losses) == ("queued", 1)
    assert tasks.execute("work", str(job.pk)) == "done"
    assert steps == [0, 1, 2, 3]


def test_it_is_given_up_when_its_workers_die_again_and_again(doing: Doing, settings: Any) -> None:
    settings.RUN_RETRIES = 2
    job = work.submit("try")
    for _attempt in range(3):
        assert jobs.claim(BackgroundJob, job.pk)
        BackgroundJob.objects.update(worker="here:1:a-slot")
        assert jobs.end_of_slot("a-slot") == 1
    assert (after(job).status, job.losses) == ("failed", 3)
    assert "died 3 times" in job.error


def test_an_attempt_that_was_taken_away_saves_nothing(doing: Doing) -> None:
    def lose(running: Running) -> None:
        BackgroundJob.objects.update(attempt="00000000-0000-0000-0000-000000000001")
        with pytest.raises(AttemptLost):
            running.save(steps=1)
        running.save(steps=2)

    doing.do = lose
    job = work.submit("try")
    assert tasks.execute("work", str(job.pk)) == "lost"
    assert (after(job).status, job.progress) == ("running", {})


@pytest.mark.django_db(transaction=True)
def test_a_worker_that_is_asked_to_end_gives_its_job_back(doing: Doing) -> None:
    doing.do = lambda running: os.kill(os.getpid(), signal.SIGTERM)
    before = signal.getsignal(signal.SIGTERM)
    job = work.submit("try")
    with pytest.raises(SystemExit):
        tasks.execute("work", str(job.pk))
    assert (after(job).status, job.attempt, job.losses) == ("queued", None, 0)
    assert signal.getsignal(signal.SIGTERM) == before


def test_work_that_nobody_registered_fails_in_words(doing: Doing) -> None:
    job = BackgroundJob.objects.create(work="gone")
    assert tasks.execute("work", str(job.pk)) == "failed"
    assert after(job).error == "There is no such work: gone."


def test_scheduled_work_is_not_begun_while_its_last_turn_runs(doing: Doing) -> None:
    first = work.due("try", "2026-01-01T00:00:00+00:00")
    assert first is not None
    assert work.due("try", "2026-01-01T00:01:00+00:00") is None, "the first still waits"
    assert jobs.claim(BackgroundJob, first.pk)
    assert work.due("try", "2026-01-01T00:02:00+00:00") is None, "it runs"


@pytest.mark.django_db(transaction=True)
def test_an_error_that_a_library_raises_in_place_of_the_stop_fails_nothing(doing: Doing) -> None:
    """psycopg answers an interruption within a pipeline with an error of its own."""

    def interrupted(_running: Running) -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        except jobs.Stopped:
            raise OperationalError("cannot exit pipeline mode while busy") from None

    doing.do = interrupted
    job = work.submit("try")
    with pytest.raises(SystemExit):
        tasks.execute(work.KIND, str(job.pk))
    assert (after(job).status, job.error) == ("queued", "")
    doing.do = lambda running: None
    assert tasks.execute(work.KIND, str(job.pk)) == "done"


def test_a_fault_of_the_next_job_is_none_of_the_stop_before(doing: Doing) -> None:
    def broken(_running: Running) -> None:
        raise ValueError("broken")

    with pytest.raises(jobs.Stopped), jobs.stop_signals():
        os.kill(os.getpid(), signal.SIGTERM)
    doing.do = broken
    job = work.submit("try")
    assert tasks.execute(work.KIND, str(job.pk)) == "failed"
