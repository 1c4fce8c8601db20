"""The thread that looks after dead jobs: it trusts nothing after an outage, and outlives it."""

import threading
from collections.abc import Callable

import pytest
from django.db import OperationalError

from agents_app.background_work import reaper
from training_app.watching import watch


class Clock:
    now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], int]]:
    """What a round does; a test puts its own in."""
    mine: list[Callable[[], int]] = []
    monkeypatch.setattr(reaper, "ROUNDS", mine)
    return mine


pytestmark = pytest.mark.django_db


def test_each_round_does_everything(clock: Clock, rounds: list) -> None:
    rounds += [lambda: 2, lambda: 0, lambda: 1]
    assert reaper.Reaper(clock).look() == 3


def test_waiting_runs_that_are_handed_on_are_no_warning(
    clock: Clock, rounds: list, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def wait() -> int:
        return 2

    monkeypatch.setattr(reaper, "HANDED_ON", {wait})
    rounds.append(wait)
    with caplog.at_level("INFO", "agents_app.background_work.reaper"):
        assert reaper.Reaper(clock).look() == 2
        rounds.append(lambda: 1)
        assert reaper.Reaper(clock).look() == 3
    said = [(record.levelname, record.getMessage()) for record in caplog.records]
    waiting = ("INFO", "waiting jobs handed to the queue again: 2")
    assert said == [
        waiting, ("WARNING", "jobs whose worker died, ended or put back into the queue: 1"), waiting,
    ]  # fmt: skip


def test_after_an_outage_it_waits_until_the_living_could_say_so(clock: Clock, rounds: list, settings) -> None:
    settings.DEAD_AFTER_SECONDS, settings.HEARTBEAT_SECONDS = 30, 5
    away = True

    def answer() -> int:
        if away:
            raise OperationalError("the database is away")
        return 1

    rounds.append(answer)
    looker = reaper.Reaper(clock)
    assert looker.look() == 0
    away = False
    for _ in range(5):
        clock.now += 5
        assert looker.look() == 0
    clock.now += 5
    assert looker.look() == 1


def test_after_a_sleep_of_the_machine_it_waits_too(clock: Clock, rounds: list, settings) -> None:
    settings.DEAD_AFTER_SECONDS, settings.HEARTBEAT_SECONDS = 30, 5
    rounds.append(lambda: 1)
    looker = reaper.Reaper(clock)
    clock.now += 3600
    assert looker.look() == 0
    for _ in range(5):
        clock.now += 5
        assert looker.look() == 0
    clock.now += 5
    assert looker.look() == 1


def test_one_reaper_a_process(settings) -> None:
    settings.BACKGROUND_THREADS, settings.HEARTBEAT_SECONDS = True, 600
    try:
        assert reaper.start_once()
        assert not reaper.start_once()
    finally:
        reaper._thread.stop()


def test_a_worker_starts_it_when_it_is_forked(monkeypatch: pytest.MonkeyPatch) -> None:
    from django_q.signals import post_spawn

    begun: list[str] = []
    monkeypatch.setattr(reaper, "start_once", lambda: begun.append("reaper"))
    monkeypatch.setattr(watch, "start_once", begun.append)
    post_spawn.send(sender="django_q", proc_name="a worker")
    assert begun == ["reaper", "default"]


def test_neither_tests_nor_commands_have_one() -> None:
    assert not reaper.start_once()
    assert not watch.start_once("web")
    assert not [thread for thread in threading.enumerate() if thread.name in ("reaper", "watch")]
