"""Small problems that several tests learn."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from orchestration_app.engine.orchestrating.environment import Environment, SimulatedWorld, World, read_tasks
from orchestration_app.engine.orchestrating.policy import Orchestrator, fresh_network
from orchestration_app.engine.orchestrating.reading import Reader
from orchestration_app.engine.orchestrating.rewards import Reward
from orchestration_app.engine.orchestrating.simulated import SimulatedPool
from orchestration_app.engine.orchestrating.state import Call
from training_app.engine.data.examples import Agent

FREE = Reward(price=0.0, gamma=1.0)


class Identity:
    """The first agent's output names the agent that must be called next, and nobody else: the identity of this room."""

    names = ("alpha", "beta", "gamma")
    agents = (Agent(0, "Asks", cost=1.0), *(Agent(i + 1, name, cost=1.0) for i, name in enumerate(names)))

    def call(self, task: str, calls: Sequence[Call], agent: int) -> Call:
        if agent == 0:
            return Call(0, f"call {self.names[len(task) % 3]}", cost=1.0)
        return Call(agent, "done", cost=1.0, answer="done")

    def score(self, task: str, calls: Sequence[Call]) -> float:
        return float([call.agent for call in calls] == [0, 1 + len(task) % 3])


def environment(
    world: World, tasks: Sequence[str], *, max_steps: int = 4, reward: Reward = FREE, seed: int = 0
) -> Environment:
    agents = world.agents
    network = fresh_network(len(agents), 16, np.random.Generator(np.random.PCG64(seed)), one_shot=False)
    orchestrator = Orchestrator(agents, Reader(len(agents)), network, repeats=2, max_steps=max_steps)
    return Environment(orchestrator, world, read_tasks(orchestrator, tasks), reward)


def identity() -> Environment:
    return environment(Identity(), ["x" * n for n in range(1, 13)], max_steps=2, reward=Reward(price=0.01))


def simulated(pool: SimulatedPool, count: int = 50) -> Environment:
    return environment(SimulatedWorld(pool), pool.tasks(count, 1), max_steps=pool.max_steps, reward=Reward())
