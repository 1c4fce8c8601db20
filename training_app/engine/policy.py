"""Policies as they are served: action values of a state, and the greedy walk to a set of agents. numpy only.

A policy sees a query as `x`: per-agent log-odds float32[B, A] (shared policy), or any vector float32[B, D] (plain
policy), with `extra` float32[B, E] for what concerns the query as a whole. `ddqn.py` learns the same functions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import log1p
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from training_app.engine.scorers import BoolArray, FloatArray

#: Action values of some rows of fixed queries, see `SharedPolicy.fixed`.
FixedQueries = Callable[[NDArray[np.int64], BoolArray], tuple[FloatArray, FloatArray]]

CONTEXT = 7  # numbers that describe a state as a whole, see `context`
PER_AGENT = 2  # numbers that describe one agent in it
GRAIN = np.float32(4096)  # values are compared in steps of 1/4096, so that ties fall alike in a batch and alone
LIMIT = 8.0  # log-odds beyond this say nothing more


def probabilities(x: FloatArray, available: BoolArray) -> FloatArray:
    """p(agent needed) from log-odds, 0 for agents that are not available. float32[B, A]."""
    return np.where(available, 1 / (1 + np.exp(-np.clip(x, -LIMIT, LIMIT))), 0).astype(np.float32)


def context(p: FloatArray, none: FloatArray, selected: BoolArray) -> FloatArray:
    """What all agents of a state share, float32[B, CONTEXT].

    p float32[B, A] probabilities, none float32[B] the probability that no agent is needed were they independent,
    selected bool[B, A]. In order: expected hits among the selected; expected needs not yet selected; number selected;
    the Jaccard that those three promise; the largest probability left; `none`; whether anything is selected.
    Counts enter as log(1 + n), so that a pool of 200 agents stays within the range of one of 10.
    """
    hits = (p * selected).sum(axis=-1)
    left = p.sum(axis=-1) - hits
    count = selected.sum(axis=-1).astype(np.float32)
    best = np.where(selected, 0, p).max(axis=-1)
    out = np.empty((*hits.shape, CONTEXT), np.float32)
    out[..., 0] = np.log1p(hits)
    out[..., 1] = np.log1p(np.maximum(left, 0))
    out[..., 2] = np.log1p(count)
    out[..., 3] = hits / (count + np.maximum(left, 0) + 1e-3)
    out[..., 4] = best
    out[..., 5] = none
    out[..., 6] = count > 0
    return out


@dataclass(frozen=True)
class SharedPolicy:
    """One small network, used for every agent: its own log-odds and probability, and the pooled context of the state.

        Q(s, a) = f(x_a / LIMIT, p_a, context(s), extra)       f: a multilayer perceptron with ReLU

    `layers` are (weights [in, out], bias [out]) pairs of f; `stop` the same of a second network on the context alone
    for the reward modes in which STOP has a value to learn, else empty.
    """

    layers: tuple[tuple[FloatArray, FloatArray], ...]
    stop: tuple[tuple[FloatArray, FloatArray], ...] = ()
    kind: ClassVar[str] = "shared"

    @property
    def stop_is_zero(self) -> bool:
        return not self.stop

    def values(
        self, x: FloatArray, extra: FloatArray, selected: BoolArray, available: BoolArray
    ) -> tuple[FloatArray, FloatArray]:
        p = probabilities(x, available)
        none = np.exp(np.log1p(-p).sum(axis=-1))
        shared = np.concatenate([context(p, none, selected), extra], axis=-1)  # (B, C)
        own = np.stack([np.clip(x, -LIMIT, LIMIT) / LIMIT, p], axis=-1)  # (B, A, 2)
        # The first layer in two parts: the shared one is computed once a state, not once an agent.
        return self._rest(own.astype(np.float32) @ self.layers[0][0][:PER_AGENT], shared)

    def walk(
        self, x: FloatArray, available: BoolArray, *, min_agents: int = 0, max_agents: int = 0, margin: float = 0.0
    ) -> tuple[list[int], int, bool]:
        """The greedy walk of one query without `extra`: (agents in the order taken, steps with STOP counted, whether
        the limit ended it). x float32[A], available bool[A]. The same answer as `greedy`, without a batch's cost: the
        context is kept as seven numbers that each step updates.
        """
        (first, bias), *rest = self.layers
        p = probabilities(x, available)
        own = np.empty((len(x), PER_AGENT), np.float32)
        own[:, 0] = x.clip(-LIMIT, LIMIT)
        own[:, 0] /= LIMIT
        own[:, 1] = p
        # The first layer's share of each agent is the same in every state; agents out of play never win.
        projected = own @ first[:PER_AGENT] + bias  # (A, H)
        weigh = first[PER_AGENT:]
        barred = np.where(available, np.float32(0), np.float32(-np.inf))
        left_p = p.copy()
        none = float(np.exp(np.log1p(-p).sum()))
        total, hits, count = float(p.sum()), 0.0, 0
        limit = min(len(x), max_agents) if max_agents else len(x)
        order: list[int] = []
        while count < limit:
            left = max(total - hits, 0.0)
            state = np.array(
                (
                    log1p(hits),
                    log1p(left),
                    log1p(count),
                    hits / (count + left + 1e-3),
                    left_p.max(),
                    none,
                    count > 0,
                ),
                np.float32,
            )
            hidden = projected + state @ weigh
            for weights, shift in rest:
                np.maximum(hidden, 0, out=hidden)
                hidden = hidden @ weights
                hidden += shift
            q = hidden[:, 0] * GRAIN
            np.rint(q, out=q)
            q += barred
            best = int(q.argmax())
            value = q[best] / GRAIN
            if not (value > -np.inf if count < min_agents else value > self._stop_value(state) + margin):
                return order, count + 1, False
            order.append(best)
            barred[best] = -np.inf
            left_p[best] = 0
            hits += float(p[best])
            count += 1
        return order, count, bool(max_agents) and limit == max_agents

    def _stop_value(self, state: FloatArray) -> float:
        if not self.stop:
            return 0.0
        for i, (weights, bias) in enumerate(self.stop):
            state = (np.maximum(state, 0) if i else state) @ weights + bias
        return float(state[0])

    def fixed(self, x: FloatArray, extra: FloatArray, available: BoolArray) -> FixedQueries:
        """`values` of B queries for a whole walk: what does not change from step to step is computed once. The result
        is called with (the rows still walking int64[b], their selected agents bool[b, A])."""
        p = probabilities(x, available)
        none = np.exp(np.log1p(-p).sum(axis=-1))
        own = np.stack([np.clip(x, -LIMIT, LIMIT) / LIMIT, p], axis=-1).astype(np.float32)
        projected = own @ self.layers[0][0][:PER_AGENT]

        def values(rows: NDArray[np.int64], selected: BoolArray) -> tuple[FloatArray, FloatArray]:
            shared = np.concatenate([context(p[rows], none[rows], selected), extra[rows]], axis=-1)
            return self._rest(projected[rows], shared)

        return values

    def _rest(self, projected: FloatArray, shared: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Values from the first layer's share of each agent (1 or B, A, H) and the context (B, C)."""
        (first, bias), *rest = self.layers
        hidden = projected + (shared @ first[PER_AGENT:] + bias)[:, None]
        for weights, bias in rest:
            np.maximum(hidden, 0, out=hidden)
            # One product of a tall matrix: numpy would take a stack of small ones one by one.
            wide = hidden.reshape(-1, hidden.shape[-1]) @ weights
            wide += bias
            hidden = wide.reshape(*hidden.shape[:-1], -1)
        if not self.stop:
            return hidden[..., 0], np.zeros(len(shared), np.float32)
        end = shared
        for i, (weights, bias) in enumerate(self.stop):
            end = (np.maximum(end, 0) if i else end) @ weights + bias
        return hidden[..., 0], end[:, 0]

    def tensors(self) -> dict[str, NDArray[Any]]:
        return _named(self.layers, "q") | _named(self.stop, "stop")

    def config(self) -> dict[str, Any]:
        return {"kind": self.kind, "layers": len(self.layers), "stop_layers": len(self.stop)}


@dataclass(frozen=True)
class PlainPolicy:
    """One multilayer perceptron from (x, extra, mask of selected agents) to a value for every agent and STOP."""

    layers: tuple[tuple[FloatArray, FloatArray], ...]
    stop_is_zero: bool = False
    kind: ClassVar[str] = "plain"

    def values(
        self, x: FloatArray, extra: FloatArray, selected: BoolArray, available: BoolArray
    ) -> tuple[FloatArray, FloatArray]:
        hidden = np.concatenate([x, extra, selected.astype(np.float32)], axis=-1)
        for i, (weights, bias) in enumerate(self.layers):
            hidden = (np.maximum(hidden, 0) if i else hidden) @ weights + bias
        stop = np.zeros(len(x), np.float32) if self.stop_is_zero else hidden[:, -1]
        return hidden[:, :-1], stop

    def fixed(self, x: FloatArray, extra: FloatArray, available: BoolArray) -> FixedQueries:
        """As `SharedPolicy.fixed`."""
        return lambda rows, selected: self.values(x[rows], extra[rows], selected, available[rows])

    def tensors(self) -> dict[str, NDArray[Any]]:
        return _named(self.layers, "q")

    def config(self) -> dict[str, Any]:
        return {"kind": self.kind, "layers": len(self.layers), "stop_is_zero": self.stop_is_zero}


#: Action values of a state. `stop_is_zero` says whether STOP's value is known to be 0.
Policy = SharedPolicy | PlainPolicy


def _named(layers: tuple[tuple[FloatArray, FloatArray], ...], name: str) -> dict[str, NDArray[Any]]:
    found: dict[str, NDArray[Any]] = {}
    for i, (weights, bias) in enumerate(layers):
        found[f"{name}.{i}.weights"] = np.ascontiguousarray(weights, np.float32)
        found[f"{name}.{i}.bias"] = np.ascontiguousarray(bias, np.float32)
    return found


def load_policy(config: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> Policy:
    """The policy of an artifact. Raises ValueError where its parts do not fit."""

    def layers(name: str, count: Any) -> tuple[tuple[FloatArray, FloatArray], ...]:
        try:
            found = tuple((tensors[f"{name}.{i}.weights"], tensors[f"{name}.{i}.bias"]) for i in range(int(count)))
        except KeyError as error:
            raise ValueError(f"the policy lacks the tensor {error}") from None
        width = None
        for weights, bias in found:
            if weights.ndim != 2 or bias.shape != weights.shape[1:] or width not in (None, weights.shape[0]):
                raise ValueError("the layers of the policy do not fit each other")
            width = weights.shape[1]
        return found

    kind = config.get("kind")
    if kind == "shared":
        return SharedPolicy(layers("q", config["layers"]), layers("stop", config.get("stop_layers", 0)))
    if kind == "plain":
        return PlainPolicy(layers("q", config["layers"]), bool(config.get("stop_is_zero", False)))
    raise ValueError(f"unknown policy kind {kind!r}")


def greedy(
    policy: Policy,
    x: FloatArray,
    extra: FloatArray,
    available: BoolArray,
    *,
    min_agents: int = 0,
    max_agents: int = 0,
    margin: float = 0.0,
) -> tuple[BoolArray, NDArray[np.int64], NDArray[np.int64]]:
    """The greedy walk of B queries at once.

    An agent is taken while its value exceeds that of STOP by more than `margin` (the operating point). Returns
    (selected bool[B, A], order int64[B, A]: the agents in the order they were taken, then -1, and steps int64[B],
    STOP counted).
    """
    count, agents = available.shape
    selected = np.zeros((count, agents), np.bool_)
    order = np.full((count, agents), -1, np.int64)
    steps = np.zeros(count, np.int64)
    limit = min(agents, max_agents) if max_agents else agents
    # In slices that fit the processor's cache.
    size = max(1, 4096 // agents)
    for at in range(0, count, size):
        here = slice(at, at + size)
        parts = (selected[here], order[here], steps[here])
        _walk_slice(policy, x[here], extra[here], available[here], min_agents, limit, margin, parts)
    return selected, order, steps


def _walk_slice(
    policy: Policy,
    x: FloatArray,
    extra: FloatArray,
    available: BoolArray,
    min_agents: int,
    limit: int,
    margin: float,
    out: tuple[BoolArray, NDArray[np.int64], NDArray[np.int64]],
) -> None:
    selected, order, steps = out
    active = np.arange(len(x))
    values = policy.fixed(x, extra, available)
    for step in range(limit + 1):
        if step == limit:
            steps[active] = step
            return
        chosen = selected[active]
        q, stop = values(active, chosen)
        q = np.where(available[active] & ~chosen, np.rint(q * GRAIN), -np.inf)
        best = q.argmax(axis=1)
        value = q[np.arange(len(active)), best] / GRAIN
        go = (value > stop + margin) if step >= min_agents else np.isfinite(value)
        steps[active[~go]] = step + 1
        active, best = active[go], best[go]
        if not active.size:
            return
        selected[active, best] = True
        order[active, step] = best
