"""The data of a run: checked, reduced to the agents that can be learnt, and as matrices for each split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from training_app.engine.data.arrays import BoolArray
from training_app.engine.data.examples import Agent, Example, group_key
from training_app.engine.data.rows import Rows, rows_of

LEAST_TRAIN, LEAST_VAL = 8, 2


class TrainError(Exception):
    """Data that no router can be trained on; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Matrices:
    """Examples of one split as matrices: rows.required and rows.asked bool[N, A]."""

    examples: list[Example]
    rows: Rows

    @property
    def whole(self) -> BoolArray:
        """Rows in which every agent was asked: only those enter set metrics. bool[N]."""
        return np.asarray(self.rows.asked.all(axis=1))


def _matrices(examples: Sequence[Example], agents: Sequence[Agent]) -> Matrices:
    return Matrices(list(examples), rows_of(examples, agents))


def checked(agents: Sequence[Agent], examples: Sequence[Example]) -> tuple[list[Agent], list[str]]:
    """The agents that can be learnt, and warnings. Raises TrainError."""
    if not agents:
        raise TrainError("The pool has no agent: describe at least one.")
    ids = {agent.id for agent in agents}
    for example in examples:
        unknown = example.required - ids
        if unknown:
            raise TrainError(f"Query {example.id} requires agent {min(unknown)}, which is not in the pool: add it.")
    train = [e for e in examples if e.split == "train"]
    val = [e for e in examples if e.split == "val"]
    if len(train) < LEAST_TRAIN:
        raise TrainError(
            f"{len(train)} labeled queries are in the train split; at least {LEAST_TRAIN} are needed. Label more "
            "queries, or split the dataset (dataset_split) if they have no split yet."
        )
    if len({group_key(e.text) for e in train}) < 2:
        raise TrainError("All queries of the train split have the same text: label different ones.")
    if len(val) < LEAST_VAL:
        raise TrainError(
            f"{len(val)} labeled queries are in the val split; at least {LEAST_VAL} are needed to tell when to stop. "
            "Split the dataset (dataset_split), or label more queries."
        )
    warnings = []
    covered = []
    for agent in agents:
        asked = [e for e in train if e.asked is None or agent.id in e.asked]
        if not asked:
            warnings.append(f"No label speaks about {agent.name}: it is left out until it has been asked about.")
            continue
        covered.append(agent)
        positives = sum(agent.id in e.required for e in asked)
        if positives == 0:
            warnings.append(f"No query of the train split requires {agent.name}: it will hardly ever be selected.")
        elif positives < 5:
            few = (
                "1 query of the train split requires"
                if positives == 1
                else f"{positives} queries of the train split require"
            )
            warnings.append(f"Only {few} {agent.name}: label more of them.")
    if not covered:
        raise TrainError("No label of the train split speaks about any agent: label queries first.")
    if not any(e.split == "test" for e in examples):
        warnings.append("There is no test split: the figures are measured on the validation split and flatter.")
    return covered, warnings


@dataclass(frozen=True, slots=True)
class Prepared:
    """What a run learns from and is judged by: the agents that it covers, a `Matrices` for each split, and warnings, to which
    later phases add theirs."""

    agents: list[Agent]
    splits: dict[str, Matrices]
    warnings: list[str]

    @property
    def train(self) -> Matrices:
        return self.splits["train"]

    @property
    def val(self) -> Matrices:
        return self.splits["val"]

    @property
    def measured_on(self) -> str:
        """The split that figures are measured on: test, or validation where there is no test."""
        return "test" if len(self.splits["test"].rows) else "val"

    @property
    def measured(self) -> Matrices:
        return self.splits[self.measured_on]


def prepared(agents: Sequence[Agent], examples: Sequence[Example]) -> Prepared:
    """The data of a run, from examples that each have a split. Raises TrainError."""
    covered, warnings = checked(agents, examples)
    splits = {s: _matrices([e for e in examples if e.split == s], covered) for s in ("train", "val", "test")}
    return Prepared(covered, splits, warnings)
