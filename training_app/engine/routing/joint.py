"""Agents that no model has learnt yet beside those that it has: one decision for both. numpy only.

    z_t' = w · [1, z_t, d_t, max(0, d_c - max(d_t, 0))]        of a trained agent t
    set  = the set of highest expected Jaccard under sigmoid(z_t') and sigmoid(d_c)

z_t is the model's log-odds of a trained agent, d the log-odds by description (`reading/descriptions.py`) and d_c the largest one
of a cold agent. A model was never shown the queries of a cold agent and gives them, surely, to the trained agent that is nearest:
beside cold agents its word counts together with the agents' descriptions, and less where a cold agent's fits clearly better.
`benchmarks.cold` learnt w on pools with agents held out. Where the set holds no cold agent, the model's answer stays as it is. In a
conversation, a turn stays with the agents of the turn before as among trained agents (`reading/conversing/continuing.py`), with the
probabilities of both kinds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from training_app.engine.reading.cold import ColdScores
from training_app.engine.reading.conversing.continuing import Continuing
from training_app.engine.reading.logistic import sigmoid
from training_app.engine.routing.allowed import SetLimits
from training_app.engine.routing.bayes import BayesPolicy
from training_app.engine.routing.exploring import Permits
from training_app.engine.routing.routes import STICKY, Continued

#: Of [1, z_t, d_t, the lead of the best cold agent].
TRAINED = (-0.54, 0.60, 0.44, -0.45)
SURE = 8.0  # log-odds beyond this say nothing more


@dataclass(frozen=True, slots=True)
class Joining:
    """How cold agents may join a set: with a probability of `threshold` at least, within `limits` (a largest set of 0 is no limit),
    and to sets that `permits` allows (all, where None). Where hardly a query of the pool needs several agents, it is `single`: the set
    with a cold agent is then the likeliest agent alone.
    """

    threshold: float = 0.0
    limits: tuple[int, int] = (0, 0)
    permits: Permits | None = None
    single: bool = False


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn of a conversation, and the ids of the agents that answered the one before: it stays with these where `continuing` finds
    that right with a probability of at least 1 - `sticky`."""

    text: str
    last: tuple[int, ...]
    continuing: Continuing
    sticky: float = STICKY


class Together(NamedTuple):
    """The set of trained and cold agents, which cold agents joined it, and, of a turn that a cold agent may answer, whether the agents
    of the turn before go on; None where the model alone says so."""

    agents: tuple[int, ...]
    joined: tuple[int, ...] = ()
    continued: Continued | None = None


def decided(trained: Mapping[int, float], scores: ColdScores, joining: Joining) -> tuple[int, ...] | None:
    """The ids of the best set within the limits, likeliest first; None where no cold agent belongs to it. `trained` are the model's
    probabilities."""
    likely = {agent: p for agent, p in scores.cold.items() if p >= joining.threshold}
    odds = log_odds(trained, likely, scores.trained)
    ids = list(odds)
    x, available = np.array([odds[agent] for agent in ids], np.float32), np.ones(len(ids), np.bool_)
    smallest, largest = joining.limits
    limits = SetLimits(smallest, max(smallest, 1) if joining.single else largest)
    order, _steps, _full = BayesPolicy(1.0, 0.0).walk(x, available, limits)
    chosen = tuple(ids[place] for place in order)
    return None if scores.cold.keys().isdisjoint(chosen) else chosen


def together(
    agents: Sequence[int],
    trained: Mapping[int, float],
    scores: ColdScores,
    joining: Joining,
    keep: int | None = None,
    turn: Turn | None = None,
) -> Together:
    """The model's set `agents` once cold agents are considered; `keep` is an agent of it that stays. Where the best set is not
    permitted, cold agents join the model's own one by one as far as that is. A `turn` that the agents before go on to answer is
    theirs."""
    chosen = _joined(agents, trained, scores, joining, keep)
    if turn is None or scores.cold.keys().isdisjoint((*turn.last, *chosen.agents)):
        return chosen
    odds = log_odds(trained, scores.cold, scores.trained)
    last, same = set(turn.last), set(turn.last) == set(chosen.agents)
    if not last <= odds.keys():  # one of them can no longer be chosen
        return chosen._replace(continued=Continued(turn.last, False, 1.0))
    p = sigmoid(np.array([list(odds.values())]))
    before, now = (np.array([[agent in some for agent in odds]], np.bool_) for some in (last, chosen.agents))
    likely = float(turn.continuing.probabilities(p, before, now, [turn.text])[0])
    if same or likely < max(1 - turn.sticky, 1e-9) or not _allowed(turn.last, joining, keep):
        return chosen._replace(continued=Continued(turn.last, same, likely if same else 1 - likely))
    kept = tuple(sorted(last, key=lambda agent: -odds[agent]))
    joined = tuple(agent for agent in kept if agent in scores.cold)
    return Together(kept, joined, Continued(turn.last, True, likely, held=True))


def _allowed(agents: Sequence[int], joining: Joining, keep: int | None) -> bool:
    smallest, largest = joining.limits
    fits = smallest <= len(agents) and not 0 < largest < len(agents)
    return fits and (keep is None or keep in agents) and (joining.permits is None or joining.permits(agents))


def _joined(
    agents: Sequence[int], trained: Mapping[int, float], scores: ColdScores, joining: Joining, keep: int | None
) -> Together:
    best = decided(trained, scores, joining) if scores.cold else None
    if best is None:
        return Together(tuple(agents))
    stay = tuple(agent for agent in agents if agent in best or agent == keep)
    max_agents = joining.limits[1]
    room = max(max_agents - len(stay), 0) if max_agents else None
    joined = tuple(agent for agent in best if agent in scores.cold)[:room]
    whole = (*stay, *joined)
    if joining.permits is None or joining.permits(whole):
        return Together(whole, joined)
    whole = tuple(agents)
    for agent in joined:
        if joining.permits((*whole, agent)) and not 0 < max_agents <= len(whole):
            whole = (*whole, agent)
    return Together(whole, whole[len(agents) :])


def log_odds(
    trained: Mapping[int, float], cold: Mapping[int, float], described: Mapping[int, float]
) -> dict[int, float]:
    """The log-odds of all agents together, by id: `trained` by the model, `cold` and `described`, the trained ones, by description."""
    lead = max(map(logit, cold.values()), default=-SURE)
    result = {}
    constant, model, description, behind = TRAINED
    for agent, p in trained.items():
        own = logit(described[agent]) if agent in described else 0.0
        result[agent] = constant + model * logit(p) + description * own + behind * max(0.0, lead - max(own, 0.0))
    return result | {agent: logit(p) for agent, p in cold.items()}


def logit(p: float) -> float:
    """The log-odds of a probability, SURE at most."""
    if p <= 0 or p >= 1:
        return SURE if p >= 1 else -SURE
    return max(-SURE, min(SURE, math.log(p / (1 - p))))
