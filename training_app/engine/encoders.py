"""Which scorer reads the text: what `encoder` in the settings means.

Imported by workers only: it brings the modules that fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from training_app.engine.config import Config
from training_app.engine.linear import EmbeddingScorer, LinearScorer, best_jaccards, choose_linear
from training_app.engine.metrics import paired
from training_app.engine.scorers import (
    CrossFit,
    Platt,
    Rows,
    Scorer,
    ScorerProgress,
    cross_fit,
    draw_weights,
    fit_platt,
)
from training_app.engine.sequence_fit import SequenceScorer
from training_app.engine.stack import StackedMargins, fit_weights

#: `auto` tries the sequence encoder from this many training rows on. Below, it keeps to the linear one for what that costs, not for
#: what it knows: on 736 rows the stack had 0.024 more test Jaccard, at twice the training time and twice the time of a route
#: (docs/benchmarks.md). Who prefers it says `encoder: stack`.
SEQUENCE_ROWS = 2_000
#: Above this many rows a linear scorer is cross-fitted in four folds: each holds thousands of rows all the same.
MANY_ROWS = 20_000


def fit_encoder(
    config: Config, rows: Rows, groups: Sequence[str], *, progress: ScorerProgress
) -> tuple[CrossFit, dict[str, Any]]:
    """The cross-fitted scorer that the settings ask for, and a report of what was chosen and why.

    `groups` (N) are the rows' group keys. `auto` compares linear, sequence and stack by their out-of-fold log-odds on
    the training rows, so the choice has seen neither validation nor test.
    """
    report: dict[str, Any] = {}

    def fitted(scorer: Scorer, folds: int, what: str) -> CrossFit:
        def told(done: int, total: int, message: str) -> None:
            progress(done, total, f"{what}: {message}")

        return cross_fit(
            scorer,
            rows.texts,
            rows.required,
            rows.asked,
            groups,
            seed=config.seed,
            folds=config.folds or folds,
            progress=told,
        )

    if config.encoder == "embedding":
        report["encoder"] = "embedding"
        return fitted(EmbeddingScorer(config.embedding_path), EmbeddingScorer.folds, "embedding"), report

    if config.encoder == "sequence":
        report["encoder"] = "sequence"
        return fitted(SequenceScorer.for_rows(len(rows)), SequenceScorer.folds, "sequence"), report

    if config.svm_c:
        scorer = LinearScorer(c=config.svm_c, max_features=config.max_features)
    else:
        scorer, candidates = choose_linear(
            rows.texts,
            rows.required,
            rows.asked,
            groups,
            seed=config.seed,
            max_features=config.max_features,
            progress=progress,
        )
        report["candidates"] = candidates
    report["linear"] = {"c": scorer.c, "words": list(scorer.word_range), "characters": list(scorer.character_range)}
    linear = fitted(scorer, LinearScorer.folds if len(rows) <= MANY_ROWS else 4, "linear")
    if config.encoder == "linear" or (config.encoder == "auto" and len(rows) < SEQUENCE_ROWS):
        report["encoder"] = "linear"
        return linear, report

    sequence = fitted(SequenceScorer.for_rows(len(rows)), SequenceScorer.folds, "sequence")
    stacked = stack([linear, sequence], rows)
    fits = {"linear": linear, "sequence": sequence, "stack": stacked}
    report["stack_weights"] = stacked.fitted.weights.tolist()  # type: ignore[attr-defined]
    if config.encoder == "stack":
        report["encoder"] = "stack"
        return stacked, report
    choice, report["comparison"] = choose(fits, rows, config.none_share)
    report["encoder"] = choice
    return fits[choice], report


def stack(fits: Sequence[CrossFit], rows: Rows) -> CrossFit:
    """Cross-fitted scorers as one. The weights are a handful of numbers fitted on thousands of out-of-fold entries,
    so the stack's log-odds of the training rows count as out of fold too."""
    weights, shift = fit_weights([fit.log_odds for fit in fits], rows.required, rows.asked)
    margins = np.asarray(
        sum((w * fit.log_odds for w, fit in zip(weights, fits, strict=True)), np.float32(shift)), np.float32
    )
    merged = StackedMargins(tuple(f.fitted for f in fits), tuple(f.platt for f in fits), weights, shift)
    platt: Platt = fit_platt(margins, rows.required, rows.asked)
    return CrossFit(platt(margins), margins, merged, platt)


def choose(fits: dict[str, CrossFit], rows: Rows, none_share: float = 0.0) -> tuple[str, dict[str, Any]]:
    """The simplest scorer that no later one beats beyond the noise: `fits` from simple to costly, compared by the
    Jaccard of each row at the scorer's best threshold, paired over rows, rows weighted as the policy will draw them.
    Returns its name and the figures."""
    figures: dict[str, Any] = {}
    weights = draw_weights(rows.required, none_share)
    values = {name: best_jaccards(fit.log_odds, rows.required, rows.asked, weights) for name, fit in fits.items()}
    choice = next(iter(fits))
    for name, value in values.items():
        figures[name] = {"jaccard": float(value.mean())}
        if name == choice:
            continue
        difference = paired(value, values[choice])
        figures[name]["against"] = {"scorer": choice, **difference}
        if difference["low"] > 0:
            choice = name
    return choice, figures
