"""Which queries to ask people about next: those that a model expects to answer badly, each unlike what was asked before. numpy only.

    doubt(x) = 1 − max over sets of the expected Jaccard        what even the best answer is expected to lose (`bayes.py`)
    next     = the text of the highest (1 − w) doubt / max doubt − w (likeness to the nearest that is labeled or was taken)

Greedy maximal marginal relevance (Carbonell and Goldstein 1998, SIGIR). Doubt alone asks the same hard thing again and again; what is
unlike everything labeled, alone, asks oddities. `python -m benchmarks.queue_order` measures what each order saves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from training_app.engine.data.arrays import FloatArray
from training_app.engine.measures import PRIMARY, expected_worth

FEATURES = 512
LONGEST = 500  # characters of a text that are compared
WEIGHT = 0.5  # of likeness; 0.3 to 0.7 saved about as many labels
Floats = NDArray[np.float64]


def expected_loss(probabilities: NDArray[np.floating]) -> Floats:
    """How much Jaccard the best set of agents is expected to lose, were agents independent: float[N, A] of 0 to 1 -> float64[N]."""
    falling = np.sort(probabilities.astype(np.float64), axis=1)[:, ::-1]
    return np.asarray(1 - expected_worth(PRIMARY, falling).max(axis=1))


def of_scores(scores: Sequence[Mapping[str, float]]) -> Floats:
    """`expected_loss` of what answers hold, agent → probability; an agent that an answer does not name counts as not needed."""
    place = {agent: a for a, agent in enumerate(sorted({agent for row in scores for agent in row}))}
    columns = np.zeros((len(scores), len(place)))
    for n, row in enumerate(scores):
        for agent, p in row.items():
            columns[n, place[agent]] = min(max(float(p), 0.0), 1.0)
    return expected_loss(columns) if place else np.zeros(len(scores))


def features(texts: Sequence[str]) -> FloatArray:
    """Texts as unit vectors of hashed character trigrams, float32[N, FEATURES]: near enough to tell like from unlike."""
    counts = np.zeros((len(texts), FEATURES), np.float32)
    for row, text in enumerate(texts):
        padded = f"  {text.casefold()[:LONGEST]} "
        for at in range(len(padded) - 2):
            counts[row, crc32(padded[at : at + 3].encode("utf-8", "surrogatepass")) % FEATURES] += 1
    counts = np.sqrt(counts)
    norms = np.linalg.norm(counts, axis=1, keepdims=True)
    return np.asarray(counts / np.where(norms == 0, 1, norms), np.float32)


def varied(
    vectors: FloatArray, doubt: Floats, labeled: FloatArray | None = None, *, weight: float = WEIGHT, limit: int = 0
) -> list[int]:
    """Indices in an order in which every beginning is both doubted and varied, `limit` of them (0: all). vectors float32[N, F] of the
    texts that wait and `labeled` float32[L, F] of those that people have answered, of length one; doubt float[N], 0 and more."""
    scale = float(doubt.max(initial=0.0)) or 1.0
    near = np.zeros(len(vectors), np.float32)
    if labeled is not None and len(labeled):
        near = (vectors @ labeled.T).max(axis=1)
    worth = (1 - weight) * doubt / scale
    remaining = np.ones(len(vectors), np.bool_)
    order: list[int] = []
    for _ in range(min(limit or len(vectors), len(vectors))):
        best = int(np.where(remaining, worth - weight * near, -np.inf).argmax())
        order.append(best)
        remaining[best] = False
        near = np.maximum(near, vectors @ vectors[best])
    return order
