"""Judged episodes teach off-line, without one more call."""

import numpy as np
import pytest

from orchestration_app.engine.orchestrating.logs import KeptEpisode, KeptStep
from orchestration_app.engine.orchestrating.state import Call
from orchestration_app.engine.orchestrating.training import Problem, train_policy
from orchestration_app.engine.orchestrator_config import OrchestratorConfig
from tests.orchestration_app.engine.orchestrating.pools import Identity
from training_app.engine.progress import Result

pytestmark = pytest.mark.any_database
ACTIONS = 5  # four agents, and to stop


def logged(count: int) -> tuple[KeptEpisode, ...]:
    """Episodes of somebody who draws every choice evenly."""
    world, rng, found = Identity(), np.random.default_rng(0), []
    for number in range(count):
        task, calls, steps = "x" * (number % 7 + 1), [], []
        while len(steps) < 4 and (action := int(rng.integers(ACTIONS))) < ACTIONS - 1:
            call: Call = world.call(task, calls, action)
            calls.append(call)
            steps.append(KeptStep((call,), 1 / ACTIONS))
        found.append(KeptEpisode(task, (*steps, KeptStep((), 1 / ACTIONS)), world.score(task, calls)))
    return tuple(found)


@pytest.mark.at_length
def test_a_run_learns_from_judged_episodes_before_it_makes_any_of_its_own() -> None:
    tasks = tuple("x" * length for length in range(1, 30))
    world = Identity()
    config = OrchestratorConfig.from_mapping(
        {"learner": "imitation", "price": 0.0, "gamma": 1.0, "failure": 0.0, "max_steps": 4}
    )
    result: Result | None = None
    for progress in train_policy(config, Problem(world.agents, world, tasks, tasks, (), logged=logged(3_000))):
        result = progress.result or result
    assert result is not None
    offered = {one["name"]: one["reward"] for one in result.scorecard["kept"]["offered"]}
    assert offered["logs"] > offered["untrained"] + 0.1
    assert result.scorecard["kept"]["name"] == "logs"
