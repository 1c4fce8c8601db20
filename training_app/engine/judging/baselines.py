"""Routers to be measured against, from a coin to a well-tuned linear model.

Every baseline is a function from labeled rows to a `Baseline`; what there is to choose, it chooses on the validation
rows, as the router does. Imported by workers only: it brings scikit-learn.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from training_app.engine.data.arrays import BoolArray, FloatArray
from training_app.engine.data.examples import Agent
from training_app.engine.data.memory import give_back
from training_app.engine.data.metrics import jaccard
from training_app.engine.data.rows import Rows
from training_app.engine.progress import ScorerProgress, no_progress
from training_app.engine.reading.conversing.turns_fit import fit_channels, has_conversations
from training_app.engine.reading.linear import MANY_ROWS, MOST_WEIGHTS, LinearScorer, fit_tfidf
from training_app.engine.reading.scorers import CrossFit, FittedScorer, Platt
from training_app.engine.reading.stacking import joined
from training_app.engine.reading.text import TfIdf
from training_app.engine.routing.threshold import ThresholdPolicy, best_threshold

LEAST_SLOPE = 0.05  # of a classifier's map from margins to log-odds

CONSTANT_ROWS = 10_000  # training rows that the best constant set is looked for on, at most
NEIGHBOURS = (1, 3, 5, 10, 20)  # how many nearest neighbours are tried
CHOICE_ROWS = 1_000  # validation rows on which that is chosen, at most
TELLING = 20  # of above MANY_ROWS rows: an n-gram that more than one in so many holds is not compared


@dataclass(frozen=True, slots=True)
class Baseline:
    """A fitted baseline: `select` gives the sets of texts, bool[N, A]; `answerable` a score float32[N] that is larger
    the more likely a text needs any agent, where there is one; `chosen` says what was chosen on validation."""

    name: str
    select: Callable[[Sequence[str]], BoolArray]
    answerable: Callable[[Sequence[str]], FloatArray] | None = None
    chosen: dict[str, float] = field(default_factory=dict)


class Ngrams:
    """The n-grams of training texts, counted once for all baselines that compare by them; safe to share between threads."""

    def __init__(self, train: Rows) -> None:
        self._train, self._lock = train, threading.Lock()

    @cached_property
    def _counted(self) -> tuple[TfIdf, sp.csr_matrix]:
        agents = self._train.required.shape[1]
        counted = fit_tfidf(self._train.texts, max_features=MOST_WEIGHTS // max(1, agents))
        give_back()
        return counted

    def counted(self) -> tuple[TfIdf, sp.csr_matrix]:
        """The features, and the matrix of the texts, float64[N, features]."""
        with self._lock:
            return self._counted


@dataclass(frozen=True, slots=True)
class Shared:
    """What several baselines of the same rows share: the n-grams, and whom they tell how far they are."""

    ngrams: Ngrams
    progress: ScorerProgress = no_progress


class Fit(Protocol):
    """How a baseline is made of labeled rows; `shared` what it shares with others of the same rows."""

    def __call__(
        self, agents: Sequence[Agent], train: Rows, val: Rows, seed: int, shared: Shared | None = None
    ) -> Baseline: ...


def random_sets(agents: Sequence[Agent], train: Rows, val: Rows, seed: int, shared: Shared | None = None) -> Baseline:
    """Each agent by the toss of a coin that falls as often as the agent was required."""
    share = (train.required & train.asked).sum(axis=0) / np.maximum(train.asked.sum(axis=0), 1)

    def select(texts: Sequence[str]) -> BoolArray:
        # The same texts get the same sets, whatever was asked before.
        rng = np.random.Generator(np.random.PCG64(seed))
        return rng.random((len(texts), len(agents))) < share

    return Baseline("random", select)


def constant_set(agents: Sequence[Agent], train: Rows, val: Rows, seed: int, shared: Shared | None = None) -> Baseline:
    """The one set with the best mean Jaccard on the training rows, found greedily, for every query."""
    required, asked = train.required & train.asked, train.asked
    if len(train) > CONSTANT_ROWS:
        rows = np.random.Generator(np.random.PCG64(seed)).choice(len(train), CONSTANT_ROWS, replace=False)
        required, asked = required[rows], asked[rows]
    chosen = np.zeros(len(agents), np.bool_)
    best, best_score = chosen.copy(), float(jaccard(chosen & asked, required).mean())
    # All the way to the full set: the first agent may cost what the third brings. What the set with one agent more
    # scores is counted for all of them at once.
    hits, union = np.zeros(len(asked), np.float32), required.sum(axis=1).astype(np.float32)
    gains, costs = required.astype(np.float32), (asked & ~required).astype(np.float32)
    while not chosen.all():
        either = union[:, None] + costs
        overlap = np.where(either == 0, 1, (hits[:, None] + gains) / np.maximum(either, 1)).mean(
            axis=0, dtype=np.float64
        )
        a = int(np.where(chosen, -1, overlap).argmax())
        chosen[a] = True
        hits += gains[:, a]
        union += costs[:, a]
        if overlap[a] > best_score:
            best, best_score = chosen.copy(), float(overlap[a])
    return Baseline("constant", lambda texts: np.repeat(best[None], len(texts), axis=0))


def keyword_rules(agents: Sequence[Agent], train: Rows, val: Rows, seed: int, shared: Shared | None = None) -> Baseline:
    """An agent is needed where a word of its name, description or keywords stands in the query, compared by its first
    letters (a crude stem). How many letters and how many words it takes is chosen on validation."""
    words = re.compile(r"(?u)\w{3,}")
    vocabulary = [
        {w.casefold() for w in words.findall(" ".join([agent.name, agent.description, *agent.keywords]))}
        for agent in agents
    ]
    # A word that many agents share tells nothing.
    common = {w for w in set().union(*vocabulary) if sum(w in v for v in vocabulary) > max(1, len(agents) // 3)}

    def counts(texts: Sequence[str], letters: int) -> FloatArray:
        stems = [{w[:letters] for w in v - common} for v in vocabulary]
        out = np.zeros((len(texts), len(agents)), np.float32)
        for i, text in enumerate(texts):
            distinct = {w[:letters] for w in words.findall(text.casefold())}
            out[i] = [len(distinct & stem) for stem in stems]
        return out

    required = val.required & val.asked
    scores: dict[tuple[int, int], float] = {}
    for letters in (4, 5, 6, 50):
        hits = counts(val.texts, letters)
        for least in (1, 2):
            scores[letters, least] = float(jaccard((hits >= least) & val.asked, required).mean()) if len(val) else 0.0
    letters, least = max(scores, key=scores.__getitem__)
    return Baseline(
        "keyword", lambda texts: counts(texts, letters) >= least, chosen={"letters": letters, "words": least}
    )


def nearest_neighbours(
    agents: Sequence[Agent], train: Rows, val: Rows, seed: int, shared: Shared | None = None
) -> Baseline:
    """Agents by the share of the k most similar training queries (cosine of TF-IDF) that needed them, weighted by
    similarity; k and the threshold are chosen on validation."""
    shared = shared or Shared(Ngrams(train))
    tfidf, features = shared.ngrams.counted()
    matrix = _telling(features).astype(np.float32).T.tocsr()  # [features, N]
    required = (train.required & train.asked).astype(np.float32)

    def nearest(texts: Sequence[str]) -> tuple[NDArray[np.int64], FloatArray]:
        """The most similar training rows of each text, most similar first, and their similarity: [N, K] each."""
        count = min(max(NEIGHBOURS), len(train))
        near, weight = np.zeros((len(texts), count), np.int64), np.zeros((len(texts), count), np.float32)
        size = max(1, 2_500_000 // len(train))
        for at in range(0, len(texts), size):
            shared.progress(at, len(texts), "nearest neighbours")
            similar = (_matrix(tfidf, texts[at : at + size]) @ matrix).toarray().astype(np.float32)
            some = np.argpartition(-similar, count - 1, axis=1)[:, :count]
            likeness = np.take_along_axis(similar, some, axis=1)
            order = np.argsort(-likeness, axis=1, kind="stable")
            near[at : at + size] = np.take_along_axis(some, order, axis=1)
            weight[at : at + size] = np.take_along_axis(likeness, order, axis=1)
        return near, weight

    def shares(nearest: tuple[NDArray[np.int64], FloatArray], k: int) -> FloatArray:
        near, weight = nearest[0][:, :k], nearest[1][:, :k]
        total = np.maximum(weight.sum(axis=1, keepdims=True), 1e-6)
        out = np.zeros((len(near), len(agents)), np.float32)
        for place in range(near.shape[1]):
            out += (weight[:, place : place + 1] / total) * required[near[:, place]]
        return out

    best, best_k, best_t = -1.0, 5, 0.5
    looked_at = val.take(np.arange(min(len(val), CHOICE_ROWS)))
    around = nearest(looked_at.texts)
    for k in NEIGHBOURS:
        if not len(val) or k > len(train):
            continue
        voted = shares(around, k)
        threshold = best_threshold(voted, looked_at.required, looked_at.asked)
        score = float(jaccard((voted > threshold) & looked_at.asked, looked_at.required & looked_at.asked).mean())
        if score > best:
            best, best_k, best_t = score, k, threshold
    return Baseline(
        "neighbours",
        lambda texts: shares(nearest(texts), best_k) > best_t,
        lambda texts: shares(nearest(texts), best_k).max(axis=1),
        {"k": best_k, "threshold": best_t},
    )


def _telling(features: sp.csr_matrix) -> sp.csr_matrix:
    """Of many rows the same without the features that more than one in TELLING holds, float[N, features]: each weighs little, and
    together they take nearly all of the time, and of the memory."""
    rows = features.shape[0]
    if rows <= MANY_ROWS:
        return features
    kept = np.bincount(features.indices, minlength=features.shape[1]) * TELLING <= rows
    return features @ sp.diags(kept.astype(features.dtype)).tocsr()


def _matrix(tfidf: TfIdf, texts: Sequence[str]) -> sp.csr_matrix:
    starts, indices, values = tfidf.rows(texts)
    return sp.csr_matrix((values, indices, starts), shape=(len(texts), tfidf.size))


def _linear(name: str, scorer: LinearScorer) -> Fit:
    def fit(agents: Sequence[Agent], train: Rows, val: Rows, seed: int, shared: Shared | None = None) -> Baseline:
        fitted: FittedScorer
        shared = shared or Shared(Ngrams(train))
        if has_conversations(train.texts) and scorer.model == "svm":
            fitted = fit_channels(train.texts, train.required, train.asked, agents, seed)
        else:
            counted = shared.ngrams.counted()
            fitted = scorer.fit_features(*counted, train.required, train.asked, seed=seed, progress=shared.progress)
        threshold = best_threshold(fitted.logits(val.texts), val.required, val.asked)
        return Baseline(
            name,
            lambda texts: fitted.logits(texts) > threshold,
            lambda texts: fitted.logits(texts).max(axis=1),
            {"threshold": threshold},
        )

    return fit


#: Classifiers that take each agent by its own score; `classifier_policy` makes a router of one.
CLASSIFIERS = {"svm": LinearScorer(c=1.0), "logreg": LinearScorer(c=10.0, model="logreg")}
linear_svm = _linear("svm", CLASSIFIERS["svm"])
logistic_regression = _linear("logreg", CLASSIFIERS["logreg"])


def classifier_policy(fit: CrossFit, train: Rows, val: Rows) -> tuple[CrossFit, ThresholdPolicy]:
    """A fitted classifier as a policy on its log-odds, with one threshold that is the best for all rows that their scorer has not
    learnt from: the training rows out of fold, and validation. A dozen validation rows alone, as in a pool of 60 labels, chose
    thresholds so far apart that one model in five was half as good as another of the same labels.

    The threshold is of margins; the map to log-odds, an agent's own, must rise for it to mean the same there.
    """
    unseen = joined(train if fit.held_out is None else train.take(fit.held_out), val)
    margins = np.concatenate([fit.margins, fit.fitted.logits(val.texts)])
    threshold = best_threshold(margins, unseen.required, unseen.asked)
    platt = Platt(np.maximum(fit.platt.scale, LEAST_SLOPE).astype(np.float32), fit.platt.shift)
    thresholds = platt(np.full((1, len(platt.scale)), threshold, np.float32))[0]
    return replace(fit, platt=platt, log_odds=platt(fit.margins)), ThresholdPolicy(thresholds)


#: In the order of the leaderboard's list of choices.
BASELINES: dict[str, Fit] = {
    "svm": linear_svm,
    "logreg": logistic_regression,
    "neighbours": nearest_neighbours,
    "constant": constant_set,
    "keyword": keyword_rules,
    "random": random_sets,
}
