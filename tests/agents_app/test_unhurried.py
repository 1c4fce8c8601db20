"""Long work in the background rests between its parts; short work does not."""

import pytest

from agents_app.background_work import unhurried


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """[the time, the rests…]; work moves the first on."""
    told = [0.0]
    monkeypatch.setattr(unhurried.time, "monotonic", lambda: told[0])

    def sleep(seconds: float) -> None:
        told.append(seconds)
        told[0] += seconds

    monkeypatch.setattr(unhurried.time, "sleep", sleep)
    return told


def test_work_that_is_soon_done_takes_no_rest(clock: list[float]) -> None:
    for _part in unhurried.each(range(5)):
        clock[0] += unhurried.LONG / 5
    assert clock[1:] == []


def test_long_work_rests_in_proportion_to_making_and_using_a_part(clock: list[float]) -> None:
    def parts():
        for seconds in (0.5, 0.75, 2.0):
            clock[0] += seconds
            yield seconds

    for part in unhurried.each(parts()):
        clock[0] += part
    assert clock[1:] == pytest.approx([1.5 * unhurried.REST, 4.0 * unhurried.REST])


def test_nightly_work_leaves_two_thirds_of_the_time_to_others(clock: list[float]) -> None:
    for _part in unhurried.each(range(10), unhurried.NIGHTLY):
        clock[0] += unhurried.LONG
    worked = 10 * unhurried.LONG
    assert sum(clock[1:]) == pytest.approx(2 * (worked - unhurried.LONG)), "the first second counts as short work"


def test_nothing_to_do_is_done_at_once(clock: list[float]) -> None:
    assert list(unhurried.each([])) == []
    assert clock == [0.0]
