"""Krippendorff's α and the MASI distance against their definitions, one pair of answers at a time."""

import math
import tracemalloc
from itertools import permutations

import numpy as np
import pytest

from datasets_app.figures import agreement
from datasets_app.labels.disagreement import masi, masi_distances

pytestmark = pytest.mark.any_database
Sets = list[frozenset[int]]


def by_definition(units: list[Sets]) -> float:
    """1 − Dₒ/Dₑ: the mean distance of two answers to one query, each query by its answers, over that of any two answers at all."""
    pairable = [unit for unit in units if len(unit) >= 2]
    answers = [one for unit in pairable for one in unit]
    within = [sum(distance(a, b) for a, b in permutations(unit, 2)) / (len(unit) - 1) for unit in pairable]
    observed = sum(within) / len(answers)
    expected = sum(distance(a, b) for a, b in permutations(answers, 2)) / (len(answers) * (len(answers) - 1))
    return 1 - observed / expected


def distance(a: frozenset[int], b: frozenset[int]) -> float:
    if a == b:
        return 0.0
    monotony = 0.0 if not a & b else 2 / 3 if a < b or b < a else 1 / 3
    return 1 - len(a & b) / len(a | b) * monotony


def drawn(rng: np.random.Generator, queries: int) -> list[Sets]:
    units = []
    for _query in range(queries):
        truth = rng.random(4) < 0.4
        said = [truth ^ (rng.random(4) < 0.15) for _person in range(rng.integers(1, 5))]
        units.append([frozenset(np.flatnonzero(one).tolist()) for one in said])
    return units


@pytest.mark.parametrize("seed", range(12))
def test_alpha_of_sets_is_its_definition(seed: int) -> None:
    units = drawn(np.random.default_rng(seed), 5 + 10 * seed)
    found = agreement.alpha_of_sets(units)
    assert found.value == pytest.approx(by_definition(units), abs=1e-12)
    assert found.low is not None
    assert found.high is not None
    assert found.low < found.value < found.high


def test_masi_is_its_definition() -> None:
    sets = [frozenset(n for n in range(3) if mask >> n & 1) for mask in range(8)]
    for a, among in zip(sets, masi_distances(sets), strict=True):
        for b, of_two in zip(sets, among, strict=True):
            assert masi(a, b) == of_two == pytest.approx(distance(a, b), abs=2e-14)


def test_a_thousand_different_sets_take_no_more_memory_than_their_distances() -> None:
    rng = np.random.default_rng(0)
    units = [[frozenset(np.flatnonzero(one).tolist()) for one in rng.random((2, 30)) < 0.3] for _query in range(500)]
    tracemalloc.start()
    assert agreement.alpha_of_sets(units).value == pytest.approx(0, abs=0.05)
    assert tracemalloc.get_traced_memory()[1] < 12 * 8 * 1_000**2
    tracemalloc.stop()


@pytest.mark.parametrize("far", [3.0, -2.0])
@pytest.mark.parametrize("place", [0.01, 0.3, 0.9, 2.5])
def test_an_end_is_where_the_threshold_is_crossed(far: float, place: float) -> None:
    calls = []

    def beyond(ratio: float) -> float:
        calls.append(ratio)
        away = abs(ratio) - place
        return math.inf if away > 1 else away * (1 + abs(away))

    found = agreement.crossing(beyond, 0.0, far)
    assert found == (far if abs(far) < place else pytest.approx(math.copysign(place, far), abs=1e-4))
    assert len(calls) < 20
