"""Agents that no model has learnt yet beside those that it has: one decision for both. numpy only.

    z_t' = z_t - OVERRULED · max(0, d_c - max(d_t, 0))        of a trained agent t
    set  = the set of highest expected Jaccard under sigmoid(z_t') and sigmoid(d_c)

z_t is the model's log-odds of a trained agent, d the log-odds by description (`reading/descriptions.py`) and d_c the largest one
of a cold agent. A model was never shown the queries of a cold agent and gives them, surely, to the trained agent that is nearest:
where a cold agent's description fits clearly better than a trained agent's own, the model is believed less. Where the set holds no
cold agent, the model's answer stays as it is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from training_app.engine.reading.cold import ColdScores
from training_app.engine.routing.allowed import SetLimits
from training_app.engine.routing.bayes import BayesPolicy
from training_app.engine.routing.exploring import Permits

#: How much of a cold agent's lead in description a trained agent's log-odds lose; see `benchmarks/descriptions`.
OVERRULED = 1.0
SURE = 8.0  # log-odds beyond this say nothing more


@dataclass(frozen=True, slots=True)
class Joining:
    """How cold agents may join a set: with a probability of `threshold` at least, within `limits` (a largest set of 0 is no
    limit), and to
    sets that `permits` allows (all, where None)."""

    threshold: float = 0.0
    limits: tuple[int, int] = (0, 0)
    permits: Permits | None = None


def decided(trained: Mapping[int, float], scores: ColdScores, joining: Joining) -> tuple[int, ...] | None:
    """The ids of the best set within the limits, likeliest first; None where no cold agent belongs to it. `trained` are the model's
    probabilities."""
    likely = {agent: p for agent, p in scores.cold.items() if p >= joining.threshold}
    odds = log_odds(trained, likely, scores.trained)
    ids = list(odds)
    x, available = np.array([odds[agent] for agent in ids], np.float32), np.ones(len(ids), np.bool_)
    order, _steps, _full = BayesPolicy(1.0, 0.0).walk(x, available, SetLimits(*joining.limits))
    chosen = tuple(ids[place] for place in order)
    return None if scores.cold.keys().isdisjoint(chosen) else chosen


def together(
    agents: Sequence[int], trained: Mapping[int, float], scores: ColdScores, joining: Joining, keep: int | None = None
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The model's set `agents` once cold agents are considered, and which of these joined it; `keep` is an agent of it that stays.
    Where the best set is not permitted, cold agents join the model's own one by one as far as that is."""
    best = decided(trained, scores, joining) if scores.cold else None
    if best is None:
        return tuple(agents), ()
    stay = tuple(agent for agent in agents if agent in best or agent == keep)
    max_agents = joining.limits[1]
    room = max(max_agents - len(stay), 0) if max_agents else None
    joined = tuple(agent for agent in best if agent in scores.cold)[:room]
    whole = (*stay, *joined)
    if joining.permits is None or joining.permits(whole):
        return whole, joined
    whole = tuple(agents)
    for agent in joined:
        if joining.permits((*whole, agent)) and not 0 < max_agents <= len(whole):
            whole = (*whole, agent)
    return whole, whole[len(agents) :]


def log_odds(
    trained: Mapping[int, float], cold: Mapping[int, float], described: Mapping[int, float]
) -> dict[int, float]:
    """The log-odds of all agents together, by id: `trained` by the model, `cold` and `described`, the trained ones, by description."""
    lead = max(map(_logit, cold.values()), default=-SURE)
    result = {}
    for agent, p in trained.items():
        own = max(_logit(described.get(agent, 0.0)), 0.0)
        result[agent] = _logit(p) - OVERRULED * max(0.0, lead - own)
    return result | {agent: _logit(p) for agent, p in cold.items()}


def _logit(p: float) -> float:
    if p <= 0 or p >= 1:
        return SURE if p >= 1 else -SURE
    return max(-SURE, min(SURE, math.log(p / (1 - p))))
