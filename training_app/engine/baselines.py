"""Routers to be measured against, from a coin to a well-tuned linear model.

Every baseline is a function from labeled rows to a `Baseline`; what there is to choose, it chooses on the validation
rows, as the router does. Imported by workers only: it brings scikit-learn.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp

from training_app.engine.data import Agent
from training_app.engine.env import jaccard
from training_app.engine.linear import LinearScorer, fit_tfidf
from training_app.engine.scorers import BoolArray, FloatArray, Rows
from training_app.engine.text import TfIdf


@dataclass(frozen=True, slots=True)
class Baseline:
    """A fitted baseline: `select` gives the sets of texts, bool[N, A]; `answerable` a score float32[N] that is larger
    the more likely a text needs any agent, where there is one; `chosen` says what was chosen on validation."""

    name: str
    select: Callable[[Sequence[str]], BoolArray]
    answerable: Callable[[Sequence[str]], FloatArray] | None = None
    chosen: dict[str, float] = field(default_factory=dict)


def best_threshold(scores: FloatArray, rows: Rows) -> float:
    """The one threshold of all agents with the best mean Jaccard on `rows`: scores float32[N, A]. Where several are
    equally good, the middle of the widest stretch of them. Without rows it is 0."""
    if not len(rows):
        return 0.0
    grid = np.quantile(scores, np.linspace(0, 1, 401))
    grid = np.unique(np.concatenate([grid, [grid[0] - 1]]))
    required = rows.required & rows.asked
    found = np.array([jaccard((scores > t) & rows.asked, required).mean() for t in grid])
    good = found >= found.max() - 1e-9
    edges = np.flatnonzero(np.diff(np.concatenate([[0], good.astype(np.int8), [0]])))
    begin, end = edges[::2], edges[1::2]
    widest = int(np.argmax(end - begin))
    upper = grid[end[widest]] if end[widest] < len(grid) else grid[-1]
    return float((grid[begin[widest]] + upper) / 2)


def random_sets(agents: Sequence[Agent], train: Rows, val: Rows, seed: int) -> Baseline:
    """Each agent by the toss of a coin that falls as often as the agent was required."""
    share = (train.required & train.asked).sum(axis=0) / np.maximum(train.asked.sum(axis=0), 1)

    def select(texts: Sequence[str]) -> BoolArray:
        # The same texts get the same sets, whatever was asked before.
        rng = np.random.Generator(np.random.PCG64(seed))
        return rng.random((len(texts), len(agents))) < share

    return Baseline("random", select)


def constant_set(agents: Sequence[Agent], train: Rows, val: Rows, seed: int) -> Baseline:
    """The one set with the best mean Jaccard on the training rows, found greedily, for every query."""
    required = train.required & train.asked
    chosen = np.zeros(len(agents), np.bool_)

    def score(candidate: BoolArray) -> float:
        return float(jaccard(candidate & train.asked, required).mean())

    best, best_score = chosen.copy(), score(chosen)
    # All the way to the full set: the first agent may cost what the third brings.
    while not chosen.all():
        wider = []
        for a in np.flatnonzero(~chosen).tolist():
            candidate = chosen.copy()
            candidate[a] = True
            wider.append((score(candidate), -a))
        found, a = max(wider)
        chosen[-a] = True
        if found > best_score:
            best, best_score = chosen.copy(), found
    return Baseline("constant", lambda texts: np.repeat(best[None], len(texts), axis=0))


def keyword_rules(agents: Sequence[Agent], train: Rows, val: Rows, seed: int) -> Baseline:
    """An agent is needed where a word of its name, description or keywords stands in the query, compared by its first
    letters (a crude stem). How many letters and how many words it takes is chosen on validation."""
    words = re.compile(r"(?u)\w{3,}")
    vocabulary = [
        {w.casefold() for w in words.findall(" ".join([agent.name, agent.description, *agent.keywords]))}
        for agent in agents
    ]
    # A word that many agents share tells nothing.
    shared = {w for w in set().union(*vocabulary) if sum(w in v for v in vocabulary) > max(1, len(agents) // 3)}

    def counts(texts: Sequence[str], letters: int) -> FloatArray:
        stems = [{w[:letters] for w in v - shared} for v in vocabulary]
        out = np.zeros((len(texts), len(agents)), np.float32)
        for i, text in enumerate(texts):
            found = {w[:letters] for w in words.findall(text.casefold())}
            out[i] = [len(found & stem) for stem in stems]
        return out

    options = [(letters, least) for letters in (4, 5, 6, 50) for least in (1, 2)]
    required = val.required & val.asked

    def score(option: tuple[int, int]) -> float:
        if not len(val):
            return 0.0
        return float(jaccard((counts(val.texts, option[0]) >= option[1]) & val.asked, required).mean())

    letters, least = max(options, key=score)
    return Baseline(
        "keyword", lambda texts: counts(texts, letters) >= least, chosen={"letters": letters, "words": least}
    )


def nearest_neighbours(agents: Sequence[Agent], train: Rows, val: Rows, seed: int) -> Baseline:
    """Agents by the share of the k most similar training queries (cosine of TF-IDF) that needed them, weighted by
    similarity; k and the threshold are chosen on validation."""
    tfidf, _ = fit_tfidf(train.texts)
    matrix = _matrix(tfidf, train.texts)
    required = (train.required & train.asked).astype(np.float32)

    def shares(texts: Sequence[str], k: int) -> FloatArray:
        out = np.zeros((len(texts), len(agents)), np.float32)
        for at in range(0, len(texts), 256):
            similar = (_matrix(tfidf, texts[at : at + 256]) @ matrix.T).toarray().astype(np.float32)
            near = np.argpartition(-similar, min(k, len(train)) - 1, axis=1)[:, :k]
            weight = np.take_along_axis(similar, near, axis=1)
            total = np.maximum(weight.sum(axis=1, keepdims=True), 1e-6)
            out[at : at + 256] = np.einsum("nk,nka->na", weight / total, required[near])
        return out

    best, best_k, best_t = -1.0, 5, 0.5
    for k in (1, 3, 5, 10, 20):
        if not len(val) or k > len(train):
            continue
        found = shares(val.texts, k)
        threshold = best_threshold(found, val)
        score = float(jaccard((found > threshold) & val.asked, val.required & val.asked).mean())
        if score > best:
            best, best_k, best_t = score, k, threshold
    return Baseline(
        "neighbours",
        lambda texts: shares(texts, best_k) > best_t,
        lambda texts: shares(texts, best_k).max(axis=1),
        {"k": best_k, "threshold": best_t},
    )


def _matrix(tfidf: TfIdf, texts: Sequence[str]) -> sp.csr_matrix:
    starts, indices, values = tfidf.rows(texts)
    return sp.csr_matrix((values, indices, starts), shape=(len(texts), tfidf.size))


def _linear(name: str, scorer: LinearScorer) -> Callable[[Sequence[Agent], Rows, Rows, int], Baseline]:
    def fit(agents: Sequence[Agent], train: Rows, val: Rows, seed: int) -> Baseline:
        fitted = scorer.fit(train.texts, train.required, train.asked, seed=seed)
        threshold = best_threshold(fitted.logits(val.texts), val) if len(val) else 0.0
        return Baseline(
            name,
            lambda texts: fitted.logits(texts) > threshold,
            lambda texts: fitted.logits(texts).max(axis=1),
            {"threshold": threshold},
        )

    return fit


linear_svm = _linear("svm", LinearScorer(c=1.0))
logistic_regression = _linear("logreg", LinearScorer(c=10.0, model="logreg"))

#: In the order of the leaderboard's list of choices.
BASELINES: dict[str, Callable[[Sequence[Agent], Rows, Rows, int], Baseline]] = {
    "svm": linear_svm,
    "logreg": logistic_regression,
    "neighbours": nearest_neighbours,
    "constant": constant_set,
    "keyword": keyword_rules,
    "random": random_sets,
}
