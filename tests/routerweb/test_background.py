"""The one idiom for threads beside requests and jobs: at most one, outliving its faults, new after a fork."""

import os
import threading
from collections.abc import Iterator

import pytest

from routerweb.background import Background

LONG = 600.0


class Turns:
    """Work that a test lets go turn by turn."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.raises: list[Exception] = []
        self.rest = LONG

    def __call__(self) -> float:
        self.begun.release()
        if self.raises:
            raise self.raises.pop()
        return self.rest


@pytest.fixture
def turns() -> Turns:
    return Turns()


@pytest.fixture
def background(turns: Turns, settings) -> Iterator[Background]:
    settings.BACKGROUND_THREADS = True
    made = Background("a test's", turns)
    yield made
    made.stop()


def test_it_starts_once_and_takes_a_turn_when_it_is_woken(background: Background, turns: Turns) -> None:
    assert background.start()
    assert not background.start()
    assert turns.begun.acquire(timeout=30)
    assert not turns.begun.acquire(timeout=0.05)
    background.wake()
    assert turns.begun.acquire(timeout=30)
    assert [thread.name for thread in threading.enumerate()].count("a test's") == 1


def test_the_first_turn_may_wait(background: Background, turns: Turns) -> None:
    background.start(rest=LONG)
    assert not turns.begun.acquire(timeout=0.05)


def test_it_outlives_what_a_turn_raises(background: Background, turns: Turns, monkeypatch, caplog) -> None:
    monkeypatch.setattr("routerweb.background.REST_AFTER_FAULT_SECONDS", 0.0)
    turns.raises = [ZeroDivisionError("this turn")]
    background.start()
    assert turns.begun.acquire(timeout=30)
    assert turns.begun.acquire(timeout=30)
    assert "a test's: a turn failed" in caplog.text
    assert "ZeroDivisionError" in caplog.text


def test_it_stops_in_the_middle_of_a_rest_and_may_start_again(settings) -> None:
    settings.BACKGROUND_THREADS = True
    within, ended = threading.Event(), threading.Semaphore(0)

    def turn() -> float:
        within.set()
        if background.rest(LONG):
            ended.release()
        return LONG

    background = Background("a test's", turn)
    for _ in range(2):
        assert background.start()
        assert within.wait(30)
        within.clear()
        background.stop()
        assert ended.acquire(timeout=30)
        assert not background.started


def test_none_where_the_settings_say_so(background: Background, settings) -> None:
    settings.BACKGROUND_THREADS = False
    assert not background.start()
    assert not background.started


def test_a_forked_process_starts_its_own(turns: Turns, settings) -> None:
    settings.BACKGROUND_THREADS = True
    renewed: list[int] = []
    background = Background("a test's", turns, in_child=lambda: renewed.append(os.getpid()))
    background.start(rest=LONG)
    child = os.fork()
    if not child:
        good = (
            not background.started
            and renewed == [os.getpid()]
            and background.start()
            and turns.begun.acquire(timeout=30)
        )
        os._exit(0 if good else 1)
    _pid, status = os.waitpid(child, 0)
    background.stop()
    assert os.waitstatus_to_exitcode(status) == 0
    assert not renewed, "the parent goes on as it was"
