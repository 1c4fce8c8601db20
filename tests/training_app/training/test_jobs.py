"""One life for every kind of job: whoever claims it owns it, and who is dead is told by the database's clock alone."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import transaction
from django.utils import timezone

from agents_app.background_work import jobs, reaper, work
from agents_app.background_work.jobs import Job
from agents_app.models import Pool
from datasets_app.models import Dataset, Import
from datasets_app.prelabeling import jobs as prelabel
from tests.at_once import at_once
from tests.silence import silence
from training_app.training import runs


def a_run(pool: Pool) -> Job:
    return runs.launch(pool, queue=False)


def an_import(pool: Pool) -> Job:
    return Import.objects.create(dataset=Dataset.objects.get(pool=pool), file_name="a.jsonl", format="jsonl")


def a_background_job(pool: Pool) -> Job:
    return work.submit("recompose_pool", pool=pool.pk)


def a_prelabeling(pool: Pool) -> Job:
    chosen = Dataset.objects.get(pool=pool).queries.all()
    return prelabel.create(pool, chosen, base_url="http://127.0.0.1:1/v1", model="m")


KINDS = {
    "run": a_run,
    "import": an_import,
    "pre-labeling": a_prelabeling,
    "background job": a_background_job,
}
every_kind = pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)


@every_kind
@pytest.mark.django_db(transaction=True)
@pytest.mark.both_databases
def test_one_of_many_claims_it(labeled: Pool, make: Callable[[Pool], Job]) -> None:
    job = make(labeled)
    tokens = [token for token in at_once(4, lambda _: jobs.claim(type(job), job.pk)) if token]
    assert len(tokens) == 1
    job.refresh_from_db()
    assert (job.attempt, job.attempts, job.status) == (tokens[0], 1, "running")
    assert job.worker
    assert job.started_at


@every_kind
@pytest.mark.both_databases
def test_a_machine_whose_clock_is_wrong_ends_no_living_job(
    labeled: Pool, make: Callable[[Pool], Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    job = make(labeled)
    attempt = jobs.claim(type(job), job.pk)
    now = timezone.now()
    for hours in (-1, 1):
        monkeypatch.setattr("django.utils.timezone.now", lambda hours=hours: now + timedelta(hours=hours))
        jobs.beat(type(job), job.pk, attempt)
        assert reaper.end_dead() == 0
    job.refresh_from_db()
    assert job.attempt == attempt


@every_kind
@pytest.mark.both_databases
def test_one_that_was_taken_for_dead_and_comes_back_writes_nothing(labeled: Pool, make: Callable[[Pool], Job]) -> None:
    job = make(labeled)
    attempt = jobs.claim(type(job), job.pk)
    silence(type(job)._default_manager.all())
    assert reaper.end_dead() == 1
    assert reaper.end_dead() == 0
    job.refresh_from_db()
    assert (job.status != "running", job.losses) == (True, 1)
    with pytest.raises(jobs.AttemptLost), transaction.atomic():
        jobs.beat(type(job), job.pk, attempt)


@every_kind
@pytest.mark.both_databases
def test_only_who_is_silent_after_its_row_could_be_written_is_dead(labeled: Pool, make: Callable[[Pool], Job]) -> None:
    job = make(labeled)
    jobs.claim(type(job), job.pk)
    of_kind = type(job)._default_manager.all()
    silence(of_kind)
    of_kind.update(doubted_at=None)
    assert reaper.end_dead() == 0, "its row is written first"
    assert of_kind.get().doubted_at
    assert reaper.end_dead() == 0, "and then it has a third of the time"
    silence(of_kind)
    assert reaper.end_dead() == 1
