"""Policies as they are served: action values of a state. `walking.py` goes by them to a set of agents. numpy only.

A policy sees a query as `x`: per-agent log-odds float32[B, A] (shared policy), or any vector float32[B, D] (plain
policy). `needed` float64[B], the log-odds that anybody is needed at all, is for the exact rule (`bayes.py`): networks do without it.
`ddqn.py` learns the same functions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import log1p
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from training_app.engine.data.arrays import BoolArray, FloatArray
from training_app.engine.routing.allowed import NO_LIMITS, SetLimits
from training_app.engine.routing.bayes import BayesPolicy, Needs
from training_app.engine.routing.threshold import ThresholdPolicy

#: Action values of some rows of fixed queries, see `SharedPolicy.fixed`.
FixedQueries = Callable[[NDArray[np.int64], BoolArray, int], tuple[FloatArray, FloatArray]]

CONTEXT = 7  # numbers that describe a state as a whole, see `context`
PER_AGENT = 2  # numbers that describe one agent in it
BARRED = -1e9  # the value of an agent that may not be taken
GRAIN = np.float32(4096)  # values are compared in steps of 1/4096, so that ties fall alike in a batch and alone
LIMIT = 8.0  # log-odds beyond this say nothing more
#: In a larger pool a shared policy chooses each agent among so many of those that are left, the likeliest. It sees all.
SHORTLIST = 32
_ZERO = np.zeros((), np.float32)


def probabilities(x: FloatArray, available: BoolArray) -> FloatArray:
    """p(agent needed) from log-odds, 0 for agents that are not available. float32[B, A]."""
    return np.where(available, 1 / (1 + np.exp(-np.clip(x, -LIMIT, LIMIT))), 0).astype(np.float32)


def likeliest_first(x: FloatArray, available: BoolArray) -> NDArray[np.int64]:
    """The places of agents by falling log-odds, int64[..., A], those that are not available at the end."""
    return (-x if available.all() else np.where(available, -x, np.inf)).argsort(axis=-1, kind="stable")


@dataclass(frozen=True, slots=True)
class Beside:
    """What a state shows beside the log-odds given the selected: `p` float32[B, A], the probabilities by the text alone, and,
    where agents cost, `costs` float32[B, A] in units of a covered query."""

    p: FloatArray
    costs: FloatArray | None = None

    def take(self, rows: NDArray[np.int64]) -> Beside:
        return Beside(self.p[rows], None if self.costs is None else self.costs[rows])

    def among(self, columns: NDArray[np.int64]) -> Beside:
        """Those of K agents of each row, int64[B, K]."""
        costs = None if self.costs is None else np.take_along_axis(self.costs, columns, axis=1)
        return Beside(np.take_along_axis(self.p, columns, axis=1), costs)


def inputs_of(beside: bool, priced: bool) -> tuple[int, int]:
    """How many numbers describe an agent and a state: see `described` and `context`."""
    return PER_AGENT + beside + priced, CONTEXT + 2 * beside + priced


def described(x: FloatArray, p: FloatArray, beside: Beside | None = None) -> FloatArray:
    """What the network sees of each agent by itself, float32[..., A, PER_AGENT]: its log-odds and its probability; with `beside`, its
    probability by the text alone and, where agents cost, its cost."""
    own = [np.clip(x, -LIMIT, LIMIT) / LIMIT, p]
    if beside is not None:
        own += [beside.p] if beside.costs is None else [beside.p, beside.costs]
    return np.stack(own, axis=-1).astype(np.float32)


def context(p: FloatArray, none: FloatArray, selected: BoolArray, beside: Beside | None = None) -> FloatArray:
    """What all agents of a state share, float32[B, CONTEXT].

    p float32[B, A] probabilities, none float32[B] the probability that no agent is needed were they independent,
    selected bool[B, A]. In order: expected hits among the selected; expected needs not yet selected; number selected;
    the Jaccard that those three promise; the largest probability left; `none`; whether anything is selected.
    Counts enter as log(1 + n), so that a pool of 200 agents stays within the range of one of 10.

    With `beside`, two or three more by the text alone: expected hits among the selected; the probability that nobody else is needed;
    and, where agents cost, what those who may be are expected to cost. Given the selected, p takes them for required, and a state with
    two of a crew would look the same whether the text calls for the crew or not.
    """
    hits = (p * selected).sum(axis=-1)
    left = p.sum(axis=-1) - hits
    count = selected.sum(axis=-1).astype(np.float32)
    best = np.where(selected, 0, p).max(axis=-1)
    out = np.empty(
        (*hits.shape, inputs_of(beside is not None, beside is not None and beside.costs is not None)[1]), np.float32
    )
    out[..., 0] = np.log1p(hits)
    out[..., 1] = np.log1p(np.maximum(left, 0))
    out[..., 2] = np.log1p(count)
    out[..., 3] = hits / (count + np.maximum(left, 0) + 1e-3)
    out[..., 4] = best
    out[..., 5] = none
    out[..., 6] = count > 0
    if beside is not None:
        others = np.where(selected, 0, beside.p)
        out[..., 7] = np.log1p((beside.p * selected).sum(axis=-1))
        out[..., 8] = np.exp(np.log1p(-others).sum(axis=-1))
        if beside.costs is not None:
            out[..., 9] = (others * beside.costs).sum(axis=-1)
    return out


def conditional(x: FloatArray, pairs: FloatArray | None, selected: BoolArray) -> FloatArray:
    """The log-odds of each agent, were those that are selected required: x'_a = x_a + Σ_{b in S} W_ba. x float32[..., A], pairs W
    float32[A, A] (see `pairs.py`; None: x itself), selected bool[..., A] -> float32[..., A]."""
    return x if pairs is None else x + selected.astype(np.float32) @ pairs


@dataclass(frozen=True)
class SharedPolicy:
    """One small network, used for every agent: its own log-odds and probability, and the pooled context of the state.

        Q(s, a) = f(x'_a / LIMIT, p'_a, context(s))       f: a multilayer perceptron with ReLU

    Where the pool has `pairs` float32[A, A], x' and p' are those given the selected agents (`conditional`), else those of the text.
    Such a policy sees what the text says alone, too (`beside`), and one that learnt value the `costs` float32[A] (float32[B, A] where
    each query has its own order of agents); its f is what an agent brings before its cost.

    `layers` are (weights [in, out], bias [out]) pairs of f; `stop` the same of a second network on the context alone
    for the reward modes in which STOP has a value to learn, else empty.
    """

    layers: tuple[tuple[FloatArray, FloatArray], ...]
    stop: tuple[tuple[FloatArray, FloatArray], ...] = ()
    pairs: FloatArray | None = None
    costs: FloatArray | None = None
    beside: bool = False
    _single: tuple[FloatArray, FloatArray, list[FloatArray]] = field(init=False, repr=False, compare=False)
    kind: ClassVar[str] = "shared"

    def __post_init__(self) -> None:
        object.__setattr__(self, "_single", self._for_one())

    def _for_one(self) -> tuple[FloatArray, FloatArray, list[FloatArray]]:
        """The weights as `walk` takes them: what the first layer makes of [own, 1, barred], what it makes of the state, and
        the other layers; biases, the grain and the barring of agents are part of the products.

        Two units more in each layer carry them: one is always 1, the other 1 for a barred agent.
        """
        (first, bias), *rest = self.layers
        if not rest:  # nothing hidden: y = max(y, 0) - max(-y, 0)
            first, bias = np.concatenate([first, -first], axis=1), np.concatenate([bias, -bias])
            rest = [(np.array([[1], [-1]], np.float32), np.zeros(1, np.float32))]
        carried = np.eye(2, dtype=np.float32)

        def widened(weights: FloatArray, bias: FloatArray) -> FloatArray:
            top = np.concatenate([weights, np.zeros((len(weights), 2), np.float32)], axis=1)
            added = np.concatenate([np.stack([bias, np.zeros_like(bias)]), carried], axis=1)
            return np.concatenate([top, added])

        by_agent = widened(first[:PER_AGENT], bias)
        by_state = np.pad(first[PER_AGENT : PER_AGENT + CONTEXT], ((0, 0), (0, 2)))
        others = [widened(*layer) for layer in rest]
        others[-1] = others[-1] @ np.array(
            [GRAIN, 0, BARRED * GRAIN], np.float32
        )  # the value and the two carried units
        return by_agent, by_state, others

    @property
    def stop_is_zero(self) -> bool:
        return not self.stop

    @property
    def _per_agent(self) -> int:
        return inputs_of(self.beside, self.costs is not None)[0]

    def values(
        self, x: FloatArray, needed: Needs, selected: BoolArray, available: BoolArray
    ) -> tuple[FloatArray, FloatArray]:
        return self.fixed(x, needed, available)(np.arange(len(x)), selected, x.shape[1])

    @property
    def walks_alone(self) -> bool:
        """Whether `walk` may be asked: with `pairs` every step changes what is known of every agent, and what agents cost it does not
        see."""
        return self.pairs is None and self.costs is None

    def walk(self, x: FloatArray, available: BoolArray, limits: SetLimits = NO_LIMITS) -> tuple[list[int], int, bool]:
        """The greedy walk of one query through all sets: (agents in the order taken, steps with STOP counted, whether
        the limit ended it). x float32[A], available bool[A]. The same answer as `walking.greedy`, without a batch's cost: the
        context is kept as seven numbers that each step updates, and all arrays are made once.
        """
        if len(x) > SHORTLIST:
            ranked = likeliest_first(x, available)
            order, steps, full = self._walk(x[ranked], available[ranked], limits)
            return ranked[order].tolist() if order else [], steps, full
        return self._walk(x, available, limits)

    def _walk(self, x: FloatArray, available: BoolArray, limits: SetLimits) -> tuple[list[int], int, bool]:
        min_agents, max_agents, margin, _ = limits
        by_agent, by_state, rest = self._single
        clipped = x.clip(-LIMIT, LIMIT)
        p = np.exp(-clipped)
        p += 1
        np.divide(available, p, out=p)
        own = np.empty((len(x), PER_AGENT + 2), np.float32)
        np.divide(clipped, LIMIT, out=own[:, 0])
        own[:, 1] = p
        own[:, 2] = 1
        np.logical_not(available, out=own[:, 3])
        # The first layer's share of each agent is the same in every state.
        projected = own.dot(by_agent)  # (A, H + 2)
        layers = [(weights, np.empty((len(x), *weights.shape[1:]), np.float32)) for weights in rest]
        first, state = np.empty_like(projected), np.empty(CONTEXT, np.float32)
        p_of: list[float] = p.tolist()
        by_p = range(len(x)) if len(x) > SHORTLIST else (-p).argsort(kind="stable").tolist()
        selected = bytearray(len(x))
        total, none = sum(p_of), float(np.exp(np.log1p(-p).sum()))
        hits, count, top, grain = 0.0, 0, 0, float(GRAIN)
        limit = min(len(x), max_agents) if max_agents else len(x)
        order: list[int] = []
        shared, hidden_of, layers_of = projected, first, layers
        while count < limit:
            if len(x) > SHORTLIST:  # agents stand in order here: of the first so many, `count` are taken
                short = count + SHORTLIST
                shared, hidden_of = projected[:short], first[:short]
                layers_of = [(weights, values[:short]) for weights, values in layers]
            while selected[by_p[top]]:
                top += 1
            left = max(total - hits, 0.0)
            state[:] = (
                log1p(hits), log1p(left), log1p(count), hits / (count + left + 1e-3), p_of[by_p[top]], none, count > 0,
            )  # fmt: skip
            hidden = np.add(shared, state.dot(by_state), out=hidden_of)
            for weights, values in layers_of:
                np.maximum(hidden, _ZERO, out=hidden)
                hidden = np.dot(hidden, weights, out=values)
            np.rint(hidden, out=hidden)
            best = int(hidden.argmax())
            if count and count >= min_agents and clipped[best] <= -LIMIT:
                # Nobody so unlikely joins others: see `walking.greedy`.
                hidden[clipped[: len(hidden)] <= -LIMIT] = BARRED * grain
                best = int(hidden.argmax())
            value = float(hidden[best]) / grain
            if not (value > BARRED / 2 if count < min_agents else value > self._stop_value(state) + margin):
                return order, count + 1, False
            order.append(best)
            selected[best] = True
            projected[best, -1] = 1  # barred from here on
            hits += p_of[best]
            count += 1
        return order, count, bool(max_agents) and limit == max_agents

    def _stop_value(self, state: FloatArray) -> float:
        if not self.stop:
            return 0.0
        for i, (weights, bias) in enumerate(self.stop):
            state = (np.maximum(state, 0) if i else state) @ weights + bias
        return float(state[0])

    def fixed(self, x: FloatArray, needed: Needs, available: BoolArray) -> FixedQueries:
        """`values` of B queries for a whole walk: what does not change from step to step is computed once. The result
        is called with (the rows still walking int64[b], their selected agents bool[b, A], how many agents to value)."""
        p = probabilities(x, available)
        none = np.exp(np.log1p(-p).sum(axis=-1))
        # The first layer in parts: what concerns an agent alone is the same in every state, the state's share for all agents.
        costs = None if self.costs is None else np.broadcast_to(self.costs, x.shape)
        every = Beside(p, costs) if self.beside else None
        projected = described(x, p, every) @ self.layers[0][0][: self._per_agent]

        def values(rows: NDArray[np.int64], selected: BoolArray, first: int) -> tuple[FloatArray, FloatArray]:
            by_agent, p_now = projected[rows, :first], p[rows]
            beside = None if every is None else every.take(rows)
            if self.pairs is not None:
                now = conditional(x[rows], self.pairs, selected)
                p_now = probabilities(now, available[rows])
                by_agent = described(now, p_now, beside)[:, :first] @ self.layers[0][0][: self._per_agent]
            q, stop = self._rest(by_agent, context(p_now, none[rows], selected, beside))
            return q if costs is None else q - costs[rows, :first], stop

        return values

    def _rest(self, projected: FloatArray, shared: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Values from the first layer's share of each agent (1 or B, A, H) and the context (B, C)."""
        (first, bias), *rest = self.layers
        hidden = projected + (shared @ first[self._per_agent :] + bias)[:, None]
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
        tensors = _named(self.layers, "q") | _named(self.stop, "stop")
        more = {"pairs": self.pairs, "costs": self.costs}
        return tensors | {n: np.ascontiguousarray(t, np.float32) for n, t in more.items() if t is not None}

    def config(self) -> dict[str, Any]:
        counts = {"layers": len(self.layers), "stop_layers": len(self.stop)}
        return {"kind": self.kind, **counts, "beside": self.beside}


@dataclass(frozen=True)
class PlainPolicy:
    """One multilayer perceptron from (x, mask of selected agents) to a value for every agent and STOP."""

    layers: tuple[tuple[FloatArray, FloatArray], ...]
    stop_is_zero: bool = False
    kind: ClassVar[str] = "plain"

    def values(
        self, x: FloatArray, needed: Needs, selected: BoolArray, available: BoolArray
    ) -> tuple[FloatArray, FloatArray]:
        hidden = np.concatenate([x, selected.astype(np.float32)], axis=-1)
        for i, (weights, bias) in enumerate(self.layers):
            hidden = (np.maximum(hidden, 0) if i else hidden) @ weights + bias
        stop = np.zeros(len(x), np.float32) if self.stop_is_zero else hidden[:, -1]
        return hidden[:, :-1], stop

    def fixed(self, x: FloatArray, needed: Needs, available: BoolArray) -> FixedQueries:
        """As `SharedPolicy.fixed`."""
        return lambda rows, selected, first: self.values(x[rows], needed, selected, available[rows])

    def tensors(self) -> dict[str, NDArray[Any]]:
        return _named(self.layers, "q")

    def config(self) -> dict[str, Any]:
        return {"kind": self.kind, "layers": len(self.layers), "stop_is_zero": self.stop_is_zero}


#: Action values of a state. `stop_is_zero` says whether STOP's value is known to be 0.
Policy = SharedPolicy | PlainPolicy | ThresholdPolicy | BayesPolicy


def _named(layers: tuple[tuple[FloatArray, FloatArray], ...], name: str) -> dict[str, NDArray[Any]]:
    tensors: dict[str, NDArray[Any]] = {}
    for i, (weights, bias) in enumerate(layers):
        tensors[f"{name}.{i}.weights"] = np.ascontiguousarray(weights, np.float32)
        tensors[f"{name}.{i}.bias"] = np.ascontiguousarray(bias, np.float32)
    return tensors


def load_policy(config: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> Policy:
    """The policy of an artifact. Raises ValueError where its parts do not fit."""

    def layers(name: str, count: Any) -> tuple[tuple[FloatArray, FloatArray], ...]:
        try:
            pairs = tuple((tensors[f"{name}.{i}.weights"], tensors[f"{name}.{i}.bias"]) for i in range(int(count)))
        except KeyError as error:
            raise ValueError(f"the policy lacks the tensor {error}") from None
        width = None
        for weights, bias in pairs:
            if weights.ndim != 2 or bias.shape != weights.shape[1:] or width not in (None, weights.shape[0]):
                raise ValueError("the layers of the policy do not fit each other")
            width = weights.shape[1]
        return pairs

    kind = config.get("kind")
    if kind == "shared":
        pairs, costs = tensors.get("pairs"), tensors.get("costs")
        values, stop = layers("q", config["layers"]), layers("stop", config.get("stop_layers", 0))
        if pairs is not None and (pairs.ndim != 2 or pairs.shape[0] != pairs.shape[1]):
            raise ValueError("the policy's evidence of pairs is not square")
        if costs is not None and costs.ndim != 1:
            raise ValueError("the policy's costs are no list of numbers")
        return SharedPolicy(values, stop, pairs, costs, bool(config.get("beside", False)))
    if kind == "plain":
        return PlainPolicy(layers("q", config["layers"]), bool(config.get("stop_is_zero", False)))
    if kind == ThresholdPolicy.kind:
        return ThresholdPolicy.from_tensors(tensors)
    if kind == BayesPolicy.kind:
        return BayesPolicy.from_parts(config, tensors)
    raise ValueError(f"unknown policy kind {kind!r}")
