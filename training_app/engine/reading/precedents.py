"""An agent's precedents: how near in meaning a text is to the training queries that needed it. numpy only, fitted as it is served.

    near(R)   = mean of the NEIGHBOURS largest cosines of e(x) and the embeddings of the training queries in R
    margin(a) = near(those that needed a) − near(those that needed nobody)        the latter where there are LEAST_NOBODY of them

A linear scorer draws one border around all that an agent is asked; what lies far beyond it, strange to everything, is on its side all
the same. Neighbours see that a text is like nothing that was asked before (Sun, Ming, Zhu and Li 2022, arXiv 2204.06507), and an agent
that is asked for many things needs no common border (Cover and Hart 1967). So it is one of a stack's scorers, and never alone.

Embeddings are kept as whole numbers, and products of whole numbers below 2^24 are exact in float32 in whatever order they are summed:
a batch answers to the bit as its texts would alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from training_app.engine.data.arrays import BoolArray, FloatArray
from training_app.engine.progress import ScorerProgress, no_progress
from training_app.engine.reading import sentences
from training_app.engine.reading.nearness import NEIGHBOURS

KEPT = 8_000  # training queries that are compared with
UNIT = 400  # of the whole numbers: a vector of length one has length UNIT, a cosine a product of UNIT²
BLOCK = 512  # texts compared at once
LEAST_NOBODY = 20  # fewer are a few strangers, not what strangers are like
SPREAD = 10.0  # margins are cosines times this, so that they vary as those of other scorers do


class PrecedentMargins:
    """`vectors` int8[kept, SIZE], each UNIT long, and whom they needed: `required` bool[kept, A]; `nobody` bool[kept] are those that
    needed none of the agents. Immutable, safe to share between threads."""

    kind: ClassVar[str] = "precedents"

    def __init__(self, vectors: NDArray[np.int8], required: BoolArray, nobody: BoolArray) -> None:
        if vectors.dtype != np.int8 or vectors.ndim != 2 or vectors.shape[1] != sentences.SIZE:
            raise ValueError(f"precedents: vectors are {vectors.dtype} {vectors.shape}")
        if required.ndim != 2 or len(required) != len(vectors) or nobody.shape != (len(vectors),):
            raise ValueError(f"precedents: {len(vectors)} queries, required sets {required.shape}")
        self.vectors, self.required, self.nobody = vectors, required.astype(np.bool_), nobody.astype(np.bool_)
        self._columns = np.ascontiguousarray(vectors.astype(np.float32).T)  # [SIZE, kept]
        self._of_agent = [np.flatnonzero(column) for column in self.required.T]
        against = np.flatnonzero(self.nobody)
        self._against = against if len(against) >= LEAST_NOBODY else against[:0]

    def logits(self, texts: Sequence[str]) -> FloatArray:
        """Margins, float32[len(texts), agents]."""
        found = np.empty((len(texts), len(self._of_agent)), np.float32)
        for at in range(0, len(texts), BLOCK):
            block = slice(at, at + BLOCK)
            cosines = whole(sentences.embed(texts[block])) @ self._columns  # [block, kept], times UNIT²
            against = _nearest(cosines, self._against)
            for a, rows in enumerate(self._of_agent):
                found[block, a] = _nearest(cosines, rows) - against
        return np.asarray(found * np.float32(SPREAD / UNIT**2), np.float32)

    def tensors(self) -> dict[str, NDArray[Any]]:
        """All arrays, by name."""
        return {
            "precedents": self.vectors,
            "required": self.required.astype(np.uint8),
            "nobody": self.nobody.astype(np.uint8),
        }

    def config(self) -> dict[str, Any]:
        """All else: the sentence encoder's name, which holds the hash of its weights."""
        return {"sentence_encoder": sentences.NAME}

    @classmethod
    def from_tensors(cls, config: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> PrecedentMargins:
        """Raises ValueError where something is missing, or the encoder is another."""
        try:
            sentences.check(str(config["sentence_encoder"]))
            return cls(tensors["precedents"], tensors["required"] > 0, tensors["nobody"] > 0)
        except KeyError as error:
            raise ValueError(f"the precedents lack {error}") from None

    def explain(self, text: str, top: int = 8) -> list[list[tuple[str, float]]]:
        """What a text is like cannot be told by its parts."""
        return [[] for _ in self._of_agent]


class PrecedentScorer:
    """Remembers at most KEPT of the rows it is given; those that need nobody are kept first, as far as a quarter, since they are
    few."""

    kind: ClassVar[str] = "precedents"
    folds: ClassVar[int] = 10

    def fit(
        self,
        texts: Sequence[str],
        Y: BoolArray,
        asked: BoolArray,
        *,
        seed: int,
        progress: ScorerProgress = no_progress,
    ) -> PrecedentMargins:
        """texts (N), Y bool[N, A], asked bool[N, A]."""
        progress(0, 1, "sentence embeddings")
        required: BoolArray = np.asarray(Y & asked)
        somebody: BoolArray = np.asarray(required.any(axis=1))
        nobody: BoolArray = np.asarray(asked.all(axis=1) & ~somebody)
        order = np.random.Generator(np.random.PCG64(seed)).permutation(len(texts))
        none, some = order[nobody[order]][: KEPT // 4], order[somebody[order]]
        kept = np.sort(np.concatenate([none, some[: KEPT - len(none)]]))
        vectors = whole(sentences.embed([texts[i] for i in kept.tolist()]))
        return PrecedentMargins(vectors.astype(np.int8), required[kept], nobody[kept])


def whole(vectors: FloatArray) -> FloatArray:
    """Vectors of length one as whole numbers, of length UNIT, -127 to 127: float32[N, SIZE]."""
    return np.clip(np.rint(vectors * np.float32(UNIT)), -127, 127)


def _nearest(cosines: FloatArray, rows: NDArray[np.int64]) -> FloatArray:
    """The mean of the largest cosines to `rows`, of all where they are fewer than NEIGHBOURS, 0 where there is none: float32[N]."""
    if not len(rows):
        return np.zeros(len(cosines), np.float32)
    own = cosines[:, rows]
    if len(rows) > NEIGHBOURS:
        own = np.partition(own, -NEIGHBOURS, axis=1)[:, -NEIGHBOURS:]
    return np.asarray(own.sum(axis=1) / np.float32(own.shape[1]), np.float32)
