"""What Prometheus reads of the database, and the counters that threads share."""

import threading
import time
import uuid
from datetime import timedelta
from functools import cache

import pytest
from django.utils import timezone

from agents_app.models import ClusterSign, Pool
from training_app.answering import meters, metrics
from training_app.models import Run
from training_app.watching.gauges import Gauges


def runs() -> dict[tuple[str, ...], float]:
    (family,) = [one for one in Gauges().collect() if one.name == meters.RUNS.name]
    return {tuple(sample.labels.values()): sample.value for sample in family.samples}


def test_runs_that_a_pool_does_not_have_are_nought(run: Run) -> None:
    """Prometheus sees a first failure as an increase only where it has read a nought before."""
    Pool.objects.create(slug="other", name="Other")
    assert runs() == {
        (slug, status): float((slug, status) == ("support", "queued"))
        for slug in ("support", "other")
        for status in Run.Status.values
    }
    Run.objects.update(status="failed")
    assert runs()["support", "failed"] == 1


def silent() -> dict[str, float]:
    (family,) = [one for one in Gauges().collect() if one.name == meters.CLUSTER_SILENT.name]
    return {sample.labels["cluster"]: round(sample.value, -1) for sample in family.samples}


def sign(queue: str, guarded: int, executed: int | None = None, busy: int = 0, restarted: int | None = None) -> None:
    """The sign of a cluster whose guard said so, and whose worker did something, so many seconds ago."""
    now = timezone.now()
    times = {"guarded_at": guarded, "executed_at": executed, "restarted_at": restarted}
    moments = {name: None if ago is None else now - timedelta(seconds=ago) for name, ago in times.items()}
    ClusterSign.objects.create(slot=uuid.uuid4().hex, queue=queue, machine="m", busy=busy, **moments)


@pytest.mark.both_databases
def test_a_cluster_is_silent_since_it_did_something(db: None) -> None:
    sign("default", 1, 600)
    sign("train", 1, 900, busy=1)
    assert silent() == {"default": 600}, "a busy one is not silent"
    sign("default", 1, 20)
    assert silent() == {"default": 20}, "another one works"


@pytest.mark.both_databases
def test_a_cluster_whose_guard_is_gone_is_not_busy(db: None) -> None:
    sign("default", 600, 900, busy=1)
    assert silent() == {"default": 600}
    sign("train", 900, 300, busy=1)
    sign("train", 1, 240)
    assert silent()["train"] == 240


def test_a_cluster_that_did_nothing_since_its_restart_is_silent_since_then(db: None) -> None:
    sign("default", 1, restarted=400)
    sign("train", 1)
    assert silent() == {"default": 400, "train": 0}


@pytest.mark.any_database
def test_threads_that_count_at_once_make_the_counters_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    @cache
    def make() -> str:
        made.append(threading.current_thread().name)
        time.sleep(0.05)
        return "counters"

    monkeypatch.setattr(metrics, "_made", make)
    threads = [threading.Thread(target=metrics._counts) for _thread in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
