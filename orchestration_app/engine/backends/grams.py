"""Word n-grams of texts, hashed, and how alike two texts are by them. numpy only."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from training_app.engine.reading.text import words_of

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

PLACES = 1 << 17  # that n-grams are hashed to


def hashes(text: str) -> Ints:
    """The CRC-32 of each of a text's n-grams of one word and of two, in no order that matters; int64."""
    grams = words_of(text, 1, 2)
    return np.fromiter((zlib.crc32(gram.encode("utf-8", "replace")) for gram in grams), np.int64, len(grams))


@dataclass(frozen=True)
class Grams:
    """Texts as hashed word n-grams of length one: rows[i] is a text, at[i] a place, weight[i] how much of it."""

    rows: Ints
    at: Ints
    weight: Floats
    count: int

    @classmethod
    def of(cls, texts: Sequence[str], idf: Floats | None = None) -> tuple[Grams, Floats]:
        """The texts, and the inverse document frequencies [PLACES]: those given, or their own."""
        rows: list[Ints] = []
        places: list[Ints] = []
        weights: list[Floats] = []
        for row, text in enumerate(texts):
            at, counts = np.unique(hashes(text) % PLACES, return_counts=True)
            rows.append(np.full(len(at), row))
            places.append(at)
            weights.append(1 + np.log(counts))
        which, where = (np.concatenate([np.zeros(0, np.int64), *parts]) for parts in (rows, places))
        if idf is None:
            idf = np.log((1 + len(texts)) / (1 + np.bincount(where, minlength=PLACES))) + 1
        value = np.concatenate([np.zeros(0), *weights]) * idf[where]
        norm = np.sqrt(np.bincount(which, value**2, minlength=len(texts)))
        return cls(which, where, value / np.maximum(norm, 1e-12)[which], len(texts)), idf

    def likeness(self, other: Grams) -> Floats:
        """Cosines, float64[texts of other, own texts]."""
        ends = np.searchsorted(other.rows, np.arange(other.count + 1)).tolist()
        cosines = np.zeros((other.count, self.count))
        for row, (begin, end) in enumerate(itertools.pairwise(ends)):
            cosines[row] = self.likeness_of(other.at[begin:end], other.weight[begin:end])
        return cosines

    def likeness_of(self, at: Ints, weight: Floats) -> Floats:
        """The cosines of one text, whose n-grams stand at places at[i], each once; float64[own texts]."""
        first, rows, weights = self._postings
        begin = first[at]
        counts = first[at + 1] - begin
        # The postings of all places one behind the other: where each begins, less how many stand before it.
        entries = np.arange(counts.sum()) + np.repeat(begin - np.cumsum(counts) + counts, counts)
        cosines = np.bincount(rows[entries], weights[entries] * np.repeat(weight, counts), minlength=self.count)
        return cosines.astype(np.float64, copy=False)

    @cached_property
    def _postings(self) -> tuple[Ints, Ints, Floats]:
        """Where the rows of each place begin, [PLACES + 1], and the rows and weights in the order of their places."""
        order = np.argsort(self.at, kind="stable")
        first = np.concatenate([[0], np.cumsum(np.bincount(self.at, minlength=PLACES))])
        return first, self.rows[order], self.weight[order]
