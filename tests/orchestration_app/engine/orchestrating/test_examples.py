"""The examples run as they are, in plain Python and in the shape of a graph."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from orchestration_app.engine.orchestrating.policy import Network, Orchestrator, fresh_network
from orchestration_app.engine.orchestrating.reading import Reader
from orchestration_app.engine.orchestrating.support import support_pool

pytestmark = pytest.mark.any_database
EXAMPLES = Path(__file__).parents[4] / "examples"


def example(name: str) -> ModuleType:
    found = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
    try:
        found.loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = before
    return module


@pytest.fixture
def orchestrator() -> Orchestrator:
    """Triage, then the billing desk, then the checker, then STOP, whatever they say."""
    pool = support_pool()
    agents = len(pool.agents)
    network = fresh_network(agents, 4, np.random.default_rng(0), one_shot=False)
    follows = np.zeros((agents + 1, agents + 1), np.float32)
    for before, after in ((agents, 0), (0, 1), (1, 4), (4, agents)):
        follows[before, after] = 50
    return Orchestrator(pool.agents, Reader(agents), Network({**network.tensors, "next": follows}))


def test_plain_python(orchestrator: Orchestrator) -> None:
    plain = example("orchestrate_plain")
    answers = set()
    for task in support_pool().tasks(20, 5):
        ended = plain.solve(orchestrator, task)
        assert (ended.steps, ended.stop_reason) == (3, "stop")
        assert ended.cost == pytest.approx(1.6)
        # The checker's word is no answer.
        answers.add(ended.answer)
    said = [answer for answer in answers if answer is not None]
    assert said
    assert all("ticket" in answer or "matter" in answer for answer in said)


def test_a_graph(orchestrator: Orchestrator) -> None:
    graph, pool = example("orchestrate_graph"), support_pool()
    state = graph.run(orchestrator, pool, pool.tasks(1, 5)[0])
    assert [call.agent for call in state["calls"]] == [0, 1, 4]
