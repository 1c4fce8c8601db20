"""How often the gate, a canary and drift say what is not so, where the truth is known."""

from __future__ import annotations

from math import exp, inf, lgamma, log

import numpy as np

from benchmarks.coverage.figures import FEATURES, Rng, expected, lead_in_folds
from training_app.engine.data import intervals
from training_app.engine.judging import drift, folds, sequential

MARGIN = 0.02
#: Models by the share of queries won, the share lost, and by how much each: the first are worse by the margin or more.
WORSE = (
    ("loses 2 % whole", 0.0, 0.02, 1.0),
    ("loses 3 % whole", 0.0, 0.03, 1.0),
    ("loses 5 % whole", 0.0, 0.05, 1.0),
    ("loses 10 % whole", 0.0, 0.10, 1.0),
    ("wins 5 %, loses 7 %, whole", 0.05, 0.07, 1.0),
    ("wins 6 %, loses 8 %, whole", 0.06, 0.08, 1.0),
    ("wins 10 %, loses 14 %, by a half", 0.10, 0.14, 0.5),
    ("wins 20 %, loses 22 %, whole", 0.20, 0.22, 1.0),
)
BETTER = (
    ("wins 5 % whole", 0.05, 0.0, 1.0),
    ("wins 15 %, loses 5 %, by a half", 0.15, 0.05, 0.5),
    ("wins 20 %, loses 10 %, by a half", 0.20, 0.10, 0.5),
)


def passes(n: int, won: int, lost: int, size: float) -> bool:
    """Whether the gate's interval of n differences lies above the margin."""
    apart = np.concatenate([np.full(won, size), np.full(lost, -size), np.zeros(n - won - lost)])
    return intervals.careful(apart).low > -MARGIN


def passing(n: int, gain: float, loss: float, size: float) -> float:
    """The probability that a model passes that wins and loses such shares of n queries, exactly: over all numbers of losses, that of
    so many wins as it takes."""
    found, least = 0.0, 0
    for lost in range(n + 1):
        chance = _binomial(lost, n, loss)
        if chance < 1e-9:
            if lost > n * loss:
                break
            continue
        # With more losses it takes no fewer wins.
        low, high = least - 1, n - lost + 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if passes(n, middle, lost, size) else (middle, high)
        least, share = high, gain / (1 - loss)
        found += chance * sum(_binomial(won, n - lost, share) for won in range(least, n - lost + 1))
    return found


def _binomial(k: int, n: int, p: float) -> float:
    if p <= 0 or p >= 1:
        return float(k == (0 if p <= 0 else n))
    return exp(lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1) + k * log(p) + (n - k) * log(1 - p))


def passing_by_folds(rng: Rng, n: int, draws: int) -> float | None:
    """The share of draws in which a model worse by the margin passes by cross-validation of n labels; None where none is made."""
    if not folds.LEAST <= n <= folds.MOST:
        return None
    truth = expected(n, FEATURES) - expected(n, 18)
    return float(np.mean([lead_in_folds(rng, n)["bound"] > truth for _ in range(draws)]))


def canary(rng: Rng, alike: float = 0.1) -> bool:
    """Whether a canary without any difference is called better or worse at one of 50 looks: the share goes from 5 % to
    50 % while the base falls from 0.80 to 0.75, and requests of one user are `alike`, a correlation."""
    users, each = 400, 20
    count = users * each
    lot, unit = rng.random(users), rng.integers(users, size=count)
    prior = 1 / alike - 1
    ease = rng.beta(0.8 * prior, 0.2 * prior, users) - 0.8
    period = (np.arange(count) >= count // 2).astype(int)
    new = lot[unit] < np.array([0.05, 0.5])[period]
    success = rng.random(count) < np.clip(np.array([0.80, 0.75])[period] + ease[unit], 0, 1)
    for end in np.linspace(count / 50, count, 50).astype(int):
        if min(new[:end].sum(), (~new[:end]).sum()) < 100:
            continue
        found = sequential.difference(success[:end], new[:end], unit[:end], period[:end])
        if found.units >= sequential.FEWEST_UNITS and (found.low > 0 or found.high < 0):
            return True
    return False


def drifting(rng: Rng, n: int, burst: int = 1, odd: float = 0.0, begins: float = 0.0) -> bool:
    """Whether n queries of a measure with 20 values look like drift beside 400: bursts of `burst` that are all alike; or from the
    share `begins` of them on a share `odd` replaced by what stands in the lowest fifth."""
    usual, live = rng.integers(20, size=400), np.repeat(rng.integers(20, size=n // burst), burst)
    strange = (rng.random(len(live)) < odd) & (np.arange(len(live)) >= begins * len(live))
    live = np.where(strange, rng.integers(4, size=len(live)), live)
    left, right = (np.bincount(one, minlength=20).tolist() for one in (usual, live))
    told = drift.compare({"confidence": left}, {"confidence": right}, {"confidence": live.tolist()})
    return any(one.drifts for one in told)


#: A hard case of the queue: 300 of 2,000 labeled in order of uncertainty, a fifth of the pool hard, a tenth drawn at random.
POOL, LABELED, HARD, DRAWN = 2_000, 300, 0.195, 0.1


def lots_apart(rng: Rng) -> tuple[float, float]:
    """The share of hard queries among those of the evaluation share, less the pool's, in standard errors, and that of the others'."""
    from datasets_app.labeling import queue

    texts = [f"{rng.integers(1 << 60)} {i}" for i in range(POOL)]
    hard = rng.random(POOL) < HARD
    told = [queue.lots(0, text) for text in texts]
    lot = np.array([one[3] for one in told]) < DRAWN * 10_000
    place = np.array([one[0] for one in told])
    fair = [i for i in np.argsort(place).tolist() if lot[i]][: round(LABELED * DRAWN)]
    rest = [i for i in np.argsort(-hard.astype(int), kind="stable").tolist() if not lot[i]][: LABELED - len(fair)]
    share = hard.mean()
    error = (share * (1 - share) / len(fair)) ** 0.5 if 0 < share < 1 else inf
    return float((hard[fair].mean() - share) / error), float(hard[rest].mean() - share)
