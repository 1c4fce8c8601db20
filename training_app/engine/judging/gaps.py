"""What a pool lacks and what overlaps in it: groups of queries that no agent answers, and pairs of agents that are confused.

Queries that a router was unsure of, that failed or were corrected are grouped by meaning. Average linkage joins two groups as long as
the mean cosine of their members is at least `LIKE`. A group is a *gap* if it is large enough and if its queries are more like each
other than like the labeled queries of any one agent: what lies among an agent's own queries is that agent's, however unsure the router
was.

scikit-learn is imported inside `grouped`, which only jobs call.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from training_app.engine.data.arrays import BoolArray, FloatArray

#: Two agents whose probabilities are as close as that, both likely, may be taken for each other.
CLOSE, LIKELY = 0.2, 0.25
#: Mean cosine of two groups that are joined, and queries of the smallest gap.
LIKE, SMALLEST = 0.4, 5
#: Labeled queries that a query is compared with, the nearest of each agent.
NEAREST = 5
#: Queries that are grouped at most: the matrix of their distances has so many rows and columns.
MOST = 3_000
WORDS = 8


@dataclass(frozen=True, slots=True)
class Gap:
    """A group of queries that no agent seems to answer: their rows, the most typical first, and the mean cosine among them."""

    rows: tuple[int, ...]
    alike: float


def grouped(vectors: FloatArray, like: float = LIKE) -> NDArray[np.intp]:
    """The group of each query, int[N], by average linkage of cosines: vectors float32[N, D] of length one."""
    from sklearn.cluster import AgglomerativeClustering  # only in a worker

    if len(vectors) < 2:
        return np.zeros(len(vectors), np.intp)
    clusters = AgglomerativeClustering(
        n_clusters=None, metric="cosine", linkage="average", distance_threshold=1 - like
    ).fit(vectors)
    return np.asarray(clusters.labels_, np.intp)


def gaps(
    vectors: FloatArray, labeled: FloatArray, required: BoolArray, smallest: int = SMALLEST, like: float = LIKE
) -> list[Gap]:
    """The gaps among queries, largest first: vectors float32[N, D] of these, and of labeled queries float32[M, D] with what they need,
    bool[M, A]."""
    group = grouped(vectors, like)
    near = _nearest(vectors, labeled, required)
    result = []
    for number in np.unique(group):
        rows = np.flatnonzero(group == number)
        if len(rows) < smallest:
            continue
        similarity = vectors[rows] @ vectors[rows].T
        np.fill_diagonal(similarity, -1)
        count = min(NEAREST, len(rows) - 1)
        within = np.sort(similarity, axis=1)[:, -count:].mean(axis=1)
        if near.size and float((near[rows].max(axis=1) > within).mean()) > 0.5:
            continue
        centre = vectors[rows].mean(axis=0)
        typical = rows[np.argsort(-(vectors[rows] @ centre), kind="stable")]
        result.append(Gap(tuple(typical.tolist()), float(similarity[similarity > -1].mean())))
    return sorted(result, key=lambda gap: -len(gap.rows))


def _nearest(vectors: FloatArray, labeled: FloatArray, required: BoolArray) -> FloatArray:
    """How near each query is to those that needed each agent, float32[N, A]: the mean cosine of the nearest."""
    agents = [np.flatnonzero(required[:, a]) for a in range(required.shape[1])]
    nearest = np.full((len(vectors), len(agents)), -1.0, np.float32)
    for a, rows in enumerate(agents):
        if len(rows) >= NEAREST:
            nearest[:, a] = np.sort(vectors @ labeled[rows].T, axis=1)[:, -NEAREST:].mean(axis=1)
    return nearest


def words_of(texts: Sequence[str], others: Sequence[str], limit: int = WORDS) -> list[str]:
    """The words that tell texts from others, the most telling first: by the log-odds of holding one, at least two texts each."""
    ours, theirs = (Counter(word for text in side for word in set(_words(text))) for side in (texts, others))
    weight = {
        word: np.log((count + 0.5) / (len(texts) + 1)) - np.log((theirs[word] + 0.5) / (len(others) + 1))
        for word, count in ours.items()
        if count >= 2
    }
    worth = {word: float(score) * ours[word] ** 0.5 for word, score in weight.items() if score > 0.5}
    return sorted(worth, key=lambda word: (-worth[word], word))[:limit]


def _words(text: str) -> list[str]:
    return [word for word in re.findall(r"[^\W\d_]+", text.casefold()) if len(word) > 2]


@dataclass(frozen=True, slots=True)
class Confusion:
    """Two agents by number, how often one was taken for the other or both were as likely, and what share of their queries that is."""

    agents: tuple[int, int]
    count: int
    share: float


def in_doubt(likelier: float, other: float) -> bool:
    """Whether the probabilities of the two likeliest agents leave open which of them a query needs: close, both likely, and one of
    them alone likelier than both, as for a query that needs both it is not."""
    both = likelier * other
    return other >= LIKELY and likelier - other <= CLOSE and likelier + other - 2 * both > both


def confusions(evidence: Sequence[tuple[int, int]], asked_for: Mapping[int, int], least: int = 3) -> list[Confusion]:
    """Pairs of agents that are taken for each other, the most mixed first: `evidence` names both for each query that shows it,
    `asked_for` how many queries need each. A pair is the more mixed the larger the share of the smaller agent's queries is."""
    counts = Counter((min(pair), max(pair)) for pair in evidence if pair[0] != pair[1])
    pairs = [
        Confusion(pair, count, count / max(1, min(asked_for.get(pair[0], 0), asked_for.get(pair[1], 0))))
        for pair, count in counts.items()
        if count >= least
    ]
    return sorted(pairs, key=lambda pair: (-min(pair.share, 1.0) * pair.count**0.5, pair.agents))
