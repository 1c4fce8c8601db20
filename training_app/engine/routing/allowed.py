"""Which sets of agents are allowed: what each agent requires and excludes, groups of which one may serve, a largest set, a budget.

`Rules` are what people define, by agents' ids; they can be stored as JSON and are part of an artifact. `Allowed` are the same for the
agents of one router, as arrays. Every way of choosing obeys them: the exact rule searches allowed sets only (`exact.py`), a walk masks
the agents and STOP (`Allowed.open`, `Allowed.complete`), and the network learns under the same masks (`env.py`). The empty set is
always allowed. numpy only.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from training_app.engine.data.arrays import BoolArray
from training_app.engine.data.examples import Agent
from training_app.engine.measures import gettext_noop

MOST_RULES = 500  # pairs and groups of one pool
SLACK = 1e-9  # of a budget, which is compared with a sum of floats
NO_LIMIT = float("inf")


class BadRules(ValueError):
    """Rules that cannot be used; the message is a sentence."""


#: Why an agent is left out, by a reason's code.
WORDS = {
    "unknown": gettext_noop("it requires an agent that the model does not know"),
    "unavailable": gettext_noop("it requires %(other)s, which is not available"),
    "contradiction": gettext_noop("it requires an agent that another rule excludes"),
    "group": gettext_noop("%(other)s was chosen, and only one of “%(group)s” may be"),
    "excludes": gettext_noop("it is not allowed beside %(other)s"),
    "budget": gettext_noop("over the budget"),
    "size": gettext_noop("a set has at most %(most)d agents"),
    "another": gettext_noop("another allowed set is worth more"),
}


class Reason(NamedTuple):
    """Why an agent is left out: one of WORDS, and what its words name: another agent by its id, a group, the largest set."""

    code: str
    other: int = -1
    group: str = ""
    limit: int = 0

    def sentence(self, names: Mapping[int, str], words: Callable[[str], str] = str) -> str:
        """In words, agents by `names`; `words` translates."""
        values = {"other": names.get(self.other, str(self.other)), "group": self.group, "most": self.limit}
        return words(WORDS[self.code]) % values


@dataclass(frozen=True, slots=True)
class Rules:
    """What is allowed, by agents' ids. `requires`: (a, b), a may be chosen only together with b. `excludes`: (a, b), never both.
    `groups`: (name, members), at most one of them. `most`: the largest set, 0 for no limit. `budget`: what the agents of a set may
    cost together, None for no limit. `costs`: (agent, cost) where they are not those that a model was trained with."""

    requires: tuple[tuple[int, int], ...] = ()
    excludes: tuple[tuple[int, int], ...] = ()
    groups: tuple[tuple[str, tuple[int, ...]], ...] = ()
    most: int = 0
    budget: float | None = None
    costs: tuple[tuple[int, float], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.requires or self.excludes or self.groups or self.most or self.budget is not None)

    def within(self, budget: float | None) -> Rules:
        """The same with a request's own budget; the smaller one counts."""
        if budget is None or (self.budget is not None and self.budget <= budget):
            return self
        return replace(self, budget=budget)

    def priced(self, costs: Mapping[int, float]) -> Rules:
        """The same with what agents cost now, by id."""
        return replace(self, costs=tuple(costs.items()))

    def permits(self, chosen: Collection[int]) -> bool:
        """Whether a set of ids is allowed, whoever knows its agents."""
        own = set(chosen)
        if any(a in own and b not in own for a, b in self.requires) or any(
            a in own and b in own for a, b in self.excludes
        ):
            return False
        if any(len(own.intersection(members)) > 1 for _name, members in self.groups) or (
            self.most and len(own) > self.most
        ):
            return False
        if self.budget is None:
            return True
        cost = dict(self.costs)
        return sum(cost.get(agent, 0.0) for agent in own) <= self.budget + SLACK

    def closed(self, chosen: Collection[int]) -> frozenset[int]:
        """The ids with all that they require, directly or not."""
        whole = frozenset(chosen)
        while more := frozenset(b for a, b in self.requires if a in whole) - whole:
            whole |= more
        return whole

    def settled(self, ranked: Sequence[int]) -> frozenset[int]:
        """Of a set, its agents likeliest first, those that a likelier one requires: the query does not decide on them."""
        settled: frozenset[int] = frozenset()
        for agent in ranked:
            if agent not in settled:
                settled |= self.closed({agent}) - {agent}
        return settled.intersection(ranked)

    def config(self) -> dict[str, Any]:
        """As JSON-able values, costs only where there is a budget; `from_config` is the inverse."""
        return {
            "requires": [list(pair) for pair in self.requires],
            "excludes": [list(pair) for pair in self.excludes],
            "groups": [{"name": name, "agents": list(members)} for name, members in self.groups],
            "most": self.most,
            "budget": self.budget,
            "costs": [] if self.budget is None else [list(pair) for pair in self.costs],
        }

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Rules:
        """Raises BadRules for what is no such configuration, or contradicts itself."""
        try:
            budget = config.get("budget")
            rules = cls(
                tuple((int(a), int(b)) for a, b in config.get("requires", ())),
                tuple((int(a), int(b)) for a, b in config.get("excludes", ())),
                tuple((str(g["name"]), tuple(int(a) for a in g["agents"])) for g in config.get("groups", ())),
                int(config.get("most") or 0),
                None if budget is None else float(budget),
                tuple((int(a), float(cost)) for a, cost in config.get("costs", ())),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise BadRules(f"The rules cannot be read: {error}.") from None
        if rules.most < 0 or (rules.budget is not None and not 0 <= rules.budget < NO_LIMIT):
            raise BadRules("The largest set and the budget must not be negative.")
        if len(rules.requires) + len(rules.excludes) + len(rules.groups) > MOST_RULES:
            raise BadRules(f"A pool can have at most {MOST_RULES} rules.")
        return rules

    def impossible(self, agents: Sequence[Agent]) -> dict[int, Reason]:
        """The agents that these rules never let anybody choose, by id, with the reason."""
        allowed = allowed_for(self, tuple(agents))
        nobody, everybody = np.zeros(len(agents), np.bool_), np.ones(len(agents), np.bool_)
        reasons = {agent.id: allowed.why_not(place, nobody, everybody) for place, agent in enumerate(agents)}
        return {agent: reason for agent, reason in reasons.items() if reason is not None}


@dataclass(frozen=True)
class Allowed:
    """Rules for the A agents of one router, by their places. `needs` bool[A, A]: row a is a itself and all that it requires, directly
    or not. `against` bool[A, A]: whether two agents, with all that they require, exclude each other; on the diagonal, whether
    an agent's own requirements do. `costs` float64[A]. `missing` bool[A]: it requires an agent that is not among the A."""

    rules: Rules
    ids: tuple[int, ...]
    needs: BoolArray
    against: BoolArray
    costs: NDArray[np.float64]
    missing: BoolArray

    @property
    def max_agents(self) -> int:
        """The largest set; the number of agents where there is no limit."""
        return min(self.rules.most or len(self.ids), len(self.ids))

    @property
    def budget(self) -> float:
        """What a set may cost."""
        return NO_LIMIT if self.rules.budget is None else self.rules.budget + SLACK

    def open(self, selected: BoolArray, available: BoolArray) -> BoolArray:
        """Which agents may join, bool[B, A]: with all that they require they contradict nobody who is selected, are available and stay
        within size and budget. selected and available bool[B, A]."""
        needs = self.needs.astype(np.float64)
        whole = selected.astype(np.float64) @ needs > 0  # selected, and what they require
        out = (~available).astype(np.float64) @ needs.T > 0
        out |= whole.astype(np.float64) @ self.against.astype(np.float64) > 0
        out |= np.diagonal(self.against) | self.missing
        added = ~whole @ needs.T  # how many agents each brings
        out |= whole.sum(axis=1)[:, None] + added > self.max_agents
        spent = whole @ self.costs
        out |= spent[:, None] + ~whole @ (needs * self.costs).T > self.budget
        return available & ~selected & ~out

    def complete(self, selected: BoolArray) -> BoolArray:
        """Whether all that the selected require is selected, bool[B]; selected bool[B, A]."""
        lacks = (selected.astype(np.float64) @ self.needs.astype(np.float64) > 0) & ~selected
        return np.asarray(~lacks.any(axis=1))

    def leads(self, selected: BoolArray) -> BoolArray:
        """Whether each set is allowed once all that it requires has joined, bool[B]; selected bool[B, A]."""
        return self.holds(selected.astype(np.float64) @ self.needs.astype(np.float64) > 0)

    def holds(self, selected: BoolArray) -> BoolArray:
        """Whether each set is allowed, bool[B]; selected bool[B, A]."""
        chosen = selected.astype(np.float64)
        fine = (
            self.complete(selected) & (selected.sum(axis=1) <= self.max_agents) & (chosen @ self.costs <= self.budget)
        )
        fine &= ~(selected & self.missing).any(axis=1)
        return np.asarray(fine & ((chosen @ self.against.astype(np.float64)) * chosen == 0).all(axis=1))

    def broken(self, selected: BoolArray) -> tuple[str, int, int] | None:
        """What a set bool[A] breaks: ("requires", a, b), ("excludes", a, b), or ("size", -1, -1) and ("budget", -1, -1); None where it
        is allowed."""
        chosen = np.flatnonzero(selected)
        for a in chosen:
            lacks = np.flatnonzero(self.needs[a] & ~selected)
            if len(lacks):
                return "requires", int(a), int(lacks[0])
            rivals = np.flatnonzero(self.against[a] & selected)
            if len(rivals):
                return "excludes", int(a), int(rivals[0])
        if len(chosen) > self.max_agents:
            return "size", -1, -1
        return ("budget", -1, -1) if float(self.costs[chosen].sum()) > self.budget else None

    def why_not(self, agent: int, selected: BoolArray, available: BoolArray) -> Reason | None:
        """Why the agent in this place cannot join the selected ones, None where it can; selected and available bool[A]."""
        if self.missing[agent]:
            return Reason("unknown")
        unavailable = np.flatnonzero(self.needs[agent] & ~available)
        if len(unavailable):
            return Reason("unavailable", self.ids[unavailable[0]])
        if self.against[agent, agent]:
            return Reason("contradiction")
        rivals = np.flatnonzero(self.against[agent] & selected)
        if len(rivals):
            rival = self.ids[rivals[0]]
            both = {self.ids[agent], rival}
            named = [name for name, members in self.rules.groups if both <= set(members)]
            return Reason("group", rival, named[0]) if named else Reason("excludes", rival)
        whole = (selected @ self.needs) | self.needs[agent]
        if float(self.costs[whole].sum()) > self.budget:
            return Reason("budget")
        return Reason("size", limit=self.max_agents) if int(whole.sum()) > self.max_agents else None


@lru_cache(maxsize=256)
def allowed_for(rules: Rules, agents: tuple[Agent, ...]) -> Allowed:
    """The rules for these agents. What they say of other agents has no effect, but for an agent that requires one of them."""
    count = len(agents)
    place = {agent.id: a for a, agent in enumerate(agents)}
    needs, against = np.eye(count, dtype=np.bool_), np.zeros((count, count), np.bool_)
    missing = np.zeros(count, np.bool_)
    for a, b in rules.requires:
        if a in place and b in place:
            needs[place[a], place[b]] = True
        elif a in place:
            missing[place[a]] = True
    for _ in range(max(1, count.bit_length())):  # paths of twice the length each time
        needs = needs.astype(np.float64) @ needs.astype(np.float64) > 0
    missing = np.asarray((needs & missing).any(axis=1))
    pairs = list(rules.excludes)
    for _name, members in rules.groups:
        pairs += [(a, b) for i, a in enumerate(members) for b in members[i + 1 :]]
    for a, b in pairs:
        if a in place and b in place and a != b:
            against[place[a], place[b]] = against[place[b], place[a]] = True
    wide = needs.astype(np.float64)
    against = wide @ against.astype(np.float64) @ wide.T > 0
    price = dict(rules.costs)
    costs = np.array([price.get(agent.id, agent.cost) for agent in agents], np.float64)
    return Allowed(rules, tuple(agent.id for agent in agents), needs, against, costs, missing)


class SetLimits(NamedTuple):
    """What an answered set keeps to: at least `min_agents` and at most `max_agents` (0: no limit), each agent worth `margin` more than
    stopping (the operating point), and the rules of `allowed` (None: every set is)."""

    min_agents: int = 0
    max_agents: int = 0
    margin: float = 0.0
    allowed: Allowed | None = None


NO_LIMITS = SetLimits()

#: From the selected bool[A] to the values of all agents float[A] and of STOP.
Values = Callable[[BoolArray], tuple[NDArray[Any], float]]


def walk(values: Values, available: BoolArray, allowed: Allowed, limits: SetLimits) -> tuple[list[int], int, bool]:
    """The greedy walk of one query through allowed sets: (places in the order taken, steps with STOP counted, whether a limit of size
    ended it). The agent of highest value joins while it is worth more than STOP by the margin, while fewer than the least number are
    selected, or while somebody who is required is still missing. What is `allowed` stands for that of `limits`."""
    selected = np.zeros(len(available), np.bool_)
    order: list[int] = []
    limit = min(limits.max_agents or len(available), allowed.max_agents)
    capped = allowed if limit == allowed.max_agents else replace(allowed, rules=replace(allowed.rules, most=limit))
    while len(order) < limit:
        missing = (selected @ capped.needs) & ~selected
        open_ = capped.open(selected[None], available[None])[0]
        open_ = missing if missing.any() else open_
        if not open_.any():
            return order, len(order) + 1, False
        q, stop = values(selected)
        best = int(np.where(open_, q, -np.inf).argmax())
        if not (missing.any() or len(order) < limits.min_agents or float(q[best]) > stop + limits.margin):
            return order, len(order) + 1, False
        selected[best] = True
        order.append(best)
    return order, len(order), limit < len(available)


def left_out(wanted: Iterable[int], selected: BoolArray, available: BoolArray, allowed: Allowed) -> dict[int, Reason]:
    """By id, the agents in the places `wanted` that are not selected, and why the rules leave them out."""
    return {
        allowed.ids[agent]: allowed.why_not(agent, selected, available) or Reason("another")
        for agent in wanted
        if available[agent] and not selected[agent]
    }
