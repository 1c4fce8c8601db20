from math import comb, log

import numpy as np
import pytest

from training_app.engine.data import intervals, shares
from training_app.engine.data.intervals import Sample


def by_brute_force(values: np.ndarray, target: float, low: float, high: float) -> float:
    """The largest Σ log(1 + λ (x - m)) on a fine grid of every λ that the range admits."""
    rates = np.linspace(-1 / (high - target), 1 / (target - low), 400_001)[1:-1]
    return float(np.log1p(rates[:, None] * (values - target)[None, :]).sum(axis=1).max())


@pytest.mark.parametrize("target", [0.3, 0.55, 0.7, 0.9])
def test_the_statistic_is_the_largest_over_lambda(target: float) -> None:
    values = np.array([0.25, 0.5, 0.5, 2 / 3, 1, 1, 1])
    assert Sample(values).stat(target) == pytest.approx(by_brute_force(values, target, 0, 1), abs=1e-4)


def test_for_zeros_and_ones_it_is_the_likelihood_ratio_of_the_binomial() -> None:
    values = np.array([1.0] * 15 + [0.0] * 5)
    for p in (0.5, 0.7, 0.9):
        exact = 15 * log(0.75 / p) + 5 * log(0.25 / (1 - p))
        assert Sample(values).stat(p) == pytest.approx(exact, abs=1e-9)


def test_an_end_is_where_the_statistic_meets_the_threshold() -> None:
    rng = np.random.default_rng(0)
    for values in (rng.random(30), rng.choice([0, 0.5, 1], 50), np.r_[np.ones(40), 0.0]):
        sample = Sample(values)
        for side in (-1, 1):
            assert sample.stat(sample.end(side, 1.9)) == pytest.approx(1.9, abs=1e-3) or sample.end(side, 1.9) in (0, 1)


def test_where_all_observations_are_alike_there_is_still_a_width() -> None:
    all_right = intervals.bounded(np.ones(20))
    assert (all_right.mean, all_right.high) == (1, 1)
    assert 0.8 < all_right.low < 0.9
    same = intervals.careful(np.zeros(50))
    assert same.low == pytest.approx(-(1 - 0.025 ** (1 / 50)), abs=1e-6)  # Clopper and Pearson's for 0 of 50
    assert same.high == -same.low


@pytest.mark.parametrize("right", [0, 1, 5, 19, 20])
def test_what_is_shown_of_zeros_and_ones_is_wilsons_interval(right: int) -> None:
    found, wilson = intervals.bounded(np.r_[np.ones(right), np.zeros(20 - right)]), shares.wilson(right, 20)
    assert (found.low, found.high) == pytest.approx((wilson["low"], wilson["high"]), abs=1e-6)


def test_an_end_that_is_shown_is_where_the_score_test_rejects() -> None:
    """By brute force: of all laws on the range with that mean the likeliest one's variance, from its weights."""
    values = np.array([0.25, 0.5, 0.5, 2 / 3, 1, 1, 1])
    found = intervals.bounded(values)
    for end in (found.low, found.high):
        rates = np.linspace(-1 / (1 - end), 1 / end, 400_001)[1:-1]
        rate = rates[np.log1p(rates[:, None] * (values - end)[None, :]).sum(axis=1).argmax()]
        weights = 1 / (len(values) * (1 + rate * (values - end)))
        left = 1 - weights.sum()  # on the end of the range that no observation stands on
        variance = weights @ (values - end) ** 2 + left * end**2
        assert (found.mean - end) ** 2 == pytest.approx(intervals.SQUARE * variance / len(values), rel=2e-3)


def test_a_difference_that_is_shown_reaches_as_far_as_any_that_was_seen() -> None:
    small, large = np.r_[np.full(4, 0.25), np.zeros(46)], np.r_[np.full(4, 1.0), np.zeros(46)]
    near, far = (intervals.difference(values, intervals.careful(values)) for values in (small, large))
    assert (near.low, near.high) == pytest.approx((far.low / 4, far.high / 4), abs=1e-6)
    # The gate takes an unseen loss to be a whole one.
    assert intervals.careful(small).low < near.low - 0.03


def test_what_is_shown_never_goes_beyond_what_the_gate_goes_by() -> None:
    rng = np.random.default_rng(3)
    for count in (3, 20, 183, 400):
        for differ in (0.0, 0.02, 0.3):
            values = rng.choice([-1, -0.5, 0.5, 1], count) * (rng.random(count) < differ)
            sure = intervals.careful(values)
            shown = intervals.difference(values, sure)
            assert sure.low <= shown.low <= shown.mean <= shown.high <= sure.high


def test_the_values_order_and_repeats_play_no_part() -> None:
    values = np.random.default_rng(1).random(40)
    assert intervals.bounded(values).plain() == pytest.approx(intervals.bounded(values[::-1]).plain())


@pytest.mark.parametrize("loss", [0.02, 0.03, 0.05, 0.10])
@pytest.mark.parametrize("count", [10, 20, 50, 100, 182, 183, 200, 500, 1_000, 2_000])
def test_a_loss_of_the_margin_or_more_is_passed_in_at_most_25_of_1000(count: int, loss: float) -> None:
    """Each query is lost altogether with that probability: the chance of every number of losses is known, so nothing is drawn."""
    passing = 0.0
    for lost in range(count + 1):
        chance = comb(count, lost) * loss**lost * (1 - loss) ** (count - lost)
        if intervals.careful(np.r_[-np.ones(lost), np.zeros(count - lost)]).low > -0.02:
            passing += chance
        elif lost > 0.02 * count:
            break  # more losses do not pass either
    assert passing <= 0.025


@pytest.mark.parametrize("count", [10, 20, 50, 100])
@pytest.mark.parametrize("loss", [0.05, 0.1, 0.3, 0.5])
def test_nor_is_a_loss_that_gains_nearly_make_up_for(count: int, loss: float) -> None:
    """Gains and losses of one, 0.02 apart: every outcome with its trinomial probability."""
    gain, passing = loss - 0.02, 0.0
    for gained in range(count + 1):
        for lost in range(min(gained + round(0.02 * count), count - gained) + 1):
            rest = count - gained - lost
            ways = comb(count, gained) * comb(count - gained, lost)
            chance = ways * gain**gained * loss**lost * (1 - gain - loss) ** rest
            if chance > 1e-9:
                values = np.r_[-np.ones(lost), np.zeros(rest), np.ones(gained)]
                passing += chance * (intervals.careful(values).low > -0.02)
    assert passing <= 0.025


def test_students_quantile_is_the_tables() -> None:
    table = {1: 12.706, 2: 4.303, 5: 2.571, 10: 2.228, 30: 2.042, 1000: 1.962}
    for freedom, quantile in table.items():
        assert intervals.student(freedom) == pytest.approx(quantile, abs=2e-3)


def test_a_target_within_rounding_of_the_mean_has_a_side() -> None:
    values = np.random.default_rng(3).random(999) - 0.5
    sample = Sample(values, -1.0, 1.0)
    for target in (np.nextafter(sample.mean, 1.0), sample.mean, np.nextafter(sample.mean, -1.0)):
        assert sample.stat(float(target)) == pytest.approx(0.0, abs=1e-6)
