"""Scorers made one, and chosen between: maps to log-odds, weights, rivalry. Imported by workers only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from training_app.engine.data.arrays import BoolArray, FloatArray
from training_app.engine.data.intervals import spread
from training_app.engine.data.rows import Rows, draw_weights
from training_app.engine.reading.linear import best_jaccards
from training_app.engine.reading.logistic import logistic
from training_app.engine.reading.scorers import CrossFit, Platt, fit_platt
from training_app.engine.reading.stack import StackedMargins, fit_weights, rivals

#: What a costlier scorer must bring in Jaccard to be taken where the noise is too large to tell, and the least that it must bring in
#: any pool: for the time and memory that it takes, and because rows that share their clauses make the noise look smaller than it is.
WORTH, LEAST_WORTH = 0.01, 0.005
#: A lead on so few rows is never beyond the noise: of k values above 0 among many, the mean is at most √k standard errors from 0, and
#: the interval reaches 1.96 of them.
WITHIN_NOISE = 3
#: So many rows that need nobody are believed half when scorers are compared. Three of five hundred, drawn as often as live traffic
#: is taken to bring such queries, would have an eighth of the say, each as much as twenty others: chance would choose. Of pools made
#: from spoken commands with 1 in 130 such rows, the encoder was left out where it brought 0.07.
DOUBTED = 10
LEAST_JUDGES = 100  # validation rows that can tell whether out-of-fold figures flatter
SENTENCES = ("sentence", "all", "precedents")
TEACHER = "teacher"  # all of them and the teacher


def joined(rows: Rows, more: Rows) -> Rows:
    """The rows of both, in this order."""
    asked = np.concatenate([rows.asked, more.asked])
    groups = [*rows.groups, *more.groups] if rows.groups and more.groups else ()
    return Rows([*rows.texts, *more.texts], np.concatenate([rows.required, more.required]), asked, groups)


def served(fit: CrossFit, rows: Rows) -> FloatArray:
    """The log-odds that a text of `rows` gets when it is asked about: float32[N, A]."""
    return fit.platt(fit.fitted.logits(rows.texts))


def crossed(fit: CrossFit, rows: Rows) -> FloatArray:
    """What `served` gives, with maps that were not fitted on the row itself but on the other half of `rows`: float32[N, A]. For
    judging by the rows that have taught the map."""
    margins = fit.fitted.logits(rows.texts)
    half = rows.fold(2, 0)
    log_odds = np.zeros_like(margins)
    for part in (0, 1):
        learnt = half != part
        platt = drawn_platt(margins[learnt], rows.required[learnt], rows.asked[learnt])
        log_odds[~learnt] = platt(margins[~learnt])
    return log_odds


def corrected(fit: CrossFit, validation: Rows) -> CrossFit:
    """The same, served through a map that two numbers shared by all agents put right on validation: a map learnt on out-of-fold
    margins serves the scorer of all rows, whose margins are not spread alike."""
    if not len(validation):
        return fit
    z = served(fit, validation)[validation.asked].astype(np.float64)
    features = np.stack([z, np.ones_like(z)], axis=1)
    scale, shift = logistic(features, validation.required[validation.asked], np.array([1.0, 0.0]), ridge=3.0)
    if scale <= 0:
        return fit
    platt = Platt((scale * fit.platt.scale).astype(np.float32), (scale * fit.platt.shift + shift).astype(np.float32))
    return replace(fit, platt=platt)


def drawn_platt(
    margins: FloatArray, required: BoolArray, asked: BoolArray, counts: NDArray[np.float64] | None = None
) -> Platt:
    """A map per agent, drawn to the one that all agents share: an agent of few positives, or none, has that one.
    margins float32[N, A]; required and asked bool[N, A]; a row counts as `counts` float64[N] says."""
    (scale,), shift = fit_weights([margins], required, asked, counts)
    shared = margins.astype(np.float64) * scale + shift
    own = []
    for a in range(margins.shape[1]):
        z = shared[asked[:, a], a]
        features = np.stack([z, np.ones_like(z)], axis=1)
        each = 1.0 if counts is None else counts[asked[:, a]]
        own.append(logistic(features, required[asked[:, a], a], np.array([1.0, 0.0]), 3.0, each))
    slope, constant = np.array(own).T
    slope = np.maximum(slope, 0)
    return Platt((slope * scale).astype(np.float32), (slope * shift + constant).astype(np.float32))


def stack(fits: Sequence[CrossFit], rows: Rows, validation: Rows | None = None) -> CrossFit:
    """Cross-fitted scorers as one. The weights are a handful of numbers fitted on thousands of out-of-fold entries,
    so the stack's log-odds of the training rows count as out of fold too. Scorers that `hold_out` fitted, or that
    training rows flatter, are weighed on `validation`."""
    judged = rows if validation is None else validation
    seen = [fit.log_odds if validation is None else served(fit, validation) for fit in fits]
    weights, shift = fit_weights(seen, judged.required, judged.asked)

    def merged(log_odds: Sequence[FloatArray]) -> FloatArray:
        weighed = zip(weights, log_odds, strict=True)
        return np.asarray(sum((w * x for w, x in weighed), np.float32(shift)), np.float32)

    margins = merged([fit.log_odds for fit in fits])
    fitted = StackedMargins(tuple(f.fitted for f in fits), tuple(f.platt for f in fits), weights, shift)
    apart = fits[0].held_out
    if validation is None:
        platt = fit_platt(margins, rows.required, rows.asked)
        return CrossFit(platt(margins), margins, fitted, platt)
    held = rows if apart is None else rows.take(apart)
    own = drawn_platt(margins, held.required, held.asked)
    return CrossFit(own(margins), margins, fitted, drawn_platt(merged(seen), judged.required, judged.asked), apart)


def settled(
    fits: Sequence[CrossFit], rows: Rows, validation: Rows, alone: bool = False, none_share: float = 0.0
) -> CrossFit:
    """Cross-fitted scorers as one, for pools of few labels: maps, weights and rivalry are learnt from the out-of-fold margins and
    from validation together, or from validation `alone`, each map drawn to one that all agents share. Rows count so that those that
    need nobody make up `none_share`."""
    both = validation if alone else joined(rows, validation)
    counts = draw_weights(both.required, none_share, both.asked)
    counts = None if counts is None else counts / counts.mean()
    target = both.required, both.asked, counts

    def seen(fit: CrossFit) -> FloatArray:
        served_margins = fit.fitted.logits(validation.texts)
        return served_margins if alone else np.concatenate([fit.margins, served_margins])

    margins = [seen(fit) for fit in fits]
    maps = [drawn_platt(m, *target) for m in margins]
    weights, shift = fit_weights([mapped(m) for mapped, m in zip(maps, margins, strict=True)], *target)
    kept = np.flatnonzero(weights > 0) if (weights > 0).any() else np.array([0])
    weighed = [weights[k] * maps[k](margins[k]) for k in kept.tolist()]
    summed: FloatArray = np.asarray(np.float32(shift) + np.sum(weighed, axis=0), np.float32)
    own = drawn_platt(summed, *target)
    z = own(summed)
    # The agents' own map is taken into those of the scorers, so that the stack's sum is what rivals meet in.
    children, platts = [], []
    for place, k in enumerate(kept.tolist()):
        constant = own.scale * np.float32(shift) + own.shift if place == 0 else np.float32(0)
        factor = weights[k] * own.scale
        children.append(fits[k].fitted)
        platts.append(Platt(factor * maps[k].scale, factor * maps[k].shift + constant))
    scale, rival, level = _rivalry(z, both, counts)
    stacked = StackedMargins(tuple(children), tuple(platts), np.ones(len(kept), np.float32), 0.0, rival)
    size = rows.required.shape[1]
    platt = Platt(np.full(size, scale, np.float32), np.full(size, level, np.float32))
    each = [
        factor(fit_margins)
        for factor, fit_margins in zip(platts, (fits[k].margins for k in kept.tolist()), strict=True)
    ]
    outside = np.asarray(np.sum(each, axis=0), np.float32)
    if rival:
        outside = rivals(outside, rival)
    return CrossFit(platt(outside), outside, stacked, platt)


def _rivalry(z: FloatArray, rows: Rows, counts: NDArray[np.float64] | None) -> tuple[float, float, float]:
    """(scale, r, constant) of the map z -> scale · rivals(z, r) + constant that the labels ask for: z float32[N, A] of `rows`.
    Drawn to scale 1 and r 0: agents are no rivals until the labels say so."""
    own = z[rows.asked].astype(np.float64)
    shares = rivals(z, 1.0)[rows.asked].astype(np.float64)
    features = np.stack([own, shares, np.ones_like(own)], axis=1)
    each = 1.0 if counts is None else np.broadcast_to(counts[:, None], rows.asked.shape)[rows.asked]
    alone, against, level = logistic(features, rows.required[rows.asked], np.array([1.0, 0.0, 0.0]), 3.0, each)
    if against <= 0 or alone < 0:
        return 1.0, 0.0, 0.0
    return float(alone + against), float(against / (alone + against)), float(level)


def _row_weights(rows: Rows, none_share: float) -> NDArray[np.float64] | None:
    """How much each row counts where scorers are compared, float64[N]; None where all count the same."""
    nobody = int((~rows.required.any(axis=1) & rows.asked.all(axis=1)).sum())
    return draw_weights(rows.required, none_share * nobody / (nobody + DOUBTED), rows.asked)


def is_unbeatable(log_odds: FloatArray, rows: Rows, none_share: float = 0.0) -> bool:
    """Whether `choose` takes no later scorer over this one, were it right about every row. log_odds float32[N, A] of `rows`."""
    weights = _row_weights(rows, none_share)
    right = np.asarray(1.0 if weights is None else weights / weights.mean(), np.float32)
    gain = right - best_jaccards(log_odds, rows.required, rows.asked, weights)
    mean = float(gain.mean())
    return mean < LEAST_WORTH or (mean < WORTH and int((gain > 0).sum()) <= WITHIN_NOISE)


def choose(log_odds_of: dict[str, FloatArray], rows: Rows, none_share: float = 0.0) -> tuple[str, dict[str, Any]]:
    """The simplest scorer that no later one beats by LEAST_WORTH beyond the noise, or by WORTH and more than a standard error. A
    teacher, which somebody has brought to be used, need not be ahead beyond the noise. `found` are the log-odds float32[N, A] of
    `rows`, from simple to costly, compared by the Jaccard of each row at the scorer's best threshold, paired over rows. Rows that
    need nobody make up `none_share`, as the policy will draw them, in so far as they are many enough to judge by: n of them
    n / (n + DOUBTED) of it. Returns its name and the figures."""
    figures: dict[str, Any] = {}
    weights = _row_weights(rows, none_share)
    values = {
        name: best_jaccards(log_odds, rows.required, rows.asked, weights) for name, log_odds in log_odds_of.items()
    }
    choice = next(iter(log_odds_of))
    for name, value in values.items():
        figures[name] = {"jaccard": float(value.mean())}
        if name == choice:
            continue
        difference = spread(value - values[choice]).plain()
        figures[name]["against"] = {"scorer": choice, **difference}
        enough = difference["mean"] >= LEAST_WORTH
        # A lead of half its interval, about one standard error: with fifty labels there is no better evidence.
        probably = difference["mean"] >= WORTH and difference["low"] > -difference["mean"]
        if probably or (enough and (difference["low"] > 0 or name == TEACHER)):
            choice = name
    return choice, figures


def flattery(fits: Sequence[CrossFit], rows: Rows, validation: Rows) -> dict[str, Any] | None:
    """Whether training rows are no news to one another, as where queries share their clauses, come from one conversation or are
    near-duplicates: a scorer is then better out of fold than on validation, beyond the noise. None where validation is too small
    to tell; else {"beyond_noise": …, "by": […]}, a lead a scorer with its interval."""
    if len(validation) < LEAST_JUDGES:
        return None
    leads = []
    for fit in fits:
        inside = best_jaccards(fit.log_odds, rows.required, rows.asked)
        outside = best_jaccards(served(fit, validation), validation.required, validation.asked)
        lead = float(inside.mean() - outside.mean())
        noise = 1.96 * float(inside.var() / len(inside) + outside.var() / len(outside)) ** 0.5
        leads.append({"mean": lead, "low": lead - noise, "high": lead + noise})
    return {"beyond_noise": any(lead["low"] > 0 and lead["mean"] >= WORTH for lead in leads), "by": leads}
