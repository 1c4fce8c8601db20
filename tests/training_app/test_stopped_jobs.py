"""A worker that is asked to end gives its job back, also where a library turns the interruption into an error of its own."""

import os
import signal
import time
from typing import Any, NoReturn

import pytest
from django.db import OperationalError

from agents_app import tasks
from agents_app.background_work import jobs
from agents_app.models import BackgroundJob
from datasets_app.figures import counting
from datasets_app.files import storing, uploads
from datasets_app.models import Import, PrelabelJob
from datasets_app.prelabeling import run as prelabeling
from tests.agents_app.texts.made_rows import row
from training_app.models import Run
from training_app.training import tasks as training

COUNTING = "datasets_app.figures.counting.count_all"
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both_databases]


def interrupted(*_arguments: Any, **_more: Any) -> NoReturn:
    """Is asked to end in the middle of a statement, of which the driver makes an error."""
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(30)
    except jobs.Stopped:
        raise OperationalError("cannot exit pipeline mode while busy") from None
    raise AssertionError("it was not asked to end")


@pytest.mark.parametrize(
    ("kind", "model", "where", "name"),
    [
        ("work", BackgroundJob, counting, "count_all"),
        ("import", Import, storing, "_batches"),
        ("import", Import, uploads, "content"),
        ("prelabel", PrelabelJob, prelabeling._Turn, "go"),
        pytest.param("run", Run, training, "_train", marks=pytest.mark.at_length),
        ("run", Run, training, "close_old_connections"),
    ],
)
def test_an_interrupted_job_goes_back_into_the_queue(
    monkeypatch: pytest.MonkeyPatch, kind: str, model: type[jobs.Job], where: Any, name: str
) -> None:
    monkeypatch.setattr(where, name, interrupted)
    waiting = row(model, status="queued", **({"work": COUNTING} if kind == "work" else {}))
    with pytest.raises(SystemExit):
        tasks.execute(kind, str(waiting.pk))
    job = model._base_manager.get(pk=waiting.pk)
    assert (job.status, job.attempt, job.losses, job.error) == ("queued", None, 0, "")


def test_an_error_of_a_job_that_nobody_stops_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_arguments: Any, **_more: Any) -> NoReturn:
        raise OperationalError("the disk is full")

    monkeypatch.setattr(storing, "_batches", fail)
    waiting = row(Import, status="queued")
    assert tasks.execute("import", str(waiting.pk)) == "failed"
    assert Import.objects.get(pk=waiting.pk).error == "the disk is full"
