"""Load: shares of the last assignments, who is hot, and the published penalties."""

import pytest

from orchestration_app.engine.backends.load import LoadTracker, penalty


@pytest.mark.parametrize(
    ("utilisation", "expected"), [(0.25, 0.0), (0.375, 0.075), (0.5, 0.150), (0.583333, 0.200), (1.0, 0.200)]
)
def test_the_published_penalties_of_four(utilisation: float, expected: float) -> None:
    assert penalty(utilisation, 1 / 4) == pytest.approx(expected, abs=1e-6)


def test_the_penalty_is_that_before_the_assignment_and_the_window_forgets() -> None:
    load = LoadTracker.of([0, 0, 0, 0, 1, 2, 3, 1])
    assert load.penalty(0, range(4)) == pytest.approx(0.15)
    for _ in range(4):
        load.record(1)
    assert list(load.recent) == [1, 2, 3, 1, 1, 1, 1, 1]
    assert load.penalty(0, range(4)) == 0.0


def test_the_largest_only_is_hot_and_nobody_before_three_assignments() -> None:
    assert LoadTracker.of([0, 0]).hot(range(4)) is None
    assert LoadTracker.of([0, 0, 0, 0, 1, 1, 1, 1]).hot(range(4)) == 0
    assert LoadTracker.of([0, 1, 2, 3]).hot(range(4)) is None
    assert LoadTracker.of([0, 0, 1]).hot([1, 2, 3]) is None, "1 / 3 of the window is a fair share of three"


def test_a_fair_share_is_of_those_available() -> None:
    load = LoadTracker.of([0, 0, 0, 1, 1, 2, 3, 3])
    assert load.penalty(0, range(4)) == pytest.approx(0.075)
    assert load.penalty(0, [0, 1]) == 0.0
