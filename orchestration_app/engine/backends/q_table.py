"""Load-aware Q-learning as the notebooks publish it: one value for each task type, load state and agent-backend pair.

    r = clip(mean(relevance, accuracy, completeness, fit) − 0.10 · min(cost / 0.002, 1) − 0.05 · min(latency / 5 s, 1), 0, 1) − penalty
    Q(s, a) += 0.15 · (r + 0.95 · max_a' Q(s', a') − Q(s, a))        ε from 1.0 by × 0.98 an outcome, down to 0.05

(Watkins and Dayan 1992.) The next state s' is the next task's, drawn by others: discounting over it adds the noise of tasks that this
choice did not cause. And a table that starts at 0 with rewards above 0 locks in the first action that it tries. So it is here as
published, to be read and compared; `bandits` has what learns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

RATE, DISCOUNT = 0.15, 0.95
EPSILON, DECAY, LEAST_EPSILON = 1.0, 0.98, 0.05
ASPECTS = ("relevance", "accuracy", "completeness", "fit")

#: How much cost and latency take from what the judge gives; dollars and seconds at which each has its whole weight.
COST_WEIGHT, LATENCY_WEIGHT = 0.10, 0.05
DEAR_DOLLARS, SLOW_SECONDS = 0.002, 5.0


def reward(judged: Mapping[str, float] | None, cost: float, latency: float, penalty: float) -> float | None:
    """The reward of one outcome. `judged` has a figure in 0..1 for each of ASPECTS; None, where the judge failed, gives none.

    `cost` is in dollars, `latency` in seconds, `penalty` from the load before the assignment.
    """
    if judged is None:
        return None
    quality = float(np.mean([judged[aspect] for aspect in ASPECTS]))
    spent = COST_WEIGHT * min(cost / DEAR_DOLLARS, 1.0) + LATENCY_WEIGHT * min(latency / SLOW_SECONDS, 1.0)
    return min(max(quality - spent, 0.0), 1.0) - penalty


@dataclass
class QTable:
    """Values and visits, float64[types, loads, actions] each; load state 0 is balanced, 1 + i says that member i is hot."""

    types: int
    members: int
    actions: int
    rng: np.random.Generator
    epsilon: float = EPSILON
    values: NDArray[np.float64] = field(init=False)
    visits: NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        shape = (self.types, 1 + self.members, self.actions)
        self.values, self.visits = np.zeros(shape), np.zeros(shape, np.int64)

    @staticmethod
    def load_state(hot: int | None) -> int:
        """The place of a load state: `hot` counts members from 0."""
        return 0 if hot is None else 1 + hot

    def choose(self, task: int, load: int, allowed: Sequence[int] | None = None) -> tuple[int, float]:
        """An action, ε-greedily among those allowed, and how likely it was."""
        free = list(range(self.actions)) if allowed is None else list(allowed)
        best = self.greedy(task, load, free)
        chosen = int(self.rng.choice(free)) if self.rng.random() < self.epsilon else best
        return chosen, self.epsilon / len(free) + (1 - self.epsilon) * (chosen == best)

    def greedy(self, task: int, load: int, allowed: Sequence[int] | None = None) -> int:
        """The action of the highest value, the first of equals."""
        free = range(self.actions) if allowed is None else allowed
        return max(free, key=lambda action: self.values[task, load, action])

    def learn(self, task: int, load: int, action: int, reward: float, next_task: int, next_load: int) -> None:
        """One outcome, and the state that came next."""
        place = task, load, action
        target = reward + DISCOUNT * self.values[next_task, next_load].max()
        self.values[place] += RATE * (target - self.values[place])
        self.visits[place] += 1
        self.epsilon = max(self.epsilon * DECAY, LEAST_EPSILON)
