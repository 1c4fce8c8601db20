"""Several linear models, each on a text of its own, in one pass: the channels of a conversation. numpy only.

Each text has a model and a vocabulary of its own, so nothing of their products is shared; what is, is every step up to them. The
n-grams of all texts are sorted, counted, weighed and looked up as one array, in which a feature of model m stands at its index plus
the number of features of the models before: a step costs little more for a thousand n-grams than for a hundred.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, pairwise

import numpy as np

from training_app.engine.data.arrays import FloatArray
from training_app.engine.reading.text import LinearMargins


class Abreast:
    """`models` are those that were given, with their rows in one table for all, float32[features of all, C]. They have no bias."""

    def __init__(self, models: Sequence[LinearMargins]) -> None:
        sizes = [m.tfidf.size for m in models]
        self._begins = [0, *np.cumsum(sizes[:-1]).tolist()]
        self._columns = [m.rows.shape[1] for m in models]
        self._table = np.zeros((sum(sizes), max(self._columns)), np.float32)
        own = []
        for m, begin, size, columns in zip(models, self._begins, sizes, self._columns, strict=True):
            rows = self._table[begin : begin + size, :columns]
            rows[:] = m.rows
            own.append(LinearMargins.of_rows(m.tfidf, rows, m.bias))
        self.models = tuple(own)
        borders = [begin + m.tfidf.border for m, begin in zip(models, self._begins, strict=True)]
        self._blocks = np.array([*chain(*zip(self._begins, borders, strict=True)), sum(sizes)], np.int32)

    def margins(self, texts: Sequence[str]) -> FloatArray:
        """What each model says of its text, float32[T, C - 1] for T texts: the margins of `logits_of`, to the bit; 0 for "", and in
        columns that a model does not have. Where there are more texts than models, the last are not read."""
        pieces = [m.tfidf.pieces(text) if text else b"" for m, text in zip(self.models, texts, strict=False)]
        every = np.frombuffer(bytearray().join(pieces), np.int32)
        end = 0
        for piece, begin in zip(pieces, self._begins, strict=False):
            start, end = end, end + len(piece) // 4
            if begin and piece:
                every[start:end] += begin
        every.sort()
        total = every.size
        first = np.empty(total + 1, np.bool_)
        first[0] = first[total] = True
        np.not_equal(every[1:], every[:-1], out=first[1:total])
        begins = first.nonzero()[0]
        indices = every.take(begins[:-1])
        values = self.models[0].tfidf.term_frequency(begins[1:] - begins[:-1], total)
        rows = self._table.take(indices, axis=0)
        values *= rows[:, 0]
        # Where each block begins: the words of the first model, its character n-grams, the words of the second, …
        cuts = indices.searchsorted(self._blocks[: 2 * len(pieces) + 1]).tolist()
        sums = np.zeros((len(cuts) - 1, rows.shape[1]), np.float32)
        scales = [0.0] * len(sums)
        for block, (start, end) in enumerate(pairwise(cuts)):
            if start < end:
                part, columns = values[start:end], self._columns[block // 2]
                part.dot(rows[start:end, :columns], out=sums[block, :columns])
                scales[block] = 1 / float(part.dot(part)) ** 0.5
        sums *= np.array(scales, np.float32)[:, None]
        return np.asarray(sums[::2, 1:] + sums[1::2, 1:])
