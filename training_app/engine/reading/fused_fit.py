"""Fitting the linear scorer that sees n-grams and sentence embeddings. Imported by workers only: it brings scikit-learn.

Every agent's description is training data as well. Its name, the phrases of its description and its keywords are rows that need
this agent and no other; with fifty labels they say more than the labels do, with thousands they drown among them. Chosen on the
demo pool and on single turns of conversations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.svm import LinearSVC

from training_app.engine.data.arrays import BoolArray, FloatArray
from training_app.engine.data.examples import Agent
from training_app.engine.progress import ScorerProgress, no_progress
from training_app.engine.reading import sentences
from training_app.engine.reading.conversing.said import phrases
from training_app.engine.reading.fused import FusedMargins
from training_app.engine.reading.linear import FEW_TOL, MOST_WEIGHTS, fit_machine, fit_tfidf
from training_app.engine.reading.scorers import prior_log_odds
from training_app.engine.reading.text import LinearMargins

SCALE = 2.0  # of the embedding beside n-grams, whose two blocks have length one each


@dataclass(frozen=True, slots=True)
class Taught:
    """Rows that teach beside the labeled ones and are never counted as gold: texts (M), required bool[M, A], and how much
    each counts for each agent, weights float64[M, A], where a labeled row counts 1."""

    texts: list[str]
    required: BoolArray
    weights: NDArray[np.float64]

    def and_also(self, more: Taught) -> Taught:
        """The rows of both, in this order."""
        return Taught(
            [*self.texts, *more.texts],
            np.concatenate([self.required, more.required]),
            np.concatenate([self.weights, more.weights]),
        )


def described(agents: Sequence[Agent], weight: float = 1.0) -> Taught:
    """What `agents` (A) say of themselves as rows; a phrase that several use needs them all."""
    places_by_phrase: dict[str, list[int]] = {}
    for a, agent in enumerate(agents):
        for phrase in phrases(agent):
            places_by_phrase.setdefault(phrase, []).append(a)
    required = np.zeros((len(places_by_phrase), len(agents)), np.bool_)
    for row, places in enumerate(places_by_phrase.values()):
        required[row, places] = True
    return Taught(list(places_by_phrase), required, np.full(required.shape, weight))


class FusedScorer:
    """A linear SVM per agent on n-grams and, unless `embedding` is False, sentence embeddings; rows of `taught` join the
    labeled ones. Without embeddings what is fitted is a `LinearMargins`."""

    kind: ClassVar[str] = "fused"
    folds: ClassVar[int] = 10

    def __init__(self, taught: Taught, *, embedding: bool = True, c: float = 1.0) -> None:
        self.taught, self.embedding, self.c = taught, embedding, c

    def fit(
        self,
        texts: Sequence[str],
        Y: BoolArray,
        asked: BoolArray,
        *,
        seed: int,
        progress: ScorerProgress = no_progress,
    ) -> FusedMargins | LinearMargins:
        """texts (N), Y bool[N, A], asked bool[N, A]. Raises ValueError where no text has a word or character."""
        agents = Y.shape[1]
        everything = [*texts, *self.taught.texts]  # N + M
        tfidf, features = fit_tfidf(everything, max_features=MOST_WEIGHTS // agents)
        grams = features.shape[1]
        if self.embedding:
            progress(0, agents, "sentence embeddings")
            vectors = sp.csr_matrix(SCALE * sentences.embed(everything))
            features = sp.hstack([features, vectors]).tocsr()  # [N + M, grams + SIZE]
        required = np.concatenate([Y & asked, self.taught.required])
        labeled = np.concatenate([asked, self.taught.weights > 0])
        counts = np.concatenate([np.ones(asked.shape), self.taught.weights])  # [N + M, A]
        weights: FloatArray = np.zeros((features.shape[1], agents), np.float32)
        bias = prior_log_odds(Y, asked).copy()
        for a in range(agents):
            progress(a, agents, "linear model")
            rows = np.flatnonzero(labeled[:, a])
            y = required[rows, a]
            if y.all() or not y.any():
                continue
            machine = LinearSVC(C=self.c, tol=FEW_TOL, random_state=seed)
            fit_machine(machine, features[rows], y, counts[rows, a])
            weights[:, a], bias[a] = machine.coef_[0], machine.intercept_[0]
        linear = LinearMargins(tfidf, weights[:grams], bias)
        return FusedMargins(linear, SCALE * weights[grams:]) if self.embedding else linear
