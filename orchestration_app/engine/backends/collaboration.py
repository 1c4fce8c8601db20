"""Simulator 2: the notebooks' collaboration environment, with its reward as published and a mended one. numpy only.

N agents; an observation has seven figures an agent, five for each of ten task places, and the N × N matrix of who
works with whom:
7N + 50 + N², that is 94 for four agents (the notebooks' text says 67). One agent acts in turn with one of twelve actions: 0..9 takes
the task at that place, 10 signals that it would work with others, 11 rests.

As published, a signal pays +0.5 for each agent that it reaches whose collaboration is above 0.7 or who signalled too, strengthens the
matrix without a bound, and needs no task: four agents that always signal earn +6 in a round of four. Mended, a signal pays nothing
itself, the matrix stays within 0..1 and fades, and a task that is taken by one whose partners signalled is done better.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orchestration_app.engine.backends.model_pool import Box, Discrete

PLACES, ACTIONS = 10, 12
SIGNAL, REST = 10, 11
TOGETHER = 0.7  # collaboration above which two work together
TYPES = 4


@dataclass
class Collaboration:
    """Gymnasium's interface. The reward of a step is a number; a round is one step of each agent."""

    agents: int = 4
    published: bool = True
    length: int = 200
    rng: np.random.Generator = field(default_factory=lambda: np.random.Generator(np.random.PCG64(0)))

    def __post_init__(self) -> None:
        self.observation_space = Box(0.0, 1.0, (7 * self.agents + 5 * PLACES + self.agents**2,))
        self.action_space = Discrete(ACTIONS)

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        """New agents and tasks."""
        if seed is not None:
            self.rng = np.random.Generator(np.random.PCG64(seed))
        n = self.agents
        self.skill = np.full((n, TYPES), 0.3)
        self.skill[np.arange(n), np.arange(n) % TYPES] = 0.9
        self.matrix = np.full((n, n), 0.5)
        np.fill_diagonal(self.matrix, 0.0)
        self.signalled, self.load = np.zeros(n), np.zeros(n)
        self.done, self.turn, self.steps = np.zeros(n), 0, 0
        self.tasks = self._tasks(PLACES)
        return self.observation(), {}

    def _tasks(self, count: int) -> NDArray[np.float64]:
        """Kind, difficulty, worth, age, open; float64[count, 5]."""
        kind = self.rng.integers(TYPES, size=count) / TYPES
        hard, worth = self.rng.uniform(0, 1, count), self.rng.uniform(0.5, 1, count)
        return np.stack([kind, hard, worth, np.zeros(count), np.ones(count)], axis=1)

    def observation(self) -> NDArray[np.float32]:
        """Seven figures an agent, the tasks, the matrix; float32[7N + 50 + N²]."""
        mine = (np.arange(self.agents) == self.turn).astype(float)
        features = np.stack([self.signalled, np.minimum(self.load, 1), mine], axis=1)
        each = np.concatenate([self.skill, features], axis=1)
        whole = np.concatenate([each.ravel(), self.tasks.ravel(), np.clip(self.matrix, 0, 1).ravel()])
        return whole.astype(np.float32)

    def step(self, action: int) -> tuple[NDArray[Any], float, bool, bool, dict[str, Any]]:
        """One action of the agent whose turn it is."""
        agent, reward, did = self.turn, 0.0, False
        self.load *= 0.9
        if action == SIGNAL:
            reward = self._signal(agent)
        elif action < PLACES and self.tasks[action, 4]:
            reward, did = self._work(agent, action), True
        if action != SIGNAL:
            self.signalled[agent] = 0.0
        self.tasks[:, 3] = np.minimum(self.tasks[:, 3] + 0.02, 1)
        if not self.published:
            self.matrix = 0.5 + 0.99 * (self.matrix - 0.5)
            np.fill_diagonal(self.matrix, 0.0)
        self.turn, self.steps = (agent + 1) % self.agents, self.steps + 1
        return self.observation(), reward, False, self.steps >= self.length, {"task": did}

    def _signal(self, agent: int) -> float:
        others = [other for other in range(self.agents) if other != agent]
        reached = [other for other in others if self.matrix[agent, other] > TOGETHER or self.signalled[other]]
        self.signalled[agent] = 1.0
        for other in others:
            grown = self.matrix[agent, other] + 0.1
            self.matrix[agent, other] = self.matrix[other, agent] = grown if self.published else min(grown, 1.0)
        return 0.5 * len(reached) if self.published else 0.0

    def _work(self, agent: int, place: int) -> float:
        kind, difficulty, worth = int(self.tasks[place, 0] * TYPES), self.tasks[place, 1], self.tasks[place, 2]
        partners = [
            other for other in range(self.agents)
            if other != agent and self.signalled[other] and self.matrix[agent, other] > TOGETHER
        ]  # fmt: skip
        best = max([self.skill[agent, kind], *(0.9 * self.skill[other, kind] for other in partners)])
        likely = float(np.clip(best - 0.4 * difficulty - 0.3 * min(self.load[agent], 1), 0.05, 0.95))
        success = self.rng.random() < likely
        self.load[agent] += 0.3
        self.tasks[place] = self._tasks(1)[0]
        for other in partners:
            self.signalled[other] = 0.0
        return float(worth if success else -0.2)


class Tabular:
    """Q-learning on a coarse state: the acting agent, the kinds of the open task it is best at, who signalled. Beside PPO."""

    def __init__(self, env: Collaboration, rng: np.random.Generator) -> None:
        self.env, self.rng, self.epsilon = env, rng, 1.0
        self.values = np.zeros(
            (env.agents, 2, 2, 3)
        )  # agent, has a task of its kind, a partner waits; own task / signal / rest

    def state(self) -> tuple[int, int, int]:
        """Where the environment stands, coarsely."""
        env, agent = self.env, self.env.turn
        best_type = np.argmax(env.skill[agent]) / TYPES
        partner = (env.signalled.sum() - env.signalled[agent]) > 0
        return agent, int((env.tasks[:, 0] == best_type).any()), int(partner)

    def action(self, choice: int) -> int:
        """One of the twelve: the easiest task of the agent's kind, or the easiest of all."""
        if choice:
            return SIGNAL if choice == 1 else REST
        best_type = np.argmax(self.env.skill[self.env.turn]) / TYPES
        hard = self.env.tasks[:, 1] + (self.env.tasks[:, 0] != best_type)
        return int(np.argmin(hard))

    def learn(self, steps: int) -> None:
        """ε-greedy Q-learning, as published."""
        self.env.reset(seed=int(self.rng.integers(2**31)))
        for _ in range(steps):
            state = self.state()
            free = self.rng.random() < self.epsilon
            choice = int(self.rng.integers(3)) if free else int(np.argmax(self.values[state]))
            _, reward, _, ended, _ = self.env.step(self.action(choice))
            following = self.state()
            self.values[(*state, choice)] += 0.15 * (
                reward + 0.95 * self.values[following].max() - self.values[(*state, choice)]
            )
            self.epsilon = max(self.epsilon * 0.98, 0.05)
            if ended:
                self.env.reset()
