"""Two models on live traffic, looked at as often as anybody likes: whether one succeeds more often. numpy only.

A canary is watched while it runs, its share is changed on the way, and one user sends many requests. So

- success is compared within periods of one share, and the differences are averaged with weights w_p = m₁ m₀ / (m₁ + m₀) of period p's
  outcomes on each side (Mantel and Haenszel 1959): what the traffic of another day does is not taken for the model's doing;
- the variance is that of sums over units, a unit being who keeps to one side: a sticky key, or a text that is repeated (Liang and
  Zeger 1986);
- the interval is a confidence sequence: with the information I = 1 / variance,

      half the width = sqrt((I + ρ) log((I + ρ) / (ρ α²))) / I,

  which holds the true difference at every look together with probability 1 - α (Robbins 1970; Waudby-Smith, Arbour, Sinha, Kennedy and
  Ramdas 2024), so that a verdict is as sure at the fiftieth look as at the first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import lgamma, log, sqrt

import numpy as np
from numpy.typing import NDArray

ALPHA = 0.05
#: The information at which the sequence is narrowest for its level: about that of five hundred outcomes a side.
RHO = 200.0
#: Fewer units than this on a side do not tell how much units differ.
FEWEST_UNITS = 20
#: A split that differs from what was set is told of at a Bayes factor of so much; by chance that happens in at most one canary of it.
MISMATCH = 1_000.0
#: How many units the prior of another split counts for.
PRIOR_UNITS = 100.0


@dataclass(frozen=True, slots=True)
class Difference:
    """Success of the new model less that of the old one, with the ends of the confidence sequence; nan where a side has no outcome.

    `units` are the fewest of the two sides, `periods` those in which both sides had outcomes.
    """

    mean: float
    low: float
    high: float
    units: int
    periods: int


NOTHING = Difference(float("nan"), -1.0, 1.0, 0, 0)


def difference(
    success: NDArray[np.bool_], new: NDArray[np.bool_], unit: NDArray[np.int64], period: NDArray[np.int64]
) -> Difference:
    """The difference by n outcomes, all arrays [n]: whether each was a success, whether the new model answered, who asked, when."""
    reward = success.astype(np.float64)
    parts: list[tuple[float, float, NDArray[np.intp], NDArray[np.intp]]] = []  # weight, difference, rows of either side
    for period_ in np.unique(period):
        ours, theirs = np.flatnonzero(new & (period == period_)), np.flatnonzero(~new & (period == period_))
        if ours.size and theirs.size:
            weight = ours.size * theirs.size / (ours.size + theirs.size)
            parts.append((weight, float(reward[ours].mean() - reward[theirs].mean()), ours, theirs))
    if not parts:
        return NOTHING
    whole = sum(part[0] for part in parts)
    mean = sum(weight * apart for weight, apart, _ours, _theirs in parts) / whole
    influence = np.zeros(len(reward))  # ψ_i: by how much outcome i moves the mean
    least = 0.0  # the variance of independent outcomes whose rates are drawn towards a half, where none has failed yet
    for weight, _apart, ours, theirs in parts:
        for rows, sign in ((ours, 1.0), (theirs, -1.0)):
            influence[rows] = sign * weight / whole * (reward[rows] - reward[rows].mean()) / rows.size
            drawn = (reward[rows].sum() + 1) / (rows.size + 2)
            least += (weight / whole) ** 2 * drawn * (1 - drawn) / rows.size
    used = np.concatenate([np.concatenate(part[2:]) for part in parts])
    _names, where = np.unique(unit[used], return_inverse=True)
    sums = np.bincount(where, influence[used])  # by unit
    fewest = min(np.unique(unit[used][new[used]]).size, np.unique(unit[used][~new[used]]).size)
    # Each side's variance is estimated from its own units, so it is the side of fewer that is short of degrees of freedom.
    variance = max(float((sums**2).sum()) * fewest / max(fewest - 1, 1), least)
    half = width(variance)
    return Difference(mean, mean - half, mean + half, fewest, len(parts))


def width(variance: float) -> float:
    """Half the width of the confidence sequence at that variance."""
    information = 1 / variance
    return sqrt((information + RHO) * log((information + RHO) / (RHO * ALPHA**2))) / information


def mismatch(new: int, units: int, share: float) -> float:
    """A Bayes factor: how much likelier another share than the one that was set makes it that so many units met the new model.

    By chance it ever reaches x in at most one case of x, however often it is looked at (Lindon and Malek 2022).
    """
    a, b = PRIOR_UNITS * share, PRIOR_UNITS * (1 - share)
    other = _log_beta(a + new, b + units - new) - _log_beta(a, b)
    return float(np.exp(min(other - new * log(share) - (units - new) * log(1 - share), 700.0)))


def _log_beta(a: float, b: float) -> float:
    return lgamma(a) + lgamma(b) - lgamma(a + b)


#: The first looks at outcomes of a promise, by how many there are, and the level of each. From the last one on looks come at twice as
#: many, at half the level, so that all of them have 0.031 together. Most of it is spent at 60: see benchmarks/promises.
FIRST_LOOKS = ((15, 0.001), (30, 0.002), (60, 0.014))
#: Values of the promise that are tried.
STEPS = 40


def looks(count: int) -> Iterator[tuple[int, float]]:
    """(outcomes, level) of each look that so many outcomes admit."""
    size, level = 0, 0.0
    for size, level in FIRST_LOOKS:
        if size <= count:
            yield size, level
    while (size := 2 * size) <= count:
        level /= 2
        yield size, level


def broken(promised: float, spread: float, good: NDArray[np.bool_], share: float = 1.0) -> bool:
    """Whether outcomes [N], in their order, fall short of a promise at one of the `looks`, each at `share` of its level; arguments as
    in `surprise`.

    A group sequential test (Pocock 1977) with the level spent beforehand (Lan and DeMets 1983). At the same rate of false alarms it
    sees a fall within 60 outcomes more often than a Bayes factor or a bet that may be looked at after each outcome.
    """
    reached = np.cumsum(good)
    return any(
        surprise(promised, spread, int(reached[size - 1]), size) <= level * share for size, level in looks(len(good))
    )


def surprise(promised: float, spread: float, good: int, count: int) -> float:
    """How likely a promise makes `good` of `count` or fewer, for a sample that is looked at once. `promised` is a share that is known
    with a standard error of `spread`."""
    deviations = np.linspace(-2.5, 2.5, STEPS + 1)
    held = np.clip(promised + spread * deviations, 0.005, 0.995)
    ways = [lgamma(count + 1) - lgamma(k + 1) - lgamma(count - k + 1) for k in range(good + 1)]
    tail = sum(np.exp(way + _log_likelihood(held, k, count)) for k, way in enumerate(ways))
    weights = np.exp(-(deviations**2) / 2)
    return float((tail * weights).sum() / weights.sum())


def _log_likelihood(p: NDArray[np.float64], good: int, count: int) -> NDArray[np.float64]:
    return good * np.log(p) + (count - good) * np.log(1 - p)
