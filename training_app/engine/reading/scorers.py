"""Scorers: text to per-agent log-odds.

A scorer is fitted on labeled texts and gives one margin per agent for any text. Margins of a scorer on the rows it
was fitted on are over-confident, so whatever learns from them (the policy, the thresholds of a stack) is shown
*out-of-fold* margins instead: `cross_fit` fits the scorer once per fold, maps the out-of-fold margins to log-odds
(Platt 1999) and serves the whole-data scorer through the same map.

This module and every `FittedScorer` import numpy only. What fits (scikit-learn, torch) is imported by the modules
that fit, which no web process imports.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from training_app.engine.data.arrays import BoolArray, FloatArray
from training_app.engine.data.rows import Rows, fold_of_group
from training_app.engine.progress import Job, ScorerProgress, at_once, no_progress


@runtime_checkable
class FittedScorer(Protocol):
    """A scorer that has been fitted: immutable, safe to share between threads, numpy only."""

    #: Name in an artifact's `config.json`; see `KINDS`.
    kind: ClassVar[str]

    def logits(self, texts: Sequence[str]) -> FloatArray:
        """Margins, float32[len(texts), agents]; larger means more likely needed. Finite for every text, "" too."""

    def tensors(self) -> dict[str, NDArray[Any]]:
        """All arrays that `from_tensors` needs, by name: C-contiguous, of a dtype that safetensors stores."""

    def config(self) -> dict[str, Any]:
        """All else that `from_tensors` needs, as JSON-able values (vocabularies belong here)."""

    @classmethod
    def from_tensors(cls, config: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> FittedScorer:
        """The inverse of `config` and `tensors`. Raises ValueError where they do not fit together."""

    def explain(self, text: str, top: int = 8) -> list[list[tuple[str, float]]]:
        """Per agent, the parts of `text` that moved its margin most, (part, signed weight), strongest first.
        An empty list per agent where a scorer cannot tell."""


@runtime_checkable
class Scorer(Protocol):
    """What can be fitted. Holds settings only; `fit` may be called many times and changes nothing here."""

    kind: ClassVar[str]
    #: How many folds `cross_fit` uses: ten for a linear scorer, three for a neural one.
    folds: ClassVar[int]

    def fit(
        self,
        texts: Sequence[str],
        Y: BoolArray,
        asked: BoolArray,
        *,
        seed: int,
        progress: ScorerProgress = no_progress,
    ) -> FittedScorer:
        """Fit on texts (N), targets Y bool[N, A] and the mask of asked agents bool[N, A].

        An entry of Y counts only where `asked` is true. The same seed gives the same fitted scorer on the same
        machine. `progress` is called at least once a few seconds. An agent whose asked rows are all of one class
        must get a constant, finite margin (its prior log-odds, see `prior_log_odds`).
        """


#: kind -> (module, class) of the fitted half, imported when an artifact of that kind is loaded.
KINDS: dict[str, tuple[str, str]] = {
    "linear": ("training_app.engine.reading.text", "LinearMargins"),
    "tfidf": ("training_app.engine.reading.text", "TfIdfVectors"),
    "sequence": ("training_app.engine.reading.sequences.sequence", "SequenceMargins"),
    "stack": ("training_app.engine.reading.stack", "StackedMargins"),
    "fused": ("training_app.engine.reading.fused", "FusedMargins"),
    "embedding": ("training_app.engine.reading.embedding", "EmbeddingMargins"),
    "teacher": ("training_app.engine.reading.teaching.teacher", "TeacherMargins"),
    "precedents": ("training_app.engine.reading.precedents", "PrecedentMargins"),
    "turns": ("training_app.engine.reading.conversing.turns", "TurnsMargins"),
    "descriptions": ("training_app.engine.reading.descriptions", "Descriptions"),
    "tidied": ("training_app.engine.reading.tidying.tidied", "TidiedMargins"),
}

#: The kinds that ask the sentence encoder.
READ_MEANING = frozenset({"fused", "precedents"})

#: The kinds of which several are fitted at once, in threads: they draw from generators of their own, and torch lets others go on
#: meanwhile. liblinear draws from one of the whole process, so that only one linear fit goes on at a time (`linear.fit_machine`).
AT_ONCE = frozenset({"sequence"})


#: Of thresholds that are tried (`candidates`): the highest share of the scores, and how many are in it.
TAIL = 0.02
TAIL_STEPS = 60


def cores() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def load_scorer(kind: str, config: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> FittedScorer:
    """The fitted scorer of an artifact. Raises ValueError for an unknown kind or arrays that do not fit."""
    if kind not in KINDS:
        raise ValueError(f"unknown scorer kind {kind!r}; this version knows {', '.join(sorted(KINDS))}")
    module, name = KINDS[kind]
    fitted: type[FittedScorer] = getattr(import_module(module), name)
    return fitted.from_tensors(config, tensors)


def prior_log_odds(Y: BoolArray, asked: BoolArray) -> FloatArray:
    """Log-odds of each agent's share of positives among its asked rows, with half a row added to each side
    (Y bool[N, A], asked bool[N, A] -> float32[A]). Finite for an agent that was never, or always, required."""
    positives = (Y & asked).sum(axis=0) + 0.5
    negatives = (~Y & asked).sum(axis=0) + 0.5
    return np.log(positives / negatives).astype(np.float32)


@dataclass(frozen=True, slots=True)
class Platt:
    """Per-agent map from margin to log-odds: `scale * margin + shift` (scale, shift float32[A])."""

    scale: FloatArray
    shift: FloatArray

    def __call__(self, margins: FloatArray) -> FloatArray:
        """margins float32[N, A] -> log-odds float32[N, A]."""
        return margins * self.scale + self.shift


def fit_platt(margins: FloatArray, Y: BoolArray, asked: BoolArray) -> Platt:
    """Platt scaling (Platt 1999, with the smoothed targets of Lin, Lin and Weng 2007), one map per agent.

    Newton's method on the two parameters, with a small ridge on the log of the scale's distance from one so that an
    agent with a handful of positives keeps a finite map. An agent of one class gets scale 0 and its prior's
    log-odds. margins float32[N, A], Y and asked bool[N, A].
    """
    agents = margins.shape[1]
    scale = np.zeros(agents, np.float64)
    shift = prior_log_odds(Y, asked).astype(np.float64)
    for a in range(agents):
        rows = asked[:, a]
        y = Y[rows, a]
        positives, negatives = int(y.sum()), int((~y).sum())
        if not positives or not negatives:
            continue
        m = margins[rows, a].astype(np.float64)
        spread = m.std()
        if spread < 1e-9:
            continue
        centre = m.mean()
        z = (m - centre) / spread
        target = np.where(y, (positives + 1) / (positives + 2), 1 / (negatives + 2))
        a_, b_ = 1.0, float(shift[a])
        for _ in range(50):
            p = 1 / (1 + np.exp(-(a_ * z + b_)))
            gradient = np.array([np.dot(p - target, z) + 1e-3 * a_, (p - target).sum()])
            w = p * (1 - p) + 1e-9
            hessian = np.array(
                [[np.dot(w, z * z) + 1e-3, np.dot(w, z)], [np.dot(w, z), w.sum() + 1e-9]],
            )
            step = np.linalg.solve(hessian, gradient)
            # A full Newton step may overshoot where the classes are separable: at most three units at a time.
            step *= min(1.0, 3.0 / max(1e-12, np.abs(step).max()))
            a_, b_ = a_ - step[0], b_ - step[1]
            if np.abs(step).max() < 1e-8:
                break
        # A negative slope would turn the scorer's order upside down on a chance of a small sample.
        a_ = max(a_, 0.0)
        scale[a] = a_ / spread
        shift[a] = b_ - a_ * centre / spread
    return Platt(scale.astype(np.float32), shift.astype(np.float32))


def candidates(scores: FloatArray, quantiles: NDArray[np.float64]) -> NDArray[np.float64]:
    """Thresholds to choose from, ascending: these quantiles of all scores, float32[N, A], and in the TAIL of them TAIL_STEPS
    more, each with the same factor fewer scores above it, down to one. A query that needs two of two hundred agents is decided
    there, between steps of a hundredth."""
    fewest = min(TAIL, 1 / max(1, scores.size))
    tail = 1 - np.geomspace(TAIL, fewest, TAIL_STEPS)
    return np.unique(np.quantile(scores, np.concatenate([quantiles, tail])))


#: From the texts that a scorer is fitted on: how any other text is read.
Reading = Callable[[Sequence[str]], Callable[[str], str]]


@dataclass(frozen=True, slots=True)
class CrossFit:
    """What `cross_fit` or `hold_out` found.

    `log_odds` float32[N, A] are log-odds of training rows by a scorer that was not fitted on them, Platt-scaled;
    `margins` the same before scaling; `fitted` is served through `platt`. `held_out` int64[N] are the rows' numbers
    where they are a part of the training rows, the one that `fitted` was not fitted on; None where they are all.
    """

    log_odds: FloatArray
    margins: FloatArray
    fitted: FittedScorer
    platt: Platt
    held_out: NDArray[np.int64] | None = None


def cross_fit(
    scorer: Scorer,
    rows: Rows,
    groups: Sequence[str],
    *,
    seed: int,
    folds: int | None = None,
    reading: Reading | None = None,
    progress: ScorerProgress = no_progress,
) -> CrossFit:
    """Out-of-fold log-odds for every row, and the scorer fitted on all rows.

    groups (N): rows of one group never stand on both sides of a fold.
    An agent with one class within a fold's training rows gets the prior's log-odds for that fold (`Scorer.fit`).
    `reading` gives, from the texts that a fold is fitted on, how texts outside of it are read; None as they are.
    `progress` counts fits: folds + 1 of them, those of `AT_ONCE` on all cores. The numbers are the same on one.
    """
    texts, Y, asked = rows.texts, rows.required, rows.asked
    count = min(folds or scorer.folds, len(set(groups)))
    if count < 2:
        raise ValueError("cross-fitting needs at least two different texts")
    fold = fold_of_group(groups, count, seed)
    margins = np.zeros(Y.shape, np.float32)

    def out_of(k: int, report: ScorerProgress) -> None:
        inside, outside = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        training_texts = [texts[i] for i in inside.tolist()]
        fitted = scorer.fit(training_texts, Y[inside], asked[inside], seed=seed, progress=report)
        others = [texts[i] for i in outside.tolist()]
        margins[outside] = fitted.logits(others if reading is None else list(map(reading(training_texts), others)))

    def whole(report: ScorerProgress) -> FittedScorer:
        return scorer.fit(texts, Y, asked, seed=seed, progress=report)

    jobs: list[Job[FittedScorer | None]] = [(f"fold {k + 1} of {count}", partial(out_of, k)) for k in range(count)]
    threads = min(cores(), count + 1) if scorer.kind in AT_ONCE else 1
    *_, full = at_once([*jobs, ("all rows", whole)], threads, progress)
    assert full is not None
    platt = fit_platt(margins, Y, asked)
    return CrossFit(platt(margins), margins, full, platt)
