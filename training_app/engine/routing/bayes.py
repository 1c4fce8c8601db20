"""The exact rule: the set of highest expected utility, in a policy's place. It learns two numbers, and what pairs say. numpy only.

The agents stand in an order, and of all its prefixes the one of highest expected utility is the answer. Were agents independent,

    p_a = sigmoid(scale x_a + shift),        S_k the first k agents

`measures.py` has the expected worth of every S_k, for each goal. The order is that of p; for value that of -log(1 - p_a) / c_a, what
a unit of cost brings. Where rules forbid that set, or agents come in pairs (`Pairwise`), `exact.py` searches the allowed sets.

Whether anybody is needed at all is known better by what a query is near to (`needed.py`) than by Π (1 - p_a): a query about something
else has words of some agent, too. Where validation shows it, the rule goes by that (`measures.as_needed`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from math import exp
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from training_app.engine.data.arrays import BoolArray, FloatArray
from training_app.engine.measures import (
    GOALS,
    PRIMARY,
    SLIGHT,
    SMALL,
    VALUE,
    as_needed,
    expected_jaccard,
    expected_worth,
)
from training_app.engine.routing.allowed import NO_LIMITS, SetLimits
from training_app.engine.routing.exact import LISTED, Task, best_allowed, best_joint, within

Floats = NDArray[np.float64]
#: The log-odds of each query that anybody is needed at all, float64[B]; None where nothing says so.
Needs = Floats | None

LIMIT = 12.0  # log-odds beyond this say nothing more
GRAIN = 4096.0  # utilities are compared in steps of 1/4096, so that ties fall alike in a batch and alone
FEW_AGENTS = 20  # up to so many, one query is decided in plain numbers
#: In a larger pool agents that are hardly ever needed stand in no prefix.
MANY_AGENTS = 256
TINY = 1e-300
_RECIPROCALS = [1 / n for n in range(1, FEW_AGENTS + 1)]
#: The goal whose utilities are tiny in a pool of many agents: they are compared in steps of 1/4096 of the largest one.
TINY_GOAL = "exact"
LEAST_LIKELY = 0.01  # one of a set is needed at least so often where rules forbid the likelier agents
OUT = -1e6  # the utility of a set that the limits rule out


def _best_prefix(expected: list[float], margin: float) -> int:
    """In how many places of the order the gain, as of `BayesPolicy.gains`, is above `margin`: `expected` by steps of GRAIN."""
    if margin == 0:
        return expected.index(max(expected))
    best_to = accumulate(expected, max)
    best_from = list(accumulate(expected[:0:-1], max))[::-1]
    return sum((after - before) / GRAIN > margin for after, before in zip(best_from, best_to, strict=False))


def _in_order(p: Floats, order: NDArray[np.int64]) -> Floats:
    """p float64[B, A], each row in its own order; one query by a plain look-up, which takes a tenth of the time."""
    return p[0].take(order[0])[None] if len(p) == 1 else np.take_along_axis(p, order, axis=1)


@dataclass(frozen=True)
class Pairwise:
    """The log-linear model of `exact.py`: `scale` and `shift` float32[A] take an agent's log-odds to z, `weights` float32[A, A]
    is W."""

    scale: FloatArray
    shift: FloatArray
    weights: FloatArray

    @cached_property
    def matrix(self) -> Floats:
        """W, float64[A, A]."""
        return self.weights.astype(np.float64)

    @cached_property
    def within(self) -> Floats | None:
        """What the pairs of every set add, in a pool whose sets are listed: see `exact.within`."""
        return within(self.matrix) if len(self.scale) <= LISTED else None

    def z(self, x: FloatArray) -> Floats:
        """float32[A] -> float64[A]."""
        return np.clip(self.scale.astype(np.float64) * x + self.shift, -LIMIT, LIMIT)


@dataclass(frozen=True)
class BayesPolicy:
    """`scale` and `shift` take the log-odds that the policy sees to those it decides by. `costs` float32[A], for `value`, are what
    agents cost in units of what a covered query is worth. `pairs`: what agents say of each other, None where held-out rows do not show
    that it helps. `by_needed`: whether it goes by the log-odds that anybody is needed, where they are given."""

    scale: float
    shift: float
    goal: str = PRIMARY
    costs: FloatArray | None = None
    pairs: Pairwise | None = None
    by_needed: bool = False
    stop_is_zero: ClassVar[bool] = True
    kind: ClassVar[str] = "bayes"

    def gains(
        self, x: FloatArray, available: BoolArray, min_agents: int = 0, max_agents: int = 0, needed: Needs = None
    ) -> tuple[Floats, NDArray[np.int64]]:
        """(gains float64[B, A], order int64[B, A]): what the best prefix that holds the agent in each place of the order gains over
        the best one that ends before it. They fall along the order, and the best prefix ends before the first that is not above 0.
        Prefixes of fewer than `min_agents` or more than `max_agents` agents (0: no limit) do not count.
        """
        p = self._p(x, available)
        costs = None
        if self.goal == VALUE and self.costs is not None:
            order = np.argsort(np.log1p(-p) / np.maximum(self.costs, 1e-6), axis=1, kind="stable")
            costs = self.costs[order].astype(np.float64)
        else:
            order = np.argsort(-p, axis=1, kind="stable")
        expected = expected_worth(self.goal, _in_order(p, order), costs, needed if self.by_needed else None)
        whole = np.maximum(expected.max(axis=1, keepdims=True), TINY) if self.goal == TINY_GOAL else 1.0
        expected = np.rint(expected * (GRAIN / whole))
        expected[:, :min_agents] = OUT
        if max_agents:
            expected[:, max_agents + 1 :] = 2 * OUT
        best_to = np.maximum.accumulate(expected, axis=1)[:, :-1]
        best_from = np.maximum.accumulate(expected[:, :0:-1], axis=1)[:, ::-1]
        return (best_from - best_to) * (whole / GRAIN), order

    def _p(self, x: FloatArray, available: BoolArray) -> Floats:
        """How likely each agent is needed, 0 where it is not available: float64 of the shape of x."""
        z = np.minimum(np.maximum(self.scale * x.astype(np.float64) + self.shift, -LIMIT), LIMIT)
        return np.where(available, 1 / (1 + np.exp(-z)), 0)

    def searched(
        self, x: FloatArray, available: BoolArray, limits: SetLimits, needed: float | None = None
    ) -> list[int]:
        """The best set that is allowed, of one query, as places; x float32[A], available bool[A].

        Where rules forbid every agent that may be needed, as a small budget does, any other one is worth hardly more than nobody:
        nobody is then the answer.
        """
        min_agents, max_agents, margin, allowed = limits
        costs = None if self.costs is None else self.costs.astype(np.float64)
        p, needed = self._p(x, available), needed if self.by_needed else None
        task = Task(self.goal, p, costs, available, min_agents, max_agents, margin, needed)
        if self.pairs is not None:
            best = best_joint(task, self.pairs.z(x), self.pairs.matrix, allowed, self.pairs.within)
        else:
            assert allowed is not None
            best = best_allowed(task, allowed)
        pays = self.goal == VALUE or margin < 0  # what is asked for: whoever costs less than it may bring
        if allowed is not None and not min_agents and not pays and not (task.p[best] >= LEAST_LIKELY).any():
            return []
        return best

    def sets(
        self, x: FloatArray, available: BoolArray, limits: SetLimits = NO_LIMITS, needed: Needs = None
    ) -> tuple[BoolArray, NDArray[np.int64], NDArray[np.int64]]:
        """What `walking.greedy` gives, of the best sets: (selected bool[B, A], order int64[B, A], steps int64[B])."""
        min_agents, max_agents, margin, allowed = limits
        agents = x.shape[1]
        if self.pairs is not None or allowed is not None:
            selected, order = np.zeros(x.shape, np.bool_), np.full(x.shape, -1, np.int64)
            steps = np.zeros(len(x), np.int64)
            for row in range(len(x)):
                needed_here = None if needed is None else float(needed[row])
                chosen, steps[row], _full = self.walk(x[row], available[row], limits, needed_here)
                selected[row, chosen] = True
                order[row, : len(chosen)] = chosen
            return selected, order, steps
        limit = min(agents, max_agents) if max_agents else agents
        gains, order = self.gains(x, available, min(min_agents, limit), max_agents, needed)
        sizes = (gains > margin).sum(axis=1)  # gains fall
        sizes = np.minimum(np.clip(sizes, min_agents, limit), available.sum(axis=1))  # (B)
        in_prefix = np.arange(agents) < sizes[:, None]  # (B, A), by place
        selected = np.zeros(x.shape, np.bool_)
        np.put_along_axis(selected, order, in_prefix, axis=1)
        return selected, np.where(in_prefix, order, -1), np.where(sizes == limit, sizes, sizes + 1)

    def _of_many(
        self, x: FloatArray, available: BoolArray, limit: int, limited: bool, needed: float | None
    ) -> tuple[list[int], int, bool]:
        """`walk` in a large pool: only the MANY_AGENTS likeliest agents, and all above SMALL, stand in a prefix; the others count in
        what is expected."""
        p = self._p(x[None], available[None])[0]
        listed = np.flatnonzero(p > SMALL)
        if len(listed) < MANY_AGENTS:
            listed = np.sort(np.argpartition(-p, MANY_AGENTS)[:MANY_AGENTS])
        order = listed[np.argsort(-p[listed], kind="stable")]
        others = np.ones(len(p), np.bool_)
        others[order] = False
        expected = expected_jaccard(p[order][None], p[others])
        if needed is not None:
            expected = as_needed(self.goal, expected, np.array([needed]))
        expected = np.rint(expected[0, : limit + 1] * GRAIN)
        size = min(int(expected.argmax()), int(np.count_nonzero(available)))
        return order[:size].tolist(), size if size == limit else size + 1, limited and size == limit

    def _of_few(
        self, x: FloatArray, available: BoolArray, min_agents: int, max_agents: int, needed: float | None
    ) -> tuple[list[int], list[float]]:
        """The order of one query, and the expected utility of Jaccard of every prefix of it in steps of GRAIN, in plain numbers: of
        few agents arrays cost more to make than to multiply. With Y_k the needs beyond the first k agents,

            F_k(n) = E[1 / (n + Y_k)]        F_A(n) = 1 / n        F_(k-1)(n) = F_k(n) + p_k (F_k(n + 1) - F_k(n))

        and of prefix k the utility is its hits times F_k(k), the last that step k has. Last digits, which differ from those of the
        integral, decide nothing."""
        scale, shift, p = self.scale, self.shift, []
        for own, counts in zip(x.tolist(), available.tolist(), strict=True):
            z = scale * own + shift
            z = z if -LIMIT < z < LIMIT else LIMIT if z > 0 else -LIMIT
            p.append(1 / (1 + exp(-z)) if counts else 0.0)
        agents = len(p)
        order = sorted(range(agents), key=p.__getitem__, reverse=True)  # stable in both ways
        ordered = [p[a] for a in order]
        hits = list(accumulate(ordered))
        nobody, beyond = 1.0, _RECIPROCALS[:agents]
        expected = [0.0] * (agents + 1)
        for k in range(agents, 0, -1):
            expected[k] = hits[k - 1] * beyond[-1]
            own = ordered[k - 1]
            beyond = [here + own * (one_more - here) for here, one_more in pairwise(beyond)]
            nobody *= 1 - own
        expected[0], scale = nobody, 1.0
        if needed is not None:  # as `measures.as_needed`
            somebody = 1 / (1 + exp(-needed))
            expected[0], scale = 1 - somebody, somebody / max(1 - nobody, SLIGHT)
        expected = [float(round(worth * (scale if k else 1.0) * GRAIN)) for k, worth in enumerate(expected)]
        if min_agents:
            expected[:min_agents] = [OUT] * min_agents
        if max_agents:
            expected[max_agents + 1 :] = [2 * OUT] * (agents - max_agents)
        return order, expected

    def walk(
        self, x: FloatArray, available: BoolArray, limits: SetLimits = NO_LIMITS, needed: float | None = None
    ) -> tuple[list[int], int, bool]:
        """As `SharedPolicy.walk`: (agents in their order, steps with STOP counted, whether the limit ended it) of one query."""
        _, max_agents, _, allowed = limits
        limit = min(len(x), max_agents) if max_agents else len(x)
        if self.pairs is None:
            prefix, steps, full = self._prefix(x, available, limits, needed if self.by_needed else None)
            chosen = np.zeros(len(x), np.bool_)
            chosen[prefix] = True
            # What is best of all sets is best of those that are allowed, if it is one.
            if allowed is None or allowed.holds(chosen[None])[0]:
                return prefix, steps, full
        prefix = self.searched(x, available, limits, needed)
        limit = limit if allowed is None else min(limit, allowed.max_agents)
        size = len(prefix)
        return prefix, size if size == limit else size + 1, size == limit < len(x)

    def _prefix(
        self, x: FloatArray, available: BoolArray, limits: SetLimits, needed: float | None
    ) -> tuple[list[int], int, bool]:
        """`walk` where every set is allowed and agents are needed independently."""
        min_agents, max_agents, margin, _allowed = limits
        limit = min(len(x), max_agents) if max_agents else len(x)
        if len(x) <= FEW_AGENTS and self.goal == PRIMARY:
            order, expected = self._of_few(x, available, min(min_agents, limit), max_agents, needed)
            size = _best_prefix(expected, margin)
        elif len(x) > MANY_AGENTS and self.goal == PRIMARY and not margin and not min_agents:
            return self._of_many(x, available, limit, bool(max_agents), needed)
        else:
            needs = None if needed is None else np.array([needed])
            every, places = self.gains(x[None], available[None], min(min_agents, limit), max_agents, needs)
            order, size = places[0].tolist(), sum(gain > margin for gain in every[0].tolist())
        size = min(max(size, min_agents), limit)  # as in `sets`, which takes a batch
        size = min(size, int(np.count_nonzero(available)))
        chosen = order[:size]
        return chosen, size if size == limit else size + 1, bool(max_agents) and size == max_agents

    def values(
        self, x: FloatArray, needed: Needs, selected: BoolArray, available: BoolArray
    ) -> tuple[FloatArray, FloatArray]:
        """What each agent's place in the order gains, float32[B, A], whatever is selected; STOP is worth 0."""
        gains, order = self.gains(x, available, needed=needed)
        q = np.empty(gains.shape, np.float32)
        np.put_along_axis(q, order, gains.astype(np.float32), axis=1)
        return q, np.zeros(len(x), np.float32)

    def fixed(
        self, x: FloatArray, needed: Needs, available: BoolArray
    ) -> Callable[[NDArray[np.int64], BoolArray, int], tuple[FloatArray, FloatArray]]:
        """`values` for a whole walk, as of the other policies."""
        q, stop = self.values(x, needed, available, available)
        return lambda rows, selected, first: (q[rows, :first], stop[rows])

    def tensors(self) -> dict[str, NDArray[Any]]:
        tensors = {} if self.costs is None else {"costs": self.costs}
        if self.pairs is not None:
            tensors |= {"pairs": self.pairs.weights, "pairs_scale": self.pairs.scale, "pairs_shift": self.pairs.shift}
        return {name: np.ascontiguousarray(array, np.float32) for name, array in tensors.items()}

    def config(self) -> dict[str, Any]:
        by_needed = {"by_needed": True} if self.by_needed else {}
        return {"kind": self.kind, "goal": self.goal, "scale": self.scale, "shift": self.shift, **by_needed}

    @classmethod
    def from_parts(cls, config: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> BayesPolicy:
        """Raises ValueError where the parts do not fit."""
        goal, costs = str(config.get("goal", PRIMARY)), tensors.get("costs")
        if goal not in GOALS or (costs is not None and costs.ndim != 1) or (goal == VALUE and costs is None):
            raise ValueError("the policy's goal and costs do not fit")
        try:
            pairs = None
            if "pairs" in tensors:
                pairs = Pairwise(tensors["pairs_scale"], tensors["pairs_shift"], tensors["pairs"])
                if pairs.weights.shape != (len(pairs.scale), len(pairs.shift)):
                    raise ValueError("the policy's evidence of pairs is not square")
            by_needed = bool(config.get("by_needed", False))
            return cls(float(config["scale"]), float(config["shift"]), goal, costs, pairs, by_needed)
        except KeyError as error:
            raise ValueError(f"the policy lacks {error}") from None
