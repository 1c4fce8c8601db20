"""The best that any orchestrator could do in a simulated pool, by dynamic programming over beliefs. numpy only.

What an orchestrator knows of the hidden state is the belief b, P(h | task's kind, calls and outputs so far). With γ = 1 and costs
counted once,

    V(b, t) = max( Σ_h b(h) r(h),   max_a  -λ (c_a + σ s) + Σ_o P(o | b, a) V(b_o, t + 1) )
    P(o | b, a) = Σ_h Σ_h' b(h) D[a, h, o, h']        b_o(h') = Σ_h b(h) D[a, h, o, h'] / P(o | b, a)

with s the seconds of a call, exactly, since a finite episode reaches finitely many beliefs (Smallwood and Sondik 1973). The value of
a fixed path, whatever the outputs, is the same sum without the choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations, product

import numpy as np

from orchestration_app.engine.orchestrating.rewards import Reward
from orchestration_app.engine.orchestrating.simulated import Floats, SimulatedPool

GRAIN = 9  # decimals in which two beliefs are the same


@dataclass(frozen=True, slots=True)
class Expected:
    """What is to be expected of an episode: reward r - λ (cost + σ seconds), success from 0 to 1, cost, and steps."""

    reward: float
    success: float
    cost: float
    steps: float

    def plain(self) -> dict[str, float]:
        return {name: round(getattr(self, name), 6) for name in self.__slots__}


@dataclass
class Optimum:
    """The optimal orchestrator of a pool under a reward; remembers each belief that it has solved."""

    pool: SimulatedPool
    reward: Reward
    max_steps: int = 0
    _solved: dict[tuple[bytes, int], tuple[float, int, Expected]] = field(default_factory=dict)

    def value(self) -> Expected:
        """Expected over all kinds of tasks."""
        shares = np.array([kind.share for kind in self.pool.kinds])
        values = [self.from_belief(kind.prior, 0)[1] for kind in self.pool.kinds]
        return _mean(values, shares / shares.sum())

    def action(self, belief: Floats, step: int) -> int:
        """The best agent's place, -1 for STOP."""
        return self.from_belief(belief, step)[0]

    def from_belief(self, belief: Floats, step: int) -> tuple[int, Expected]:
        """(best action, what follows from it)."""
        pool, pay = self.pool, self.reward
        key = (np.round(belief, GRAIN).tobytes(), step)
        if key in self._solved:
            _, action, expected = self._solved[key]
            return action, expected
        success = float(belief @ pool.right)
        best = Expected(pay.failure + (pay.success - pay.failure) * success, success, 0.0, 0.0)
        action = -1
        if step < (self.max_steps or pool.max_steps):
            for a, cost in enumerate(pool.costs.tolist()):
                spent = pay.price * (cost + pay.second * pool.latency)
                if best.reward >= pay.success - spent:
                    continue  # not even certain success would pay for the call
                joint = np.einsum("h,hok->ok", belief, pool.dynamics[a])  # (O, H)
                chances = joint.sum(axis=1)
                possible = np.flatnonzero(chances > 1e-12)
                parts = [self.from_belief(joint[o] / chances[o], step + 1)[1] for o in possible.tolist()]
                after = _mean(parts, chances[possible] / chances[possible].sum())
                reward = after.reward - spent
                if reward > best.reward + 1e-12:
                    best = Expected(reward, after.success, after.cost + cost, after.steps + 1)
                    action = a
        self._solved[key] = (best.reward, action, best)
        return action, best


def fixed_path(pool: SimulatedPool, path: Sequence[int], belief: Floats, reward: Reward) -> Expected:
    """What follows from calling the agents at these places in order, whatever they say."""
    for a in path:
        belief = np.einsum("h,hok->k", belief, pool.dynamics[a])
    success = float(belief @ pool.right)
    cost = float(pool.costs[list(path)].sum())
    spent = reward.price * (cost + reward.second * pool.latency * len(path))
    paid = reward.failure + (reward.success - reward.failure) * success - spent
    return Expected(paid, success, cost, float(len(path)))


def best_fixed_path(pool: SimulatedPool, reward: Reward, longest: int = 4) -> tuple[tuple[int, ...], Expected]:
    """The one path that is best for all tasks, of every path up to that length: (places, what is to be expected)."""
    shares = np.array([kind.share for kind in pool.kinds])
    everything = np.einsum("k,kh->h", shares / shares.sum(), np.stack([kind.prior for kind in pool.kinds]))
    return max(
        (
            (path, fixed_path(pool, path, everything, reward))
            for length in range(longest + 1)
            for path in product(range(len(pool.agents)), repeat=length)
        ),
        key=lambda candidate: candidate[1].reward,
    )


def best_sets(pool: SimulatedPool, reward: Reward) -> list[tuple[int, ...]]:
    """For each kind of task the set that is best run once each, cheapest first: what no set router could beat. Places, in that
    order."""
    order = np.argsort(pool.costs, kind="stable").tolist()
    sets = [subset for size in range(len(order) + 1) for subset in combinations(order, size)]
    return [max(sets, key=lambda subset: fixed_path(pool, subset, kind.prior, reward).reward) for kind in pool.kinds]


def _mean(parts: Sequence[Expected], weights: Floats) -> Expected:
    return Expected(
        *(
            float(sum(w * getattr(part, name) for w, part in zip(weights.tolist(), parts, strict=True)))
            for name in Expected.__slots__
        )
    )
