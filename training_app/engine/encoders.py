"""Which scorer reads the text: what `encoder` in the settings means.

Imported by workers only: it brings the modules that fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from training_app.engine.config import Config
from training_app.engine.linear import LinearScorer, choose_linear
from training_app.engine.scorers import BoolArray, CrossFit, ScorerProgress, cross_fit


def fit_encoder(
    config: Config,
    texts: Sequence[str],
    required: BoolArray,
    asked: BoolArray,
    groups: Sequence[str],
    *,
    progress: ScorerProgress,
) -> tuple[CrossFit, dict[str, Any]]:
    """The cross-fitted scorer that the settings ask for, and a report of what was chosen and why.

    texts (N), required and asked bool[N, A], groups (N).
    """
    report: dict[str, Any] = {}
    if config.svm_c:
        linear = LinearScorer(c=config.svm_c, max_features=config.max_features)
    else:
        linear, candidates = choose_linear(
            texts, required, asked, groups, seed=config.seed, max_features=config.max_features, progress=progress
        )
        report["candidates"] = candidates
    report["linear"] = {
        "c": linear.c, "words": list(linear.word_range), "characters": list(linear.character_range)
    }
    fit = cross_fit(
        linear,
        texts,
        required,
        asked,
        groups,
        seed=config.seed,
        folds=config.folds or folds_for(len(texts), linear.folds),
        progress=progress,
    )
    report["encoder"] = "linear"
    return fit, report


def folds_for(rows: int, folds: int) -> int:
    """Fewer folds where each has thousands of rows: the scorer of a fold is then as good as the whole one anyway."""
    return folds if rows <= 20_000 else min(folds, 4)
