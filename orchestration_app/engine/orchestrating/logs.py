"""Kept episodes as what is learnt from: a path to imitate, or a walk with its propensities for `reinforce.learn_from_logs`. numpy
only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from orchestration_app.engine.orchestrating.environment import Environment, Walk
from orchestration_app.engine.orchestrating.state import Call


@dataclass(frozen=True, slots=True)
class KeptStep:
    """One decision of a kept path: the calls that it made (none for STOP) and its propensity."""

    calls: tuple[Call, ...]
    propensity: float = 1.0


@dataclass(frozen=True, slots=True)
class KeptEpisode:
    """A kept path that was judged: its task, its decisions in their order, how good it was, 0 to 1, and the weight of that: 1 where a
    person or the application said so, less where a language model did."""

    task: str
    steps: tuple[KeptStep, ...]
    score: float
    weight: float = 1.0


def walked(environment: Environment, task: int, steps: Sequence[KeptStep], score: float) -> Walk | None:
    """A kept path of the environment's task number `task`, as the environment's orchestrator sees it; the end of the path counts
    as STOP. A step that called several agents at once counts as its first call's. None where a call was of an agent that this
    orchestrator does not have or may not call there: such a path teaches it nothing."""
    ids = environment.orchestrator.ids
    place = {identifier: a for a, identifier in enumerate(ids)}
    state, walk = environment.first(task), Walk(task)
    with_calls = [step for step in steps if step.calls]
    end = next((step for step in steps if not step.calls), KeptStep(()))
    for step in [*with_calls, end]:
        allowed = environment.allowed(state)
        action = place.get(step.calls[0].agent, -1) if step.calls else len(ids)
        if action < 0 or not allowed[action]:
            return None
        per_agent, shared = state.features()
        walk.per_agent.append(per_agent)
        walk.shared.append(shared)
        walk.last.append(environment.orchestrator.last(state))
        walk.allowed.append(np.asarray(allowed))
        walk.actions.append(action)
        walk.propensities.append(step.propensity)
        walk.costs.append(environment.reward.cost(step.calls))
        if step.calls:
            state = environment.orchestrator.after(state, step.calls)
    walk.calls, walk.score = state.calls, score
    return walk
