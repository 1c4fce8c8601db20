"""The allowed set with the highest expected worth, exactly. numpy only.

`best_allowed`: agents needed independently of each other. Best first branch and bound (Lawler and Wood 1966). A node says which
agents are in and which are out. Were all sets of the rest allowed, the best one would be a prefix of the rest in an order
(`measures.py`: by p, or for `value` by -log(1 - p_a) / c_a, what a unit of cost brings): swapping an agent for a likelier one never
makes a set of the same size worse. That prefix is a bound, and where it is allowed it is the answer of the node. Where it breaks a
rule, two nodes follow, in one of which the agent that breaks it is out.

    bound(in, out) = max over j of E[worth(in + first j of the rest)]        nodes are taken by falling bound

`best_joint`: agents that come together or instead of each other, by a log-linear model of pairs (Besag 1975),

    P(R) ∝ exp(Σ_{a in R} z_a + Σ_{a < b in R} W_ab)                        R a subset of the LISTED likeliest agents

and every set S of them is tried. With t^|R \\ S| a product over agents, all 2^n expected values are a few matrix products, since the
sum over R factors over two halves of the list; agents outside of it are independent of the rest and never chosen. A set S
with P(S) above a half has the highest expected Jaccard, and no other is tried: 1 - J is a metric (Lipkus 1999), so that by another
set, at a distance d from S, no query gains more than d, and those that need S lose d.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from functools import lru_cache
from itertools import count

import numpy as np
from numpy.typing import NDArray

from training_app.engine.data.arrays import BoolArray
from training_app.engine.measures import PRIMARY, VALUE, as_needed, expected_worth, integral_nodes
from training_app.engine.routing.allowed import Allowed

Floats = NDArray[np.float64]

LISTED = 12  # agents that are enumerated: 4,096 sets
MAJORITY = 0.5 + 1e-9  # more than rounding moves the P of a set by
MOST_NODES = 2_000  # of branch and bound; a search that is longer answers with the best set so far, which is allowed


@dataclass(frozen=True, slots=True)
class Task:
    """One query to decide. `p` float64[A]: how likely each agent is needed, 0 where it is not available. `costs` float64[A] for
    `value`, in units of a covered query. `min_agents` and `max_agents`: 0 is no limit. `margin`: what each agent of a set must be
    worth. `needed`: log-odds that anybody is needed, where a witness of its own says so (`measures.as_needed`)."""

    goal: str
    p: Floats
    costs: Floats | None = None
    available: BoolArray | None = None
    min_agents: int = 0
    max_agents: int = 0
    margin: float = 0.0
    needed: float | None = None

    @property
    def open(self) -> BoolArray:
        """Who is available, bool[A]."""
        return np.ones(len(self.p), np.bool_) if self.available is None else self.available

    @property
    def needs(self) -> Floats | None:
        """`needed` of a batch of one."""
        return None if self.needed is None else np.array([self.needed])


def best_allowed(task: Task, allowed: Allowed) -> list[int]:
    """The places of the best allowed set, likeliest first. Where no allowed set has `min_agents` agents, as many as are allowed."""
    size = min(task.max_agents or len(task.p), allowed.max_agents)
    for fewest in range(min(task.min_agents, size), -1, -1):
        best = _Search(task, allowed, fewest, size).best()
        if best is not None:
            return sorted(best, key=lambda a: (-task.p[a], a))
    return []


class _Search:
    """Branch and bound over the allowed sets of `min_agents` to `max_agents` agents."""

    def __init__(self, task: Task, allowed: Allowed, min_agents: int, max_agents: int) -> None:
        self.task, self.allowed, self.min_agents, self.max_agents = task, allowed, min_agents, max_agents
        p = task.p
        key = p if task.goal != VALUE or task.costs is None else -np.log1p(-p) / np.maximum(task.costs, 1e-6)
        self.order = np.argsort(-key, kind="stable").tolist()
        #: For `value` prefixes are best over all sizes, not at each: a limit of size is a rule like the others there.
        self.sized = task.goal != VALUE

    def best(self) -> list[int] | None:
        """The best set as places; None where none is allowed."""
        number = count()
        start = self._node(frozenset(), frozenset(np.flatnonzero(~self.task.open | self.allowed.missing).tolist()))
        nodes = [] if start is None else [(-start[0], next(number), *start[1:])]
        incumbent, incumbent_worth = None, -np.inf
        for _ in range(MOST_NODES):
            if not nodes or -nodes[0][0] <= incumbent_worth:
                break
            _, _, inside, outside, chosen = heapq.heappop(nodes)
            for more_in, more_out in self._split(inside, outside, chosen):
                if more_in & more_out:
                    continue
                node = self._node(more_in, more_out)
                if node is None or node[0] <= incumbent_worth:
                    continue
                if self._fault(node[3]) is None:
                    incumbent, incumbent_worth = sorted(node[3]), node[0]
                else:
                    heapq.heappush(nodes, (-node[0], next(number), *node[1:]))
            if self._fault(chosen) is None:
                incumbent = sorted(chosen)
                break
        return incumbent

    def _node(
        self, inside: frozenset[int], outside: frozenset[int]
    ) -> tuple[float, frozenset[int], frozenset[int], frozenset[int]] | None:
        """(bound, in, out, the set that has it), None where no set of this node can be allowed."""
        required = inside.union(*(np.flatnonzero(self.allowed.needs[a]).tolist() for a in inside))
        inside = frozenset(required)
        sure = np.zeros(len(self.task.p), np.bool_)
        sure[list(inside)] = True
        if inside & outside or len(inside) > self.max_agents or self.allowed.broken(sure) is not None:
            return None
        barred = np.flatnonzero(self.allowed.against[list(inside)].any(axis=0)).tolist() if inside else []
        outside = outside.union(barred)
        held = [a for a in self.order if a in inside]
        rest = [a for a in self.order if a not in inside and a not in outside]
        gone = [a for a in self.order if a in outside]
        order = held + rest + gone
        costs = None if self.task.costs is None else self.task.costs[order][None]
        worth = expected_worth(self.task.goal, self.task.p[order][None], costs, self.task.needs)[0]
        worth = worth - self.task.margin * np.arange(len(worth))
        first, last = len(held), len(held) + len(rest)
        if self.sized:
            first, last = max(first, self.min_agents), min(last, self.max_agents)
        if first > last or len(held) + len(rest) < self.min_agents:
            return None
        size = first + int(worth[first : last + 1].argmax())
        return float(worth[size]), inside, outside, frozenset(order[:size])

    def _fault(self, chosen: frozenset[int]) -> tuple[str, int, int] | None:
        selected = np.zeros(len(self.task.p), np.bool_)
        selected[list(chosen)] = True
        fault = self.allowed.broken(selected)
        if fault is None and not self.min_agents <= len(chosen) <= self.max_agents:
            return "size", -1, -1
        return fault

    def _split(
        self, inside: frozenset[int], outside: frozenset[int], chosen: frozenset[int]
    ) -> list[tuple[frozenset[int], frozenset[int]]]:
        """(in, out) of the nodes that follow one whose best set breaks a rule; together they hold all its allowed sets."""
        fault = self._fault(chosen)
        if fault is None:
            return []
        kind, agent, _other = fault
        if kind in ("size", "budget") or agent in inside:
            free = [a for a in self.order if a in chosen and a not in inside]
            if len(chosen) < self.min_agents:
                free = [a for a in self.order if a not in chosen and a not in outside]
            if not free:
                return []
            # The one that uses up most of what is short.
            agent = max(free, key=lambda a: self.allowed.costs[a]) if kind == "budget" else free[-1]
            if kind != "budget" and len(chosen) < self.min_agents:
                agent = free[0]
        return [(inside, outside | {agent}), (inside | {agent}, outside)]


# --- Pairs --------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=16)
def members(agents: int) -> BoolArray:
    """All sets of so many agents, bool[2^n, n]; set s holds agent a where bit n - 1 - a of s is one."""
    return (np.arange(1 << agents)[:, None] >> np.arange(agents)[::-1] & 1).astype(np.bool_)


@lru_cache(maxsize=16)
def _numbers(agents: int) -> tuple[Floats, NDArray[np.int64]]:
    """`members` as float64[2^n, n], and the sizes of the sets, int64[2^n]."""
    return members(agents).astype(np.float64), members(agents).sum(axis=1)


def within(pairs: Floats) -> Floats:
    """What the pairs inside of every set add to its log P, float64[2^n]: pairs float64[n, n] symmetric with a diagonal of 0."""
    sets, _sizes = _numbers(len(pairs))
    return np.asarray(0.5 * ((sets @ pairs) * sets).sum(axis=1))


def energies(z: Floats, inside: Floats) -> Floats:
    """log P of every set but for a constant, float64[2^n]: z float64[n], `inside` float64[2^n] as of `within`."""
    return np.asarray(_numbers(len(z))[0] @ z + inside)


def joint(z: Floats, inside: Floats) -> Floats:
    """P of every set, float64[2^n]."""
    e = energies(z, inside)
    e = np.exp(e - e.max())
    return np.asarray(e / e.sum())


@lru_cache(maxsize=16)
def _halves(agents: int, nodes: tuple[float, ...]) -> tuple[Floats, Floats]:
    """t^|R \\ S| and |S ∩ R| t^|R \\ S| of all sets S, R of so many agents at each node t: float64[M, 2^n, 2^n] each."""
    sets = members(agents).astype(np.float64)
    both = sets @ sets.T
    power = np.power(np.array(nodes)[:, None, None], sets.sum(axis=1)[None] - both)
    return power, both * power


@lru_cache(maxsize=16)
def _worth_of_hits(agents: int, everyone: int, f1: bool) -> tuple[tuple[float, ...], Floats, Floats]:
    """The nodes t of the integral over so many agents, as they are and as float64[M], and what a hit of every set is worth at each,
    float64[M, 2^n]."""
    t, weights = integral_nodes(everyone, (2 * everyone if f1 else everyone) - 1)
    sizes = _numbers(agents)[1]
    return tuple(t.tolist()), t, (1 + f1) * weights[:, None] * t[:, None] ** (sizes - 1.0)


@lru_cache(maxsize=16)
def _both_halves(agents: int, nodes: tuple[float, ...]) -> tuple[Floats, Floats]:
    """`_halves` for two products: of the upper half of the agents a row for each node, set S and kind, hits before power, float64[M *
    2^u * 2, 2^u]; of the lower half the columns of each S, power above hits, float64[M, 2 * 2^l, 2^l]."""
    upper, lower = agents // 2, agents - agents // 2
    (power_u, hits_u), (power_l, hits_l) = _halves(upper, nodes), _halves(lower, nodes)
    rows = np.stack([hits_u, power_u], axis=2).reshape(-1, 1 << upper)
    return rows, np.concatenate([power_l.transpose(0, 2, 1), hits_l.transpose(0, 2, 1)], axis=1)


def _hits(table: Floats, agents: int, nodes: tuple[float, ...]) -> Floats:
    """Σ_R P(R) |S ∩ R| t^|R \\ S| of every S at each node t, float64[M, 2^n]; table float64[2^n]."""
    upper, lower = agents // 2, agents - agents // 2
    rows, columns = _both_halves(agents, nodes)
    part = rows @ table.reshape(1 << upper, 1 << lower)
    return np.asarray(part.reshape(len(nodes), 1 << upper, 2 << lower) @ columns).reshape(len(nodes), -1)


def expected_joint(goal: str, table: Floats, outside: Floats, costs: Floats | None = None) -> Floats:
    """The expected worth of every set of n agents, float64[2^n]: table float64[2^n] is P of every set of them, outside float64[M]
    how likely each other agent is needed, costs float64[n] for `value`."""
    agents = len(table).bit_length() - 1
    sets, sizes = _numbers(agents)
    nobody = float(np.prod(1 - outside)) if len(outside) else 1.0
    if goal == "exact":
        return table * nobody
    if goal == VALUE:
        assert costs is not None
        upper, lower = agents // 2, agents - agents // 2
        power_u, power_l = _halves(upper, (0.0,))[0][0], _halves(lower, (0.0,))[0][0]
        covered = (power_u @ table.reshape(1 << upper, 1 << lower) @ power_l.T).reshape(-1)
        return np.asarray(covered * nobody - sets @ costs)
    nodes, t, of_hits = _worth_of_hits(agents, agents + len(outside), goal == "f1")
    hits = table * t[:, None] ** sizes @ sets @ sets.T if goal == "f1" else _hits(table, agents, nodes)
    hits *= of_hits
    beyond = np.prod(1 + outside * (t[:, None] - 1), axis=1) if len(outside) else np.ones(len(t))
    worth = np.asarray(beyond @ hits)
    worth[0] = table[0] * nobody
    return worth


def best_joint(task: Task, z: Floats, pairs: Floats, allowed: Allowed | None, every: Floats | None = None) -> list[int]:
    """The places of the best allowed set under the log-linear model, likeliest first: z float64[A] log-odds of each agent without any
    other one, pairs float64[A, A]; `every` is `within(pairs)`, where somebody has it."""
    if every is not None and len(z) <= LISTED and task.open.all():
        return _best(task, list(range(len(z))), joint(z, every), allowed)
    ranked = [a for a in np.argsort(-z, kind="stable").tolist() if task.open[a]]
    listed: list[int] = []
    for agent in ranked:
        needs = [agent] if allowed is None else np.flatnonzero(allowed.needs[agent]).tolist()
        more = [a for a in needs if a not in listed and task.open[a]]
        if len(listed) + len(more) <= LISTED:
            listed += more
    if not listed:
        return []
    return _best(task, listed, joint(z[listed], within(pairs[np.ix_(listed, listed)])), allowed)


def _best(task: Task, listed: list[int], table: Floats, allowed: Allowed | None) -> list[int]:
    """The best allowed set of those `listed`, likeliest first; table float64[2^n] is P of every set of them."""
    out = task.open.copy()
    out[listed] = False
    sets, sizes = members(len(listed)), _numbers(len(listed))[1]
    limited = allowed is not None or task.max_agents or task.min_agents
    if task.needs is not None and not out.any():
        table = as_needed("exact", table[None], task.needs)[0]  # P of every set is what it is worth for this goal
    if task.goal == PRIMARY and not (limited or task.margin or out.any()) and table.max() > MAJORITY:
        return _likeliest_first(sets[int(table.argmax())], listed, table)
    costs = None if task.costs is None else task.costs[listed]
    worth = expected_joint(task.goal, table, task.p[out], costs)
    if task.needs is not None and out.any():
        spent = 0.0 if costs is None else (sets @ costs)[None]
        worth = as_needed(task.goal, worth[None], task.needs, spent)[0]
    if task.margin:
        worth = worth - task.margin * sizes
    if limited:
        fine = np.ones(len(worth), np.bool_)
        if allowed is not None:
            whole = np.zeros((len(sets), len(task.p)), np.bool_)
            whole[:, listed] = sets
            fine &= allowed.holds(whole)
        if task.max_agents:
            fine &= sizes <= task.max_agents
        fewest = min(task.min_agents, int(sizes[fine].max()))
        worth = np.where(fine & (sizes >= fewest), worth, -np.inf)
    return _likeliest_first(sets[int(worth.argmax())], listed, table)


def _likeliest_first(best: BoolArray, listed: list[int], table: Floats) -> list[int]:
    """The agents of the set `best` bool[n] of those `listed`, likeliest first; table float64[2^n]."""
    chosen = best.nonzero()[0].tolist()
    if len(chosen) > 1:
        likely = (table @ _numbers(len(listed))[0]).tolist()  # (n) how likely each is needed
        chosen.sort(key=lambda place: -likely[place])
    return [listed[i] for i in chosen]
