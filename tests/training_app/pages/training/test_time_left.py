"""The time left that pages showed is checked against the time that finished runs took."""

from datetime import timedelta

import pytest
from django.utils import timezone

from benchmarks import time_left
from training_app.models import Run, RunEvent


def finished(run: Run, seconds: float) -> Run:
    """The run as it took so many seconds: half of them for words, half for the policy, with an event each tenth."""
    run.status, run.finished_at = Run.Status.DONE, timezone.now()
    run.started_at = run.finished_at - timedelta(seconds=seconds)
    run.save()
    for tenth in range(10):
        phase = "scorer" if tenth < 5 else "policy"
        at = run.started_at + timedelta(seconds=seconds * tenth / 10)
        RunEvent.objects.create(run=run, at=at, phase=phase, step=tenth % 5 + 1)
    return run


@pytest.mark.parametrize("seconds", [30.0, 600.0])
def test_what_was_said_is_set_against_what_came(run: Run, seconds: float) -> None:
    rows = time_left.of_run(finished(run, seconds).pk)
    assert [row.at for row in rows] == list(time_left.AT)
    assert [round(row.left) for row in rows] == [round(seconds * share) for share in (0.75, 0.5, 0.25)]
    assert all(row.said > 0 and row.factor >= 1 for row in rows)


def test_a_run_knows_nothing_of_itself_or_of_later_runs(run: Run) -> None:
    """What is expected of it is what was expected when it began, however long it took in the end."""
    short = time_left.of_run(finished(run, 30.0).pk)[0].said
    RunEvent.objects.all().delete()
    long = time_left.of_run(finished(run, 3_000.0).pk)[0].said
    assert long > 10 * short  # its own pace alone
    assert long < 3_000.0 * 10


def test_the_table_has_the_median_and_the_worst() -> None:
    rows = [time_left.Estimate(number, 0.5, said, 55.0) for number, said in enumerate((55.0, 25.0, 115.0))]
    assert [row.factor for row in rows] == [1.0, 2.0, 2.0]
    assert time_left.lines(rows)[1].split() == ["50%", "3", "2.00", "2.00", "2.00"]
