"""Fitting the linear scorer: TF-IDF and one support vector machine per agent (Fan et al. 2008, LIBLINEAR).

Imported by workers only: it brings scikit-learn and scipy.
"""

from __future__ import annotations

import threading
from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize
from sklearn.svm import LinearSVC

from training_app.engine.data.arrays import BoolArray, FloatArray
from training_app.engine.data.memory import give_back
from training_app.engine.data.metrics import jaccard
from training_app.engine.data.rows import fold_of_group
from training_app.engine.progress import ScorerProgress, no_progress
from training_app.engine.reading.embedding import EmbeddingMargins, embed
from training_app.engine.reading.scorers import candidates, prior_log_odds
from training_app.engine.reading.text import LinearMargins, TfIdf, characters_of, words_of

Matrix = Any  # a scipy.sparse.csr_matrix; scipy has no types
#: Texts whose n-grams are counted at once.
ROWS_AT_ONCE = 10_000


def _counts(documents: Iterable[Sequence[str]]) -> tuple[Matrix, list[str]]:
    """How often each term stands in each document: (counts [N, T], the T terms in sorted order)."""
    index: dict[str, int] = {}
    starts, columns = array("q", [0]), array("i")
    for terms in documents:
        columns.extend([index.setdefault(term, len(index)) for term in terms])
        starts.append(len(columns))
    counts = sp.csr_matrix(
        (np.ones(len(columns), np.float64), np.frombuffer(columns, np.int32), np.frombuffer(starts, np.int64)),
        shape=(len(starts) - 1, len(index)),
    )
    counts.sum_duplicates()
    terms = sorted(index)
    return counts[:, [index[term] for term in terms]].tocsr(), terms


@dataclass(frozen=True, slots=True)
class _Block:
    """One kind of n-gram: its `terms`, and how often each stands in some of the texts: `counts` of a slice are [rows, T]."""

    terms: list[str]
    counts: Callable[[slice], Matrix]


def fit_tfidf(
    texts: Sequence[str],
    *,
    word_range: tuple[int, int] = (1, 2),
    character_range: tuple[int, int] = (2, 5),
    max_features: int = 0,
    min_documents: int = 1,
    characters: bool = True,
) -> tuple[TfIdf, Matrix]:
    """The fitted features and the matrix of the texts themselves, float64[N, features].

    Character n-grams are counted once per distinct token: counts = (documents x tokens) @ (tokens x n-grams), which
    gives scikit-learn's own counts at a fraction of its time. `max_features` keeps the most frequent of each block;
    `characters` False leaves their block empty. Texts are counted ROWS_AT_ONCE at a time, once to choose and weigh the
    n-grams and once to fill the matrix: it takes a gigabyte for 300,000 texts, and little is held beside it.
    """
    by_word, words = _counts(words_of(text, *word_range) for text in texts)
    blocks = [_Block(words, lambda here: by_word[here])]
    if characters:
        in_text, tokens = _counts(text.lower().split() for text in texts)
        in_token, grams = _counts(characters_of(token, *character_range) for token in tokens)
        blocks.append(_Block(grams, lambda here: in_text[here] @ in_token))
    slices = [slice(row, min(row + ROWS_AT_ONCE, len(texts))) for row in range(0, len(texts), ROWS_AT_ONCE)]

    kept, idf, names, size = [], [], [], 0
    for block in blocks:
        total, documents = np.zeros(len(block.terms)), np.zeros(len(block.terms), np.int64)
        for here in slices:
            counts = block.counts(here)
            total += np.asarray(counts.sum(axis=0)).ravel()
            documents += np.bincount(counts.indices, minlength=len(documents))
        best = np.arange(len(total))
        if max_features and len(total) > max_features:
            best = np.sort(np.argsort(-total, kind="stable")[:max_features])
        best = best[documents[best] >= min_documents]
        kept.append(best)
        names.append([block.terms[i] for i in best.tolist()])
        idf.append(np.log((len(texts) + 1) / (documents[best] + 1)) + 1)
        size += int(documents[best].sum())
    if not any(names):
        raise ValueError("the texts hold no word and no character to learn from")

    starts, columns, values = np.zeros(len(texts) + 1, np.int64), np.empty(size, np.int32), np.empty(size)
    for here in slices:
        weighed = [_weighed(b.counts(here)[:, best], w) for b, best, w in zip(blocks, kept, idf, strict=True)]
        rows = sp.hstack(weighed, format="csr")
        starts[here.start + 1 : here.stop + 1] = starts[here.start] + rows.indptr[1:]
        filled = slice(starts[here.start], starts[here.stop])
        columns[filled], values[filled] = rows.indices, rows.data
    words, grams = [*names, []][:2]
    tfidf = TfIdf(words, grams, np.concatenate(idf).astype(np.float32), word_range, character_range)
    return tfidf, sp.csr_matrix((values, columns, starts), shape=(len(texts), len(words) + len(grams)))


def _weighed(counts: Matrix, idf: NDArray[np.float64]) -> Matrix:
    """(1 + ln(count)) * idf, of rows of length one."""
    counts = counts.tocsr()
    counts.data = (np.log(counts.data) + 1) * idf[counts.indices]
    return normalize(counts, copy=False) if len(idf) else counts


#: Weights of a linear model in each of its two blocks, words and characters, unless `max_features` says otherwise:
#: features times agents, so that a model of many agents and queries still fits into memory (80 MB a block).
MOST_WEIGHTS = 20_000_000


class LinearScorer:
    """TF-IDF and a linear model per agent; `model` is "svm" (squared hinge) or "logreg"."""

    kind: ClassVar[str] = "linear"
    folds: ClassVar[int] = 10

    def __init__(
        self,
        *,
        c: float = 1.0,
        model: Literal["svm", "logreg"] = "svm",
        word_range: tuple[int, int] = (1, 2),
        character_range: tuple[int, int] = (2, 5),
        max_features: int = 0,
    ) -> None:
        self.c, self.model = c, model
        self.word_range, self.character_range, self.max_features = word_range, character_range, max_features

    def fit(
        self,
        texts: Sequence[str],
        Y: BoolArray,
        asked: BoolArray,
        *,
        seed: int,
        progress: ScorerProgress = no_progress,
    ) -> LinearMargins:
        """texts (N), Y bool[N, A], asked bool[N, A]. Raises ValueError where no text has a word or character."""
        tfidf, features = fit_tfidf(
            texts,
            word_range=self.word_range,
            character_range=self.character_range,
            max_features=self.max_features or MOST_WEIGHTS // Y.shape[1],
        )
        return self.fit_features(tfidf, features, Y, asked, seed=seed, progress=progress)

    def fit_features(
        self,
        tfidf: TfIdf,
        features: Matrix,
        Y: BoolArray,
        asked: BoolArray,
        *,
        seed: int,
        progress: ScorerProgress = no_progress,
    ) -> LinearMargins:
        """`fit` on features already computed: tfidf and features as `fit_tfidf` gives them."""
        agents = Y.shape[1]
        weights: FloatArray = np.zeros((features.shape[1], agents), np.float32)
        bias = prior_log_odds(Y, asked).copy()
        for a in range(agents):
            progress(a, agents, "linear model")
            rows = asked[:, a]
            y = Y[rows, a]
            if y.all() or not y.any():
                continue
            weights[:, a], bias[a] = self._fit_agent(features if rows.all() else features[rows], y, seed)
            if len(y) > MANY_ROWS:
                give_back()  # LIBLINEAR's own copy of the rows takes more than they do
        return LinearMargins(tfidf, weights, bias)

    def _fit_agent(self, features: Matrix, y: BoolArray, seed: int) -> tuple[NDArray[Any], float]:
        """(weights [features], bias) of one agent: features [N, F], y bool[N] of both classes."""
        machine: LinearSVC | LogisticRegression
        tol = MANY_TOL if len(y) > MANY_ROWS else FEW_TOL
        if self.model == "svm":
            machine = LinearSVC(C=self.c, tol=tol, random_state=seed)
        else:
            machine = LogisticRegression(C=self.c, tol=tol, solver="liblinear", dual=True, random_state=seed)
        if len(y) > MANY_ROWS and SCARCE * y.sum() < len(y):
            _fit_scarce(machine, features, y, seed)
        else:
            fit_machine(machine, features, y)
        return machine.coef_[0], float(machine.intercept_[0])


def fit_machine(
    machine: LinearSVC | LogisticRegression, features: Matrix, y: BoolArray, weights: NDArray[Any] | None = None
) -> None:
    """Fit by liblinear, one machine at a time: it draws from one generator of the whole process, which each fit sets to its seed."""
    with _LIBLINEAR:
        machine.fit(features, y, weights)


_LIBLINEAR = threading.Lock()
#: Held by who counts the n-grams of a large pool and fits on them: the matrix takes a gigabyte, and there is to be one at a time.
ONE_MATRIX = threading.Lock()

#: Above this many rows, an agent that fewer than one in SCARCE of them requires is not fitted on all the others.
MANY_ROWS = 20_000
SCARCE = 25
#: When a fit is done: earlier than scikit-learn's 1e-4, and of many rows LIBLINEAR's own. Of few rows it takes 0.7 of the time and no
#: margin is off by 0.005. On 30,000 made-up queries it took 0.6 of the time of support vector machines and 0.4 of logistic
#: regressions', changed margins by at most 0.02 and no F1 to four places.
FEW_TOL, MANY_TOL = 1e-2, 0.1


def _fit_scarce(machine: LinearSVC | LogisticRegression, features: Matrix, y: BoolArray, seed: int) -> None:
    """Fit a machine of few positives on a part of the negatives: features [N, F], y bool[N].

    A first fit, on a sample of the negatives, finds those that look most like positives. The second is on these, each
    for itself, and on a sample of the rest, weighted to stand for all of it. The time then follows the positives of an
    agent, whose sum over agents does not grow with their number, and not rows times agents.
    """
    rng = np.random.Generator(np.random.PCG64(seed))
    positives, negatives = np.flatnonzero(y), np.flatnonzero(~y)
    drawn = rng.choice(negatives, min(len(negatives), 3_000 + 2 * len(positives)), replace=False)
    _fit_part(machine, features, y, [(positives, 1.0), (drawn, len(negatives) / len(drawn))])
    likeness = (features @ machine.coef_[0])[negatives]
    near = np.argsort(-likeness, kind="stable")[: 2_000 + 3 * len(positives)]
    far = np.delete(negatives, near)
    parts = [(positives, 1.0), (negatives[near], 1.0)]
    if len(far):
        drawn = rng.choice(far, min(len(far), 2_000 + len(positives)), replace=False)
        parts.append((drawn, len(far) / len(drawn)))
    _fit_part(machine, features, y, parts)


def _fit_part(
    machine: LinearSVC | LogisticRegression, features: Matrix, y: BoolArray, parts: list[tuple[NDArray[Any], float]]
) -> None:
    rows = np.concatenate([rows for rows, _ in parts])
    fit_machine(
        machine, features[rows], y[rows], np.concatenate([np.full(len(rows), weight) for rows, weight in parts])
    )


#: What `choose_linear` chooses from: n-gram ranges, and the strengths tried with each.
FEATURE_SETS: tuple[tuple[tuple[int, int], tuple[int, int]], ...] = (((1, 2), (2, 5)), ((1, 1), (3, 5)))
STRENGTHS: tuple[float, ...] = (1.0, 3.0)
CHOICE_ROWS = 4000  # rows that the choice looks at: more would cost time and change little


def choose_linear(
    texts: Sequence[str],
    Y: BoolArray,
    asked: BoolArray,
    groups: Sequence[str],
    *,
    seed: int,
    max_features: int = 0,
    progress: ScorerProgress = no_progress,
) -> tuple[LinearScorer, list[dict[str, float | str]]]:
    """The n-gram ranges and the strength of the regularisation, by three-fold cross-validation on the training rows.

    The measure is the mean Jaccard of out-of-fold margins at their best single threshold. Returns the scorer and one
    line per candidate. A candidate must be better than an earlier one by a thousandth to be preferred.
    """
    rows = np.arange(len(texts))
    if len(rows) > CHOICE_ROWS:
        rows = np.sort(np.random.Generator(np.random.PCG64(seed)).permutation(len(rows))[:CHOICE_ROWS])
    folds = min(3, len({groups[i] for i in rows.tolist()}))
    report: list[dict[str, float | str]] = []
    best: tuple[float, LinearScorer] | None = None
    fold = (
        fold_of_group([groups[i] for i in rows.tolist()], folds, seed) if folds > 1 else np.zeros(len(rows), np.int64)
    )
    done = 0
    for word_range, character_range in FEATURE_SETS:
        scorers = [
            LinearScorer(c=c, word_range=word_range, character_range=character_range, max_features=max_features)
            for c in STRENGTHS
        ]
        if folds < 2:
            return scorers[0], report
        margins = np.zeros((len(scorers), len(rows), Y.shape[1]), np.float32)
        for k in range(folds):
            progress(done, folds * len(FEATURE_SETS), "choosing features")
            done += 1
            inside, outside = rows[fold != k], rows[fold == k]
            tfidf, features = fit_tfidf(
                [texts[i] for i in inside.tolist()],
                word_range=word_range,
                character_range=character_range,
                max_features=max_features or MOST_WEIGHTS // Y.shape[1],
            )
            outside_texts = [texts[i] for i in outside.tolist()]
            for s, scorer in enumerate(scorers):
                fitted = scorer.fit_features(tfidf, features, Y[inside], asked[inside], seed=seed)
                margins[s, fold == k] = fitted.logits(outside_texts)
        for s, scorer in enumerate(scorers):
            worth = float(best_jaccards(margins[s], Y[rows], asked[rows]).mean())
            name = f"words {word_range[0]}-{word_range[1]}, characters {character_range[0]}-{character_range[1]}"
            report.append({"features": name, "c": scorer.c, "jaccard": worth})
            if best is None or worth > best[0] + 1e-3:
                best = (worth, scorer)
    assert best is not None
    return best[1], report


def best_jaccards(
    margins: FloatArray, Y: BoolArray, asked: BoolArray, weights: NDArray[np.float64] | None = None
) -> FloatArray:
    """Jaccard of every row, float32[N], at the one threshold for all agents that has the best mean, or of all agents. With `weights`
    float64[N] each row's Jaccard is multiplied by its own, of mean one."""
    required = Y & asked
    grid = np.append(-np.inf, candidates(margins, np.linspace(0.02, 0.98, 97)))
    scale = 1.0 if weights is None else weights / weights.mean()
    by_threshold = [np.asarray(scale * jaccard((margins > t) & asked, required), np.float32) for t in grid]
    return max(by_threshold, key=lambda values: float(values.mean()))


class EmbeddingScorer:
    """A logistic regression per agent on the sentence embeddings of the model in the folder `path`."""

    kind: ClassVar[str] = "embedding"
    folds: ClassVar[int] = 10

    def __init__(self, path: str, c: float = 10.0) -> None:
        self.path, self.c = path, c

    def fit(
        self,
        texts: Sequence[str],
        Y: BoolArray,
        asked: BoolArray,
        *,
        seed: int,
        progress: ScorerProgress = no_progress,
    ) -> EmbeddingMargins:
        """texts (N), Y bool[N, A], asked bool[N, A]. Raises ValueError where the model cannot be read."""
        features = embed(self.path, texts)
        weights = np.zeros((features.shape[1], Y.shape[1]), np.float32)
        bias = prior_log_odds(Y, asked).copy()
        for a in range(Y.shape[1]):
            progress(a, Y.shape[1], "linear model")
            y = Y[asked[:, a], a]
            if y.all() or not y.any():
                continue
            fitted = LogisticRegression(C=self.c, random_state=seed, max_iter=1000).fit(features[asked[:, a]], y)
            weights[:, a], bias[a] = fitted.coef_[0], fitted.intercept_[0]
        return EmbeddingMargins(self.path, weights, bias)
