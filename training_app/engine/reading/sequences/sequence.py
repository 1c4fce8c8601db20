"""A scorer that reads the sentence, serving half: numpy only. The training half is `sequence_fit`.

A bag of features cannot tell which words belong to which need: in "play the newest game and book a table" the need
behind "play" is decided three words later, and the next clause must not disturb it. This scorer reads the words in
order and decides, word by word, whose need is being spoken of:

    x_t    = vector of word t, from its characters too                    (Bojanowski et al. 2017, arXiv 1607.04606)
    h_t    = two layers of a light bidirectional recurrence over x         (SRU: Lei et al. 2018, arXiv 1709.02755)
    p_t,a  = softmax over {agents, nobody} of h_t W                        (each word speaks for one agent, or nobody)
    w_t,a  = softmax over words of h_t Q                                   (attention per agent: Mullenbach et al. 2018,
                                                                            arXiv 1802.05695)
    margin = sum_t w_t,a * log(p_t,a / (1 - p_t,a)) + b_a                  (the words of attention's choice vote)

The softmax over agents makes them compete for a word, as they do within one clause; the attention lets each agent look
for the one clause that could be its own, so any number of agents can be needed by the whole text. No word of any
language is written here: what joins clauses, and where they end, is learnt.

The recurrence has no matrix product inside its loop (gates depend on the input alone), so a text costs one matrix
product a layer. The first layer's product is a sum over its window, so it is taken once per different word, not per
word, and kept for the next text: half of all arithmetic. The rest stands in `recurrence`. Every text of a batch ends, in
either direction's time, before its padding begins, so no mask is needed until words vote.
"""

from __future__ import annotations

import re
import threading
import unicodedata
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain
from math import log
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from training_app.engine.reading.languages import MARKS
from training_app.engine.reading.sequences.recurrence import Layer as Layer
from training_app.engine.reading.sequences.recurrence import Order, by_gate, order_of_one, recur

FloatArray = NDArray[np.float32]

#: Words read of one text; the rest of a longer text is left out.
MAX_WORDS = 400
#: Texts scored together: enough to share the cost of a call, few enough that their states stay in the cache.
BATCH = 32
#: Hashed n-grams kept of one word, of 3 to 5 characters; a longer word is known by its beginning.
NGRAM_SIZES = (3, 4, 5)
MAX_NGRAMS = 32
#: Vectors of unknown words kept for the next time. When full it starts again: no book-keeping on the hot path.
CACHE = 20_000
#: Words whose share of the first layer's product is kept, about 10 kB each: 20 MB at most, or more in a pool of many agents, whose
#: queries have more words and whose model is large beside them.
PROJECTIONS, PROJECTIONS_PER_AGENT = 2_000, 40
#: A longer run of characters without white space is taken apart each time.
LONGEST_TOKEN = 40

# Scripts that write no spaces (Thai, Lao, Myanmar, Khmer, kana, Han) give one word per character: a word is then a run
# of letters of any other script, digits and marks included, or one sign.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_UNSPACED += "\U00020000-\U000323af"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W{_UNSPACED}](?:[^\W{_UNSPACED}]|[{MARKS}])*|[^\w\s]")
#: As models read that were trained before marks belonged to words, so that they answer as they did.
_UNMARKED = re.compile(rf"[{_UNSPACED}]|[^\W{_UNSPACED}]+|[^\w\s]")


def split_words(text: str, *, marks: bool = True) -> list[str]:
    """The words and signs of a text, NFKC-normalised and case-folded, at most `MAX_WORDS`; [] for an empty text. `marks`: whether a
    word has those of its letters."""
    return _pattern(marks).findall(_normal(text))[:MAX_WORDS]


def _pattern(marks: bool) -> re.Pattern[str]:
    return _WORD if marks else _UNMARKED


def _normal(text: str) -> str:
    return (text if text.isascii() else unicodedata.normalize("NFKC", text)).casefold()


def ngram_buckets(word: str, buckets: int) -> list[int]:
    """Hash buckets, 0 to buckets - 1, of a word's character n-grams, its ends marked: 1 to `MAX_NGRAMS` of them.

    The word has at least one character, so marked it has at least one n-gram. A lone surrogate, which JSON can carry,
    is hashed like any other character.
    """
    marked = f"<{word}>"
    data = marked.encode("utf-8", "surrogatepass")
    ends: Sequence[int] = range(len(data) + 1)  # of each character
    if len(data) > len(marked):
        ends = list(accumulate((len(c.encode("utf-8", "surrogatepass")) for c in marked), initial=0))
    result = [
        zlib.crc32(data[start:end]) % buckets
        for size in NGRAM_SIZES
        for start, end in zip(ends, ends[size:], strict=False)
    ]
    return result[:MAX_NGRAMS]


#: A word's share of one agent stays this far below 1, and its log-odds above what a share of 1e-30 has, so that all stay finite.
SURE = 1e-6
LEAST = log(1e-30)


@dataclass(frozen=True, slots=True)
class Votes:
    """What the words say of the agents: heads float32[states, A + 1 + A], the columns of W (agents, then nobody) and
    of Q; head_bias float32[A + 1] and bias float32[A]."""

    heads: FloatArray
    head_bias: FloatArray
    bias: FloatArray
    _heads: FloatArray = field(init=False, repr=False)  # columns: nobody, the agents, then Q
    _added: NDArray[np.float64] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        agents = len(self.bias)
        order = [agents, *range(agents), *range(agents + 1, 2 * agents + 1)]
        object.__setattr__(self, "_heads", np.ascontiguousarray(self.heads[:, order]))
        object.__setattr__(self, "_added", np.append(self.head_bias.astype(np.float64), np.zeros(agents))[order])

    def __call__(self, states: FloatArray, mask: FloatArray | None) -> NDArray[np.float64]:
        """states float32[T, B, states], mask float32[T, B, 1] of true words or None -> float64[T, B, 2 A]: each word's log-odds
        of speaking for each agent times its weight, then the weights, which are in no unit."""
        steps, batch, width = states.shape
        agents = len(self.bias)
        scores = states.reshape(-1, width).dot(self._heads) + self._added
        # 64 bits hold the exponentials of all that is no further than this from 0: no maximum need be found first.
        scores.clip(-600, 600, out=scores)
        np.exp(scores, out=scores)
        log_odds = scores[:, 1 : agents + 1]
        total = np.add.reduce(scores[:, : agents + 1], axis=1, keepdims=True)
        others = total - log_odds
        np.maximum(others, SURE * total, out=others)
        log_odds /= others
        np.log(log_odds, out=log_odds)
        np.maximum(log_odds, LEAST, out=log_odds)
        weights = scores[:, agents + 1 :]
        if mask is not None:
            weights *= mask.reshape(-1, 1)
        log_odds *= weights
        return scores[:, 1:].reshape(steps, batch, 2 * agents)

    def margins(self, states: FloatArray, mask: FloatArray | None) -> FloatArray:
        """The votes of all words and the bias together, float32[B, A]."""
        agents = len(self.bias)
        total = np.add.reduce(self(states, mask), axis=0)
        margins = total[:, :agents] / total[:, agents:]
        margins += self.bias
        return margins.astype(np.float32)


class Products:
    """Words with their share of the first layer's product, so that a word of an earlier text costs a look-up.

    `of_word` and `of_token` (what stands between white space) tell where a word's rows begin in `table` float32[rows,
    columns]: as many as `blank` has, forward places of the window, then backward ones; at row 0 stands no word. Rows are
    written before they are told. The table has its room from the start: what is not written yet takes no memory.
    """

    def __init__(self, blank: FloatArray, room: int) -> None:
        """blank float32[2 * window, columns]: what no word adds; room for so many words."""
        self.of_word: dict[str, int] = {}
        self.of_token: dict[str, tuple[int, ...]] = {}
        self.table = np.empty(((room + 1) * len(blank), blank.shape[1]), np.float32)
        self.table[: len(blank)] = blank

    def add(self, words: Sequence[str], products: FloatArray) -> None:
        """Keep float32[W * 2 * window, columns] of W new words."""
        each = len(products) // len(words)
        first = (len(self.of_word) + 1) * each
        self.table[first : first + len(products)] = products
        self.of_word |= {word: first + k * each for k, word in enumerate(words)}


class SequenceMargins:
    """A fitted sequence scorer. Immutable but for its caches of words; safe to share between threads.

    words: the known words, V of them; vectors [V, D], their vectors, n-grams included; unknown [D], what an unknown
    word's n-gram vectors are added to; ngrams [buckets, D]; layers; votes; fixed float32[A]: the margin of an agent
    that had one class in training, NaN for any other. Vectors are kept as float16, rounded when training ended. marks:
    as in `split_words`.
    """

    kind: ClassVar[str] = "sequence"

    def __init__(
        self,
        words: Sequence[str],
        vectors: NDArray[np.float16],
        unknown: NDArray[np.float16],
        ngrams: NDArray[np.float16],
        layers: Sequence[Layer],
        votes: Votes,
        fixed: FloatArray,
        *,
        marks: bool = True,
    ) -> None:
        self._marks, self._pattern = marks, _pattern(marks)
        self._words = list(words)
        self._row = {word: row for row, word in enumerate(self._words)}
        self._vectors = vectors
        self._unknown = unknown
        self._ngrams = ngrams
        self._layers = list(layers)
        self._votes = votes
        self._fixed = fixed
        self._any_fixed = bool(np.isfinite(fixed).any())
        self._seen: dict[str, FloatArray] = {}
        first, *later = self._layers
        weight, bias = first.turned()  # [window, D, 2, columns], [2, columns]
        width, half = weight.shape[1], first.states // 2
        if bias.shape[1] == 3 * half:  # the highway is the input itself: a fourth group of columns that repeats it
            weight = np.concatenate([weight, np.zeros((*weight.shape[:3], half), np.float32)], axis=3)
            weight[first.window // 2, :, :, 3 * half :] = np.eye(width, dtype=np.float32).reshape(width, 2, half)
            bias = np.concatenate([bias, np.zeros((2, half), np.float32)], axis=1)
        self._first = np.ascontiguousarray(weight.transpose(1, 2, 0, 3).reshape(width, -1))  # [D, 2 * window * columns]
        self._blank = np.zeros((2 * first.window, bias.shape[1]), np.float32)
        self._blank[first.window // 2 :: first.window] = bias
        # Of each layer's product the two directions are taken apart: small products cost less than their size.
        self._later = [
            ([np.ascontiguousarray(weight[0, :, direction]) for direction in range(2)], bias)
            for weight, bias in (layer.turned() for layer in later)
        ]
        self._window = first.window
        self._no_word = [0] * (first.window // 2 + 1)
        self._parts = np.arange(2 * first.window)
        self._room = max(PROJECTIONS, PROJECTIONS_PER_AGENT * self.agents)
        self._products = Products(self._blank, self._room)
        self._learning = threading.Lock()

    @property
    def agents(self) -> int:
        """How many margins each text gets."""
        return int(self._fixed.shape[0])

    def logits(self, texts: Sequence[str]) -> FloatArray:
        """Margins, float32[len(texts), agents]. A text of no words gets what one blank word would."""
        if len(texts) == 1:
            margins = self._votes.margins(*self._alone(texts[0]))
        else:
            split = [split_words(text, marks=self._marks) for text in texts]
            margins = np.empty((len(texts), self.agents), np.float32)
            order = sorted(range(len(split)), key=lambda i: len(split[i]))  # of like length together: little padding
            for start in range(0, len(order), BATCH):
                rows = order[start : start + BATCH]
                margins[rows] = self._votes.margins(*self._together([split[i] for i in rows]))
        if self._any_fixed:
            margins[:] = np.where(np.isfinite(self._fixed), self._fixed, margins)
        return margins

    def explain(self, text: str, top: int = 8) -> list[list[tuple[str, float]]]:
        """Per agent, the words whose votes moved its margin most: (word, signed vote), strongest first.

        An agent's votes, all of them, and its bias add up to its margin.
        """
        words = split_words(text, marks=self._marks)
        if not words:
            return [[] for _ in range(self.agents)]
        margins = self._votes(*self._alone(text))[:, 0]
        votes = margins[:, : self.agents] / margins[:, self.agents :].sum(axis=0)  # [T, A]
        explained: list[list[tuple[str, float]]] = []
        for agent in range(self.agents):
            strongest = np.argsort(-np.abs(votes[:, agent]), kind="stable")[:top]
            is_learned = not np.isfinite(self._fixed[agent])
            explained.append([(words[t], float(votes[t, agent])) for t in strongest] if is_learned else [])
        return explained

    def _alone(self, text: str) -> tuple[FloatArray, None]:
        """The states of one text's words, float32[T, 1, states], from what earlier texts left."""
        products, end = self._products, self._no_word
        tokens = _normal(text).split()
        try:
            rows = list(chain(end, *map(products.of_token.__getitem__, tokens)))
        except KeyError:
            learned = self._learn(tokens[:MAX_WORDS])
            if learned is None:
                return self._together([split_words(text, marks=self._marks)])[0], None
            products, rows = learned
        del rows[len(end) + MAX_WORDS :]
        if len(rows) == len(end):
            rows.append(0)
        order = order_of_one(len(rows) - len(end), self._window)
        rows += end
        return self._states(np.array(rows), products.table, order), None

    def _learn(self, tokens: Sequence[str]) -> tuple[Products, list[int]] | None:
        """The rows of a text's words in the kept products, with those words that were not there; None where there are
        more different ones than there is room for."""
        with self._learning:
            products = self._products
            words_of = {token: self._pattern.findall(token) for token in tokens if token not in products.of_token}
            new = list({word: None for words in words_of.values() for word in words if word not in products.of_word})
            if len(products.of_word) + len(new) > self._room or len(products.of_token) > CACHE:
                # All is forgotten: no book-keeping on the hot path. Who still reads the old ones has them.
                products = Products(self._blank, self._room)
                words_of = {token: self._pattern.findall(token) for token in tokens}
                new = list(dict.fromkeys(chain.from_iterable(words_of.values())))
                if len(new) > self._room:
                    return None
            if new:
                # Each by itself: a product of several words differs in last digits from those of one, and an answer must not
                # depend on which texts came before.
                products.add(new, np.concatenate([self._products_of([word]) for word in new]))
            of_word, of_token = products.of_word, products.of_token
            rows_of = {token: tuple([of_word[word] for word in words]) for token, words in words_of.items()}
            rows = list(chain(self._no_word, *[rows_of[t] if t in rows_of else of_token[t] for t in tokens]))
            of_token.update([(token, own) for token, own in rows_of.items() if len(token) <= LONGEST_TOKEN])
            self._products = products
        return products, rows

    def _together(self, texts: Sequence[Sequence[str]]) -> tuple[FloatArray, FloatArray | None]:
        """The states of the words of B texts, float32[T, B, states], and which words are true, float32[T, B, 1]."""
        lengths = [max(1, len(words)) for words in texts]
        steps, pad, each = max(lengths), len(self._no_word), len(self._blank)
        number: dict[str, int] = {}
        rows = np.zeros((steps + 2 * pad, len(texts)), np.intp)
        for column, words in enumerate(texts):
            rows[pad : pad + len(words), column] = [number.setdefault(word, (len(number) + 1) * each) for word in words]
        table = np.concatenate([self._blank, self._products_of(list(number))])
        mask = None
        if min(lengths) < steps:
            mask = (np.arange(steps)[:, None] < np.array(lengths)).astype(np.float32)[:, :, None]
        return self._states(rows.reshape(-1), table, Order.of(lengths, self._window)), mask

    def _products_of(self, words: Sequence[str]) -> FloatArray:
        """What each word adds to the first layer's product, float32[W * 2 * window, columns]: to each direction, from each
        place of the window, the bias with the word itself."""
        products: FloatArray = (self._vectors_of(words) @ self._first).reshape(-1, *self._blank.shape)
        products += self._blank
        return products.reshape(-1, self._blank.shape[1])

    def _states(self, rows: NDArray[np.intp], table: FloatArray, order: Order) -> FloatArray:
        """The last layer's states, float32[T, B, states], of texts laid out as `order` says; rows int[...] of `table`."""
        total, batch, _ = order.back.shape
        parts = (rows[:, None] + self._parts).reshape(-1).take(order.words)
        projected, *others = table.take(parts, axis=0)  # [L, K, 2, B, columns] each
        for other in others[1:]:
            projected += other
        half = self._layers[0].states // 2
        states = recur(by_gate(projected, others[0] if others else np.zeros_like(projected), half), None)
        for (weights, bias), layer in zip(self._later, self._layers[1:], strict=True):
            x = states.reshape(-1, half).take(order.back, axis=0).reshape(total * batch, -1)
            half = layer.states // 2
            products = np.empty((2, total * batch, bias.shape[1]), np.float32)
            for weight, product in zip(weights, products, strict=True):
                x.dot(weight, out=product)
            projected = products.reshape(-1, bias.shape[1]).take(order.steps, axis=0)
            gates = by_gate(projected, np.broadcast_to(bias[:, None], projected.shape), half)
            states = recur(gates, states if len(gates) == 3 else None)
        return states.reshape(-1, half).take(order.back, axis=0).reshape(total, batch, -1)

    def _vectors_of(self, words: Sequence[str]) -> FloatArray:
        """The vectors float32[W, D] of W words, known or not."""
        vectors = np.empty((len(words), len(self._first)), np.float32)
        strange = []
        for place, word in enumerate(words):
            row = self._row.get(word)
            vector = self._seen.get(word) if row is None else self._vectors[row]
            if vector is None:
                strange.append(place)
            else:
                vectors[place] = vector
        if strange:
            made = self._from_ngrams([words[place] for place in strange])
            vectors[strange] = made
            if len(self._seen) >= CACHE:
                self._seen = {}
            self._seen |= {words[place]: vector for place, vector in zip(strange, made, strict=True)}
        return vectors

    def _from_ngrams(self, words: Sequence[str]) -> FloatArray:
        """The vectors float32[W, D] of W words that are not known."""
        buckets = [ngram_buckets(word, len(self._ngrams)) for word in words]
        sizes = np.fromiter(map(len, buckets), np.intp, len(buckets))
        parts = self._ngrams.take(np.fromiter(chain.from_iterable(buckets), np.intp, sizes.sum()), axis=0)
        starts = np.zeros_like(sizes)
        sizes[:-1].cumsum(out=starts[1:])
        vectors: FloatArray = np.add.reduceat(parts.astype(np.float32), starts, axis=0)
        vectors /= sizes[:, None]
        vectors += self._unknown
        return vectors

    def tensors(self) -> dict[str, NDArray[Any]]:
        """All arrays, by name, C-contiguous: float16 vectors, float32 for the rest."""
        tensors: dict[str, NDArray[Any]] = {
            "vectors": self._vectors,
            "unknown": self._unknown,
            "ngrams": self._ngrams,
            "heads": self._votes.heads,
            "head_bias": self._votes.head_bias,
            "bias": self._votes.bias,
            # An artifact holds finite numbers only, so what is fixed is told apart by a mask.
            "fixed": np.nan_to_num(self._fixed),
            "one_class": np.isfinite(self._fixed).astype(np.float32),
        }
        for number, layer in enumerate(self._layers):
            tensors[f"layer{number}.weight"] = layer.weight
            tensors[f"layer{number}.bias"] = layer.bias
        return {name: np.ascontiguousarray(array) for name, array in tensors.items()}

    def config(self) -> dict[str, Any]:
        """The words and each layer's window and states."""
        return {
            "words": list(self._words),
            "marks": self._marks,
            "layers": [{"window": layer.window, "states": layer.states} for layer in self._layers],
        }

    @classmethod
    def from_tensors(cls, config: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> SequenceMargins:
        """The inverse of `config` and `tensors`. Raises ValueError where a tensor is missing or has a wrong shape."""
        wanted = {"vectors", "unknown", "ngrams", "heads", "head_bias", "bias", "fixed", "one_class"}
        for number in range(len(config["layers"])):
            wanted |= {f"layer{number}.weight", f"layer{number}.bias"}
        missing = sorted(wanted - set(tensors))
        if missing:
            raise ValueError(f"sequence scorer: tensors missing: {', '.join(missing)}; the artifact is incomplete")
        words, width = config["words"], tensors["ngrams"].shape[1]
        layers, inputs = [], width
        for number, shape in enumerate(config["layers"]):
            window, states = int(shape["window"]), int(shape["states"])
            if states % 2 or window % 2 == 0 or (number and window > 1):
                raise ValueError(f"sequence scorer: layer {number} has {states} states and a window of {window}")
            gates = 3 if inputs == states else 4
            _expect(tensors, f"layer{number}.weight", (window * inputs, gates * states))
            _expect(tensors, f"layer{number}.bias", (gates * states,))
            weight, bias = tensors[f"layer{number}.weight"], tensors[f"layer{number}.bias"]
            layers.append(Layer(weight.astype(np.float32), bias.astype(np.float32), window, states))
            inputs = states
        agents = tensors["fixed"].shape[0]
        _expect(tensors, "vectors", (len(words), width))
        _expect(tensors, "unknown", (width,))
        _expect(tensors, "heads", (inputs, 2 * agents + 1))
        _expect(tensors, "head_bias", (agents + 1,))
        _expect(tensors, "bias", (agents,))
        _expect(tensors, "one_class", (agents,))
        return cls(
            words,
            tensors["vectors"].astype(np.float16),
            tensors["unknown"].astype(np.float16),
            tensors["ngrams"].astype(np.float16),
            layers,
            Votes(*(tensors[name].astype(np.float32) for name in ("heads", "head_bias", "bias"))),
            np.where(tensors["one_class"] > 0, tensors["fixed"], np.nan).astype(np.float32),
            marks=bool(config.get("marks")),
        )


def _expect(tensors: Mapping[str, NDArray[Any]], name: str, shape: tuple[int, ...]) -> None:
    if tensors[name].shape != shape:
        raise ValueError(f"sequence scorer: tensor {name!r} has shape {tensors[name].shape}, not {shape}")
