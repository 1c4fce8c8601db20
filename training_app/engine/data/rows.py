"""Examples as matrices, which is what is fitted on and measured. numpy only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from training_app.engine.data.arrays import BoolArray
from training_app.engine.data.examples import Agent, Example


@dataclass(frozen=True, slots=True)
class Rows:
    """Labeled rows as matrices: texts (N), required bool[N, A], asked bool[N, A]. Rows of one of the `groups` (N), as turns of one
    conversation are, never judge each other; each is a group of its own where none are given."""

    texts: list[str]
    required: BoolArray
    asked: BoolArray
    groups: Sequence[str] = ()

    def __len__(self) -> int:
        return len(self.texts)

    def take(self, index: NDArray[np.int64]) -> Rows:
        """The rows of these numbers, in their order."""
        some = index.tolist()
        groups = [self.groups[i] for i in some] if self.groups else ()
        return Rows([self.texts[i] for i in some], self.required[index], self.asked[index], groups)

    def fold(self, folds: int, seed: int) -> NDArray[np.int64]:
        """A fold for each row, int64[N], as of `fold_of_group`."""
        return fold_of_group(self.groups or [str(i) for i in range(len(self))], folds, seed)


def fold_of_group(groups: Sequence[str], folds: int, seed: int) -> NDArray[np.int64]:
    """A fold, 0 to folds - 1, for each row (int64[N]); rows of one group share it, folds differ by at most one group.

    `groups` holds each row's group key. Deterministic in the rows' order and the seed.
    """
    names = sorted(set(groups))
    order = np.random.Generator(np.random.PCG64(seed)).permutation(len(names))
    fold = {names[g]: position % folds for position, g in enumerate(order)}
    return np.array([fold[g] for g in groups], np.int64)


def draw_weights(required: BoolArray, share: float, asked: BoolArray | None = None) -> NDArray[np.float64] | None:
    """How often each row counts, float64[N], so that rows of the empty set make up at least `share`; None for all
    alike, where they do already or there are none. required and asked (all, where None) bool[N, A]. A row in which some agent
    was not asked may need that one: it does not count as empty."""
    empty = ~required.any(axis=1)
    if asked is not None:
        empty &= asked.all(axis=1)
    now = float(empty.mean())
    if not 0 < now < share:
        return None
    return np.where(empty, share / empty.sum(), (1 - share) / (~empty).sum())


def rows_of(examples: Sequence[Example], agents: Sequence[Agent]) -> Rows:
    """Examples as matrices over `agents`, in their order; what they say about other agents is left out."""
    place = {agent.id: a for a, agent in enumerate(agents)}
    required = np.zeros((len(examples), len(agents)), np.bool_)
    asked = np.ones((len(examples), len(agents)), np.bool_)
    for i, example in enumerate(examples):
        required[i, [place[a] for a in example.required if a in place]] = True
        if example.asked is not None:
            asked[i] = False
            asked[i, [place[a] for a in example.asked if a in place]] = True
    return Rows([e.text for e in examples], required & asked, asked, [e.fold_key for e in examples])
