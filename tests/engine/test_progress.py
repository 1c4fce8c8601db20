"""Several fits that report as one."""

import threading
from typing import Any

import pytest

from training_app.engine.progress import Cancelled, Progress, ScorerProgress, at_once, begun, no_progress, watched

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


def test_who_watches_is_told_of_each_step_before_and_the_value_stays() -> None:
    ended: list[str] = []
    seen: list[int] = []

    def steps():
        try:
            yield Progress("policy", 1, 2)
            yield Progress("policy", 2, 2)
            return "learnt"
        finally:
            ended.append("closed")

    def whole():
        value = yield from watched(steps(), lambda step: seen.append(step.step))
        assert value == "learnt"

    assert [(step.step, list(seen)) for step in whole()] == [(1, [1]), (2, [1, 2])]
    early = watched(steps(), no_progress_of)
    next(early)
    early.close()
    assert ended == ["closed", "closed"]


def no_progress_of(_step: Progress) -> None:
    """A watcher that does nothing."""


def test_work_that_was_begun_goes_on_beside_and_ends_with_its_block() -> None:
    went_on = threading.Event()
    ended: list[type[BaseException]] = []

    def work(report: ScorerProgress) -> str:
        report(1, 2, "half")
        went_on.set()
        return "found"

    def endless(report: ScorerProgress) -> None:
        try:
            while True:
                report(0, 1, "on and on")
                threading.Event().wait(0.01)
        except Cancelled as error:
            ended.append(type(error))
            raise

    with begun(work, "baselines") as told:
        assert went_on.wait(WAIT), "nobody had to ask for its progress"
        assert [(step.phase, step.step, step.message) for step in told] == [("baselines", 1, "half")]
    with begun(endless, "baselines"):
        pass
    assert ended == [Cancelled]
