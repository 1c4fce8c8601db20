"""A fast scorer that learns from texts without labels, by what a slow one makes of them. Imported by workers only.

    z      = log-odds of the slow scorer (n-grams, sentence embeddings and, with enough rows, words in order)
    y, w   = z > 0,  WEIGHT · |2 σ(z) − 1|             for each text without a label and each agent
    fitted = n-grams alone, on the labels, the descriptions and (y, w)

A text counts, agent by agent, as the slow scorer is sure of it (Lee 2013's pseudo-labels; Hinton et al. 2015 for the idea that a
small model learns a large one's answers). Nothing here is ever gold. `fit` fits the slow scorer on the very rows that it is given,
so that in cross-fitting no row outside a fold has had a part in what the unlabeled texts teach.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np

from training_app.engine.data.arrays import BoolArray, FloatArray
from training_app.engine.data.rows import Rows
from training_app.engine.progress import ScorerProgress, no_progress
from training_app.engine.reading.fused import FusedMargins
from training_app.engine.reading.fused_fit import FusedScorer, Taught
from training_app.engine.reading.text import LinearMargins

WEIGHT = 0.5  # of a text that the slow scorer is sure of, beside a labeled row
MOST_TEXTS = 15_000  # drawn at random: more bring little and cost time

#: Fits the slow scorer on rows and gives its log-odds of texts, float32[M, A].
Teacher = Callable[[Rows, Sequence[str], int], FloatArray]


def some_of(texts: Sequence[str], seed: int) -> list[str]:
    """At most MOST_TEXTS of them, each different text once."""
    different = list(dict.fromkeys(texts))
    if len(different) <= MOST_TEXTS:
        return different
    drawn = np.random.Generator(np.random.PCG64(seed)).choice(len(different), MOST_TEXTS, replace=False)
    return [different[i] for i in np.sort(drawn).tolist()]


def guessed(texts: Sequence[str], log_odds: FloatArray) -> Taught:
    """Rows of what a scorer says of texts: log_odds float32[M, A]."""
    sure = np.abs(np.tanh(log_odds.astype(np.float64) / 2))  # |2 σ(z) − 1|
    return Taught(list(texts), log_odds > 0, WEIGHT * sure)


class StudentScorer:
    """n-grams that learn from labels, from `taught` (what agents say of themselves), and from `texts` by `teacher`."""

    kind: ClassVar[str] = "linear"
    folds: ClassVar[int] = 3

    def __init__(self, texts: Sequence[str], teacher: Teacher, taught: Taught) -> None:
        self.texts, self.teacher, self.taught = list(texts), teacher, taught

    def fit(
        self,
        texts: Sequence[str],
        Y: BoolArray,
        asked: BoolArray,
        *,
        seed: int,
        progress: ScorerProgress = no_progress,
    ) -> FusedMargins | LinearMargins:
        """texts (N), Y bool[N, A], asked bool[N, A]."""
        progress(0, 2, "what the slow scorer makes of texts without labels")
        guesses = guessed(self.texts, self.teacher(Rows(list(texts), Y, asked), self.texts, seed))
        progress(1, 2, "the fast scorer")
        return FusedScorer(self.taught.and_also(guesses), embedding=False).fit(
            texts, Y, asked, seed=seed, progress=progress
        )
