"""A plain classifier in a policy's place: each agent by its own score, against its threshold. No network. numpy only.

    take agent a while  x_a - threshold_a > 0

The agents that pass are taken best first, so limits on their number, operating margins and explanations work as with a learnt policy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from training_app.engine.data.arrays import BoolArray, FloatArray
from training_app.engine.reading.scorers import candidates
from training_app.engine.routing.goals import JACCARD, Goal


def best_threshold(
    scores: FloatArray,
    required: BoolArray,
    asked: BoolArray,
    goal: Goal = JACCARD,
    counts: NDArray[np.float64] | None = None,
) -> float:
    """The one threshold of all agents whose sets are worth most on average: scores float32[N, A], required and asked bool[N, A]; a row
    counts as `counts` float64[N] says. Where several are equally good, the middle of the widest stretch of them. Without rows it
    is 0."""
    if not len(scores):
        return 0.0
    grid = candidates(scores, np.linspace(0, 1, 401))
    grid = np.unique(np.concatenate([grid, [grid[0] - 1]]))
    utilities = np.array(
        [np.average(goal.utility((scores > t) & asked, required & asked), weights=counts) for t in grid]
    )
    good = utilities >= utilities.max() - 1e-9
    edges = np.flatnonzero(np.diff(np.concatenate([[0], good.astype(np.int8), [0]])))
    begin, end = edges[::2], edges[1::2]
    widest = int(np.argmax(end - begin))
    upper = grid[end[widest]] if end[widest] < len(grid) else grid[-1]
    return float((grid[begin[widest]] + upper) / 2)


@dataclass(frozen=True)
class ThresholdPolicy:
    """`thresholds` float32[A], in the log-odds that the policy sees."""

    thresholds: FloatArray
    stop_is_zero: ClassVar[bool] = True
    kind: ClassVar[str] = "threshold"

    def values(
        self, x: FloatArray, needed: NDArray[np.float64] | None, selected: BoolArray, available: BoolArray
    ) -> tuple[FloatArray, FloatArray]:
        """What each agent lies above its threshold, float32[B, A], whatever is selected; STOP is worth 0."""
        return x - self.thresholds, np.zeros(len(x), np.float32)

    def fixed(
        self, x: FloatArray, needed: NDArray[np.float64] | None, available: BoolArray
    ) -> Callable[[NDArray[np.int64], BoolArray, int], tuple[FloatArray, FloatArray]]:
        """`values` for a whole walk, as of the other policies."""
        above = x - self.thresholds
        return lambda rows, selected, first: (above[rows, :first], np.zeros(len(rows), np.float32))

    def tensors(self) -> dict[str, NDArray[Any]]:
        return {"thresholds": np.ascontiguousarray(self.thresholds, np.float32)}

    def config(self) -> dict[str, Any]:
        return {"kind": self.kind}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, NDArray[Any]]) -> ThresholdPolicy:
        """Raises ValueError where the thresholds are missing or are no list of numbers."""
        thresholds = tensors.get("thresholds")
        if thresholds is None or thresholds.ndim != 1:
            raise ValueError("the policy has no list of thresholds")
        return cls(thresholds)
