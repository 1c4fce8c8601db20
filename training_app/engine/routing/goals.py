"""What a set of agents is worth: the goal that a policy learns, that rules maximise and that the choice between them compares.

Every measure of `measures.py` that has an expected value is a goal, and so is, with S the selected and R the required set,

    value     1 where R ⊆ S, else 0, less the cost of S: Σ_{a in S} cost_a / query_value

in units of what a covered query is worth; `query_value` and the agents' costs are in the same money. The goals recall and size move
the operating point of a policy that learnt Jaccard. numpy only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from training_app.engine.data.arrays import BoolArray, FloatArray
from training_app.engine.data.examples import Agent
from training_app.engine.measures import GOALS, PRIMARY, VALUE, worth


@dataclass(frozen=True, slots=True)
class Goal:
    """`name` is one of GOALS; `costs` float32[A], for value only, are what agents cost in units of a covered query."""

    name: str = PRIMARY
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
        return np.asarray(worth(self.name, hits, size, need, spent), np.float32)


JACCARD = Goal()
#: From this share of queries on, a policy that finds nobody worth asking would answer nobody nearly always.
NEARLY_ALL = 0.95


def goal_of(name: str, agents: Sequence[Agent], query_value: float) -> Goal:
    """The goal that a policy learns where the setting `goal` is `name`: recall and size are points of one that learnt Jaccard."""
    if name == VALUE:
        return Goal(name, np.array([agent.cost / query_value for agent in agents], np.float32))
    return Goal(name) if name in GOALS else JACCARD


def why_nobody(name: str, agents: Sequence[Agent], query_value: float, required: BoolArray) -> str:
    """Why a policy that learns goal value would answer nobody: in a sentence, where for nearly all of the queries that need agents,
    bool[N, A], these cost as much as a covered query is worth; else ""."""
    goal, needing = goal_of(name, agents, query_value), required[required.any(axis=1)]
    if goal.costs is None or not len(needing):
        return ""
    worthless = needing @ goal.costs >= 1
    if worthless.mean() < NEARLY_ALL:
        return ""
    price = float(np.median(needing @ np.array([agent.cost for agent in agents])))
    return (
        f"goal value: of {len(needing)} validation queries that need agents, for {int(worthless.sum())} these cost as much as "
        f"the query is worth ({price:g} in the middle, against query_value {query_value:g}), so answering nobody would be best; "
        "raise query_value, or lower the agents' costs"
    )
