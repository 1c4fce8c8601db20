"""Probabilities that mean what they say, when to abstain, and the operating point. numpy only.

All three are fitted on the validation split, which training saw for selection only. What is reported about that split
itself is cross-validated within it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import exp, lgamma, log, log1p
from typing import Any

import numpy as np
from numpy.typing import NDArray

from training_app.engine.data.arrays import BoolArray, FloatArray
from training_app.engine.data.metrics import calibration_error
from training_app.engine.reading.logistic import logistic, sigmoid


def set_features(
    log_odds: FloatArray, selected: BoolArray, available: BoolArray, needed: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """What says whether a whole set is right, float64[N, 5]: a constant; the log-probability of the set, were the
    agents independent; the smallest distance of any agent from the fence; whether the set is empty; and how far `needed`
    float64[N], the log-odds that any agent is needed (see `needed.py`), agrees with that, 0 where it is not given."""
    x = np.clip(log_odds.astype(np.float64), -8, 8)
    side = np.where(selected, x, -x)  # > 0 where the log-odds agree with the choice
    log_p = np.where(available, -np.log1p(np.exp(-side)), 0).sum(axis=-1)
    closest = np.where(available, side, 8.0).min(axis=-1)
    empty = ~selected.any(axis=-1)
    agrees = np.zeros_like(log_p) if needed is None else np.where(empty, -needed, needed) / 4
    return np.stack([np.ones_like(log_p), log_p, closest / 4, empty * 1.0, agrees], axis=-1)


#: For one query of at most so many agents Python's own numbers are faster than arrays.
FEW_AGENTS = 40

#: Before anything is known: the confidence of a set is its probability under independence, roughly.
SET_PRIOR = np.array([0.5, 1.0, 0.5, 0.0, 0.0])


@dataclass(frozen=True, slots=True)
class Calibration:
    """`scale`, `shift`: log-odds -> calibrated log-odds, for all agents. `confidence` float64[5]: weights of
    `set_features`. `abstain_below`: answers of less confidence are abstained from; 0 never. `stranger_below`:
    answers that name somebody are abstained from where the log-odds that anybody is needed are less; None never. `margin`: what an
    agent's value must exceed STOP's by (the operating point)."""

    scale: float
    shift: float
    confidence: NDArray[np.float64]
    abstain_below: float = 0.0
    margin: float = 0.0
    stranger_below: float | None = None

    def abstained(self, confidence: float, named: bool, needed: float | None) -> bool:
        """Whether to abstain from an answer of this confidence that has `named` somebody: `needed` as `of_one` takes it, None where it
        is not known."""
        unlike = named and needed is not None and self.stranger_below is not None and needed < self.stranger_below
        return unlike or confidence < self.abstain_below

    def probabilities(self, log_odds: FloatArray) -> FloatArray:
        """Calibrated p(agent needed), of the shape of `log_odds`."""
        return sigmoid(log_odds * self.scale + self.shift).astype(np.float32)

    def confidences(
        self,
        log_odds: FloatArray,
        selected: BoolArray,
        available: BoolArray,
        needed: NDArray[np.float64] | None = None,
    ) -> FloatArray:
        """Calibrated probability that each whole set is right, float32[N]; `needed` as in `set_features`."""
        return sigmoid(set_features(log_odds, selected, available, needed) @ self.confidence).astype(np.float32)

    def of_one(
        self, log_odds: FloatArray, order: Collection[int], available: BoolArray, needed: float = 0.0
    ) -> tuple[list[float], float]:
        """`probabilities` and `confidences` of one query: log_odds float32[A], the agents selected, available bool[A]."""
        few = len(log_odds) <= FEW_AGENTS
        p, log_p, closest = (self._of_few if few else self._of_many)(log_odds, order, available)
        constant, by_log_p, by_closest, by_empty, by_needed = self.confidence.tolist()
        score = constant + by_log_p * log_p + by_closest * closest / 4
        score += by_needed * needed / 4 if order else by_empty - by_needed * needed / 4
        return p, 1 / (1 + exp(-max(-30.0, min(30.0, score))))

    def _of_few(
        self, log_odds: FloatArray, order: Collection[int], available: BoolArray
    ) -> tuple[list[float], float, float]:
        """(probabilities, log-probability of the set, smallest distance from the fence), see `set_features`."""
        p, log_p, closest, scale, shift = [], 0.0, 8.0, self.scale, self.shift
        for agent, (x, counts) in enumerate(zip(log_odds.tolist(), available.tolist(), strict=True)):
            z = x * scale + shift
            p.append(1 / (1 + exp(-z if -30 < z < 30 else -30.0 if z > 0 else 30.0)))
            if counts:
                side = x if agent in order else -x
                side = side if -8 < side < 8 else 8.0 if side > 0 else -8.0
                log_p -= log1p(exp(-side))
                if side < closest:
                    closest = side
        return p, log_p, closest

    def _of_many(
        self, log_odds: FloatArray, order: Collection[int], available: BoolArray
    ) -> tuple[list[float], float, float]:
        """`_of_few` by arrays, in as few calls as they allow."""
        x = log_odds.astype(np.float64)
        p = x * -self.scale
        p -= self.shift
        p.clip(-30, 30, out=p)
        np.exp(p, out=p)
        p += 1
        np.reciprocal(p, out=p)
        away = x.clip(-8, 8, out=x)  # how far an agent is on the wrong side: below 0 where the log-odds agree
        chosen = list(order)
        away[chosen] *= -1
        if not available.all():
            away = away[available]
        furthest = float(away.max()) if away.size else -8.0
        np.exp(away, out=away)
        np.log1p(away, out=away)
        return p.tolist(), -float(away.sum()), -furthest

    def config(self) -> dict[str, Any]:
        return {
            "scale": self.scale,
            "shift": self.shift,
            "confidence": [float(w) for w in self.confidence],
            "abstain_below": self.abstain_below,
            "margin": self.margin,
            **({} if self.stranger_below is None else {"stranger_below": self.stranger_below}),
        }

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Calibration:
        """Raises KeyError, TypeError or ValueError where something is missing or is not a number."""
        confidence = np.array([float(w) for w in config["confidence"]])
        if confidence.shape != SET_PRIOR.shape:
            raise ValueError("the confidence has the wrong number of weights")
        return cls(
            float(config["scale"]),
            float(config["shift"]),
            confidence,
            float(config.get("abstain_below", 0.0)),
            float(config.get("margin", 0.0)),
            float(config["stranger_below"]) if "stranger_below" in config else None,
        )


def stranger_level(none_share: float, strangers: float) -> float:
    """The log-odds that anybody is needed, learnt at a `none_share` of queries that need nobody, which are even where the share of
    such queries is `strangers`, 0 < both < 1: a prior's log-odds are added (Saerens, Latinne and Decaestecker 2002)."""
    return log((1 - none_share) / none_share) - log((1 - strangers) / strangers)


def _fit_scores(log_odds: FloatArray, required: BoolArray, asked: BoolArray) -> tuple[float, float]:
    x, y = log_odds[asked].astype(np.float64), required[asked]
    if not y.size:
        return 1.0, 0.0
    features = np.stack([x, np.ones_like(x)], axis=1)
    scale, shift = logistic(features, y, np.array([1.0, 0.0]), ridge=2.0)
    # A falling map would reverse the scorer's order.
    return (float(scale), float(shift)) if scale > 0.05 else (1.0, 0.0)


def _fit_confidence(
    log_odds: FloatArray,
    selected: BoolArray,
    required: BoolArray,
    asked: BoolArray,
    needed: NDArray[np.float64] | None,
) -> NDArray[np.float64]:
    right = (selected == required).all(axis=1)
    return logistic(set_features(log_odds, selected, asked, needed), right, SET_PRIOR, ridge=2.0)


def conformal_level(confidence: FloatArray, alpha: float, sure: float = 0.95) -> float:
    """The confidence below which to abstain, so that of queries like these at most a share α is abstained from.

    Of n exchangeable confidences the k-th smallest has a share Beta(k, n + 1 - k) of all below it, so with k = α (n + 1) one
    model in two exceeds α (split conformal prediction bounds the mean: Vovk, Gammerman and Shafer 2005). Here k is the largest
    at which that share is at most α with probability `sure`, P(Binomial(n, α) >= k) >= sure (Vovk 2012, training-conditional
    validity). confidence float[n] of answerable queries; 0, never abstain, where n is too small for any k: below
    log(1 - sure) / log(1 - α).
    """
    count = len(confidence)
    fewer, k = 0.0, 0  # P(Binomial(n, α) < k + 1)
    while k < count:
        fewer += exp(
            lgamma(count + 1) - lgamma(k + 1) - lgamma(count - k + 1) + k * log(alpha) + (count - k) * log1p(-alpha)
        )
        if fewer > 1 - sure:
            break
        k += 1
    return float(np.sort(confidence)[k - 1]) if k >= 1 else 0.0


FOLDS = 5  # of the validation rows
#: Shares of answerable queries that a scorecard measures abstention at, whatever level is in force.
ALPHAS = (0.01, 0.02, 0.05, 0.1)


def levels(confidence: FloatArray, answerable: BoolArray) -> dict[float, float]:
    """`conformal_level` of each of ALPHAS: confidence float[N] of validation queries, and which need any agent."""
    return {alpha: conformal_level(confidence[answerable], alpha) for alpha in ALPHAS if answerable.any()}


def fit(
    log_odds: FloatArray,
    selected: BoolArray,
    required: BoolArray,
    asked: BoolArray,
    *,
    margin: float = 0.0,
    abstain_alpha: float = 0.0,
    needed: NDArray[np.float64] | None = None,
    fold: NDArray[np.int64] | None = None,
) -> Calibration:
    """Calibrate on validation rows: the policy's log-odds float32[N, A], its sets, the required sets and who was asked,
    bool[N, A], and `needed` as in `set_features`. `fold` as in `held_out_confidences`, for
    `abstain_alpha`. Without rows the answer is the scorer's own calibration."""
    if not len(log_odds):
        return Calibration(1.0, 0.0, SET_PRIOR.copy(), 0.0, margin)
    scale, shift = _fit_scores(log_odds, required, asked)
    weights = _fit_confidence(log_odds, selected, required, asked, needed)
    answerable = (required & asked).any(axis=1)
    level = 0.0
    if abstain_alpha and fold is not None and answerable.any():
        held_out = held_out_confidences(log_odds, selected, required, asked, needed=needed, fold=fold)
        level = conformal_level(held_out[answerable], abstain_alpha)
    return Calibration(scale, shift, weights, level, margin)


def held_out_confidences(
    log_odds: FloatArray,
    selected: BoolArray,
    required: BoolArray,
    asked: BoolArray,
    *,
    needed: NDArray[np.float64] | None = None,
    fold: NDArray[np.int64],
) -> FloatArray:
    """Each row's confidence by a map that was fitted without its `fold` int64[N], float32[N]: those that a level is chosen by. With
    fewer than two rows a fold they are the prior's."""
    rows = len(log_odds)
    fold = fold if rows >= 2 * FOLDS else np.zeros(rows, np.int64)
    held_out = np.zeros(rows, np.float32)
    for k in np.unique(fold):
        rest, here = fold != k, fold == k
        inside, outside = (None, None) if needed is None else (needed[rest], needed[here])
        fitted = fit(log_odds[rest], selected[rest], required[rest], asked[rest], needed=inside)
        held_out[here] = fitted.confidences(log_odds[here], selected[here], asked[here], outside)
    return held_out


def cross_validated(
    log_odds: FloatArray,
    selected: BoolArray,
    required: BoolArray,
    asked: BoolArray,
    *,
    needed: NDArray[np.float64] | None = None,
    fold: NDArray[np.int64],
) -> dict[str, float]:
    """Calibration error within the validation split, each row by maps that were fitted without its `fold` int64[N]:
    {"scores_before", "scores_after", "confidence_after"}."""
    if len(log_odds) < 2 * FOLDS:
        return {}
    p = np.zeros_like(log_odds)
    for k in np.unique(fold):
        rest, here = fold != k, fold == k
        p[here] = fit(log_odds[rest], selected[rest], required[rest], asked[rest]).probabilities(log_odds[here])
    c = held_out_confidences(log_odds, selected, required, asked, needed=needed, fold=fold)
    right = (selected == required).all(axis=1)
    return {
        "scores_before": calibration_error(sigmoid(log_odds)[asked], required[asked]),
        "scores_after": calibration_error(p[asked], required[asked]),
        "confidence_after": calibration_error(c, right),
    }
