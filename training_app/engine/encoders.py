"""Which scorer reads the text: what `encoder` in the settings means.

Imported by workers only: it brings the modules that fit.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from training_app.engine.calibration import logistic
from training_app.engine.config import Config
from training_app.engine.linear import EmbeddingScorer, LinearScorer, best_jaccards, choose_linear
from training_app.engine.metrics import paired
from training_app.engine.scorers import (
    BoolArray,
    CrossFit,
    FloatArray,
    Platt,
    Rows,
    Scorer,
    ScorerProgress,
    cross_fit,
    draw_weights,
    fit_platt,
    fold_of_group,
    prior_log_odds,
)
from training_app.engine.sequence_fit import SequenceScorer
from training_app.engine.stack import StackedMargins, fit_weights

#: `auto` tries the sequence encoder from this many training rows on: each of three folds then has some sixty to be judged by.
SEQUENCE_ROWS = 200
#: From this many training and this many validation rows on, scorers are fitted once, with a part of the training rows
#: held out, instead of once per fold. A part of so many rows is enough for the policy, validation for the rest.
MANY_ROWS, MANY_VALIDATION = 20_000, 1_000
HELD_OUT = 4_000  # rows at most; a tenth of them all at most
SPREAD = 1.5  # of the log-odds of a text that says nothing, around each agent's prior


def fit_encoder(
    config: Config, rows: Rows, groups: Sequence[str], validation: Rows, *, progress: ScorerProgress
) -> tuple[CrossFit, dict[str, Any]]:
    """The scorer that the settings ask for, with log-odds of training rows it was not fitted on, and a report of what
    was chosen and why.

    `groups` (N) are the rows' group keys. `auto` compares linear, sequence and stack by their out-of-fold log-odds on
    the training rows, so the choice has seen neither validation nor test. In a large pool (`hold_out`) it compares them on
    validation.
    """
    apart = _held_out(config, rows, groups, validation)
    if apart is None:
        return _fit(config, rows, groups, validation, None, progress)
    fit, report = _fit(config, rows, groups, validation, apart, progress)
    fit, share = faded(fit, rows.take(apart), validation, config.seed)
    return fit, {**report, "held_out": len(apart), "faded": share}


def _fit(
    config: Config,
    rows: Rows,
    groups: Sequence[str],
    validation: Rows,
    apart: NDArray[np.int64] | None,
    progress: ScorerProgress,
) -> tuple[CrossFit, dict[str, Any]]:
    report: dict[str, Any] = {}

    def fitted(scorer: Scorer, what: str) -> CrossFit:
        def told(done: int, total: int, message: str) -> None:
            progress(done, total, f"{what}: {message}")

        if apart is not None:
            return hold_out(scorer, rows, apart, validation, seed=config.seed, progress=told)
        return cross_fit(
            scorer,
            rows.texts,
            rows.required,
            rows.asked,
            groups,
            seed=config.seed,
            folds=config.folds or scorer.folds,
            progress=told,
        )

    if config.encoder == "embedding":
        report["encoder"] = "embedding"
        return fitted(EmbeddingScorer(config.embedding_path), "embedding"), report

    if config.encoder == "sequence":
        report["encoder"] = "sequence"
        return fitted(SequenceScorer.for_rows(len(rows)), "sequence"), report

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
    linear = fitted(scorer, "linear")
    if config.encoder == "linear" or (config.encoder == "auto" and len(rows) < SEQUENCE_ROWS):
        report["encoder"] = "linear"
        return linear, report

    sequence = fitted(SequenceScorer.for_rows(len(rows)), "sequence")
    stacked = stack([linear, sequence], rows, None if apart is None else validation)
    fits = {"linear": linear, "sequence": sequence, "stack": stacked}
    report["stack_weights"] = stacked.fitted.weights.tolist()  # type: ignore[attr-defined]
    if config.encoder == "stack":
        report["encoder"] = "stack"
        return stacked, report
    if apart is None:
        found = {name: fit.log_odds for name, fit in fits.items()}
        choice, report["comparison"] = choose(found, rows, config.none_share)
    else:
        found = {name: served(fit, validation) for name, fit in fits.items()}
        choice, report["comparison"] = choose(found, validation, config.none_share)
    report["encoder"] = choice
    return fits[choice], report


def served(fit: CrossFit, rows: Rows) -> FloatArray:
    """The log-odds that a text of `rows` gets when it is asked about: float32[N, A]."""
    return fit.platt(fit.fitted.logits(rows.texts))


def _held_out(config: Config, rows: Rows, groups: Sequence[str], validation: Rows) -> NDArray[np.int64] | None:
    """The numbers of the training rows to hold out, whole groups of them; None where scorers are cross-fitted."""
    if config.folds or len(rows) < MANY_ROWS or len(validation) < MANY_VALIDATION:
        return None
    parts = max(10, -(-len(rows) // HELD_OUT))
    return np.flatnonzero(fold_of_group(groups, parts, config.seed) == 0)


def hold_out(
    scorer: Scorer, rows: Rows, apart: NDArray[np.int64], validation: Rows, *, seed: int, progress: ScorerProgress
) -> CrossFit:
    """A scorer fitted once, on the training rows that are not `apart`, int64[M]; the log-odds of those.

    It is served through a map learnt on validation, not on the rows apart: where queries are joined from passages that
    other queries hold too, no part of the training rows is new to a scorer, and it looks surer on them than it is. The
    rows apart have a map of their own, so that what the policy learns from means what it says as well.
    """
    kept = rows.take(np.setdiff1d(np.arange(len(rows)), apart))
    fitted = scorer.fit(kept.texts, kept.required, kept.asked, seed=seed, progress=progress)
    held = rows.take(apart)
    margins = fitted.logits(held.texts)
    platt = drawn_platt(fitted.logits(validation.texts), validation.required, validation.asked)
    own = drawn_platt(margins, held.required, held.asked)
    return CrossFit(own(margins), margins, fitted, platt, apart)


def faded(fit: CrossFit, held: Rows, validation: Rows, seed: int) -> tuple[CrossFit, float]:
    """The same, with log-odds of the rows held out that are as unsure as those of validation, and the share of rows in
    which the evidence had to fade for that.

    A policy that was only ever shown sure log-odds takes every agent where no agent is likely. So in as many rows as
    make their log loss that of validation, log-odds give way to the agents' prior with noise, by a part drawn for each
    row; and all are mapped again, so that they still mean what they say. `held` are the rows of `fit.log_odds`.
    """
    rng = np.random.Generator(np.random.PCG64(seed))
    z = fit.log_odds
    part, noise = rng.random((len(z), 1)), rng.normal(scale=SPREAD, size=z.shape)
    fading = z + part * (prior_log_odds(held.required, held.asked) + noise - z)

    def mapped(log_odds: NDArray[Any]) -> FloatArray:
        margins = log_odds.astype(np.float32)
        return drawn_platt(margins, held.required, held.asked)(margins)

    wanted, least = _loss(served(fit, validation), validation), _loss(z, held)
    most = _loss(mapped(fading), held)
    share = (wanted - least) / (most - least) if most > wanted > least else float(wanted > least)
    if share == 0:
        return fit, 0.0
    log_odds = mapped(np.where(rng.random((len(z), 1)) < share, fading, z))
    return dataclasses.replace(fit, log_odds=log_odds), share


def _loss(log_odds: FloatArray, rows: Rows) -> float:
    """Mean cross-entropy of the asked (text, agent) pairs."""
    losses = np.logaddexp(0, np.where(rows.required, -log_odds, log_odds))
    return float(losses[rows.asked].mean())


def drawn_platt(margins: FloatArray, required: BoolArray, asked: BoolArray) -> Platt:
    """A map per agent, drawn to the one that all agents share: an agent of few positives, or none, has that one.
    margins float32[N, A]; required and asked bool[N, A]."""
    (scale,), shift = fit_weights([margins], required, asked)
    shared = margins.astype(np.float64) * scale + shift
    own = []
    for a in range(margins.shape[1]):
        z = shared[asked[:, a], a]
        features = np.stack([z, np.ones_like(z)], axis=1)
        own.append(logistic(features, required[asked[:, a], a], np.array([1.0, 0.0]), ridge=3.0))
    slope, constant = np.array(own).T
    slope = np.maximum(slope, 0)
    return Platt((slope * scale).astype(np.float32), (slope * shift + constant).astype(np.float32))


def stack(fits: Sequence[CrossFit], rows: Rows, validation: Rows | None = None) -> CrossFit:
    """Cross-fitted scorers as one. The weights are a handful of numbers fitted on thousands of out-of-fold entries,
    so the stack's log-odds of the training rows count as out of fold too. Scorers that `hold_out` fitted are weighed on
    `validation`."""
    judged = rows if validation is None else validation
    seen = [fit.log_odds if validation is None else served(fit, validation) for fit in fits]
    weights, shift = fit_weights(seen, judged.required, judged.asked)

    def merged(log_odds: Sequence[FloatArray]) -> FloatArray:
        weighed = zip(weights, log_odds, strict=True)
        return np.asarray(sum((w * x for w, x in weighed), np.float32(shift)), np.float32)

    margins = merged([fit.log_odds for fit in fits])
    fitted = StackedMargins(tuple(f.fitted for f in fits), tuple(f.platt for f in fits), weights, shift)
    apart = fits[0].held_out
    if apart is None:
        platt = fit_platt(margins, rows.required, rows.asked)
        return CrossFit(platt(margins), margins, fitted, platt)
    own = drawn_platt(margins, rows.required[apart], rows.asked[apart])
    return CrossFit(own(margins), margins, fitted, drawn_platt(merged(seen), judged.required, judged.asked), apart)


def choose(found: dict[str, FloatArray], rows: Rows, none_share: float = 0.0) -> tuple[str, dict[str, Any]]:
    """The simplest scorer that no later one beats beyond the noise: `found` are the log-odds float32[N, A] of `rows`, from
    simple to costly, compared by the Jaccard of each row at the scorer's best threshold, paired over rows, rows weighted
    as the policy will draw them. Returns its name and the figures."""
    figures: dict[str, Any] = {}
    weights = draw_weights(rows.required, none_share)
    values = {name: best_jaccards(log_odds, rows.required, rows.asked, weights) for name, log_odds in found.items()}
    choice = next(iter(found))
    for name, value in values.items():
        figures[name] = {"jaccard": float(value.mean())}
        if name == choice:
            continue
        difference = paired(value, values[choice])
        figures[name]["against"] = {"scorer": choice, **difference}
        if difference["low"] > 0:
            choice = name
    return choice, figures
