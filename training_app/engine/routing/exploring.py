"""Exploration: now and then one agent of a set is added or left out at random, so that what it was worth can be learnt from outcomes.

With probability `share` one agent i, drawn with probability q_i, changes sides; else the set stays. So of the policy that answers

    π(S | x) = 1 - share,        π(S △ {i} | x) = share · q_i,        π(any other set | x) = 0

where S is the set that the model chose. q_i = FLOOR / n + (1 - FLOOR) · p_i (1 - p_i) / Σ_j p_j (1 - p_j) over the n agents that may
change sides: those whose probability p_i is near one half the most, but each at times, so that every set one agent away from S can be
judged. An agent may not be left out where the set would fall below the model's least number, nor be added above its largest, nor
change sides where the set that comes of it is not allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from random import Random

FLOOR = 0.2


@dataclass(frozen=True, slots=True)
class Explored:
    """A set with how likely it was. `agent` changed sides, None where the set is the model's own."""

    agents: tuple[int, ...]
    propensity: float
    agent: int | None = None


#: Whether a set of ids is allowed.
Permits = Callable[[Collection[int]], bool]


def chances(
    agents: Sequence[int],
    scores: Mapping[int, float],
    min_agents: int = 0,
    max_agents: int = 0,
    permits: Permits | None = None,
) -> dict[int, float]:
    """q by agent: who may change sides, and how likely each is to when one does. `max_agents` 0: no limit. Empty: nobody may."""
    size = len(agents)
    may = [agent for agent in scores if (size > min_agents if agent in agents else not max_agents or size < max_agents)]
    if permits is not None:
        may = [agent for agent in may if permits(turned(agents, agent))]
    if not may:
        return {}
    unsure = {agent: max(scores[agent] * (1 - scores[agent]), 0.0) for agent in may}
    total = sum(unsure.values())
    if total <= 0:
        return dict.fromkeys(may, 1 / len(may))
    return {agent: FLOOR / len(may) + (1 - FLOOR) * weight / total for agent, weight in unsure.items()}


def explore(
    agents: Sequence[int],
    scores: Mapping[int, float],
    share: float,
    random: Random,
    *,
    min_agents: int = 0,
    max_agents: int = 0,
    permits: Permits | None = None,
) -> Explored:
    """The set to answer with, in place of the model's `agents`. `scores` are the probabilities of all agents that it may choose."""
    own = tuple(agents)
    if random.random() >= share:
        # Who might have changed sides matters only for whether anybody could.
        return Explored(own, 1 - share if chances(own, scores, min_agents, max_agents, permits) else 1.0)
    probabilities = chances(own, scores, min_agents, max_agents, permits)
    if not probabilities:
        return Explored(own, 1.0)
    flipped = random.choices(list(probabilities), list(probabilities.values()))[0]
    return Explored(turned(own, flipped), share * probabilities[flipped], flipped)


def turned(agents: Sequence[int], agent: int) -> tuple[int, ...]:
    """The set with one agent on the other side: left out where it was in, else added at the end."""
    if agent in agents:
        return tuple(other for other in agents if other != agent)
    return (*agents, agent)
