import numpy as np
import pytest

from training_app.engine.judging import sequential


def traffic(
    rng: np.random.Generator,
    *,
    users: int,
    each: int,
    shares: tuple[float, float],
    base: tuple[float, float],
    gain: float,
) -> tuple[np.ndarray, ...]:
    """(success, new, unit, period) of a canary whose share changes half-way, beside a base rate that changes as well. Users differ."""
    count = users * each
    lot, ease = rng.random(users), rng.normal(0, 0.1, users)
    unit, period = rng.integers(users, size=count), (np.arange(count) >= count // 2).astype(int)
    new = lot[unit] < np.array(shares)[period]
    chance = np.clip(np.array(base)[period] + ease[unit] + gain * new, 0, 1)
    return rng.random(count) < chance, new, unit, period


def test_a_change_of_the_share_while_the_base_falls_is_no_difference() -> None:
    said = 0
    for seed in range(40):
        rows = traffic(np.random.default_rng(seed), users=400, each=20, shares=(0.05, 0.5), base=(0.8, 0.7), gain=0.0)
        pooled_new, pooled_old = rows[0][rows[1]].mean(), rows[0][~rows[1]].mean()
        assert pooled_new < pooled_old - 0.01  # what a comparison without periods would see
        for end in np.linspace(800, 8_000, 10).astype(int):
            found = sequential.difference(*(row[:end] for row in rows))
            if found.units >= sequential.FEWEST_UNITS and (found.low > 0 or found.high < 0):
                said += 1
                break
    assert said <= 3


def test_a_real_difference_is_found_and_lies_inside() -> None:
    rows = traffic(np.random.default_rng(0), users=4_000, each=5, shares=(0.2, 0.5), base=(0.8, 0.75), gain=-0.06)
    found = sequential.difference(*rows)
    assert found.low < -0.06 < found.high < 0
    assert found.periods == 2


def test_many_requests_of_few_users_say_less_than_those_of_many() -> None:
    rng = np.random.default_rng(3)
    few = sequential.difference(*traffic(rng, users=40, each=100, shares=(0.5, 0.5), base=(0.8, 0.8), gain=0))
    many = sequential.difference(*traffic(rng, users=4_000, each=1, shares=(0.5, 0.5), base=(0.8, 0.8), gain=0))
    assert few.high - few.low > 1.3 * (many.high - many.low)


def test_a_period_with_one_side_only_says_nothing() -> None:
    yes = np.ones(10, bool)
    assert sequential.difference(yes, yes, np.arange(10), np.zeros(10, int)) is sequential.NOTHING
    mixed = sequential.difference(
        np.r_[yes, yes], np.r_[yes, ~yes], np.arange(20), np.r_[np.zeros(10, int), np.ones(10, int)]
    )
    assert mixed is sequential.NOTHING


def test_no_failure_at_all_is_not_certainty() -> None:
    new = np.arange(200) % 2 == 0
    found = sequential.difference(np.ones(200, bool), new, np.arange(200), np.zeros(200, int))
    assert found.low < -0.02 < 0.02 < found.high


@pytest.mark.parametrize("share", [0.05, 0.2, 0.5])
def test_a_split_as_set_is_not_called_one_that_is_not(share: float) -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        met = np.cumsum(rng.random(2_000) < share)
        assert max(sequential.mismatch(int(met[n - 1]), n, share) for n in range(20, 2_001, 20)) < sequential.MISMATCH
    half_as_many = int(0.5 * share * 2_000)
    assert sequential.mismatch(half_as_many, 2_000, share) > sequential.MISMATCH


@pytest.mark.at_length
def test_a_promise_that_is_kept_is_hardly_ever_broken_in_a_month() -> None:
    rng, told = np.random.default_rng(5), 0
    for _ in range(300):
        promised = rng.binomial(212, 0.8) / 212
        told += sequential.broken(promised, 0.0275, rng.random(600) < 0.8)
    assert told <= 9


def test_a_fall_by_twenty_points_shows_within_sixty_and_one_of_all_at_once() -> None:
    rng = np.random.default_rng(6)
    order = rng.permutation(60)
    assert sequential.broken(0.8, 0.0275, (np.arange(60) < 36)[order])
    assert not sequential.broken(0.8, 0.0275, (np.arange(60) < 36)[order], share=0.001)
    assert not sequential.broken(0.8, 0.0275, (np.arange(60) < 46)[order])
    assert sequential.broken(0.8, 0.0275, np.zeros(15, bool))


def test_looks_come_at_twice_as_many_and_half_the_level() -> None:
    assert list(sequential.looks(14)) == []
    assert list(sequential.looks(300))[-3:] == [(60, 0.014), (120, 0.007), (240, 0.0035)]
    assert sum(level for _size, level in sequential.looks(10**9)) <= 0.0311


def test_a_sample_that_is_looked_at_once_surprises_as_the_binomial_says() -> None:
    assert sequential.surprise(0.8, 1e-6, 19, 30) == pytest.approx(0.0256, abs=0.001)
    assert sequential.surprise(0.8, 0.05, 19, 30) > 0.03  # a promise that is less sure surprises less
    assert sequential.surprise(0.8, 0.02, 30, 30) == pytest.approx(1.0)
