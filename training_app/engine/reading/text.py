"""Word and character n-gram TF-IDF, and a linear scorer on it, as they are served: numpy only.

The features are those of scikit-learn's `TfidfVectorizer(sublinear_tf=True)` for words and for characters within
words (`analyzer="char_wb"`), each normalised to length one on its own and put side by side; the tests hold the two
equal to 1e-6. `linear.py` fits them.

Speed comes from one fact: a character n-gram never crosses white space, so all n-grams of a token depend on that
token alone. Each token's feature indices are looked up once and kept; a query of forty tokens costs forty dictionary
reads instead of eight hundred.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, chain, islice, pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from training_app.engine.data.arrays import BoolArray, FloatArray
from training_app.engine.reading.languages import MARKS, SPACELESS

IntArray = NDArray[np.int32]

_WORD = re.compile(r"(?u)\b\w\w+\b")  # scikit-learn's default token pattern
#: The same where a script puts no space between words: each of its letters counts as a word, so that pairs of words are pairs of
#: letters.
_WORD_OR_LETTER = re.compile(rf"[{SPACELESS}]|[^\W{SPACELESS}](?:[^\W{SPACELESS}]|[{MARKS}])+")
#: As models read that were trained before marks belonged to words, so that they answer as they did.
_UNMARKED = re.compile(rf"[{SPACELESS}]|[^\W{SPACELESS}]{{2,}}")
_KEPT_TOKENS = 20_000  # tokens whose indices are remembered, about 5 MB
_COUNTS = 4096
_NO_HASH = np.uint64(2**64 - 1)  # as a signed number -1, which `hash` never gives
_NONE = np.zeros(0, np.int32)


def single_words(lower: str, *, marks: bool = True) -> list[str]:
    """The words of a text in small letters, of two letters or `marks` at least; in scripts without spaces each letter is one."""
    return (_WORD if lower.isascii() else _WORD_OR_LETTER if marks else _UNMARKED).findall(lower)


def words_of(text: str, low: int, high: int) -> list[str]:
    """Word n-grams of `low` to `high` words, in the way of scikit-learn's `analyzer="word"` but for scripts without spaces."""
    words = single_words(text.lower())
    if high == 1:
        return words
    grams = list(words) if low == 1 else []
    for n in range(max(low, 2), min(high, len(words)) + 1):
        grams += [" ".join(words[i : i + n]) for i in range(len(words) - n + 1)]
    return grams


def characters_of(token: str, low: int, high: int) -> list[str]:
    """Character n-grams of one lower-case token, padded with a space on both sides (`analyzer="char_wb"`).
    A token shorter than n is counted once, whole."""
    padded = f" {token} "
    size = len(padded)
    grams: list[str] = []
    for n in range(low, high + 1):
        if n >= size:
            grams.append(padded)
            break
        grams += [padded[i : i + n] for i in range(size - n + 1)]
    return grams


class Grams:
    """Many short texts and their places, in a quarter of a dictionary's memory: looked up by their hashes, of 64 bits.

    That one text has another's hash is left to chance: once in a billion vocabularies of 200,000, or a billion unknown texts.
    """

    def __init__(self, grams: Sequence[str]) -> None:
        self._text = "".join(grams)
        self._ends = np.cumsum(np.fromiter(map(len, grams), np.int32, len(grams)), dtype=np.int32)
        hashes = np.fromiter(map(hash, grams), np.int64, len(grams)).view(np.uint64)
        places = hashes.argsort(kind="stable")
        # As many buckets as there are hashes, or fewer by less than half: a bucket of the highest bits holds about one.
        self._shift = np.uint64(64 - max(1, len(grams).bit_length() - 1))
        buckets = hashes[places] >> self._shift
        self._first = buckets.searchsorted(np.arange(2 ** (64 - int(self._shift)))).astype(np.int32)
        longest = int(np.bincount(buckets.astype(np.intp)).max()) if len(grams) else 1
        self._within = np.arange(longest, dtype=np.int32)
        # Past the last hash stand some that no text has, so that every bucket can be read to the longest one's end. A text that is
        # there twice has its first place.
        self._places = np.concatenate([places.astype(np.int32), np.full(longest, -1, np.int32)])
        self._hashes = np.concatenate([hashes[places], np.full(longest, _NO_HASH, np.uint64)])
        self._hashes[1:][self._hashes[1:] == self._hashes[:-1]] = _NO_HASH

    def __iter__(self) -> Iterator[str]:
        start = 0
        for end in self._ends.tolist():
            yield self._text[start:end]
            start = end

    def lookup(self, grams: Sequence[str]) -> tuple[IntArray, BoolArray]:
        """The places of those that are known, int32[k], and which these are: bool[len(grams), …], at most one true in a row."""
        wanted = np.fromiter(map(hash, grams), np.int64, len(grams)).view(np.uint64)
        at = self._first.take((wanted >> self._shift).view(np.intp))[:, None] + self._within
        same = self._hashes.take(at) == wanted[:, None]
        return self._places.take(at[same]), same


class TfIdf:
    """A fitted vocabulary with its inverse document frequencies. Shared between threads: what it remembers about
    tokens is a memo of pure results.

    `words` and `characters` list the n-grams; feature i is `(words + characters)[i]` and has weight `idf[i]`. `marks` as in
    `single_words`.
    """

    def __init__(
        self,
        words: Sequence[str],
        characters: Sequence[str],
        idf: FloatArray,
        word_range: tuple[int, int],
        character_range: tuple[int, int],
        *,
        marks: bool = True,
    ) -> None:
        if len(idf) != len(words) + len(characters):
            raise ValueError(f"{len(words) + len(characters)} n-grams have {len(idf)} document frequencies")
        self.word_range, self.character_range, self.marks = word_range, character_range, marks
        self.border = len(words)  # features below are words, from here on characters
        self.size = len(idf)
        self.idf = np.ascontiguousarray(idf, np.float32)
        self._words = {gram: i for i, gram in enumerate(words)}
        self._characters = Grams(characters)
        self._kept: dict[str, bytes] = {}
        # 1 + ln(count) at [count]; a text of more n-grams than the table holds is computed.
        self._sublinear = (1 + np.log(np.arange(_COUNTS).clip(1))).astype(np.float32)

    @property
    def words(self) -> list[str]:
        return list(self._words)

    def commonest_words(self, count: int) -> list[str]:
        """So many single words, that of the most training texts first."""
        places = np.argsort(self.idf[: self.border], kind="stable")
        words = self.words
        return list(islice((words[i] for i in places.tolist() if " " not in words[i]), count))

    @property
    def characters(self) -> list[str]:
        return list(self._characters)

    def _new(self, tokens: Sequence[str]) -> dict[str, bytes]:
        """By token the feature indices of its character n-grams and single words, with repeats, as the bytes of int32[...]:
        they are joined faster than arrays, and take a third of the memory. All are looked up at once, and kept."""
        grams = [characters_of(token, *self.character_range) for token in tokens]
        places, matched = self._characters.lookup(grams[0] if len(grams) == 1 else list(chain.from_iterable(grams)))
        indices = (places + np.int32(self.border)).tobytes()
        if len(grams) == 1:
            ends = [len(indices)]
        else:
            last = [end - 1 for end in accumulate(map(len, grams))]
            ends = (4 * matched.any(axis=1).cumsum()).take(last).tolist()
        pieces = {}
        for token, start, end in zip(tokens, [0, *ends], ends, strict=False):
            piece = indices[start:end]
            if self.word_range[0] == 1:
                words = [i for i in map(self._words.get, single_words(token, marks=self.marks)) if i is not None]
                piece += array("i", words).tobytes()
            pieces[token] = piece
            if len(self._kept) < _KEPT_TOKENS and len(token) <= 40:
                self._kept[token] = piece
        return pieces

    def pieces(self, text: str) -> bytes:
        """Indices of all known n-grams of a text, with repeats, as the bytes of int32[...]."""
        lower = text.lower()
        kept, tokens = self._kept, lower.split()
        try:
            pieces = b"".join(map(kept.__getitem__, tokens))
        except KeyError:
            new = self._new([token for token in dict.fromkeys(tokens) if token not in kept])
            pieces = b"".join([new[token] if token in new else kept[token] for token in tokens])
        low, high = self.word_range
        if self.border and high >= 2:
            find, words = self._words.get, single_words(lower, marks=self.marks)
            places = []
            if low <= 2:
                places = [i for first, second in pairwise(words) if (i := find(f"{first} {second}")) is not None]
            for n in range(max(3, low), high + 1):
                grams = (" ".join(words[k : k + n]) for k in range(len(words) - n + 1))
                places += [i for i in map(find, grams) if i is not None]
            pieces += array("i", places).tobytes()
        return pieces

    def counted(self, text: str) -> tuple[IntArray, FloatArray, int]:
        """(indices int32[k] ascending and unique, their term frequencies float32[k], how many of them are words)."""
        every = np.frombuffer(self.pieces(text), np.int32)
        total = every.size
        if not total:
            return _NONE, np.zeros(0, np.float32), 0
        every = np.sort(every)
        first = np.empty(total + 1, np.bool_)
        first[0] = first[total] = True
        np.not_equal(every[1:], every[:-1], out=first[1:total])
        begin = first.nonzero()[0]
        indices = every.take(begin[:-1])
        values = self.term_frequency(begin[1:] - begin[:-1], total)
        return indices, values, int(indices.searchsorted(self.border))

    def features(self, text: str) -> tuple[IntArray, FloatArray]:
        """(indices int32[k] ascending and unique, values float32[k]) of one text."""
        indices, values, border = self.counted(text)
        values *= self.idf.take(indices)
        for block in (values[:border], values[border:]):
            length = float(np.dot(block, block))
            if length > 0:
                block *= 1 / length**0.5
        return indices, values

    def term_frequency(self, counts: NDArray[np.int64], max_count: int) -> FloatArray:
        """1 + ln(count) of counts, none of which is above `max_count`."""
        if max_count < _COUNTS:
            return self._sublinear.take(counts)
        return (1 + np.log(counts)).astype(np.float32)

    def rows(self, texts: Sequence[str]) -> tuple[NDArray[np.int64], IntArray, FloatArray]:
        """The features of many texts as a compressed sparse matrix: (starts int64[N + 1], indices, values)."""
        every = [self.pieces(text) for text in texts]
        sizes = np.array([len(pieces) // 4 for pieces in every], np.int64)
        total = int(sizes.sum())
        starts = np.zeros(len(texts) + 1, np.int64)
        if not total:
            return starts, _NONE, np.zeros(0, np.float32)
        # One sort over all rows: a key is the row times the number of features, plus the feature. 32 bits where they
        # are enough: they sort twice as fast.
        kind: Any = np.int32 if len(texts) * self.size < 2**31 else np.int64
        base: NDArray[Any] = np.arange(len(texts), dtype=kind) * kind(self.size)
        keys: NDArray[Any] = np.repeat(base, sizes)
        keys += np.frombuffer(b"".join(every), np.int32)
        keys.sort()
        first = np.empty(total, np.bool_)
        first[0] = True
        np.not_equal(keys[1:], keys[:-1], out=first[1:])
        begin = np.flatnonzero(first)
        unique = keys[begin]
        # Where each block begins: words of row 0, characters of row 0, words of row 1, …
        edges = np.empty(2 * len(texts) + 1, np.int64)
        edges[:-1] = unique.searchsorted(np.stack([base, base + kind(self.border)], axis=1).ravel())
        edges[-1] = unique.size
        starts[:] = edges[::2]
        indices = unique - np.repeat(base, np.diff(starts))
        values = self.term_frequency(np.diff(begin, append=total), int(sizes.max())) * self.idf[indices]
        sizes = np.diff(edges)
        filled = np.flatnonzero(sizes)
        squares = np.add.reduceat(values * values, edges[filled])
        values *= np.repeat((1 / np.sqrt(squares)).astype(np.float32), sizes[filled])
        return starts, indices.astype(np.int32, copy=False), values

    def name(self, index: int) -> str:
        """The n-gram of a feature, for people; a character n-gram is shown between dots, spaces as ␣."""
        if not hasattr(self, "_names"):
            self._names = [*self._words, *("·" + c.replace(" ", "␣") + "·" for c in self._characters)]
        return self._names[index]


def _vocabulary(tfidf: TfIdf) -> dict[str, Any]:
    return {
        "word_range": list(tfidf.word_range),
        "character_range": list(tfidf.character_range),
        "words": tfidf.words,
        "characters": tfidf.characters,
        "marks": tfidf.marks,
    }


def _tfidf_from(config: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> TfIdf:
    try:
        words, characters, idf = config["words"], config["characters"], tensors["idf"]
        (w_low, w_high), (c_low, c_high) = config["word_range"], config["character_range"]
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"the vocabulary lacks {error}") from None
    if not all(isinstance(grams, list) and all(isinstance(g, str) for g in grams) for grams in (words, characters)):
        raise ValueError("the vocabulary must hold texts")
    ranges = (int(w_low), int(w_high)), (int(c_low), int(c_high))
    if not all(1 <= low <= high <= 10 for low, high in ranges):
        raise ValueError(f"n-gram ranges {ranges} are not within 1 to 10")
    return TfIdf(words, characters, idf, *ranges, marks=bool(config.get("marks")))


class TfIdfVectors:
    """TF-IDF itself as what a policy sees: `logits` are dense features, float32[N, features]."""

    kind: ClassVar[str] = "tfidf"

    def __init__(self, tfidf: TfIdf) -> None:
        self.tfidf = tfidf

    def logits(self, texts: Sequence[str]) -> FloatArray:
        starts, indices, values = self.tfidf.rows(texts)
        out = np.zeros((len(texts), self.tfidf.size), np.float32)
        out[np.repeat(np.arange(len(texts)), np.diff(starts)), indices] = values
        return out

    def tensors(self) -> dict[str, NDArray[Any]]:
        return {"idf": self.tfidf.idf}

    def config(self) -> dict[str, Any]:
        return _vocabulary(self.tfidf)

    @classmethod
    def from_tensors(cls, config: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> TfIdfVectors:
        """Raises ValueError where the vocabulary and the frequencies do not fit."""
        return cls(_tfidf_from(config, tensors))

    def explain(self, text: str, top: int = 8) -> list[list[tuple[str, float]]]:
        """Raw features belong to no agent."""
        return []


class LinearMargins:
    """A linear model per agent on TF-IDF: margin = features @ weights + bias.

    weights float32[features, agents], bias float32[agents].
    """

    kind: ClassVar[str] = "linear"

    def __init__(self, tfidf: TfIdf, weights: FloatArray, bias: FloatArray) -> None:
        if weights.shape != (tfidf.size, len(bias)):
            raise ValueError(f"weights are {weights.shape}, features and agents {(tfidf.size, len(bias))}")
        self.tfidf = tfidf
        # Side by side, because a text asks for them together: [features, 1 + agents], frequencies and weights.
        self.rows = np.concatenate([tfidf.idf[:, None], weights], axis=1, dtype=np.float32)
        self.weights = self.rows[:, 1:]
        self.bias = np.ascontiguousarray(bias, np.float32)

    @classmethod
    def of_rows(cls, tfidf: TfIdf, rows: FloatArray, bias: FloatArray) -> LinearMargins:
        """The model whose rows, float32[features, 1 + agents] of frequencies and weights, stand in a table of several."""
        made = cls.__new__(cls)
        made.tfidf, made.rows, made.weights, made.bias = tfidf, rows, rows[:, 1:], bias
        return made

    def logits_of(self, text: str) -> FloatArray:
        """Margins of one text, float32[agents]: `logits([text])[0]` without the cost of a batch."""
        indices, values, border = self.tfidf.counted(text)
        rows = self.rows.take(indices, axis=0)
        values *= rows[:, 0]
        margins = self.bias
        for block, part in ((values[:border], rows[:border]), (values[border:], rows[border:])):
            length = float(block.dot(block))
            if length > 0:
                margins = margins + block.dot(part)[1:] * (1 / length**0.5)
        return margins

    def logits(self, texts: Sequence[str]) -> FloatArray:
        """Margins, float32[len(texts), agents]."""
        if len(texts) == 1:
            return self.logits_of(texts[0])[None]
        out = np.empty((len(texts), len(self.bias)), np.float32)
        # In slices, so that a large batch needs little memory and stays within the cache.
        for at in range(0, len(texts), 256):
            part = texts[at : at + 256]
            starts, indices, values = self.tfidf.rows(part)
            bounds = starts.tolist()
            # Row by row, by the very product that one text takes: the answers of a batch are those of its texts.
            for row in range(len(part)):
                here = slice(bounds[row], bounds[row + 1])
                out[at + row] = (values[here] @ self.rows.take(indices[here], axis=0))[1:]
        out += self.bias
        return out

    def tensors(self) -> dict[str, NDArray[Any]]:
        return {"idf": self.tfidf.idf, "weights": np.ascontiguousarray(self.weights), "bias": self.bias}

    def config(self) -> dict[str, Any]:
        return _vocabulary(self.tfidf)

    @classmethod
    def from_tensors(cls, config: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> LinearMargins:
        """Raises ValueError where the vocabulary and the arrays do not fit."""
        try:
            weights, bias = tensors["weights"], tensors["bias"]
        except KeyError as error:
            raise ValueError(f"the linear scorer lacks {error}") from None
        return cls(_tfidf_from(config, tensors), weights, bias)

    def explain(self, text: str, top: int = 8) -> list[list[tuple[str, float]]]:
        """Per agent, the n-grams whose value times weight is largest, either sign."""
        indices, values = self.tfidf.features(text)
        contribution = values[:, None] * self.rows[indices, 1:]  # (k, agents)
        parts = []
        for column in contribution.T:
            best = np.argsort(-np.abs(column), kind="stable")[:top]
            parts.append([(self.tfidf.name(int(indices[i])), float(column[i])) for i in best if column[i]])
        return parts
