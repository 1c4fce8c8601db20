"""Whether recent queries and their answers look like those that a model was judged on. numpy only.

Each measure is a histogram, so that traffic of any length is kept in a few hundred numbers. Two histograms differ by their total
variation, half the sum of |p - q|: the share of the queries that would have to change for them to be equal. What difference mere
chance makes is drawn, not assumed: both samples again and again from their pooled distribution, at their own sizes. A difference is
drift where it is larger than chance gives in 1,999 of 2,000 draws and also large enough to matter.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from training_app.engine.text import characters_of

Hashes = NDArray[np.uint32]  # ascending, unique
Counts = Sequence[int]

#: Fewer texts than this on either side and nothing is said.
FEWEST = 100
DRAWS = 4_000
LEVEL = 1 - 1 / 2_000
GRAM = 4
MOST_WORDS = 2_000

_WORD = re.compile(r"\w{2,}")
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Measure:
    """`bins` equal parts of 0 to 1, or whole numbers where `whole`, the last one open; a difference below `least` does not matter.
    With `upward` only more of it is drift: fewer unknown words or abstentions worry nobody."""

    name: str
    bins: int
    least: float
    whole: bool = False
    upward: bool = False

    def bin(self, value: float) -> int:
        """The bin of a value."""
        return min(max(int(value if self.whole else value * self.bins), 0), self.bins - 1)


MEASURES = (
    Measure("novelty", 20, 0.10, upward=True),
    Measure("confidence", 20, 0.15),
    Measure("likeliest", 20, 0.15),
    Measure("size", 8, 0.15, whole=True),
    Measure("abstained", 2, 0.05, whole=True, upward=True),
)


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Hashes of the words and of the four-letter pieces of words that training texts held."""

    words: Hashes
    grams: Hashes

    @classmethod
    def of(cls, texts: Iterable[str]) -> Vocabulary:
        words: set[int] = set()
        grams: set[int] = set()
        for text in texts:
            lower = _plain(text)
            words.update(map(_hash, _WORD.findall(lower)))
            grams.update(map(_hash, _grams(lower)))
        return cls(_sorted(words), _sorted(grams))

    def novelty(self, text: str) -> float:
        """The share of a text's pieces that training never held, 0 to 1; 0 for a text without any."""
        pieces = np.fromiter((_hash(gram) for gram in set(_grams(_plain(text)))), np.uint32)
        if not pieces.size or not self.grams.size:
            return 0.0
        return float(1 - _among(pieces, self.grams).mean())

    def new_words(self, text: str) -> list[str]:
        """The words of a text that training never held, each once."""
        found = dict.fromkeys(_WORD.findall(_plain(text)))
        hashes = np.fromiter(map(_hash, found), np.uint32, len(found))
        known = _among(hashes, self.words)
        return [word for word, there in zip(found, known.tolist(), strict=True) if not there and not word.isdecimal()]


def _among(wanted: Hashes, known: Hashes) -> NDArray[np.bool_]:
    """Which of `wanted`, in any order, are in `known`, which is ascending; `np.isin` would sort all that is known each time."""
    if not known.size:
        return np.zeros(wanted.size, np.bool_)
    places = np.minimum(known.searchsorted(wanted), known.size - 1)
    return np.asarray(known[places] == wanted)


def _plain(text: str) -> str:
    """In small letters, each number as 0: an order's number is always new and says nothing."""
    return _NUMBER.sub("0", text.lower())


def _grams(lower: str) -> list[str]:
    return [gram for token in lower.split() for gram in characters_of(token, GRAM, GRAM)]


def _hash(text: str) -> int:
    return zlib.crc32(text.encode("utf-8", "replace"))


def _sorted(found: set[int]) -> Hashes:
    return np.array(sorted(found), np.uint32)


class Sketch:
    """What is counted of a stream of answers, in constant memory: a histogram and a sum a measure, and the newest words."""

    def __init__(self, vocabulary: Vocabulary | None) -> None:
        self.vocabulary = vocabulary
        self.measures = [m for m in MEASURES if m.name != "novelty" or vocabulary is not None]
        self.counts = {m.name: [0] * m.bins for m in self.measures}
        self.sums = {m.name: 0.0 for m in self.measures}
        self.words: Counter[str] = Counter()
        self.texts = 0

    def add(self, text: str, *, confidence: float, likeliest: float, size: int, abstained: bool) -> None:
        """Count one answer to one text."""
        values = {"confidence": confidence, "likeliest": likeliest, "size": size, "abstained": float(abstained)}
        if self.vocabulary is not None:
            values["novelty"] = self.vocabulary.novelty(text)
            self.words.update(self.vocabulary.new_words(text))
            if len(self.words) > 2 * MOST_WORDS:
                self.words = Counter(dict(self.words.most_common(MOST_WORDS)))
        for measure in self.measures:
            value = values[measure.name]
            self.counts[measure.name][measure.bin(value)] += 1
            self.sums[measure.name] += value
        self.texts += 1

    @property
    def means(self) -> dict[str, float]:
        return {name: total / self.texts if self.texts else 0.0 for name, total in self.sums.items()}


def distance(left: Counts, right: Counts) -> float:
    """Total variation between two histograms over the same bins, 0 to 1; 0 where one of them is empty."""
    p, q = np.asarray(left, float), np.asarray(right, float)
    if not p.sum() or not q.sum():
        return 0.0
    return float(np.abs(p / p.sum() - q / q.sum()).sum() / 2)


def limit(left: Counts, right: Counts, *, seed: int = 0, draws: int = DRAWS, level: float = LEVEL) -> float:
    """The distance that two samples of these sizes stay below with probability `level` when nothing has changed."""
    p, q = np.asarray(left, np.int64), np.asarray(right, np.int64)
    n, m = int(p.sum()), int(q.sum())
    if not n or not m:
        return 1.0
    pooled = (p + q) / (n + m)
    rng = np.random.default_rng(seed)
    a = rng.multinomial(n, pooled, draws) / n  # (draws, bins)
    b = rng.multinomial(m, pooled, draws) / m
    return float(np.quantile(np.abs(a - b).sum(axis=1) / 2, level))


def _mean(counts: Counts) -> float:
    return float(np.average(np.arange(len(counts)), weights=np.asarray(counts, float)))


@dataclass(frozen=True, slots=True)
class Finding:
    """One measure: how far live traffic is from the reference, how far chance alone may take it, and whether it drifts."""

    measure: Measure
    distance: float
    limit: float
    drifts: bool


def compare(reference: dict[str, list[int]], live: dict[str, list[int]]) -> list[Finding]:
    """Every measure that both sides have. Below FEWEST texts on either side nothing drifts."""
    found = []
    for place, measure in enumerate(MEASURES):
        left, right = reference.get(measure.name), live.get(measure.name)
        if not left or not right or len(left) != len(right) or not sum(left) or not sum(right):
            continue
        far, chance = distance(left, right), limit(left, right, seed=place)
        told = min(sum(left), sum(right)) >= FEWEST and far > max(chance, measure.least)
        if measure.upward and _mean(right) <= _mean(left):
            told = False
        found.append(Finding(measure, far, chance, told))
    return found
