"""One backend of several for a preference, and the measures of how that went."""

from dataclasses import replace

import numpy as np
import pytest

from orchestration_app.engine.backends import measures
from orchestration_app.engine.backends.choosing import PRESETS, Candidate, Preference, choose, foremost, scales

FOUR = [
    Candidate(1, 0.95, 0.010, 2000.0),
    Candidate(2, 0.85, 0.001, 900.0),
    Candidate(3, 0.70, 0.0001, 700.0),
    Candidate(4, 0.60, 0.0005, 150.0),
]
SIMPLEX = [(a / 10, b / 10, (10 - a - b) / 10) for a in range(11) for b in range(11 - a)]


def test_presets_take_what_they_are_called() -> None:
    taken = {name: choose(FOUR, preset).candidate.key for name, preset in PRESETS.items()}
    assert taken == {"best": 1, "balanced": 2, "cheapest": 3, "fastest": 4}


def test_a_busy_backend_is_left_and_taken_again() -> None:
    fast = PRESETS["fastest"]
    assert choose([replace(FOUR[3], busy=0.9), *FOUR[:3]], fast).candidate.key == 3
    assert choose([replace(FOUR[3], busy=0.2), *FOUR[:3]], fast).candidate.key == 4


def test_nobody_is_better_in_all_three_for_any_of_66_preferences() -> None:
    assert len(SIMPLEX) == 66
    for weights in SIMPLEX:
        taken = choose(FOUR, Preference.of(*weights))
        for other in FOUR:
            better = (
                other.success > taken.candidate.success,
                other.cost < taken.candidate.cost,
                other.latency < taken.latency,
            )
            assert not all(better)


def test_the_cost_falls_as_its_weight_grows() -> None:
    costs = [choose(FOUR, Preference.of(0.7 * (1 - w), w, 0.3 * (1 - w))).candidate.cost for w in np.linspace(0, 1, 41)]
    assert costs == sorted(costs, reverse=True)
    assert costs[0] > costs[-1]


@pytest.mark.parametrize("weights", [(-0.1, 1, 1), (0, 0, 0), (float("nan"), 1, 1), (float("inf"), 1, 1)])
def test_weights_that_mean_nothing_are_refused(weights: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match="weights"):
        Preference.of(*weights)


# --- Measures -------------------------------------------------------------------------------------------------------


def test_aiq_is_the_mean_height_of_the_hull() -> None:
    points = [(1.0, 0.5), (2.0, 0.4), (3.0, 0.9)]
    assert measures.hull(points) == [(1.0, 0.5), (3.0, 0.9)]
    assert measures.aiq(points, 1.0, 3.0) == pytest.approx(0.7)
    assert measures.aiq(points, 1.0, 5.0) == pytest.approx(0.8), "beyond its last point a hull is level"
    assert measures.aiq([(2.0, 0.8)], 1.0, 3.0) == pytest.approx(0.4), "nothing is bought for less than the first point"


def test_what_a_share_of_the_best_quality_costs() -> None:
    success = np.array([[1.0, 0.0], [1.0, 1.0]] * 10)
    cost = np.array([[4.0, 1.0]] * 20)
    one = measures.traded([(1.0, 0.5), (2.5, 0.96), (4.0, 1.0)], success, cost)
    assert one.cost_at_95 == pytest.approx(2.5 / 4)
    assert one.cost_at_100 == 1.0
    assert measures.cost_at([(1.0, 0.5)], 0.6) is None


def test_the_foremost_are_whom_choose_takes_and_its_equals() -> None:
    rng = np.random.Generator(np.random.PCG64(4))
    for _ in range(300):
        some = [
            Candidate(key, *rng.choice([0.5, 0.7, 0.9], 3).tolist(), busy=float(rng.choice([0, 0.5, 2])), rank=float(rng.random()))
            for key in range(4)
        ]  # fmt: skip
        wanted = Preference.of(*rng.dirichlet(np.ones(3)).tolist())
        places, latencies = foremost(some, wanted, *scales(some))
        taken = choose(some, wanted)
        assert min((some[place] for place in places), key=lambda one: one.rank) is taken.candidate
        assert latencies[some.index(taken.candidate)] == taken.latency
