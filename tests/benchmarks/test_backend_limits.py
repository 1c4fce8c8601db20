"""How benchmarks.backend_limits reads what its processes took."""

import pytest

from benchmarks import backend_limits


def test_the_busiest_minute_slides() -> None:
    assert backend_limits.busiest_minute([(0, 1), (30, 1), (59.9, 1), (60, 1), (90, 1)]) == 3
    assert backend_limits.busiest_minute([(0, 5), (61, 7)]) == 7
    assert backend_limits.busiest_minute([]) == 0


def test_a_call_that_ends_makes_place_at_that_moment() -> None:
    assert backend_limits.most_in_flight([(0, 2), (1, 3), (2, 4)]) == 2
    assert backend_limits.most_in_flight([(0, 5), (1, 5), (2, 5)]) == 3


def test_how_far_the_furthest_is_from_the_mean() -> None:
    assert backend_limits.furthest([90, 110]) == pytest.approx(0.1)
    assert backend_limits.furthest([]) == 0


def test_a_limit_that_was_exceeded_is_told() -> None:
    rows = [
        {"agent": 0, "backend": "acme/limited", "at": n * 0.1, "by": "0"} for n in range(backend_limits.REQUESTS + 1)
    ]
    (_what, value, most, holds), *_rest = backend_limits.figures(rows, 1)
    assert (value, most, holds) == (backend_limits.REQUESTS + 1, backend_limits.REQUESTS, False)
    assert backend_limits.figures(rows[:-1], 1)[0][3]
