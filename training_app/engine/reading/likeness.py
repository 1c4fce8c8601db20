"""How near a query is in meaning to the training queries that need somebody: `nearness.py` by sentence embeddings. numpy only.

    nearness = mean of the three largest cosines of e(x) and the embeddings of at most KEPT training queries

A question in words that no training query holds may mean what one of them says, and one in their very words something else: where the
process has the encoder anyway, this tells "needs nobody" from "needs somebody" better than n-grams do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from training_app.engine.data.arrays import BoolArray, FloatArray
from training_app.engine.reading import sentences
from training_app.engine.reading.nearness import NEIGHBOURS, kept_rows

BLOCK = 512  # texts compared at once
DECIMALS = 5  # so that a text's figure does not depend on those beside it


class Likeness:
    """`vectors` float16[kept, SIZE], of length one. Immutable, safe to share between threads."""

    def __init__(self, vectors: NDArray[np.float16]) -> None:
        if vectors.ndim != 2 or vectors.shape[1] != sentences.SIZE or len(vectors) < NEIGHBOURS:
            raise ValueError(f"likeness: vectors are {vectors.shape}")
        self.vectors = vectors
        self._columns = np.ascontiguousarray(vectors.astype(np.float32).T)  # [SIZE, kept]

    @classmethod
    def fit(cls, texts: Sequence[str], required: BoolArray, *, seed: int) -> tuple[Likeness, NDArray[np.int64]] | None:
        """The index of texts (N) with their required sets bool[N, A], and which rows it keeps, int64[kept] ascending; None
        where fewer than NEIGHBOURS of them need somebody."""
        kept = kept_rows(required, seed)
        if kept is None:
            return None
        return cls(sentences.embed([texts[i] for i in kept.tolist()]).astype(np.float16)), kept

    def of(self, text: str) -> float:
        """The nearness of a text, -1 to 1."""
        return float(self.of_all([text])[0])

    def of_all(self, texts: Sequence[str], leave_out: NDArray[np.int64] | None = None) -> FloatArray:
        """`of` each text, float32[N]; `leave_out` int64[N] is the number of a kept query that does not count for it, -1 for none."""
        found = np.empty(len(texts), np.float32)
        for at in range(0, len(texts), BLOCK):
            block = slice(at, at + BLOCK)
            cosines = sentences.embed(texts[block]) @ self._columns  # [block, kept]
            if leave_out is not None:
                rows = np.flatnonzero(leave_out[block] >= 0)
                cosines[rows, leave_out[block][rows]] = -1
            found[block] = np.partition(cosines, -NEIGHBOURS, axis=1)[:, -NEIGHBOURS:].mean(axis=1)
        return np.asarray(np.round(found, DECIMALS), np.float32)

    def tensors(self) -> dict[str, NDArray[Any]]:
        """All arrays, by name."""
        return {"vectors": self.vectors}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, NDArray[Any]]) -> Likeness:
        """The inverse of `tensors`. Raises ValueError or KeyError where they do not fit."""
        vectors = tensors["vectors"]
        if vectors.dtype != np.float16:
            raise ValueError("likeness: vectors of the wrong kind")
        return cls(vectors)
