"""How near a query is to the training queries that need somebody. numpy only.

A scorer's log-odds tell agents apart; they also extrapolate: a few words of one agent in a text about something else
are enough for it. How far a text is from everything that was ever routed is a second, different witness of "this needs
nobody" (distance to the nearest neighbours: Sun, Ming, Zhu and Li 2022, arXiv 2204.06507), and `calibration` weighs the
two against each other.

    idf_b      = log((1 + N) / (1 + df_b))            of a character n-gram or a pair of words b; df among N training rows
    similarity = sum of idf_b^2 over b in both texts / (|text| |other|)         with |text|^2 = sum of idf_b^2 over b in text
    nearness   = mean of the three largest similarities to training queries that need somebody

A feature that no training query holds counts in |text|, so a text of new words is near to nothing. Features are hashed:
there is no vocabulary to keep. One list of training queries per feature (an inverted index) makes a query cost what its
rare features share with others: the most common ones are in the lengths only, and the lists that are read are bounded.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from training_app.engine.data.arrays import BoolArray, FloatArray
from training_app.engine.reading.sequences.sequence import ngram_buckets, split_words

KEPT = 8_000  # training queries that are compared with
COMMON = 800  # a feature that more of them hold is in the lengths only
READ = 8_000  # list entries read for one query, those of its rarest features first
NEIGHBOURS = 3
_SIZES = (12, 18)  # the number of buckets is 2 to a power between these
_REMEMBERED = 20_000  # words whose hashes are remembered


def kept_rows(required: BoolArray, seed: int) -> NDArray[np.int64] | None:
    """Which training queries with required sets bool[N, A] an index keeps, int64[kept] ascending: at most KEPT of those that need
    somebody; None for fewer than NEIGHBOURS."""
    rng = np.random.Generator(np.random.PCG64(seed))
    needing = np.flatnonzero(required.any(axis=1))
    return None if len(needing) < NEIGHBOURS else np.sort(rng.permutation(needing)[:KEPT])


class Nearness:
    """The index. Immutable but for what it remembers of words; safe to share between threads.

    rows: the numbers of kept training queries, feature by feature; sizes int32[buckets]: how many of them each feature
    has; documents int32[buckets]: df; total: N; lengths float32[kept]: |other|; marks: as in `split_words`.
    """

    def __init__(
        self,
        rows: NDArray[np.integer[Any]],
        sizes: NDArray[np.int32],
        documents: NDArray[np.int32],
        total: int,
        lengths: FloatArray,
        *,
        marks: bool = True,
    ) -> None:
        buckets = len(sizes)
        if buckets & (buckets - 1) or documents.shape != sizes.shape:
            raise ValueError(f"nearness: {buckets} lists, {len(documents)} counts of documents")
        if sizes.sum() != len(rows) or (len(rows) and rows.max() >= len(lengths)) or len(lengths) < NEIGHBOURS:
            raise ValueError("nearness: the lists do not fit the queries")
        self.rows, self.sizes, self.documents, self.total, self.lengths = rows, sizes, documents, total, lengths
        self.marks = marks
        self._mask = buckets - 1
        self._ends = np.cumsum(sizes, dtype=np.int64)
        self._weights = np.log((1 + total) / (1 + documents.astype(np.float64))) ** 2
        self._shares = 1 / np.maximum(lengths.astype(np.float64), 1e-9)
        self._words: dict[str, tuple[int, ...]] = {}

    @classmethod
    def fit(cls, texts: Sequence[str], required: BoolArray, *, seed: int) -> tuple[Nearness, NDArray[np.int64]] | None:
        """The index of texts (N) with their required sets bool[N, A], and which rows it keeps, int64[kept] ascending; None
        where fewer than NEIGHBOURS of them need somebody."""
        kept = kept_rows(required, seed)
        if kept is None:
            return None
        hashed: dict[str, tuple[int, ...]] = {}
        # Arrays, text by text: as sets, the features of a hundred thousand texts would take a gigabyte and a half.
        features = [np.fromiter(hashes, np.uint32, len(hashes)) for hashes in (_hashes(text, hashed) for text in texts)]
        distinct = len(np.unique(np.concatenate(features)))
        power = min(_SIZES[1], max(_SIZES[0], int(np.ceil(np.log2(4 * distinct + 1)))))
        buckets = 1 << power
        places = [np.unique(hashes & np.uint32(buckets - 1)) for hashes in features]
        del features
        documents = np.bincount(np.concatenate(places), minlength=buckets).astype(np.int32)
        weights = np.log((1 + len(texts)) / (1 + documents)) ** 2
        lengths = np.array([np.sqrt(weights[places[i]].sum()) for i in kept.tolist()], np.float32)
        columns = np.concatenate([places[i] for i in kept.tolist()])
        numbers = np.repeat(np.arange(len(kept)), [len(places[i]) for i in kept.tolist()])
        held = np.bincount(columns, minlength=buckets)
        listed = held[columns] <= COMMON
        columns, numbers = columns[listed], numbers[listed]
        order = np.argsort(columns, kind="stable")
        sizes = np.bincount(columns, minlength=buckets).astype(np.int32)
        return cls(numbers[order].astype(np.uint16), sizes, documents, len(texts), lengths), kept

    def of(self, text: str, leave_out: NDArray[np.int64] | None = None) -> float:
        """The nearness of a text, 0 to 1; `leave_out` are numbers of kept queries that do not count."""
        hashes = _hashes(text, self._words, marks=self.marks)
        if not hashes:
            return 0.0
        places = np.fromiter(hashes, np.int64, len(hashes))
        places &= self._mask
        weights = self._weights.take(places)
        length = float(weights.sum()) ** 0.5
        sizes = self.sizes.take(places)
        read = int(sizes.sum())
        if read > READ:
            rarest = np.argsort(sizes, kind="stable")
            rarest = rarest[: int(np.searchsorted(np.cumsum(sizes[rarest]), READ, side="right"))]
            places, weights, sizes = places[rarest], weights[rarest], sizes[rarest]
            read = int(sizes.sum())
        if not read or length <= 0:
            return 0.0
        # Entry e of list i stands at end_i - (entries of all lists up to i) + e.
        shift = self._ends.take(places) - np.cumsum(sizes)
        entries = np.repeat(shift, sizes)
        entries += np.arange(read)
        similar = np.bincount(self.rows.take(entries), np.repeat(weights, sizes), len(self.lengths)) * self._shares
        if leave_out is not None:
            similar[leave_out] = 0
        total = 0.0
        for _ in range(NEIGHBOURS):
            best = int(similar.argmax())
            total += float(similar[best])
            similar[best] = 0
        return total / (NEIGHBOURS * length)

    def of_all(self, texts: Sequence[str]) -> FloatArray:
        """`of` each text, float32[N]."""
        return np.array([self.of(text) for text in texts], np.float32)

    def tensors(self) -> dict[str, NDArray[Any]]:
        """All arrays, by name."""
        return {
            "rows": self.rows,
            "sizes": self.sizes,
            "documents": self.documents,
            "lengths": self.lengths,
            "total": np.array([self.total], np.int64),
            "marks": np.array([self.marks], np.int8),
        }

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, NDArray[Any]]) -> Nearness:
        """The inverse of `tensors`. Raises ValueError or KeyError where they do not fit together."""
        rows, sizes, documents = tensors["rows"], tensors["sizes"], tensors["documents"]
        if any(array.ndim != 1 or array.dtype.kind not in "iu" for array in (rows, sizes, documents)):
            raise ValueError("nearness: lists of the wrong kind")
        if (sizes < 0).any() or (documents < 0).any():
            raise ValueError("nearness: a negative count")
        marks = "marks" in tensors and bool(tensors["marks"][0])
        return cls(rows, sizes, documents, int(tensors["total"][0]), tensors["lengths"], marks=marks)


def _hashes(text: str, remembered: dict[str, tuple[int, ...]], *, marks: bool = True) -> set[int]:
    """The hashed features of a text: the character n-grams of its words, and its pairs of neighbouring words."""
    words = split_words(text, marks=marks)
    result: set[int] = set()
    for word in words:
        hashes = remembered.get(word)
        if hashes is None:
            hashes = tuple(ngram_buckets(word, 1 << 32))
            if len(remembered) < _REMEMBERED and len(word) <= 40:
                remembered[word] = hashes
        result.update(hashes)
    result.update(
        [zlib.crc32(f"{first} {second}".encode("utf-8", "surrogatepass")) for first, second in pairwise(words)]
    )
    return result
