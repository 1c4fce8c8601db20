"""Training queries that are near in meaning: an agent's precedents, and those of anybody. numpy only, fitted as it is served.

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
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from training_app.engine.data.arrays import BoolArray, FloatArray
from training_app.engine.progress import ScorerProgress, no_progress
from training_app.engine.reading import sentences
from training_app.engine.reading.nearness import NEIGHBOURS, kept_rows

KEPT = 8_000  # training queries that are compared with
UNIT = 400  # of the whole numbers: a vector of length one has length UNIT, a cosine a product of UNIT²
BLOCK = 128  # texts compared at once
LEAST_NOBODY = 20  # fewer are a few strangers, not what strangers are like
BELOW = 1 << 20  # more than any two products of vectors differ by
SPREAD = 10.0  # margins are cosines times this, so that they vary as those of other scorers do


class Cosines:
    """The cosines of texts and of kept ones. Immutable but for the last text's, which a route asks for twice; safe to share between
    threads."""

    def __init__(self, vectors: NDArray[np.int8]) -> None:
        """`vectors` int8[kept, SIZE], each UNIT long. Raises ValueError for others."""
        if vectors.dtype != np.int8 or vectors.ndim != 2 or vectors.shape[1] != sentences.SIZE:
            raise ValueError(f"vectors of kept queries are {vectors.dtype} {vectors.shape}")
        self.vectors = vectors
        self._last: tuple[str, FloatArray] = ("", np.zeros((0, 0), np.float32))

    @cached_property
    def _columns(self) -> FloatArray:
        return np.ascontiguousarray(self.vectors.astype(np.float32).T)  # [SIZE, kept]

    def of(self, texts: Sequence[str]) -> FloatArray:
        """The cosines times UNIT², whole numbers: float32[N, kept]."""
        if len(texts) != 1:
            return np.asarray(whole(sentences.embed(texts)) @ self._columns)
        text, cosines = self._last
        if text != texts[0] or not len(cosines):
            cosines = whole(sentences.embed(texts)) @ self._columns
            self._last = (str(texts[0]), cosines)
        return cosines


class PrecedentMargins:
    """`vectors` int8[kept, SIZE], each UNIT long, and whom they needed: `required` bool[kept, A]; `nobody` bool[kept] are those that
    needed none of the agents. Immutable, safe to share between threads."""

    kind: ClassVar[str] = "precedents"

    def __init__(self, vectors: NDArray[np.int8], required: BoolArray, nobody: BoolArray) -> None:
        self.cosines = Cosines(vectors)
        if required.ndim != 2 or len(required) != len(vectors) or nobody.shape != (len(vectors),):
            raise ValueError(f"precedents: {len(vectors)} queries, required sets {required.shape}")
        self.required, self.nobody = required.astype(np.bool_), nobody.astype(np.bool_)
        against = np.flatnonzero(self.nobody)
        groups = [*map(np.flatnonzero, self.required.T), against if len(against) >= LEAST_NOBODY else against[:0]]
        self._rows = np.concatenate(groups)  # of each agent, and last of nobody
        self._sizes = np.array([len(rows) for rows in groups])
        # Where each group has NEIGHBOURS or none, those of one text are found among all at once: [G, the largest group's size], of a
        # smaller group with places of the last cosine, which stands behind those of the kept queries and is below them all.
        self._padded: NDArray[np.int64] | None = None
        if not ((self._sizes > 0) & (self._sizes < NEIGHBOURS)).any():
            self._padded = np.full((len(groups), int(self._sizes.max())), len(vectors))
            for places, rows in zip(self._padded, groups, strict=True):
                places[: len(rows)] = rows

    def logits(self, texts: Sequence[str]) -> FloatArray:
        """Margins, float32[len(texts), agents]."""
        log_odds = np.empty((len(texts), len(self._sizes)), np.float32)
        if len(texts) == 1 and self._padded is not None and self._padded.size:
            cosines = np.append(self.cosines.of(texts)[0], np.float32(-BELOW)).take(self._padded)
            cosines.partition(-NEIGHBOURS, axis=1)
            log_odds[0] = cosines[:, -NEIGHBOURS:].sum(axis=1) / np.float32(NEIGHBOURS)
            log_odds[0, self._sizes == 0] = 0
            return self._margins(log_odds)
        for at in range(0, len(texts), BLOCK):
            block = slice(at, at + BLOCK)
            log_odds[block] = _nearest(self.cosines.of(texts[block]).take(self._rows, axis=1), self._sizes)
        return self._margins(log_odds)

    @staticmethod
    def _margins(near: FloatArray) -> FloatArray:
        """near float32[N, A + 1], of nobody last -> float32[N, A]."""
        return np.asarray((near[:, :-1] - near[:, -1:]) * np.float32(SPREAD / UNIT**2), np.float32)

    def tensors(self) -> dict[str, NDArray[Any]]:
        """All arrays, by name."""
        return {
            "precedents": self.cosines.vectors,
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
        return [[] for _ in self.required.T]


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


def _nearest(cosines: FloatArray, sizes: NDArray[np.int64]) -> FloatArray:
    """For each group of columns, so many as `sizes` int64[G] says one after the other, the mean of the NEIGHBOURS largest; of all
    where they are fewer, 0 where there is none. Whole numbers float32[N, columns] -> float32[N, G]."""
    total = np.zeros((len(cosines), len(sizes)), np.int64)
    filled = np.flatnonzero(sizes)
    if not len(filled):
        return total.astype(np.float32)
    columns, starts = cosines.shape[1], (np.cumsum(sizes) - sizes)[filled]
    # A number that tells its column, too: of equal ones in a group one at a time is taken away.
    keys = cosines.astype(np.int64)
    keys *= columns
    keys += np.arange(columns)
    flat, rows = keys.reshape(-1), (np.arange(len(keys)) * columns)[:, None]
    for rank in range(NEIGHBOURS):
        largest = np.maximum.reduceat(keys, starts, axis=1)  # [N, G]
        cosine, column = np.divmod(largest, columns)
        total[:, filled] += np.where(sizes[filled] > rank, cosine, 0)
        flat[rows + column] = largest - BELOW * columns
    taken_each = np.clip(sizes, 1, NEIGHBOURS).astype(np.float32)
    return np.asarray(total.astype(np.float32) / taken_each, np.float32)


class Likeness:
    """How near a text is in meaning to the training queries that need somebody, `nearness.py` by sentence embeddings: the mean of the
    three largest cosines to `vectors` int8[kept, SIZE]. A question in words that no training query holds may mean what one of them
    says, and one in their very words something else."""

    def __init__(self, vectors: NDArray[np.int8]) -> None:
        self.cosines = Cosines(vectors)
        if len(vectors) < NEIGHBOURS:
            raise ValueError(f"likeness: {len(vectors)} queries")
        self._rows: NDArray[np.int64] | None = None

    @classmethod
    def fit(cls, texts: Sequence[str], required: BoolArray, *, seed: int) -> tuple[Likeness, NDArray[np.int64]] | None:
        """The index of texts (N) with their required sets bool[N, A], and which rows it keeps, int64[kept] ascending; None
        where fewer than NEIGHBOURS of them need somebody."""
        kept = kept_rows(required, seed)
        if kept is None:
            return None
        return cls(whole(sentences.embed([texts[i] for i in kept.tolist()])).astype(np.int8)), kept

    def join(self, precedents: PrecedentMargins) -> None:
        """Read the cosines of `precedents` where these keep the same queries: a route then has one product in place of two."""
        rows = np.flatnonzero(precedents.required.any(axis=1))
        if np.array_equal(precedents.cosines.vectors[rows], self.cosines.vectors):
            self.cosines, self._rows = precedents.cosines, rows

    def of(self, text: str) -> float:
        """The nearness of a text, -1 to 1."""
        return float(self.of_all([text])[0])

    def of_all(self, texts: Sequence[str], leave_out: NDArray[np.int64] | None = None) -> FloatArray:
        """`of` each text, float32[N]; `leave_out` int64[N] is the number of a kept query that does not count for it, -1 for none."""
        likeness = np.empty(len(texts), np.float32)
        for at in range(0, len(texts), BLOCK):
            block = slice(at, at + BLOCK)
            cosines = self.cosines.of(texts[block])  # [block, kept]
            if self._rows is not None:
                cosines = cosines.take(self._rows, axis=1)
            if leave_out is not None:
                cosines = cosines.copy()
                rows = np.flatnonzero(leave_out[block] >= 0)
                cosines[rows, leave_out[block][rows]] = -(UNIT**2)
            nearest = np.partition(cosines, -NEIGHBOURS, axis=1)[:, -NEIGHBOURS:].sum(axis=1)
            likeness[block] = nearest / np.float32(NEIGHBOURS * UNIT**2)
        return likeness

    def tensors(self) -> dict[str, NDArray[Any]]:
        """All arrays, by name."""
        vectors = self.cosines.vectors
        return {"vectors": vectors if self._rows is None else vectors[self._rows]}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, NDArray[Any]]) -> Likeness:
        """The inverse of `tensors`. Raises ValueError or KeyError where they do not fit."""
        vectors = tensors["vectors"]
        # Models of before hold vectors of length one.
        return cls(whole(vectors).astype(np.int8) if vectors.dtype == np.float16 else vectors)
