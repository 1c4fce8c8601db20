"""What a pool lacks and what overlaps in it: groups of queries that no agent answers, and pairs of agents that are confused.

A pool lacks an agent where traffic says what labeled queries do not. Queries are compared in a space in which an agent's own queries
vary equally in all directions: what only tells one request to an agent from another (dates, places, "yes, please") then counts little,
and what tells agents apart counts much (within-class covariance normalisation, Hatch, Kajarekar and Stolcke 2006). There a query is a
candidate if

1. the router was in doubt about it, or it is less like its likeliest agent than most queries of that agent are (`UNUSUAL`), and
2. there is much more traffic around it than labeled queries explain (`UNEXPLAINED`), its own conversation left aside.

Average linkage joins two groups of candidates as long as the mean cosine of their members is at least `LIKE`. A group is a *gap* if it
is large enough and if its queries are more like each other than like the labeled queries of any one agent. Gaps whose means are alike
are one.

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
from training_app.engine.data.conversations import USER, before

#: Two agents whose probabilities are as close as that, both likely, may be taken for each other.
CLOSE, LIKELY = 0.2, 0.25
#: Messages before a turn that are read with it: requests for one agent are found alike more often with four than with two or six.
SAID_BEFORE = 4
#: How much the covariance of an agent's queries is shrunk to a sphere. An agent counts in it with at least `NEAREST` queries.
SHRUNK = 0.7
#: Share of its agent's labeled queries that fit the agent less well than a query that is unusual at most does.
UNUSUAL = 0.15
#: Labeled queries and traffic among which a query is looked at, and the share of traffic there from which on it is unexplained.
#: Where labels explain all traffic the share is one half.
AROUND, UNEXPLAINED = (5, 10, 20, 40), 0.65
#: Mean cosine of two groups that are joined, and queries of the smallest gap.
LIKE, SMALLEST = 0.3, 5
#: Cosine of the means of two gaps that are one. In 80 draws of `benchmarks.proposals` it leaves 182 of 189 agents proposed and 118 of
#: 190 repeated proposals; 0.45 leaves 176 and 88, 0.55 leaves 183 and 139.
ONE_GAP = 0.5
#: A group with one query less is a gap if no query is nearer to an agent and the mean share of traffic around them is this large.
CLEARLY_UNEXPLAINED = 0.75
#: Labeled queries that a query is compared with, the nearest of each agent.
NEAREST = 5
#: Queries that are grouped at most: the matrix of their distances has so many rows and columns.
MOST = 3_000
OWN = -2.0  # less than any cosine: stands for that of a query and one of its own conversation
ROWS_AT_ONCE = 250  # of a matrix of cosines, of which there are four at a time: 90 MB for 20,000 queries of traffic
WORDS = 8


@dataclass(frozen=True, slots=True)
class Labeled:
    """M labeled queries: vectors float32[M, D] of length one, each one's conversation, and what they need, bool[M, A]. Queries that
    need nobody are those of one more agent."""

    vectors: FloatArray
    conversations: Sequence[str]
    required: BoolArray


@dataclass(frozen=True, slots=True)
class Traffic:
    """N queries that were routed: vectors float32[N, D] of length one, each one's conversation, the agents that they were sent to,
    bool[N, A] as in `Labeled`, and where the answer was doubtful, bool[N]. Agents without labels are in no set."""

    vectors: FloatArray
    conversations: Sequence[str]
    sent: BoolArray
    doubtful: BoolArray


@dataclass(frozen=True, slots=True)
class Gap:
    """A group of queries that no agent seems to answer: their rows, the most typical first, and the mean cosine among them."""

    rows: tuple[int, ...]
    alike: float


def spoken(text: str) -> str:
    """A query as it is compared: a turn with what was said just before it."""
    return " ".join([*(message.content for message in before(text)[-SAID_BEFORE:]), str(text)])


def asked(text: str) -> str:
    """A query with what its user said just before it: "yes, please" alone does not say what it is about."""
    return " ".join([*(message.content for message in before(text)[-SAID_BEFORE:] if message.role == USER), str(text)])


def conversation(text: str) -> str:
    """What the later turns of one conversation have in common: what its user said first and second. A first turn is itself."""
    messages = [message.content for message in before(text) if message.role == USER]
    return "\n".join([*messages, str(text)][:2])


def gaps(traffic: Traffic, labeled: Labeled, smallest: int = SMALLEST, like: float = LIKE) -> list[Gap]:
    """The gaps among the queries of traffic, largest first."""
    if not len(traffic.vectors):
        return []
    place = Space.of(labeled)
    vectors, known = place(traffic.vectors), place(labeled.vectors)
    around = _unexplained(vectors, known, traffic, labeled)
    candidate = (traffic.doubtful | _unusual(vectors, known, traffic, labeled)) & (around >= UNEXPLAINED)
    candidates = np.flatnonzero(candidate)[:MOST]
    vectors, around = vectors[candidates], around[candidates]
    group, near = grouped(vectors, like), _nearest(vectors, known, labeled.required)
    kept = []
    for number in np.unique(group):
        rows = np.flatnonzero(group == number)
        if len(rows) < smallest - 1:
            continue
        similarity = vectors[rows] @ vectors[rows].T
        np.fill_diagonal(similarity, -1)
        count = min(NEAREST, len(rows) - 1)
        within = np.sort(similarity, axis=1)[:, -count:].mean(axis=1)
        nearer = float((near[rows].max(axis=1) > within).mean()) if near.size else 0.0
        if nearer > 0.5:
            continue
        if len(rows) < smallest and (nearer or float(around[rows].mean()) < CLEARLY_UNEXPLAINED):
            continue
        kept.append(rows)
    result = []
    for rows in joined(vectors, kept):
        similarity = vectors[rows] @ vectors[rows].T
        typical = rows[np.argsort(-(vectors[rows] @ vectors[rows].mean(axis=0)), kind="stable")]
        alike = (similarity.sum() - len(rows)) / (len(rows) * (len(rows) - 1))
        result.append(Gap(tuple(candidates[typical].tolist()), float(alike)))
    return sorted(result, key=lambda gap: -len(gap.rows))


def joined(vectors: FloatArray, groups: Sequence[NDArray[np.intp]]) -> list[NDArray[np.intp]]:
    """Groups of rows of vectors float32[N, D], those that are one gap joined: the two with the nearest means, as long as their cosine
    is at least `ONE_GAP`."""
    left = list(groups)
    while len(left) > 1:
        means = np.stack([vectors[rows].mean(axis=0) for rows in left])
        means /= np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-9)
        alike = means @ means.T - 2 * np.eye(len(left))
        first, second = np.unravel_index(int(alike.argmax()), alike.shape)
        if alike[first, second] < ONE_GAP:
            break
        both = np.concatenate([left[first], left[second]])
        left = [rows for place, rows in enumerate(left) if place not in (first, second)] + [both]
    return left


@dataclass(frozen=True, slots=True)
class Space:
    """Where queries are compared: vectors minus a centre float32[D], times a matrix float32[D, D], of length one again."""

    centre: FloatArray
    matrix: FloatArray

    @classmethod
    def of(cls, labeled: Labeled) -> Space:
        """The space in which the queries of one agent alone vary equally in all directions, as far as there are labels.

        With S the covariance of queries around the centre of their agent and s the mean of its eigenvalues, the matrix is
        ((1 - SHRUNK) S + SHRUNK s I)^(-1/2). The centre is the mean of the agents' centres and of one more at the origin, so that
        queries of a pool's only agent keep a direction.
        """
        size = labeled.vectors.shape[1]
        centres, scatter, freedom = [np.zeros(size)], np.zeros((size, size)), 0
        alone = labeled.required & (labeled.required.sum(axis=1, keepdims=True) == 1)
        for agent in range(alone.shape[1]):
            own = labeled.vectors[alone[:, agent]].astype(np.float64)
            if len(own) >= NEAREST:
                centres.append(own.mean(axis=0))
                scatter += (own - centres[-1]).T @ (own - centres[-1])
                freedom += len(own) - 1
        centre = np.mean(centres, axis=0).astype(np.float32)
        if not scatter.any():
            return cls(centre, np.eye(size, dtype=np.float32))
        values, directions = np.linalg.eigh(scatter / freedom)
        return cls(centre, (directions / np.sqrt((1 - SHRUNK) * values + SHRUNK * values.mean())).astype(np.float32))

    def __call__(self, vectors: FloatArray) -> FloatArray:
        """Where vectors float32[N, D] are, float32[N, D] of length one."""
        placed = (vectors - self.centre) @ self.matrix
        length = np.linalg.norm(placed, axis=1, keepdims=True)
        result: FloatArray = (placed / np.maximum(length, 1e-9)).astype(np.float32)
        return result


def _unusual(vectors: FloatArray, known: FloatArray, traffic: Traffic, labeled: Labeled) -> BoolArray:
    """Which queries fit no agent as its own do, bool[N]: by their cosine with the mean of an agent's queries. One that
    was sent only to agents with fewer than `NEAREST` labeled queries is not among them: it is theirs."""
    agents = np.flatnonzero(labeled.required.sum(axis=0) >= NEAREST)
    if not len(agents):
        return np.zeros(len(vectors), np.bool_)
    means = np.stack([known[labeled.required[:, agent]].mean(axis=0) for agent in agents])  # [A, D]
    means /= np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-9)
    own = np.where(labeled.required[:, agents], known @ means.T, -1).max(axis=1)
    unlike: BoolArray = (vectors @ means.T).max(axis=1) < np.quantile(own, UNUSUAL)
    return unlike & traffic.sent[:, agents].any(axis=1)


def _unexplained(vectors: FloatArray, known: FloatArray, traffic: Traffic, labeled: Labeled) -> FloatArray:
    """The share of traffic among what is around each query, float32[N]: the mean over its `AROUND` nearest neighbours.

    A labeled query stands for as many queries of traffic as its agents were sent for each labeled one, and for no fewer than all
    agents together were: an agent may get more traffic than its labels say, and what it should get may be sent elsewhere. The
    query's own conversation does not count.
    """
    needs, sent = (sets / np.maximum(sets.sum(axis=1, keepdims=True), 1) for sets in (labeled.required, traffic.sent))
    rate = sent.sum(axis=0) / np.maximum(needs.sum(axis=0), 1)
    worth = needs @ np.maximum(rate, len(sent) / max(len(needs), 1))
    both = np.concatenate([known, vectors])
    is_traffic = np.arange(len(both)) >= len(known)
    weight = np.concatenate([worth, np.ones(len(vectors))])
    number = np.unique([*labeled.conversations, *traffic.conversations], return_inverse=True)[1]
    most = min(AROUND[-1], len(both))
    share = np.zeros(len(vectors), np.float32)
    for first in range(0, len(vectors), ROWS_AT_ONCE):
        rows = np.arange(first, min(first + ROWS_AT_ONCE, len(vectors)))
        similarity = vectors[rows] @ both.T  # [rows, M + N]
        similarity[number[len(known) + rows, None] == number] = OWN
        near = np.argpartition(-similarity, most - 1, axis=1)[:, :most]
        order = np.argsort(-np.take_along_axis(similarity, near, 1), axis=1, kind="stable")
        near = np.take_along_axis(near, order, 1)  # the nearest first
        counts = np.where(np.take_along_axis(similarity, near, 1) > OWN, weight[near], 0)
        of_traffic = counts * is_traffic[near]
        shares = [of_traffic[:, :k].sum(axis=1) / np.maximum(counts[:, :k].sum(axis=1), 1e-9) for k in AROUND]
        share[rows] = np.mean(shares, axis=0)
    return share


def grouped(vectors: FloatArray, like: float = LIKE) -> NDArray[np.intp]:
    """The group of each query, int[N], by average linkage of cosines: vectors float32[N, D] of length one."""
    from sklearn.cluster import AgglomerativeClustering  # only in a worker

    if len(vectors) < 2:
        return np.zeros(len(vectors), np.intp)
    clusters = AgglomerativeClustering(
        n_clusters=None, metric="cosine", linkage="average", distance_threshold=1 - like
    ).fit(vectors)
    return np.asarray(clusters.labels_, np.intp)


def _nearest(vectors: FloatArray, labeled: FloatArray, required: BoolArray) -> FloatArray:
    """How near each query is to those that needed each agent, float32[N, A]: the mean cosine of the nearest."""
    agents = [np.flatnonzero(required[:, a]) for a in range(required.shape[1])]
    nearest = np.full((len(vectors), len(agents)), -1.0, np.float32)
    for a, rows in enumerate(agents):
        if len(rows) >= NEAREST:
            nearest[:, a] = np.sort(vectors @ labeled[rows].T, axis=1)[:, -NEAREST:].mean(axis=1)
    return nearest


def words_of(texts: Sequence[str], others: Sequence[str], limit: int = WORDS) -> list[str]:
    """The words that tell texts from others, the most telling first: by p log(p / q), where p of the texts have the word and q of the
    others, at least two texts each. So a word of most texts comes before one that only a few have, but no other text."""
    ours, theirs = (Counter(word for text in side for word in set(_words(text))) for side in (texts, others))
    weight = {
        word: np.log((count + 0.5) / (len(texts) + 1)) - np.log((theirs[word] + 0.5) / (len(others) + 1))
        for word, count in ours.items()
        if count >= 2
    }
    worth = {word: float(score) * ours[word] for word, score in weight.items() if score > 0.5}
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
