"""The figures that are shown with an interval, and one draw of each from a known truth: whether its interval held it."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache
from math import erf, sqrt
from typing import NamedTuple

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")

import numpy as np

from training_app.engine.data import intervals, metrics, shares
from training_app.engine.data.examples import Agent
from training_app.engine.judging import analysis, folds, off_policy
from training_app.engine.routing import calibration, exploring

SIZES = (20, 50, 200, 1_000)
Rng = np.random.Generator


class Row(NamedTuple):
    """A figure: its name as docs call it, how it is made, and one draw of it at size n: whether its interval held the truth; None
    where the product shows no interval. `times` as many draws are made as of others: more where one costs next to nothing."""

    name: str
    method: str
    draw: Callable[[Rng, int], bool | None]
    times: int = 1


# Queries of which a share is exactly right and the others are so far right, as on real pools.
PARTLY = np.array([0, 1 / 3, 0.5, 2 / 3, 0.75])
HOW_OFTEN = np.array([0.3, 0.15, 0.25, 0.2, 0.1])


def jaccards(rng: Rng, n: int, exact: float) -> np.ndarray:
    return np.where(rng.random(n) < exact, 1.0, rng.choice(PARTLY, n, p=HOW_OFTEN))


def mean_of(exact: float) -> Callable[[Rng, int], bool]:
    truth = exact + (1 - exact) * float(PARTLY @ HOW_OFTEN)

    def draw(rng: Rng, n: int) -> bool:
        found = metrics.interval(jaccards(rng, n, exact))
        return found["low"] <= truth <= found["high"]

    return draw


def differences(rng: Rng, n: int, differ: float, gain: float) -> np.ndarray:
    """A share of the queries differs; of these `gain` are won by a half, the others lost by as much."""
    return np.where(rng.random(n) < differ, np.where(rng.random(n) < gain, 0.5, -0.5), 0.0)


def difference_of(differ: float, gain: float) -> Callable[[Rng, int], bool]:
    def draw(rng: Rng, n: int) -> bool:
        found = metrics.paired(differences(rng, n, differ, gain), np.zeros(n))
        return found["low"] <= differ * (gain - 0.5) <= found["high"]

    return draw


def f1(rng: Rng, n: int) -> bool:
    needed = rng.random(n) < 0.3
    taken = np.where(needed, rng.random(n) < 0.85, rng.random(n) < 0.05)
    row = metrics.by_agent(taken[:, None], needed[:, None], np.ones((n, 1), bool), [Agent(0, "A")])[0]
    hits, chosen = 0.3 * 0.85, 0.3 * 0.85 + 0.7 * 0.05
    truth = 2 * hits / (chosen + 0.3)
    return row["f1_low"] is None or row["f1_low"] <= truth <= row["f1_high"]


def two_of_an_agent(rng: Rng, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What two routers say of an agent, of whom the second misses a tenth of what the first hits, and who needs it, bool[n]."""
    needed = rng.random(n) < 0.3
    one = np.where(needed, rng.random(n) < 0.9, rng.random(n) < 0.05)
    return one, np.where(needed, one & (rng.random(n) < 0.9), one), needed


def f1_difference(rng: Rng, n: int) -> bool | None:
    one, other, needed = two_of_an_agent(rng, n)
    found = analysis.beside(one[:, None], other[:, None], needed[:, None], np.ones((n, 1), bool), [0])["by_agent"][0]
    if found["difference"] is None:
        return None
    first = 2 * 0.27 / (0.3 + 0.27 + 0.035)
    second = 2 * 0.243 / (0.3 + 0.243 + 0.035)
    return found["difference"]["low"] <= first - second <= found["difference"]["high"]


def auroc(rng: Rng, n: int) -> bool | None:
    positive = rng.random(n) < 0.7
    score = rng.normal(0, 1, n) + 1.8 * positive
    found = metrics.auroc_interval(score.astype(np.float32), positive)
    truth = 0.5 * (1 + erf(1.8 / 2))  # Φ(1.8 / √2)
    return None if found is None else found["low"] <= truth <= found["high"]


def fpr95(rng: Rng, n: int) -> bool | None:
    positive = rng.random(n) < 0.7
    score = rng.normal(0, 1, n) + 2.5 * positive
    found = metrics.fpr95_interval(score.astype(np.float32), positive, rounds=300, seed=int(rng.integers(1 << 30)))
    truth = 0.5 * (1 - erf((2.5 - 1.644854) / sqrt(2)))
    return None if found is None else found["low"] <= truth <= found["high"]


def share(rng: Rng, n: int) -> bool:
    found = shares.wilson(int((rng.random(n) < 0.85).sum()), n)
    return found["low"] <= 0.85 <= found["high"]


def share_difference(rng: Rng, n: int) -> bool:
    found = shares.difference(int((rng.random(n) < 0.85).sum()), n, int((rng.random(n) < 0.8).sum()), n)
    return found["low"] <= 0.05 <= found["high"]


# Agents in an answer, by share: counts without a bound that is known.
SIZES_OF_SETS = np.array([0.1, 0.5, 0.25, 0.1, 0.05])


def sizes(rng: Rng, n: int) -> np.ndarray:
    return rng.choice(5, n, p=SIZES_OF_SETS).astype(float)


def set_size(rng: Rng, n: int) -> bool:
    found = intervals.spread(sizes(rng, n))
    return found.low <= float(np.arange(5) @ SIZES_OF_SETS) <= found.high


def size_difference(rng: Rng, n: int) -> bool:
    one, other = sizes(rng, n), sizes(rng, n)
    found = shares.means((one.mean(), one.var(ddof=1), n), (other.mean(), other.var(ddof=1), n))
    return found["low"] <= 0 <= found["high"]


def apart(rng: Rng, n: int) -> bool:
    one, other = (metrics.interval(sizes(rng, n), "set_size") for _ in range(2))
    found = shares.apart(one, other)
    return found["low"] <= 0 <= found["high"]


def alpha(rng: Rng, n: int) -> bool | None:
    from datasets_app.figures.agreement import alpha as of

    truth = rng.random(n) < 0.3
    one, other = (truth ^ (rng.random(n) < 0.1) for _ in range(2))
    counts = np.stack([(~one).astype(float) + ~other, one.astype(float) + other], axis=1)
    found = of(counts, np.array([[0.0, 1.0], [1.0, 0.0]]))
    said = 0.3 * 0.9 + 0.7 * 0.1
    value = 1 - 2 * 0.1 * 0.9 / (2 * said * (1 - said))
    if found.value is None or found.low is None or found.high is None:
        return None
    return found.low <= value <= found.high


def calibration_floor(rng: Rng, n: int) -> bool:
    p = rng.random((n, 3)).astype(np.float32)
    error = metrics.calibration_error(p, rng.random((n, 3)) < p)
    return error <= metrics.calibration_floor(p, rounds=200, seed=int(rng.integers(1 << 30)))


def abstention(rng: Rng, n: int) -> bool:
    return calibration.conformal_level(rng.random(n).astype(np.float32), 0.05) <= 0.05


@lru_cache(maxsize=10_000)
def explored(n: int, seed: int) -> off_policy.Estimates | None:
    """A pool that explores a tenth; the candidate answers otherwise in half of the decisions. Released as the product releases it."""
    rng, n = np.random.default_rng(seed), n * 10  # decisions with an outcome: at fewer nothing is ever released
    scores = {0: 0.9, 1: 0.6, 2: 0.1}
    flip = exploring.chances((0,), scores)
    far = rng.random(n) < 0.5
    u, who = rng.random(n), rng.choice(list(flip), n, p=list(flip.values()))
    answered = np.where(u < 0.1, who, -1)  # the agent that changed sides, -1 nobody
    candidate = np.where(far, 1, -1)
    chance = np.where(answered == -1, 0.9, 0.1 * np.array([flip.get(a, 1.0) for a in answered.tolist()]))
    own = np.where(candidate == -1, 0.9, 0.1 * flip[1])
    if own[far].sum() < 10 or n**2 / (1 / own).sum() < 30:
        return None
    success = rng.random(n) < np.where(answered == 1, 0.8, 0.6)
    matched = answered == candidate
    if not matched.any():
        return None
    confidence = np.full(n, 0.7)
    logged = off_policy.Logged(
        success=success,
        propensity=chance,
        candidate=matched,
        own=answered == -1,
        own_propensity=np.full(n, 0.9),
        confidence_candidate=confidence,
        confidence_answered=confidence,
    )
    return off_policy.estimate(logged, rounds=300, seed=seed)


def off_policy_estimate(name: str) -> Callable[[Rng, int], bool | None]:
    truth = 0.1 if name == "difference" else 0.5 * 0.8 + 0.5 * 0.6

    def draw(rng: Rng, n: int) -> bool | None:
        found = explored(n, int(rng.integers(1 << 30)))
        if found is None:
            return None
        one: off_policy.Estimate = getattr(found, name)
        return one.low <= truth <= one.high

    return draw


FEATURES = 24  # of a made-up query: those of WEIGHTS that are not 0 say which of four agents it needs
_drawn = np.random.default_rng(7)
WEIGHTS = _drawn.normal(size=(FEATURES, 4)) * (_drawn.random((FEATURES, 4)) < 0.4)


def world(rng: Rng, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Made-up queries: features float64[n, FEATURES] and required sets bool[n, 4]."""
    x = rng.normal(size=(n, FEATURES))
    return x, x @ WEIGHTS + rng.normal(size=(n, 4)) > 0.8


def ridge(x: np.ndarray, y: np.ndarray, seen: int) -> Callable[[np.ndarray], np.ndarray]:
    """Least squares on the first `seen` features: what a router is in this simulation."""
    design = np.c_[x[:, :seen], np.ones(len(x))]
    weights = np.linalg.solve(design.T @ design + 3 * np.eye(seen + 1), design.T @ (2.0 * y - 1))
    return lambda new: np.c_[new[:, :seen], np.ones(len(new))] @ weights > 0


@lru_cache
def fresh() -> tuple[np.ndarray, np.ndarray]:
    """The queries that show what a router is worth."""
    return world(np.random.default_rng(5), 20_000)


@lru_cache
def expected(n: int, seen: int) -> float:
    """The mean Jaccard of a router that learnt from four fifths of n queries, over 300 of them and the same 20,000 queries."""
    x, y = fresh()
    rng = np.random.default_rng((n, 4))
    made = (ridge(*world(rng, n * 4 // 5), seen) for _ in range(300))
    return float(np.mean([metrics.per_query(router(x), y)["jaccard"].mean() for router in made]))


def folded(rng: Rng, n: int, seen: tuple[int, ...]) -> list[np.ndarray]:
    """What the queries of a pool get from five folds of each router, float64[n]."""
    x, y = world(rng, n)
    fold, found = rng.permutation(n) % 5, [np.empty(n) for _ in seen]
    for k in range(5):
        out = fold == k
        for values, features in zip(found, seen, strict=True):
            values[out] = metrics.per_query(ridge(x[~out], y[~out], features)(x[out]), y[out])["jaccard"]
    return found


def cross_validated(rng: Rng, n: int) -> bool | None:
    """Whether the range holds what the one router does that learnt from four fifths of these very queries."""
    if not folds.LEAST <= n <= folds.MOST:
        return None
    before = rng.bit_generator.state
    found = folds.widened(folded(rng, n, (FEATURES,))[0])
    rng.bit_generator.state = before
    x, y = world(rng, n)
    served = ridge(x[: n * 4 // 5], y[: n * 4 // 5], FEATURES)
    truth = metrics.per_query(served(fresh()[0]), fresh()[1])["jaccard"].mean()
    return bool(found["low"] <= truth <= found["high"])


def lead_in_folds(rng: Rng, n: int) -> dict[str, float]:
    ours, theirs = folded(rng, n, (FEATURES, 18))
    return folds.lead(ours, theirs)


def cross_validated_lead(rng: Rng, n: int) -> bool | None:
    if not folds.LEAST <= n <= folds.MOST:
        return None
    found = lead_in_folds(rng, n)
    return found["low"] <= expected(n, FEATURES) - expected(n, 18) <= found["high"]


SCORE = "score test on [0, 1]: Wilson's where all is 0 or 1"
PAIRED = "score test, as far as differences were seen to reach"
ROWS = (
    Row("mean Jaccard, 95 % exactly right", SCORE, mean_of(0.95), 2),
    Row("mean Jaccard, 85 % exactly right", SCORE, mean_of(0.85), 2),
    Row("mean Jaccard, 50 % exactly right", SCORE, mean_of(0.5), 2),
    Row("difference of two routers, 10 % differ", PAIRED, difference_of(0.1, 0.7), 2),
    Row("difference of two routers, 40 % differ", PAIRED, difference_of(0.4, 0.6), 2),
    Row("mean Jaccard by cross-validation", "score test, five folds, variance times 1.5 + 45 / n", cross_validated),
    Row("lead by cross-validation", "score test, five folds, variance times 1.2", cross_validated_lead),
    Row("F1 of an agent", "Wilson on the Jaccard of its queries", f1, 2),
    Row("difference of an agent's F1", "score test of its linear part", f1_difference, 2),
    Row("AUROC", "Newcombe's method 5", auroc),
    Row("FPR95", "bootstrap of both classes, Beta", fpr95),
    Row("a share: success, exact match live", "Wilson", share, 2),
    Row("difference of two shares", "Newcombe's method 10", share_difference, 2),
    Row("agents in an answer", "Student's t", set_size, 2),
    Row("difference of agents in an answer, two sides of a canary", "normal", size_difference, 2),
    Row("difference by two scorecards, each on queries of its own", "Zou and Donner", apart, 2),
    Row("Krippendorff's α", "Fieller by empirical likelihood over queries", alpha),
    Row("calibration error of a perfect scorer below its floor", "drawn from the probabilities", calibration_floor),
    Row("abstention at α = 0.05: the share is not exceeded", "binomial order statistic", abstention, 2),
    Row("off-policy SNIPS, ten times as many decisions", "bootstrap over decisions", off_policy_estimate("snips")),
    Row("off-policy SNIPS less that of what answers", "bootstrap over decisions", off_policy_estimate("difference")),
    Row("off-policy DR", "bootstrap over decisions", off_policy_estimate("dr")),
    Row("off-policy IPS", "bootstrap over decisions", off_policy_estimate("ips")),
)  # fmt: skip

#: What an exact test would go by, of the figures whose intervals are wider than they need be: one draw of the estimate at size n.
ESTIMATES: dict[str, Callable[[Rng, int], float]] = {
    "difference of two routers, 10 % differ": lambda rng, n: float(differences(rng, n, 0.1, 0.7).mean()),
    "difference of an agent's F1": lambda rng, n: _f1(rng, n),
}


def _f1(rng: Rng, n: int) -> float:
    one, other, needed = two_of_an_agent(rng, n)
    first, second = (2 * (taken & needed).sum() / max(taken.sum() + needed.sum(), 1) for taken in (one, other))
    return float(first - second)


def at_best(name: str, rng: Rng, n: int, draws: int = 20_000) -> float:
    """How often a test holds the truth that knows the whole law but for its mean: of the estimates whose two tails, each with itself,
    have 2.5 % or more. No interval of 95 % that is right on both sides can hold it less often."""
    of = ESTIMATES[name]
    _values, counts = np.unique(np.round([of(rng, n) for _ in range(draws)], 9), return_counts=True)
    share = counts / draws
    kept = (share.cumsum() > 0.025) & (share[::-1].cumsum()[::-1] > 0.025)
    return float(share[kept].sum())
