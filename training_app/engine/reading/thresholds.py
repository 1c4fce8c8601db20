"""The thresholds that are tried where scores become a set of agents. numpy only."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from training_app.engine.data.arrays import FloatArray

TAIL = 0.02  # of the scores, the highest
TAIL_STEPS = 60


def candidates(scores: FloatArray, quantiles: NDArray[np.float64]) -> NDArray[np.float64]:
    """Thresholds to choose from, ascending: these quantiles of all scores, float32[N, A], and in the TAIL of them TAIL_STEPS
    more, each with the same factor fewer scores above it, down to one. A query that needs two of two hundred agents is decided
    there, between steps of a hundredth."""
    fewest = min(TAIL, 1 / max(1, scores.size))
    tail = 1 - np.geomspace(TAIL, fewest, TAIL_STEPS)
    return np.unique(np.quantile(scores, np.concatenate([quantiles, tail])))
