"""The demonstration of the Dynamic Orchestrator Agent framework, with its faults mended.

Two agents: an echo that costs 1.0, and a terminator that costs nothing and says "TERMINATE". Five tasks, at most four steps, 50
epochs of 10 episodes, λ 0.1, γ 0.99, Adam at 0.001, hidden width 128. In the framework's code the terminator never ends an episode
and pays +1 each time it is called, "success" is that it was called in time, the state is bytes of a hash, and cost counts twice.
Here the terminator is STOP: it ends the episode, which is paid once. An episode succeeds where the echo answered the task and the
terminator came after it, within four steps; it pays +1, else -1, less λ times its cost, once: at best 0.9 before discounting.

Imported by workers only: it brings torch.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from orchestration_app.engine.orchestrating import reinforce
from orchestration_app.engine.orchestrating.environment import Environment, Walk, by_network, read_tasks, walk
from orchestration_app.engine.orchestrating.policy import Orchestrator, fresh_network
from orchestration_app.engine.orchestrating.reading import Reader
from orchestration_app.engine.orchestrating.rewards import Reward
from orchestration_app.engine.orchestrating.state import Call
from training_app.engine.data.examples import Agent

EPOCHS, EPISODES, STEPS, HIDDEN = 50, 10, 4, 128
TASKS = (
    "Translate the sentence",
    "Add these numbers",
    "Name the capital",
    "Summarise the paragraph",
    "Correct the spelling",
)
MEASURED = 100  # episodes after training, drawn by the policy as it was trained: 20 of each task
ECHO = Agent(0, "Echo", "Says the task again", cost=1.0)


@dataclass(frozen=True, slots=True)
class EchoWorld:
    """The echo; the terminator is STOP. An episode that may go on, because steps are left, was ended by the terminator."""

    agents: tuple[Agent, ...] = (ECHO,)

    def call(self, task: str, calls: Sequence[Call], agent: int) -> Call:
        return Call(ECHO.id, task, cost=1.0, tokens=len(task.split()), answer=task)

    def score(self, task: str, calls: Sequence[Call]) -> float:
        # The terminator takes a step of its own, so that the fourth echo leaves no room for it.
        return float(any(call.answer == task for call in calls) and len(calls) < STEPS)


def demonstrate(seeds: int = 5) -> dict[str, Any]:
    """Train and measure once for each seed: {"success": [share of episodes by seed], "reward": [mean r - λ C by seed], "cpu_seconds":
    float, …}. `greedy` holds the same of the policy's likeliest actions, `before` those of the untrained policy, `paid` the
    largest number of times that an episode's r was paid."""
    began = time.process_time()
    figures: dict[str, Any] = {"success": [], "reward": [], "before": [], "greedy": {"success": [], "reward": []}}
    paid = 0
    for seed in range(seeds):
        rng = np.random.Generator(np.random.PCG64([seed, 1]))
        network = fresh_network(1, HIDDEN, np.random.Generator(np.random.PCG64(seed)), one_shot=False)
        orchestrator = Orchestrator([ECHO], Reader(1), network, repeats=STEPS, max_steps=STEPS)
        environment = Environment(orchestrator, EchoWorld(), read_tasks(orchestrator, TASKS), Reward(0.1, 0.99))
        # One update after every episode.
        settings = reinforce.LearnSettings(1, EPOCHS * EPISODES, 0.001, 0.01, HIDDEN, seed, decay=False)
        drawn = [i % len(TASKS) for i in range(MEASURED)]
        before = walk(environment, by_network(network, rng), drawn)
        for tick in reinforce.learn(environment, network, settings):
            network = tick.network
        after = walk(environment, by_network(network, rng), drawn)
        greedy = walk(environment, by_network(network, None), range(len(TASKS)))
        figures["before"].append(_mean(environment, before)["success"])
        for name, value in _mean(environment, after).items():
            figures[name].append(value)
        for name, value in _mean(environment, greedy).items():
            figures["greedy"][name].append(value)
        paid = max(paid, max(times_paid(environment, walked) for walked in after))
    return {**figures, "paid": paid, "cpu_seconds": round(time.process_time() - began, 2)}


def times_paid(environment: Environment, walked: Walk) -> int:
    """How often r is in an episode's rewards: its undiscounted return, what was paid for cost taken out, by r."""
    reward = Reward(environment.reward.price, 1.0, environment.reward.success, environment.reward.failure)
    whole = reward.returns(walked.costs, walked.score, STEPS)[0]
    return round((whole + reward.price * sum(walked.costs)) / reward.ends(walked.score))


def _mean(environment: Environment, walks: Sequence[Walk]) -> dict[str, float]:
    measures = reinforce.measured(environment, walks)
    return {name: round(measures[name], 4) for name in ("success", "reward")}
