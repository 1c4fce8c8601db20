"""What a set of agents is worth: the goal that a policy learns, that rules maximise and that the choice between them compares.

With S the selected and R the required set, H = |S ∩ R|:

    jaccard   H / |S ∪ R|                  both empty: 1
    f1        2 H / (|S| + |R|)            both empty: 1
    exact     1 where S = R, else 0
    value     1 where R ⊆ S, else 0, less the cost of S: Σ_{a in S} cost_a / query_value

`value` is in units of what a covered query is worth; `query_value` and the agents' costs are in the same money. The goals recall and
size move the operating point of a policy that learnt Jaccard. numpy only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from training_app.engine.data.arrays import BoolArray, FloatArray
from training_app.engine.data.examples import Agent

#: Goals that a policy can be trained for.
LEARNT = ("jaccard", "f1", "exact", "value")


@dataclass(frozen=True, slots=True)
class Goal:
    """`name` is one of LEARNT; `costs` float32[A], for value only, are what agents cost in units of a covered query."""

    name: str = "jaccard"
    costs: FloatArray | None = None

    def utility(self, selected: BoolArray, required: BoolArray) -> FloatArray:
        """What each set is worth: bool[..., A] and bool[..., A] -> float32[...]."""
        hits = (selected & required).sum(axis=-1)
        spent = selected @ self.costs if self.costs is not None else np.float32(0)
        return self._of(hits, selected.sum(axis=-1), required.sum(axis=-1), np.asarray(spent))

    def after(self, selected: BoolArray, required: BoolArray) -> FloatArray:
        """What each set is worth with one agent more, for every agent at once: bool[B, A], bool[B, A] -> float32[B, A]. For an agent
        of the set it is the set's own worth."""
        hits = (selected & required).sum(axis=-1, keepdims=True) + (required & ~selected)
        size = selected.sum(axis=-1, keepdims=True) + ~selected
        spent = np.zeros(1, np.float32)
        if self.costs is not None:
            spent = (selected @ self.costs)[..., None] + np.where(selected, np.float32(0), self.costs)
        return self._of(hits, size, required.sum(axis=-1, keepdims=True), spent)

    def _of(self, hits: NDArray[Any], size: NDArray[Any], need: NDArray[Any], spent: NDArray[Any]) -> FloatArray:
        either = size + need - hits
        if self.name == "jaccard":
            worth = np.where(either == 0, 1.0, hits / np.maximum(either, 1))
        elif self.name == "f1":
            worth = np.where(either == 0, 1.0, 2 * hits / np.maximum(size + need, 1))
        elif self.name == "exact":
            worth = hits == either
        else:
            worth = (hits == need) - spent
        return np.asarray(worth, np.float32)


JACCARD = Goal()


def goal_of(name: str, agents: Sequence[Agent], query_value: float) -> Goal:
    """The goal that a policy learns where the setting `goal` is `name`: recall and size are points of one that learnt Jaccard."""
    if name == "value":
        return Goal(name, np.array([agent.cost / query_value for agent in agents], np.float32))
    return Goal(name) if name in LEARNT else JACCARD
