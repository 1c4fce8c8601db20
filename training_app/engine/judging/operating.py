"""The point at which a router works: how far an agent's value must exceed STOP's."""

from __future__ import annotations

import numpy as np

from training_app.engine.config import Config
from training_app.engine.judging.analysis import REACH
from training_app.engine.measures import GOALS
from training_app.engine.routing.ddqn import Queries
from training_app.engine.routing.decision import selected as selected_by
from training_app.engine.routing.env import RoutingEnv
from training_app.engine.routing.policy import Policy


def operating_margin(config: Config, env: RoutingEnv, policy: Policy, val: Queries) -> float:
    """What an agent's value must exceed STOP's by, so that the goal is met on validation; 0 for a goal that the policy learnt."""
    if config.goal in GOALS or not len(val):
        return 0.0
    required = val.required & val.asked

    def meets(margin: float) -> bool:
        selected = selected_by(env, policy, val, margin)
        if config.goal == "size":
            return float(selected.sum(axis=1).mean()) <= config.average_agents
        needed = required.any(axis=1)
        if not needed.any():
            return True
        hits = (selected & required).sum(axis=1)[needed] / required.sum(axis=1)[needed]
        return float(hits.mean()) >= config.recall_floor

    # Recall falls and size falls as the margin grows: the largest margin that keeps recall, the smallest that keeps
    # size. Learnt values of actions lie within -1 and 1.
    grid = (np.linspace(-1, 1, 201) * REACH.get(policy.kind, 1.0)).tolist()
    fitting = [margin for margin in grid if meets(margin)]
    if config.goal == "recall":
        return max(fitting, default=grid[0])
    return min(fitting, default=grid[-1])
