"""Whether recent queries and their answers look like those that a model was judged on. numpy only.

Each measure is a histogram, so that traffic of any length is kept in a few hundred numbers. Queries of another kind stand at one end
of it: their words are unknown, the router is unsure of them. So two histograms are compared by the share of the queries beyond a cut,
at every cut between two bins, each difference in units of what chance makes of it there; the largest of these is the statistic
(a Kolmogorov-Smirnov statistic weighted as Anderson and Darling's, Ann. Math. Stat. 23, 1952). What it comes to by mere chance is
drawn, not assumed: the queries of both sides are dealt again, DRAWS times, which holds at any number of independent queries
and pays for the choice of the cut. A difference is drift where it is larger than chance gives in 1,999 of 2,000 deals and also
large enough to matter.

Deals suppose that queries come independently. Where like queries come in bursts, twenty of them may say no more than one: the limit
grows by what the autocorrelation of the answers, in order of time, makes of their number.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from training_app.engine.data.intervals import student
from training_app.engine.reading.text import characters_of

Hashes = NDArray[np.uint32]  # ascending, unique
Counts = Sequence[int]

#: Fewer texts than this on either side and nothing is said.
FEWEST = 50
DRAWS = 8_000
LEVEL = 1 - 1 / 2_000
LONGEST_BURST = 100  # like queries in a row that are told as one burst
LEAST_TIME = 1.3  # of independent queries a stretch like theirs shows more in 1 of 20
GRAM = 4
MOST_WORDS = 2_000

_WORD = re.compile(r"\w{2,}")
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Measure:
    """`bins` equal parts of 0 to 1, or whole numbers where `whole`, the last one open; a difference below `least` of the queries does
    not matter.
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
    Measure("novelty", 20, 0.05, upward=True),
    Measure("confidence", 20, 0.10),
    Measure("likeliest", 20, 0.10),
    Measure("size", 8, 0.10, whole=True),
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
        words = dict.fromkeys(_WORD.findall(_plain(text)))
        hashes = np.fromiter(map(_hash, words), np.uint32, len(words))
        is_known = _among(hashes, self.words)
        return [
            word for word, there in zip(words, is_known.tolist(), strict=True) if not there and not word.isdecimal()
        ]


def words_of(text: str) -> set[str]:
    """Every word of a text as `Vocabulary.new_words` writes them."""
    return set(_WORD.findall(_plain(text)))


def _among(wanted: Hashes, sorted_hashes: Hashes) -> NDArray[np.bool_]:
    """Which of `wanted`, in any order, are in `sorted_hashes`, which is ascending; `np.isin` would sort them each time."""
    if not sorted_hashes.size:
        return np.zeros(wanted.size, np.bool_)
    places = np.minimum(sorted_hashes.searchsorted(wanted), sorted_hashes.size - 1)
    return np.asarray(sorted_hashes[places] == wanted)


def _plain(text: str) -> str:
    """In small letters, each number as 0: an order's number is always new and says nothing."""
    return _NUMBER.sub("0", text.lower())


def _grams(lower: str) -> list[str]:
    return [gram for token in lower.split() for gram in characters_of(token, GRAM, GRAM)]


def _hash(text: str) -> int:
    return zlib.crc32(text.encode("utf-8", "replace"))


def _sorted(hashes: set[int]) -> Hashes:
    return np.array(sorted(hashes), np.uint32)


class Sketch:
    """What is counted of a stream of answers: a histogram and a sum a measure, the newest words, and each answer's bins in their order
    (`places`), by which bursts are told."""

    def __init__(self, vocabulary: Vocabulary | None) -> None:
        self.vocabulary = vocabulary
        self.measures = [m for m in MEASURES if m.name != "novelty" or vocabulary is not None]
        self.counts = {m.name: [0] * m.bins for m in self.measures}
        self.sums = {m.name: 0.0 for m in self.measures}
        self.places: dict[str, list[int]] = {m.name: [] for m in self.measures}
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
            place = measure.bin(value)
            self.counts[measure.name][place] += 1
            self.places[measure.name].append(place)
            self.sums[measure.name] += value
        self.texts += 1

    @property
    def means(self) -> dict[str, float]:
        return {name: total / self.texts if self.texts else 0.0 for name, total in self.sums.items()}


class Difference(NamedTuple):
    """Where two histograms differ most. `excess` is by how much the share of the right one's queries from bin `cut` on is larger than
    the left one's, negative where it is smaller; `limit` is what chance may make of it at that cut."""

    cut: int
    excess: float
    limit: float


def difference(
    reference: Counts, right: Counts, *, upward: bool = False, seed: int = 0, draws: int = DRAWS
) -> Difference:
    """The largest difference over all cuts, and the limit that chance stays below with probability LEVEL when nothing has changed.

    With `upward` only more beyond a cut counts. Two empty or equal histograms differ by 0.
    """
    p, q = np.asarray(reference, np.int64), np.asarray(right, np.int64)
    n, m = int(p.sum()), int(q.sum())
    pooled = p + q
    filled = np.flatnonzero(pooled)  # (filled,): empty bins make no cut
    if not n or not m:
        return Difference(0, 0.0, 1.0)
    if filled.size < 2:
        return Difference(0, 0.0, 0.0)  # all stand in one bin
    spread = _spread(pooled[filled], n, m)  # (filled - 1,): standard deviation of the excess at each cut
    excess = _beyond(q[filled]) / m - _beyond(p[filled]) / n
    dealt = np.random.default_rng(seed).multivariate_hypergeometric(
        pooled[filled], m, draws, method="marginals"
    )  # (draws, filled)
    beyond = _beyond(dealt)
    by_chance = (beyond / m - (_beyond(pooled[filled]) - beyond) / n) / spread
    scaled = excess / spread
    if not upward:
        by_chance, size = np.abs(by_chance), np.abs(scaled)
    else:
        size = scaled
    place = int(size.argmax())
    chance = float(np.quantile(by_chance.max(axis=1), LEVEL, method="higher"))
    return Difference(int(filled[place + 1]), float(excess[place]), chance * float(spread[place]))


def beyond(counts: Counts, measure: Measure, cut: float) -> float:
    """The share of a histogram's answers that stand from a `Finding`'s cut on."""
    first = round(cut if measure.whole else cut * measure.bins)
    return sum(counts[first:]) / sum(counts)


def burst_factor(far: NDArray[np.bool_], reference: int, cuts: NDArray[np.bool_] | None = None) -> float:
    """By how much the limit grows where queries come in bursts: `far` bool[n], in order of time, tells which stand beyond the cut;
    `reference` queries stand on the other side, and are taken to be independent.

    τ queries say what one independent query does. It is told at the cut and, from `cuts` bool[n, C], which stand beyond each cut, over
    all of them together: the cut at which traffic differs most is often one that a dozen bursts all stand on one side of, where
    nothing changes and so nothing is alike. The longer of the two counts; below LEAST_TIME it is chance."""
    n = len(far)
    time = max(_burst_time(distances) for distances in (far[:, None], cuts) if distances is not None)
    if time < LEAST_TIME:
        return 1.0
    freedom = max(int(n / time) - 1, 3)
    tail = student(freedom, 2 * LEVEL - 1) / NormalDist().inv_cdf(LEVEL)
    return tail * ((time / n + 1 / reference) / (1 / n + 1 / reference)) ** 0.5


def _burst_time(far: NDArray[np.bool_]) -> float:
    """τ of bool[n, C], all cuts C together: the integrated autocorrelation time, its pairs of lags summed while they are positive
    (Geyer 1992). What stays at lags twice as long is a slow change and no burst, and a drift that sets in on the way is one step: the
    largest one of each cut is taken out first."""
    n = len(far)
    longest = min(n // 6, LONGEST_BURST)
    if longest < 2:
        return 1.0
    lags, covariance, power = np.arange(2 * longest + 1), np.zeros(2 * longest + 1), 0.0
    for column in far.T:
        x = _without_step(column.astype(np.float64))
        waves = np.fft.rfft(x, 2 * n)
        covariance += np.fft.irfft(waves * waves.conj())[lags]
        power += float(x @ x)
    if power <= 0:
        return 1.0
    alike = covariance / power * n / (n - lags)  # autocorrelation at each lag
    slow = max(float(alike[longest + 1 :].mean()), 0.0)
    time = 1.0
    for lag in range(1, longest, 2):
        pair = float(alike[lag] + alike[lag + 1]) - 2 * slow
        if pair <= 0:
            break
        time += 2 * pair
    return time


def _without_step(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """x [n] without its mean, and without the one step, a tenth or more from either end, that explains most of it."""
    n, x = len(x), x - x.mean()
    before = np.arange(1, n)
    explained = np.cumsum(x)[:-1] ** 2 * n / (before * (n - before))
    edge = max(n // 10, 1)
    at = edge + int(explained[edge - 1 : n - edge].argmax())
    return np.concatenate([x[:at] - x[:at].mean(), x[at:] - x[at:].mean()])


def _beyond(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many stand in each bin but the first or a later one: (…, bins) → (…, bins - 1)."""
    return np.asarray(counts[..., ::-1].cumsum(axis=-1)[..., ::-1][..., 1:])


def _spread(pooled: NDArray[np.int64], n: int, m: int) -> NDArray[np.float64]:
    # The hypergeometric variance of a share beyond a cut, of n and of m dealt from n + m.
    share = _beyond(pooled) / (n + m)
    return np.asarray(np.sqrt(share * (1 - share) * (n + m) / (n + m - 1) * (1 / n + 1 / m)))


@dataclass(frozen=True, slots=True)
class Finding:
    """One measure: how much larger the share of live queries beyond the `cut` is (negative: smaller), how far chance alone may take
    it there, and whether it drifts. `distance` is the amount of the excess; the cut is a bin's lower end."""

    measure: Measure
    distance: float
    limit: float
    drifts: bool
    cut: float = 0.0
    excess: float = 0.0


def compare(
    reference: dict[str, list[int]], live: dict[str, list[int]], places: Mapping[str, Sequence[int]] | None = None
) -> list[Finding]:
    """Every measure that both sides have. Below FEWEST texts on either side nothing drifts.

    `places` are the live answers' bins in order of time, by which bursts of like queries are told; without them queries are
    taken to come independently.
    """
    findings = []
    for place, measure in enumerate(MEASURES):
        expected, right = reference.get(measure.name), live.get(measure.name)
        if not expected or not right or len(expected) != len(right) or not sum(expected) or not sum(right):
            continue
        cut, excess, chance = difference(expected, right, upward=measure.upward, seed=place)
        if places is not None:
            bins = np.asarray(places[measure.name])
            chance *= burst_factor(bins >= cut, sum(expected), bins[:, None] >= np.arange(1, measure.bins))
        far = max(excess, 0.0) if measure.upward else abs(excess)
        drifted = min(sum(expected), sum(right)) >= FEWEST and far > chance and far >= measure.least
        findings.append(Finding(measure, far, chance, drifted, cut if measure.whole else cut / measure.bins, excess))
    return findings
