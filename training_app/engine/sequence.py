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
product a layer and a handful of numpy calls per word. The first layer's product is a sum over its window, so it is
taken once per different word, not per word, and kept for the next text: half of all arithmetic. All texts of a batch
are padded on the right; a padded word feeds zero into a recurrence that starts from zero, so it changes nothing in
either direction.
"""

from __future__ import annotations

import re
import unicodedata
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

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
#: Words whose share of the first layer's product is kept, about 10 kB each: 20 MB at most.
PROJECTIONS = 2_000

# Scripts that write no spaces (Thai, Lao, Myanmar, Khmer, kana, Han) give one word per character: a word is then a run
# of letters of any other script, digits and marks included, or one sign.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_UNSPACED += "\U00020000-\U000323af"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W{_UNSPACED}]+|[^\w\s]")


def split_words(text: str) -> list[str]:
    """The words and signs of a text, NFKC-normalised and case-folded, at most `MAX_WORDS`; [] for an empty text."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    return _WORD.findall(text.casefold())[:MAX_WORDS]


def ngram_buckets(word: str, buckets: int) -> list[int]:
    """Hash buckets, 0 to buckets - 1, of a word's character n-grams, its ends marked: 1 to `MAX_NGRAMS` of them.

    The word has at least one character, so marked it has at least one n-gram. A lone surrogate, which JSON can carry,
    is hashed like any other character.
    """
    marked = f"<{word}>"
    found = [
        zlib.crc32(marked[start : start + size].encode("utf-8", "surrogatepass")) % buckets
        for size in NGRAM_SIZES
        for start in range(len(marked) - size + 1)
    ]
    return found[:MAX_NGRAMS]


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

    def __call__(self, x: FloatArray, mask: FloatArray | None) -> FloatArray:
        """x float32[T, B, inputs], mask float32[T, B, 1] or None -> float32[T, B, states]."""
        steps, batch, inputs = x.shape
        if self.window > 1:
            reach = self.window // 2
            padded = np.zeros((steps + 2 * reach, batch, inputs), np.float32)
            padded[reach : reach + steps] = x
            views = [padded[k : k + steps] for k in range(self.window)]
            x_in = np.concatenate(views, axis=2)  # [T, B, window * inputs]
        else:
            x_in = x
        projected = x_in.reshape(steps * batch, -1) @ self.weight
        projected += self.bias
        return self.recur(projected.reshape(steps, batch, -1), x, mask)

    def recur(self, projected: FloatArray, x: FloatArray | None, mask: FloatArray | None) -> FloatArray:
        """From the input's product with the weights, bias added, float32[T, B, gates * states], which is overwritten.
        x float32[T, B, states] is the highway where the columns hold none."""
        steps, batch, _ = projected.shape
        n, half = self.states, self.states // 2
        gates = projected[..., n : 3 * n]  # forget and output gates; sigmoid(v) = 0.5 + 0.5 tanh(v / 2)
        gates *= 0.5
        np.tanh(gates, out=gates)
        gates *= 0.5
        gates += 0.5
        forget, output = gates[..., :n], gates[..., n:]
        fed = projected[..., :n] * (1.0 - forget)  # (1 - f_t) * candidate_t
        if mask is not None:
            fed *= mask
        # Both directions in one loop: the backward half is laid out in reversed time.
        c = np.empty((steps, batch, n), np.float32)
        c[..., :half] = fed[..., :half]
        c[..., half:] = fed[::-1, :, half:]
        keep = np.empty((steps, batch, n), np.float32)
        keep[..., :half] = forget[..., :half]
        keep[..., half:] = forget[::-1, :, half:]
        kept = np.empty((batch, n), np.float32)
        before, *rows = list(c)
        for row, share in zip(rows, list(keep)[1:], strict=True):  # c_t = f_t * c_{t-1} + (1 - f_t) * candidate_t
            np.multiply(share, before, kept)
            np.add(row, kept, row)
            before = row
        np.tanh(c, out=c)
        highway = projected[..., 3 * n :] if x is None or projected.shape[2] == 4 * n else x
        state = np.empty((steps, batch, n), np.float32)
        state[..., :half] = c[..., :half]
        state[..., half:] = c[::-1, :, half:]
        state -= highway  # h_t = r_t * tanh(c_t) + (1 - r_t) * highway_t
        state *= output
        state += highway
        if mask is not None:
            state *= mask
        return state


#: A word's share of one agent stays this far below 1, so that its log-odds stay finite.
SURE = 1e-6


@dataclass(frozen=True, slots=True)
class Votes:
    """What the words say of the agents: heads float32[states, A + 1 + A], the columns of W (agents, then nobody) and
    of Q; head_bias float32[A + 1] and bias float32[A]."""

    heads: FloatArray
    head_bias: FloatArray
    bias: FloatArray

    def __call__(self, states: FloatArray, mask: FloatArray | None) -> FloatArray:
        """states float32[T, B, states], mask float32[T, B, 1] of true words or None -> votes float32[T, B, A], whose
        sum over words plus `bias` are the margins."""
        steps, batch, width = states.shape
        agents = len(self.bias)
        scores = (states.reshape(steps * batch, width) @ self.heads).reshape(steps, batch, -1)
        speaks = scores[..., : agents + 1] + self.head_bias
        speaks -= speaks.max(axis=2, keepdims=True)
        share = np.exp(speaks)
        share /= share.sum(axis=2, keepdims=True)
        share = share[..., :-1]
        log_odds = np.log(np.maximum(share, np.float32(1e-30))) - np.log1p(-np.minimum(share, np.float32(1 - SURE)))
        looks = scores[..., agents + 1 :]
        if mask is not None:
            looks = np.where(mask > 0, looks, np.float32(-1e4))
        attention = np.exp(looks - looks.max(axis=0))
        attention /= attention.sum(axis=0)
        votes: FloatArray = attention * log_odds
        return votes


class SequenceMargins:
    """A fitted sequence scorer. Immutable but for its caches of words; safe to share between threads.

    words: the known words, V of them; vectors [V, D], their vectors, n-grams included; unknown [D], what an unknown
    word's n-gram vectors are added to; ngrams [buckets, D]; layers; votes; fixed float32[A]: the margin of an agent
    that had one class in training, NaN for any other. Vectors are kept as float16, rounded when training ended.
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
    ) -> None:
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
        # The first layer's weights by place in the window, side by side: [D, window * gates * states]. A layer whose
        # highway is its input needs the input itself, and takes its product whole.
        first = self._layers[0]
        self._by_place: FloatArray | None = None
        if first.weight.shape[1] == 4 * first.states:
            blocks = first.weight.reshape(first.window, -1, first.weight.shape[1])
            self._by_place = np.concatenate(list(blocks), axis=1)
        self._projected: dict[str, FloatArray] = {}

    @property
    def agents(self) -> int:
        """How many margins each text gets."""
        return int(self._fixed.shape[0])

    def logits(self, texts: Sequence[str]) -> FloatArray:
        """Margins, float32[len(texts), agents]. A text of no words gets what one blank word would."""
        split = [split_words(text) for text in texts]
        if len(split) == 1 and not self._any_fixed:
            alone: FloatArray = self._word_votes(split).sum(axis=0) + self._votes.bias
            return alone
        margins = np.empty((len(texts), self.agents), np.float32)
        order = sorted(range(len(split)), key=lambda i: len(split[i]))  # texts of like length together: little padding
        for start in range(0, len(order), BATCH):
            rows = order[start : start + BATCH]
            margins[rows] = self._word_votes([split[i] for i in rows]).sum(axis=0) + self._votes.bias
        if self._any_fixed:
            margins[:] = np.where(np.isfinite(self._fixed), self._fixed, margins)
        return margins

    def explain(self, text: str, top: int = 8) -> list[list[tuple[str, float]]]:
        """Per agent, the words whose votes moved its margin most: (word, signed vote), strongest first.

        An agent's votes, all of them, and its bias add up to its margin.
        """
        words = split_words(text)
        if not words:
            return [[] for _ in range(self.agents)]
        votes = self._word_votes([words])[:, 0]  # [T, A]
        explained: list[list[tuple[str, float]]] = []
        for agent in range(self.agents):
            strongest = np.argsort(-np.abs(votes[:, agent]), kind="stable")[:top]
            told = not np.isfinite(self._fixed[agent])
            explained.append([(words[t], float(votes[t, agent])) for t in strongest] if told else [])
        return explained

    def _word_votes(self, texts: Sequence[Sequence[str]]) -> FloatArray:
        """The votes of the words of B texts, float32[T, B, A]; those of padding weigh nothing."""
        steps = max(1, max(len(words) for words in texts))
        mask = None
        if any(len(words) < steps for words in texts) and len(texts) > 1:
            lengths = np.array([max(1, len(words)) for words in texts])
            mask = (np.arange(steps)[:, None] < lengths).astype(np.float32)[:, :, None]
        first, *others = self._layers
        if self._by_place is None:
            x = first(self._inputs(texts, steps), mask)
        else:
            if len(texts) == 1 and texts[0]:
                places = self._places_alone(texts[0], self._by_place)
            else:
                places = self._places(texts, steps, self._by_place)
            reach = first.window // 2
            projected = places[:, :, reach] + first.bias
            for k in range(1, min(reach, steps - 1) + 1):  # the word k before, and the word k after
                projected[k:] += places[:-k, :, reach - k]
                projected[:-k] += places[k:, :, reach + k]
            x = first.recur(projected, None, mask)
        for layer in others:
            x = layer(x, mask)
        return self._votes(x, mask)

    def _inputs(self, texts: Sequence[Sequence[str]], steps: int) -> FloatArray:
        """Word vectors float32[T, B, D], zero where a text has ended."""
        x = np.zeros((steps, len(texts), self._ngrams.shape[1]), np.float32)
        for column, words in enumerate(texts):
            for t, word in enumerate(words):
                x[t, column] = self._vector(word)
        return x

    def _places(self, texts: Sequence[Sequence[str]], steps: int, by_place: FloatArray) -> FloatArray:
        """What each word adds to the first layer's product from each place of the window, float32[T, B, window,
        gates * states]: one product per different word of the batch."""
        number: dict[str, int] = {}
        ids = np.zeros((len(texts), steps), np.int64)
        for column, words in enumerate(texts):
            ids[column, : len(words)] = [number.setdefault(word, len(number) + 1) for word in words]
        vectors = np.zeros((len(number) + 1, by_place.shape[0]), np.float32)  # row 0: no word
        for word, row in number.items():
            vectors[row] = self._vector(word)
        found = (vectors @ by_place).take(ids.T, axis=0)
        return found.reshape(steps, len(texts), self._layers[0].window, -1)

    def _places_alone(self, words: Sequence[str], by_place: FloatArray) -> FloatArray:
        """`_places` of one text, from what earlier texts left: float32[T, 1, window, gates * states]."""
        kept, parts = self._projected, []
        for word in words:
            part = kept.get(word)
            if part is None:
                part = self._vector(word).astype(np.float32) @ by_place
                if len(kept) >= PROJECTIONS:
                    kept = self._projected = {}
                kept[word] = part
            parts.append(part)
        return np.concatenate(parts).reshape(len(words), 1, self._layers[0].window, -1)

    def _vector(self, word: str) -> NDArray[Any]:
        """The vector [D] of a word, known or not."""
        row = self._row.get(word)
        if row is not None:
            vector: NDArray[Any] = self._vectors[row]
            return vector
        seen = self._seen.get(word)
        if seen is None:
            buckets = ngram_buckets(word, self._ngrams.shape[0])
            seen = self._unknown + self._ngrams[buckets].astype(np.float32).mean(axis=0)
            if len(self._seen) >= CACHE:
                self._seen = {}
            self._seen[word] = seen
        return seen

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
        )


def _expect(tensors: Mapping[str, NDArray[Any]], name: str, shape: tuple[int, ...]) -> None:
    if tensors[name].shape != shape:
        raise ValueError(f"sequence scorer: tensor {name!r} has shape {tensors[name].shape}, not {shape}")
