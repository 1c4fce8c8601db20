"""A light bidirectional recurrence over words (SRU: Lei et al. 2018, arXiv 1709.02755) as it is served: numpy only.

    f_t, r_t = sigmoid of the input's products; k_t = the input, or its product, for the highway
    c_t = f_t * c_{t-1} + (1 - f_t) * candidate_t
    h_t = r_t * tanh(c_t) + (1 - r_t) * k_t

Nothing inside the recurrence is a matrix product, so what it costs on one text is the number of numpy's calls: both
directions are one array, each in its own time, and blocks of steps run side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float32]

#: Steps in a block at most: longer ones would multiply numbers that float32 ends at.
LONGEST_BLOCK = 8


@dataclass(frozen=True, slots=True)
class Layer:
    """One recurrent layer: weight float32[window * inputs, gates * states], bias float32[gates * states].

    Columns come in `gates` groups of `states`: candidate, forget gate, output gate, and, where the input's width is
    not the output's, the input's projection for the highway. The first half of each group runs forward in time, the
    second half backward.
    """

    weight: FloatArray
    bias: FloatArray
    window: int
    states: int

    def turned(self) -> tuple[FloatArray, FloatArray]:
        """The weights as `recur` takes them: (weight float32[window, inputs, 2, gates * states / 2], bias float32[2,
        gates * states / 2]), forward columns, then backward ones, whose places of the window are in reversed time.

        Gates come first, halved: sigmoid(v) = 0.5 + 0.5 tanh(v / 2).
        """
        n, half = self.states, self.states // 2
        gates = self.weight.shape[1] // n
        order = np.array([1, 2, 0, 3][:gates])
        scale = np.array([0.5, 0.5, 1, 1][:gates], np.float32)[:, None, None]
        weight = self.weight.reshape(self.window, -1, gates, 2, half)[:, :, order] * scale
        weight = weight.transpose(0, 1, 3, 2, 4).reshape(self.window, -1, 2, gates * half)
        weight[:, :, 1] = weight[::-1, :, 1].copy()
        bias = (self.bias.reshape(gates, 2, half)[order] * scale).transpose(1, 0, 2).reshape(2, -1)
        return weight, bias


@dataclass(frozen=True, slots=True)
class Order:
    """Where the words of B texts stand while a layer runs: [L, K, 2, B], L times K steps in each direction's own time. Step
    k * L + j stands at [j, k]; what is left over at the end belongs to no word.

    words int[window, L, K, 2, B] tells for each step where the word itself and those around it stand in int[T + 2 * pad, B, 2,
    window]: the texts' words with `pad` of no word at either end, and what each adds to a direction from a place. steps int[L,
    K, 2, B] points into [2, T, B], back int[T, B, 2] from the words' own order into [L, K, 2, B].
    """

    words: NDArray[np.intp]
    steps: NDArray[np.intp]
    back: NDArray[np.intp]

    @classmethod
    def of(cls, lengths: Sequence[int], window: int) -> Order:
        """For B texts of so many words."""
        n = np.array(lengths)
        total, batch, reach = int(n.max()), len(n), window // 2
        short = min(LONGEST_BLOCK, round(total**0.5))  # a step within blocks costs about as much as a block
        blocks = -(-total // short)
        step = np.arange(short * blocks).reshape(blocks, short).T[:, :, None]  # [L, K, 1]
        word = np.stack([np.minimum(step, n), np.maximum(n - 1 - step, -1)], axis=2)  # [L, K, 2, B]
        away = np.arange(-reach, reach + 1)[:, None] * np.array([1, -1])  # [window, 2]
        column = np.arange(batch)
        words = ((word + away[:, None, None, :, None] + reach + 1) * batch + column) * 2 + np.arange(2)[:, None]
        words = words * window + np.arange(window)[:, None, None, None, None]
        steps = (np.arange(2)[:, None] * total + word.clip(0, total - 1)) * batch + column
        t = np.arange(total)[:, None]
        own = np.stack([np.broadcast_to(t, (total, batch)), np.maximum(n - 1 - t, 0)], axis=2)  # [T, B, 2]
        back = ((own % short * blocks + own // short) * 2 + np.arange(2)) * batch + column[:, None]
        return cls(words, steps, back)


@lru_cache(maxsize=512)
def order_of_one(length: int, window: int) -> Order:
    """`Order.of` one text."""
    return Order.of((length,), window)


def by_gate(projected: FloatArray, added: FloatArray, half: int) -> FloatArray:
    """The sum of two float32[L, K, 2, B, gates * half] as float32[gates, L, K, 2, B, half]."""
    gates = np.empty((projected.shape[-1] // half, *projected.shape[:-1], half), np.float32)
    turned = gates.transpose(1, 2, 3, 4, 0, 5)
    np.add(projected.reshape(turned.shape), added.reshape(turned.shape), out=turned)
    return gates


def scan(keep: FloatArray, fed: FloatArray) -> None:
    """c_t = keep_t * c_{t-1} + fed_t from c = 0, in the place of `fed`; both float32[L, K, N] in the steps of `Order`, `keep`
    is overwritten.

    numpy's calls cost more here than their arithmetic, so the blocks of L steps run side by side, each from 0, and what
    came before a block is added to it afterwards: 3 L + 2 K calls instead of 2 L K.
    """
    kept = np.empty(fed.shape[1:], np.float32)
    rows, shares = list(fed), list(keep)
    for before, row, passed, share in zip(rows, rows[1:], shares, shares[1:], strict=False):
        np.multiply(share, before, kept)
        np.add(row, kept, row)
        np.multiply(share, passed, share)  # what a block's steps until here keep of all that came before it
    kept = kept[0]
    ends = list(rows[-1])
    for before, row, share in zip(ends, ends[1:], list(shares[-1])[1:], strict=False):
        np.multiply(share, before, kept)
        np.add(row, kept, row)
    fed[:-1, 1:] += keep[:-1, 1:] * fed[-1, :-1]


def recur(gates: FloatArray, highway: FloatArray | None) -> FloatArray:
    """One layer's states, float32[L, K, 2, B, half], from gates float32[3 or 4, L, K, 2, B, half], the input's product with
    `Layer.turned`, which is overwritten; highway of the states' shape where it is not the fourth of them."""
    sigmoids = gates[:2]
    np.tanh(sigmoids, out=sigmoids)
    sigmoids *= 0.5
    sigmoids += 0.5
    forget, output, candidate = gates[:3]
    c = 1 - forget
    c *= candidate
    # c_t = f_t * c_{t-1} + (1 - f_t) * candidate_t
    scan(forget.reshape(*forget.shape[:2], -1), c.reshape(*c.shape[:2], -1))
    if highway is None:
        highway = gates[3]
    np.tanh(c, out=c)
    c -= highway  # h_t = r_t * tanh(c_t) + (1 - r_t) * highway_t
    c *= output
    c += highway
    return c
