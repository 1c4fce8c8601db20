"""How live texts differ from labeled ones, and what that does to a promise made on the labels. numpy only.

Labels are not traffic. Whether the two differ is asked of a classifier that is to tell them apart (a two-sample test: Lopez-Paz and
Oquab 2017): logistic regression, cross-fitted, on the length of a text in characters, words and parts, whether it is a turn of a
conversation, how like its nearest labeled texts other than itself it is, and how many of its words no other labeled text holds.
Its area under the curve, A, is 0.5 where the two are alike. Were a share κ of the traffic like no label, and told apart for sure, and
the rest like the labels, A would be (1 + κ) / 2; where they cannot be told apart for sure, A is less. So κ is at least 2 A - 1.

Of queries unlike any label a promise says nothing. So its range is widened: at the lower end MISSED (2 A - 1) of the traffic is taken
to be answered wrong, with A at the upper end of its interval; at the upper end 2 A - 1 of it to be answered right, with A at the lower
end. That is done where the two differ beyond chance, and also where no label needs several agents, or none needs nobody, so that
nothing is known of such queries: there the test need not be sure.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import log, sqrt

import numpy as np
from numpy.typing import NDArray

from training_app.engine.data import metrics
from training_app.engine.data.conversations import before
from training_app.engine.data.intervals import Interval
from training_app.engine.reading.logistic import logistic

Floats = NDArray[np.float64]

FOLDS = 5
LEAST = 30  # texts on either side below which nothing is said
RIDGE = 5.0
NEAREST = 5  # labeled texts that are looked at
MISSED = 1.5  # of 2 A - 1, which is the least that κ can be: see benchmarks/promises

_WORD = re.compile(r"\w+")
_BREAK = re.compile(r"[,;:.!?\n]")


@dataclass(frozen=True, slots=True)
class Shift:
    """`auroc` is of telling `texts` of traffic from `labels`, with its interval. `lengths` are the median characters of labels and of
    traffic; `several` and `nobody` how many labels need several agents and nobody."""

    labels: int
    texts: int
    auroc: Interval
    lengths: tuple[float, float]
    several: int
    nobody: int

    @property
    def differs(self) -> bool:
        """Whether traffic differs from labels beyond chance."""
        return self.auroc.low > 0.5

    @property
    def lacking(self) -> bool:
        """Whether labels say nothing of queries for several agents, or of those for nobody."""
        return not self.several or not self.nobody

    @property
    def unlike(self) -> float:
        """The share of traffic, at least, that is like no label; 0 where that is not sure."""
        return max(0.0, 2 * self.auroc.low - 1)

    def expected(self, promised: Interval) -> Interval:
        """What may be expected of traffic where `promised`, a share of right answers, holds for labels."""
        if not self.differs and not self.lacking:
            return promised
        between, highest = (max(0.0, 2 * end - 1) for end in (self.auroc.mean, self.auroc.high))
        low = promised.low * (1 - min(1.0, MISSED * highest))
        high = promised.high + self.unlike * (1 - promised.high)
        return Interval(min(max(promised.mean * (1 - between), low), high), low, high)


def compare(labeled: Sequence[str], sizes: Sequence[int], traffic: Sequence[str], seed: int = 0) -> Shift | None:
    """How traffic differs from labeled texts, which need so many agents each; None where either has fewer than LEAST."""
    if min(len(labeled), len(traffic)) < LEAST:
        return None
    is_live = np.arange(len(labeled) + len(traffic)) >= len(labeled)
    score = _told_apart(_features(labeled, traffic), is_live, seed)
    interval = metrics.auroc_interval(score.astype(np.float32), is_live)
    assert interval is not None
    lengths = tuple(float(np.median([len(text) for text in side])) for side in (labeled, traffic))
    return Shift(
        len(labeled),
        len(traffic),
        Interval(interval["mean"], interval["low"], interval["high"]),
        (lengths[0], lengths[1]),
        sum(size > 1 for size in sizes),
        sum(size == 0 for size in sizes),
    )


def _told_apart(features: Floats, is_live: NDArray[np.bool_], seed: int) -> Floats:
    """The cross-fitted score of each text, float64[N]: the higher, the more it looks like traffic."""
    rng = np.random.Generator(np.random.PCG64(seed))
    fold = np.empty(len(features), np.int64)
    for side in (is_live, ~is_live):
        places = np.flatnonzero(side)
        fold[rng.permutation(places)] = np.arange(len(places)) % FOLDS
    score = np.zeros(len(features))
    for k in range(FOLDS):
        rest, here = fold != k, fold == k
        mean, scale = features[rest].mean(axis=0), features[rest].std(axis=0) + 1e-9
        design = np.column_stack([(features[rest] - mean) / scale, np.ones(int(rest.sum()))])
        weights = logistic(design, is_live[rest], np.zeros(design.shape[1]), ridge=RIDGE)
        raw = np.column_stack([(features[here] - mean) / scale, np.ones(int(here.sum()))]) @ weights
        score[here] = raw
    return score


def _features(labeled: Sequence[str], traffic: Sequence[str]) -> Floats:
    """float64[N, F] of labeled texts, then traffic."""
    texts = [*labeled, *traffic]
    words = [_WORD.findall(text.casefold()) for text in texts]
    plain = [
        [log(1 + len(text)), log(1 + len(words_of_text)), float(bool(before(text))), log(1 + len(_BREAK.findall(text)))]
        for text, words_of_text in zip(texts, words, strict=True)
    ]
    return np.column_stack([np.array(plain), _likeness(words, len(labeled))])


def _likeness(words: Sequence[Sequence[str]], labeled: int) -> Floats:
    """How like its nearest labeled texts but itself each text is, float64[N, 4]: the cosine with the first, their mean, and the share
    and the number of its words that no labeled text but itself holds. Words weigh by how few labeled texts hold them."""
    holders = Counter(word for words_of_text in words[:labeled] for word in set(words_of_text))
    rare = log(1 + labeled) + 1
    weight = {word: log((1 + labeled) / (1 + count)) + 1 for word, count in holders.items()}
    vectors, strange = [], np.zeros((len(words), 2))
    for i, words_of_text in enumerate(words):
        counted = Counter(words_of_text)
        alone = sum(holders.get(word, 0) == (i < labeled) for word in counted)  # held by no labeled text but itself
        strange[i] = alone / max(len(counted), 1), alone
        vector = {word: (1 + log(count)) * weight.get(word, rare) for word, count in counted.items()}
        length = sqrt(sum(value * value for value in vector.values())) or 1.0
        vectors.append({word: value / length for word, value in vector.items()})
    index: dict[str, list[tuple[int, float]]] = {}
    for i, vector in enumerate(vectors[:labeled]):
        for word, value in vector.items():
            index.setdefault(word, []).append((i, value))
    out = np.zeros((len(words), 2))
    for i, vector in enumerate(vectors):
        near = np.zeros(labeled)
        for word, value in vector.items():
            for other, theirs in index.get(word, ()):
                near[other] += value * theirs
        if i < labeled:
            near[i] = 0.0
        best = np.sort(near)[::-1][:NEAREST]
        out[i] = best[0], best.mean()
    return np.column_stack([out, strange])
