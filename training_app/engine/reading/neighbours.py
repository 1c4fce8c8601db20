"""The texts of a collection that are most like another one: cosine of hashed word and character n-grams. numpy only.

Features are those of `said.grams`, hashed to SIZE places, weighted by (1 + ln count) · (1 + ln((1 + N) / (1 + df))) over the N texts.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np

from training_app.engine.reading.conversing.said import grams

SIZE = 1 << 18


class Neighbours:
    """Texts, ready to be compared with. About 80 features of 8 bytes each are kept of a short text."""

    def __init__(self, texts: Sequence[str]) -> None:
        places, counts, lengths = [], [], []
        for text in texts:
            where, frequencies = _hashed(text)
            places.append(where)
            counts.append(frequencies)
            lengths.append(len(where))
        self._places = np.concatenate(places) if places else np.zeros(0, np.int32)
        frequency = np.bincount(self._places, minlength=SIZE)
        self._idf = (1 + np.log((1 + len(texts)) / (1 + frequency))).astype(np.float32)
        weights = np.concatenate(counts) if counts else np.zeros(0, np.float32)
        self._weights = weights * self._idf[self._places]
        self._rows = np.repeat(np.arange(len(texts)), lengths)  # the text of each feature
        self._count = len(texts)
        norms = np.sqrt(np.bincount(self._rows, self._weights**2, minlength=self._count))
        self._norms = np.where(norms > 0, norms, 1)

    def nearest(self, text: str, count: int = 5) -> list[tuple[int, float]]:
        """(place, likeness 0 to 1) of the most alike texts, nearest first; those with nothing in common are left out."""
        if not self._count:
            return []
        where, frequencies = _hashed(text)
        query = np.zeros(SIZE, np.float32)
        query[where] = frequencies * self._idf[where]
        norm = float(np.linalg.norm(query))
        if not norm:
            return []
        products = np.bincount(self._rows, query[self._places] * self._weights, minlength=self._count)
        alike = products / self._norms / norm
        best = np.argsort(-alike, kind="stable")[:count]
        return [(int(place), float(alike[place])) for place in best if alike[place] > 0]


def _hashed(text: str) -> tuple[np.ndarray, np.ndarray]:
    """Where the text's features are, int32[n], each once, and 1 + ln of how often each stands in it, float32[n]."""
    counts: dict[int, int] = {}
    for gram, count in grams(text).items():
        place = zlib.crc32(gram.encode("utf-8", "replace")) % SIZE
        counts[place] = counts.get(place, 0) + count
    occurrences = np.fromiter(counts.values(), np.float32, len(counts))
    return np.fromiter(counts, np.int32, len(counts)), 1 + np.log(occurrences)
