"""Several fits that report as one."""

import threading
from typing import Any

import pytest

from training_app.engine.progress import Cancelled, ScorerProgress, at_once, no_progress

WAIT = 20  # seconds, where something is broken


def test_values_come_in_the_jobs_order_and_reports_from_the_callers_thread() -> None:
    second_is_done = threading.Event()
    told: list[tuple[int, int, str, bool]] = []

    def first(report: ScorerProgress) -> str:
        assert second_is_done.wait(WAIT)
        report(1, 2, "half")
        return "one"

    def second(report: ScorerProgress) -> str:
        second_is_done.set()
        return "two"

    def listen(done: int, of: int, message: str) -> None:
        told.append((done, of, message, threading.current_thread() is threading.main_thread()))

    assert at_once([("first", first), ("second", second)], 2, listen) == ["one", "two"]
    assert {message for _, _, message, _ in told} == {"first", "second", "first: half"}
    assert all(of == 200 and here for _, of, _, here in told)
    assert [done for done, *_ in told] == sorted(done for done, *_ in told)


def test_with_one_thread_one_follows_the_other() -> None:
    under_way: list[str] = []

    def job(report: ScorerProgress) -> int:
        under_way.append("begun")
        report(0, 1, "there")
        under_way.append("ended")
        return len(under_way)

    assert at_once([("a", job), ("b", job), ("c", job)], 1, no_progress) == [2, 4, 6]


def test_how_much_of_all_jobs_is_done() -> None:
    told: list[tuple[int, int, str]] = []

    def job(report: ScorerProgress) -> None:
        report(1, 2, "half")
        report(1, 4, "of a second part a quarter")

    at_once([("a", job), ("b", job)], 1, lambda *said: told.append(said))
    assert [(done, of) for done, of, _ in told] == [(0, 200), (50, 200), (50, 200), (100, 200), (150, 200), (150, 200)]


@pytest.mark.parametrize("threads", [1, 2])
def test_the_error_of_one_ends_the_others(threads: int) -> None:
    begun = threading.Event()
    ended: list[BaseException] = []

    def long(report: ScorerProgress) -> None:
        begun.set()
        try:
            for _ in range(WAIT * 100):
                report(0, 1, "on and on")
                threading.Event().wait(0.01)
        except Cancelled as error:
            ended.append(error)
            raise

    def wrong(report: ScorerProgress) -> None:
        assert threads == 1 or begun.wait(WAIT)
        raise ValueError("no text to learn from")

    jobs: list[Any] = [("long", long), ("wrong", wrong)]
    with pytest.raises(ValueError, match="no text"):
        at_once(jobs if threads == 2 else jobs[::-1], threads, no_progress)
    assert len(ended) == threads - 1


def test_who_cancels_is_told_so_and_nothing_goes_on() -> None:
    ended: list[BaseException] = []

    def job(report: ScorerProgress) -> None:
        try:
            while True:
                report(0, 1, "on and on")
                threading.Event().wait(0.01)
        except Cancelled as error:
            ended.append(error)
            raise

    def listen(done: int, of: int, message: str) -> None:
        if message.endswith("on and on"):
            raise Cancelled

    with pytest.raises(Cancelled):
        at_once([("a", job), ("b", job)], 2, listen)
    assert len(ended) == 2
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("fit")]
