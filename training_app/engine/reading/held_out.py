"""Scorers of large pools: fitted once, on the training rows that are not held out, for a policy that learns from those that are."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from training_app.engine.data.arrays import FloatArray
from training_app.engine.data.rows import Rows
from training_app.engine.progress import ScorerProgress
from training_app.engine.reading.scorers import CrossFit, FittedScorer, Reading, Scorer, prior_log_odds
from training_app.engine.reading.stacking import drawn_platt, served

SPREAD = 1.5  # of the log-odds of a text that says nothing, around each agent's prior


def hold_out(
    scorer: Scorer,
    rows: Rows,
    apart: NDArray[np.int64],
    validation: Rows,
    *,
    seed: int,
    reading: Reading | None = None,
    progress: ScorerProgress,
) -> CrossFit:
    """A scorer fitted once, on the training rows that are not `apart`, int64[M]; the log-odds of those.

    It is served through a map learnt on validation, not on the rows apart: where queries are joined from passages that
    other queries hold too, no part of the training rows is new to a scorer, and it looks surer on them than it is. The
    rows apart have a map of their own, so that what the policy learns from means what it says as well. `reading` as in `cross_fit`.
    """
    kept = rows.take(np.setdiff1d(np.arange(len(rows)), apart))
    fitted = scorer.fit(kept.texts, kept.required, kept.asked, seed=seed, progress=progress)
    held = rows.take(apart)
    texts = held.texts if reading is None else list(map(reading(kept.texts), held.texts))
    return mapped(fitted, texts, held, validation, apart)


def mapped(
    fitted: FittedScorer, texts: Sequence[str], held: Rows, validation: Rows, apart: NDArray[np.int64]
) -> CrossFit:
    """A scorer that was not fitted on the rows `held`, whose numbers are `apart` and which read `texts`, with its two maps."""
    margins = fitted.logits(texts)
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

    def mapped_again(log_odds: NDArray[Any]) -> FloatArray:
        margins = log_odds.astype(np.float32)
        return drawn_platt(margins, held.required, held.asked)(margins)

    wanted, own_loss = _loss(served(fit, validation), validation), _loss(z, held)
    faded_loss = _loss(mapped_again(fading), held)
    share = (
        (wanted - own_loss) / (faded_loss - own_loss) if faded_loss > wanted > own_loss else float(wanted > own_loss)
    )
    if share == 0:
        return fit, 0.0
    log_odds = mapped_again(np.where(rng.random((len(z), 1)) < share, fading, z))
    return dataclasses.replace(fit, log_odds=log_odds), share


def _loss(log_odds: FloatArray, rows: Rows) -> float:
    """Mean cross-entropy of the asked (text, agent) pairs."""
    losses = np.logaddexp(0, np.where(rows.required, -log_odds, log_odds))
    return float(losses[rows.asked].mean())
