"""How soon a learner is useful: the share of the gap from random to best that its choices close after so many outcomes.

Types of task are drawn at random. Each has one agent that is its specialist: LIFT better than the others; each agent stands on
every backend, of which one is better for all. What comes back is the mean with noise. `learners` are asked what they take for best.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from orchestration_app.engine.backends.bandits import UCB1, Bandit, LinUCB, Thompson, pair_features
from orchestration_app.engine.backends.q_table import QTable

TYPES, AGENTS, BACKENDS = 4, 4, 2
LIFT, NOISE, BASE, DEARER = 0.2, 0.1, 0.5, -0.05
LOOKS = (30, 50, 150, 300)


class _Published:
    """The Q-table behind the same two verbs as the bandits, without load."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.table = QTable(TYPES, AGENTS, AGENTS * BACKENDS, rng)
        self.last: tuple[int, int, float] | None = None

    def choose(self, context: int, less: NDArray[np.float64] | None = None) -> tuple[int, float]:
        if self.last is not None:  # now the next state of the last outcome is known
            task, arm, reward = self.last
            self.table.learn(task, 0, arm, reward, context, 0)
            self.last = None
        return self.table.choose(context, 0)

    def best(self, context: int) -> int:
        return self.table.greedy(context, 0)

    def learn(self, context: int, arm: int, reward: float) -> None:
        self.last = context, arm, reward


def _linear(rng: np.random.Generator) -> LinUCB:
    return LinUCB(pair_features(TYPES, AGENTS, BACKENDS), rng)


LEARNERS: dict[str, Callable[[np.random.Generator], Bandit]] = {
    "table as published": _Published,
    "UCB1": lambda rng: UCB1(TYPES, AGENTS * BACKENDS, rng),
    "Thompson": lambda rng: Thompson(TYPES, AGENTS * BACKENDS, rng),
    "LinUCB": _linear,
}


@dataclass(frozen=True, slots=True)
class Closed:
    """A learner's mean share of the gap at each look, and half of its 95 % interval over seeds."""

    learner: str
    share: dict[int, float]
    within: dict[int, float]


def means_of(rng: np.random.Generator, *, by_pair: bool = False) -> NDArray[np.float64]:
    """Expected rewards, float64[TYPES, AGENTS · BACKENDS]. With `by_pair` one agent-backend pair alone is the specialist, and the
    harder to find; else the agent is, on every backend."""
    means = np.full((TYPES, AGENTS, BACKENDS), BASE)
    means[:, :, rng.integers(BACKENDS)] += DEARER
    for task in range(TYPES):
        agent = int(rng.integers(AGENTS))
        means[task, agent, int(rng.integers(BACKENDS)) if by_pair else slice(None)] += LIFT
    return means.reshape(TYPES, AGENTS * BACKENDS)


def closed(learner: str, seeds: int = 300, *, by_pair: bool = False) -> Closed:
    """One learner on so many seeds."""
    gaps = np.zeros((seeds, len(LOOKS)))
    for seed in range(seeds):
        rng = np.random.Generator(np.random.PCG64(seed))
        means = means_of(rng, by_pair=by_pair)
        bandit = LEARNERS[learner](rng)
        random, best = means.mean(), means.max(axis=1).mean()
        for outcome in range(1, max(LOOKS) + 1):
            task = int(rng.integers(TYPES))
            arm, _likely = bandit.choose(task)
            bandit.learn(task, arm, float(means[task, arm] + NOISE * rng.standard_normal()))
            if outcome in LOOKS:
                earned = np.mean([means[kind, bandit.best(kind)] for kind in range(TYPES)])
                gaps[seed, LOOKS.index(outcome)] = (earned - random) / (best - random)
    mean, within = gaps.mean(axis=0), 1.96 * gaps.std(axis=0) / np.sqrt(seeds)
    return Closed(learner, dict(zip(LOOKS, mean.tolist(), strict=True)), dict(zip(LOOKS, within.tolist(), strict=True)))
