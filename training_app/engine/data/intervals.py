"""Intervals of means that hold at twenty observations as well as at two thousand. numpy only.

Figures of routing are bounded (a Jaccard lies in 0 to 1, a difference of two in -1 to 1) and most queries tell the
same: a bootstrap of twenty queries, of which nineteen are right, knows nothing of the failures that it has not seen,
and of twenty that are all right it makes an interval without width. So a mean m is judged by the law that makes the
observations likeliest among all those on the whole range whose mean is m (Owen 2001; Honda and Takemura 2010). Its
likelihood is

    stat(m) = max over λ of Σ log(1 + λ (x_i - m)),    λ such that no x in [low, high] makes the logarithm's argument
    negative

below that of the observed law, and its variance is V(m) = (mean - m) / λ. Two sorts of intervals come of that:

- What is shown (`bounded`, `difference`) holds every m with (mean - m)² <= z² V(m) / n, a score test. For zeros and ones
  that is Wilson's interval (1927), and like it this one is right on average where observations come in few steps.
- What the gate goes by (`careful`) holds every m with stat(m) below half the square of Student's quantile; for zeros and
  ones that is the likelihood ratio of the binomial. Where few observations differ from the rest, χ² is too hopeful, so
  the threshold is from the Poisson law of that few (Clopper and Pearson 1934): a bound is exact where nothing differs,
  and a little wider where losses are all or nothing. It fails in at most 2.5 % of draws, and most often in fewer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import exp, inf, lgamma, log, sqrt
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]

LEVEL = 0.95
SQUARE = NormalDist().inv_cdf((1 + LEVEL) / 2) ** 2  # of the quantile
GRID = 49  # values of h that are looked at together, and how often the search closes in on one of them
ROUNDS = 5
STEPS = 60  # of Newton, who needs some six; halving the interval, at most so many


@dataclass(frozen=True, slots=True)
class Interval:
    """A figure with the two ends between which it lies with the nominal certainty."""

    mean: float
    low: float
    high: float

    def plain(self) -> dict[str, float]:
        """As scorecards keep it."""
        return {"mean": self.mean, "low": self.low, "high": self.high}


NOTHING = Interval(float("nan"), float("nan"), float("nan"))


class Sample:
    """Observations of a quantity that lies in [low, high], of which only their distinct values and counts matter.

    The λ that is the largest for a mean m makes weights c / (n (1 + λ (x - m))) sum to 1. With h = 1 / λ - m that reads

        λ = mean(1 / (x + h)),    m = 1 / λ - h,    stat = Σ log(λ (x + h)),    h > -low,

    so that m and stat follow from h without a search, and one search over h finds an end. Where h reaches -low before
    the threshold is met, which it does where no x is `low`, what is left is stat = Σ log((x - low) / (m - low)). The
    upper end is the lower one of -x.
    """

    def __init__(self, values: Floats, low: float = 0.0, high: float = 1.0) -> None:
        clipped = np.asarray(values, np.float64).ravel().clip(low, high)
        self.values, self.counts = np.unique(clipped, return_counts=True)  # both [U]
        self.low, self.high, self.size = low, high, int(clipped.size)
        self.mean = float(clipped.mean()) if clipped.size else float("nan")

    def end(self, side: int, threshold: float) -> float:
        """The furthest mean below (side -1) or above (side 1) the observed one that `threshold` admits."""
        if side > 0:
            return -self._mirrored().end(-1, threshold)
        last = self._at_the_floor()
        if last is not None and last[1] < threshold:
            return self.low + (last[0] - self.low) * exp((last[1] - threshold) / self.size)
        return self._search(lambda _mean, stat, _rate: stat >= threshold)[0]

    def score_end(self, side: int, square: float) -> float:
        """The furthest mean m below (side -1) or above (side 1) the observed one with (mean - m)² <= square V(m) / n, which reads
        n λ (mean - m) <= square."""
        if side > 0:
            return -self._mirrored().score_end(-1, square)
        last = self._at_the_floor()
        if last is not None and self.size * (self.mean - last[0]) < square * (last[0] - self.low):
            # Beyond there λ = 1 / (m - low).
            return (self.size * self.mean + square * self.low) / (self.size + square)
        return self._search(lambda mean, _stat, rate: self.size * rate * (self.mean - mean) >= square)[0]

    def stat(self, target: float) -> float:
        """The log-likelihood ratio against a mean of `target`; infinite where the range does not admit it."""
        return statistic(self.values, self.counts, target, self.low, self.high)

    def differing(self) -> int:
        """How many observations are not the commonest one."""
        return self.size - int(self.counts.max())

    def _mirrored(self) -> Sample:
        mirrored = Sample(np.repeat(-self.values, self.counts), -self.high, -self.low)
        mirrored.mean = -self.mean  # to the last bit, or a target between the two would lie beyond both
        return mirrored

    def _at_the_floor(self) -> tuple[float, float] | None:
        """(m, stat) where h reaches -low; None where an observation stands on `low`, so that m goes all the way."""
        above = self.values - self.low
        if not above[0] > 0:
            return None
        mean = self.size / float((self.counts / above).sum())
        return self.low + mean, float((self.counts * np.log(above / mean)).sum())

    def _search(self, beyond: Callable[[Floats, Floats, Floats], NDArray[np.bool_]]) -> tuple[float, float]:
        """(m, stat) at the largest h for which `beyond` holds; both change one way as h falls from infinity to -low."""
        lowest, highest = -32.0, 16.0  # powers of two of (h + low) by the range
        mean = stat = float("nan")
        for _ in range(ROUNDS):
            powers = np.linspace(highest, lowest, GRID)
            means, stats, rates = self._curve(np.exp2(powers) * (self.high - self.low))
            there = beyond(means, stats, rates)
            at = int(there.argmax()) if there.any() else GRID - 1
            mean, stat = float(means[at]), float(stats[at])
            lowest, highest = float(powers[at]), float(powers[max(at - 1, 0)])
        return mean, stat

    def _curve(self, above: Floats) -> tuple[Floats, Floats, Floats]:
        """m, stat and λ, [G] each, of h = above - low."""
        room = (self.values - self.low)[None, :] + above[:, None]  # [G, U]: x + h
        rate = (self.counts / room).sum(axis=1) / self.size  # λ
        return 1 / rate - above + self.low, (self.counts * np.log(rate[:, None] * room)).sum(axis=1), rate


def statistic(
    values: Floats, counts: NDArray[np.number[Any]], target: float, low: float = 0.0, high: float = 1.0
) -> float:
    """stat(m) at m = `target` of values [U], each `counts` [U] times; infinite where [low, high], where all are, does not admit it."""
    away = values - target
    sum_ = float(counts @ away)
    if not sum_:
        return 0.0
    if not low < target < high:
        return inf
    # Concave in λ, from 0 towards the mean as far as no x in [low, high] makes the argument negative.
    near, far = 0.0, 1 / (target - low) if sum_ > 0 else -1 / (high - target)
    with np.errstate(divide="ignore", invalid="ignore"):
        if counts @ (away / (1 + far * away)) * far >= 0:
            return float(counts @ np.log1p(far * away))
        rate = sum_ / float(counts @ away**2)
        for _ in range(STEPS):
            if not min(near, far) < rate < max(near, far):
                rate = (near + far) / 2
            shares = away / (1 + rate * away)
            slope = float(counts @ shares)
            near, far = (rate, far) if slope * far > 0 else (near, rate)
            step = slope / float(counts @ shares**2)
            rate += step
            if abs(step) <= 1e-9 * abs(rate):
                break
        return float(counts @ np.log1p(rate * away))


def bounded(values: Floats, low: float = 0.0, high: float = 1.0, *, square: float = SQUARE) -> Interval:
    """The mean of `values` [N], all in [low, high], with the interval that is shown. `square` is that of the quantile."""
    sample = Sample(values, low, high)
    if not sample.size:
        return NOTHING
    return Interval(sample.mean, sample.score_end(-1, square), sample.score_end(1, square))


def difference(values: Floats, within: Interval, *, square: float = SQUARE) -> Interval:
    """The mean of differences [N] with the interval that is shown, which never goes beyond `within`, the `careful` one.

    What no query has shown yet is taken to be no larger than the largest difference that one has, on either side; where none
    differs the interval is the careful one.
    """
    reach = float(np.abs(values).max(initial=0.0))
    if not reach:
        return within
    interval = bounded(values, -reach, reach, square=square)
    return Interval(interval.mean, max(interval.low, within.low), min(interval.high, within.high))


def careful(values: Floats, low: float = -1.0, high: float = 1.0, *, level: float = LEVEL) -> Interval:
    """The mean of values [N], all in [low, high], with ends that hold whatever the law: what the gate goes by."""
    sample = Sample(values, low, high)
    if not sample.size:
        return NOTHING
    threshold = max(likely(sample.size, level), rare(sample.differing(), level))
    if sample.differing():
        # Both laws are those of many observations: with 25 to 35, of which few differ, an end held in 97.2 %, not in 97.5.
        threshold *= 1 + 3 / sample.size
    return Interval(sample.mean, sample.end(-1, threshold), sample.end(1, threshold))


def spread(values: Floats, *, level: float = LEVEL) -> Interval:
    """The mean of values [N] without known bounds, by Student's t: sizes of sets, times."""
    values = np.asarray(values, np.float64).ravel()
    if not values.size:
        return NOTHING
    mean = float(values.mean())
    # One value says nothing of its spread, and JSON has no infinity to say so with.
    half = student(values.size - 1, level) * float(values.std(ddof=1)) / sqrt(values.size) if values.size > 1 else 0.0
    return Interval(mean, mean - half, mean + half)


@lru_cache(maxsize=4096)
def likely(count: int, level: float = LEVEL) -> float:
    """The threshold of `stat` for so many observations."""
    return student(max(count - 1, 1), level) ** 2 / 2


@lru_cache(maxsize=4096)
def rare(events: int, level: float = LEVEL) -> float:
    """The threshold at which the largest rate that so few events admit is that of Clopper and Pearson: λ - k + k log(k
    / λ), with λ the rate at which k events or fewer have half the probability that `level` leaves."""
    if events > 400:
        return likely(10**6, level)
    tail = (1 - level) / 2
    lowest, highest = float(events), events + 10 * sqrt(events + 1) + 20
    for _ in range(60):
        middle = (lowest + highest) / 2
        if _poisson(events, middle) > tail:
            lowest = middle
        else:
            highest = middle
    return lowest - events + (events * log(events / lowest) if events else 0.0)


def _poisson(events: int, rate: float) -> float:
    """P(X <= events) of a Poisson law."""
    return sum(exp(k * log(rate) - rate - lgamma(k + 1)) for k in range(events + 1)) if rate > 0 else 1.0


@lru_cache(maxsize=4096)
def student(freedom: int, level: float = LEVEL) -> float:
    """Student's two-sided quantile, by the expansion about the normal one (Fisher and Cornish 1960), within 0.2 % from
    3 degrees on."""
    if freedom == 1:
        return float(np.tan(np.pi * level / 2))
    if freedom == 2:
        return sqrt(2 / (1 - level**2)) * level
    z = NormalDist().inv_cdf((1 + level) / 2)
    n = float(freedom)
    return z + sum(
        (
            (z**3 + z) / (4 * n),
            (5 * z**5 + 16 * z**3 + 3 * z) / (96 * n**2),
            (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * n**3),
            (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / (92160 * n**4),
        )
    )
