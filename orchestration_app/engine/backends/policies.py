"""Ways to choose in simulator 1, each a function of the environment as it may be seen; and one that learns its estimates first.

`Estimated` is the direct estimate here: P(success | category, x̂, backend) by logistic regression on outcomes of calls that were
made at random, so that it is calibrated to an estimator as noisy as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from orchestration_app.engine.backends.choosing import Preference
from orchestration_app.engine.backends.load import LoadTracker
from orchestration_app.engine.backends.model_pool import ModelPool, Outcome
from training_app.engine.reading.logistic import logistic, sigmoid

Floats = NDArray[np.float64]
Policy = Callable[[ModelPool], int]
TRAINING = 4_000  # calls at random that estimates are learnt from


@dataclass
class Estimated:
    """argmax of w_q · p − w_c · cost / dearest − w_l · latency / slowest, with the queue of now where `queues`.

    With `spread` the load of the last assignments is taken off, as in `load`.
    """

    weights: Floats  # of [1, x̂] in each category, [B, K, 2]
    preference: Preference
    queues: bool = True
    spread: LoadTracker | None = None

    def success(self, env: ModelPool) -> Floats:
        """p of every backend, float64[B]."""
        return sigmoid(self.weights[:, env.query.category] @ np.array([1.0, env.query.seen]))

    def __call__(self, env: ModelPool) -> int:
        w = self.preference
        latency = env.expected_latency() if self.queues else 1 / env.pool.rate
        cost = env.pool.cost(np.array([env.pool.tokens]))[0]
        worth = w.quality * self.success(env) - w.cost * cost / env.dearest - w.latency * latency / env.slowest
        if self.spread is not None:
            everybody = range(env.count)
            worth = worth - np.array([self.spread.penalty(backend, everybody) for backend in everybody])
        chosen = int(np.argmax(worth))
        if self.spread is not None:
            self.spread.record(chosen)
        return chosen


def fitted(env: ModelPool, seed: int, calls: int = TRAINING) -> Floats:
    """The weights of `Estimated`, [B, K, 2], from calls that were sent at random."""
    rng = np.random.Generator(np.random.PCG64([seed, 1]))
    env.reset(seed=seed)
    categories, difficulty, chosen, success = (np.zeros(calls) for _ in range(4))
    for row in range(calls):
        backend = int(rng.integers(env.count))
        categories[row], difficulty[row], chosen[row] = env.query.category, env.query.seen, backend
        success[row] = env.step(backend)[4]["outcome"].success
    weights = np.zeros((env.count, len(env.pool.categories), 2))
    prior = np.array([2.0, -1.0])
    for backend in range(env.count):
        for category in range(weights.shape[1]):
            rows = (chosen == backend) & (categories == category)
            features = np.stack([np.ones(int(rows.sum())), difficulty[rows]], axis=1)
            weights[backend, category] = logistic(features, success[rows] > 0.5, prior, ridge=1.0)
    return weights


def constant(backend: int) -> Policy:
    """Always the same."""
    return lambda _env: backend


def complexity_rule(small: int, large: int, threshold: float = 0.5) -> Policy:
    """Simple queries to the small one, hard ones to the large one."""
    return lambda env: large if env.query.seen >= threshold else small


def cheapest_above(estimate: Estimated, floor: float) -> Policy:
    """The cheapest whose estimate reaches a floor; the likeliest where none does."""

    def choose(env: ModelPool) -> int:
        success, cost = estimate.success(env), env.pool.cost(np.array([env.pool.tokens]))[0]
        return (
            int(np.argmin(np.where(success >= floor, cost, np.inf)))
            if (success >= floor).any()
            else int(np.argmax(success))
        )

    return choose


def classified(weights: Floats) -> Policy:
    """A supervised classifier: the cheapest that is likelier than not to succeed at this category and complexity."""
    return cheapest_above(Estimated(weights, Preference.of(1)), 0.5)


def oracle(env: ModelPool) -> int:
    """The cheapest of those that are within two points of the best, told the complexity that nobody sees."""
    likely = env.pool.success(np.array([env.query.category]), np.array([env.query.complexity]))[0]
    cost = env.pool.cost(np.array([env.pool.tokens]))[0]
    return int(np.argmin(np.where(likely >= likely.max() - 0.02, cost, np.inf)))


@dataclass(frozen=True, slots=True)
class Run:
    """What came of one policy on one stream: means, the 95th percentile of latency in seconds, and who was taken."""

    success: float
    likely: float  # mean P(success): success without the luck of the draw
    cost: float
    latency: float
    p95: float
    shares: Floats  # [B]
    by_category: Floats  # success, [K]

    @property
    def imbalance(self) -> float:
        """σ / μ of the shares."""
        return float(self.shares.std() / self.shares.mean())


def run(env: ModelPool, policy: Policy, seed: int, calls: int = 2_000) -> Run:
    """One policy on a stream of its seed."""
    env.reset(seed=seed)
    chosen, categories = np.zeros(calls, int), np.zeros(calls, int)
    outcomes: list[Outcome] = []
    for row in range(calls):
        chosen[row], categories[row] = policy(env), env.query.category
        outcomes.append(env.step(int(chosen[row]))[4]["outcome"])
    success = np.array([outcome.success for outcome in outcomes])
    latency = np.array([outcome.latency for outcome in outcomes])
    each = np.array(
        [
            success[categories == k].mean() if (categories == k).any() else np.nan
            for k in range(len(env.pool.categories))
        ]
    )
    return Run(
        success=float(success.mean()),
        likely=float(np.mean([outcome.likely for outcome in outcomes])),
        cost=float(np.mean([outcome.cost for outcome in outcomes])),
        latency=float(latency.mean()),
        p95=float(np.percentile(latency, 95)),
        shares=np.bincount(chosen, minlength=env.count) / calls,
        by_category=each,
    )
