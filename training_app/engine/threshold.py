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

from training_app.engine.scorers import BoolArray, FloatArray

TAIL = 0.02  # of the scores, the highest
TAIL_STEPS = 60


def candidates(scores: FloatArray, quantiles: NDArray[np.float64]) -> NDArray[np.float64]:
    """Thresholds to choose from, ascending: these quantiles of all scores, float32[N, A], and in the TAIL of them TAIL_STEPS
    more, each with the same factor fewer scores above it, down to one. A query that needs two of two hundred agents is decided
    there, between steps of a hundredth."""
    fewest = min(TAIL, 1 / max(1, scores.size))
    tail = 1 - np.geomspace(TAIL, fewest, TAIL_STEPS)
    return np.unique(np.quantile(scores, np.concatenate([quantiles, tail])))


@dataclass(frozen=True)
class ThresholdPolicy:
    """`thresholds` float32[A], in the log-odds that the policy sees."""

    thresholds: FloatArray
    stop_is_zero: ClassVar[bool] = True
    kind: ClassVar[str] = "threshold"

    def values(
        self, x: FloatArray, extra: FloatArray, selected: BoolArray, available: BoolArray
    ) -> tuple[FloatArray, FloatArray]:
        """What each agent lies above its threshold, float32[B, A], whatever is selected; STOP is worth 0."""
        return x - self.thresholds, np.zeros(len(x), np.float32)

    def fixed(
        self, x: FloatArray, extra: FloatArray, available: BoolArray
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
        found = tensors.get("thresholds")
        if found is None or found.ndim != 1:
            raise ValueError("the policy has no list of thresholds")
        return cls(found)
