"""Probabilities that mean what they say, when to abstain, and the operating point. numpy only.

All three are fitted on the validation split, which training saw for selection only. What is reported about that split
itself is cross-validated within it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp
from typing import Any

import numpy as np
from numpy.typing import NDArray

from training_app.engine.metrics import calibration_error
from training_app.engine.scorers import BoolArray, FloatArray, fold_of_group


def sigmoid(x: NDArray[Any]) -> NDArray[Any]:
    """1 / (1 + e^-x), without overflow."""
    return 1 / (1 + np.exp(-np.clip(x, -30, 30)))


def logistic(
    features: NDArray[np.float64], y: NDArray[np.bool_], prior: NDArray[np.float64], ridge: float = 1.0
) -> NDArray[np.float64]:
    """Logistic regression by Newton's method, drawn towards `prior` with the strength of `ridge` observations, so
    that a handful of rows moves it a little: features float64[N, D], y bool[N], prior float64[D] -> float64[D]."""
    weights = prior.astype(np.float64).copy()
    eye = ridge * np.eye(features.shape[1])
    for _ in range(50):
        p = sigmoid(features @ weights)
        gradient = features.T @ (p - y) + ridge * (weights - prior)
        hessian = (features * (p * (1 - p))[:, None]).T @ features + eye
        step = np.linalg.solve(hessian, gradient)
        step *= min(1.0, 2.0 / max(1e-12, float(np.abs(step).max())))
        weights -= step
        if np.abs(step).max() < 1e-9:
            break
    return weights


def set_features(log_odds: FloatArray, selected: BoolArray, available: BoolArray) -> NDArray[np.float64]:
    """What says whether a whole set is right, float64[N, 4]: a constant; the log-probability of the set, were the
    agents independent; the smallest distance of any agent from the fence; whether the set is empty."""
    x = np.clip(log_odds.astype(np.float64), -8, 8)
    side = np.where(selected, x, -x)  # > 0 where the log-odds agree with the choice
    log_p = np.where(available, -np.log1p(np.exp(-side)), 0).sum(axis=-1)
    closest = np.where(available, side, 8.0).min(axis=-1)
    return np.stack([np.ones_like(log_p), log_p, closest / 4, (~selected.any(axis=-1)) * 1.0], axis=-1)


#: Before anything is known: the confidence of a set is its probability under independence, roughly.
SET_PRIOR = np.array([0.5, 1.0, 0.5, 0.0])


@dataclass(frozen=True, slots=True)
class Calibration:
    """`scale`, `shift`: log-odds -> calibrated log-odds, for all agents. `confidence` float64[4]: weights of
    `set_features`. `abstain_below`: answers of less confidence are abstained from; 0 never. `margin`: what an agent's
    value must exceed STOP's by (the operating point)."""

    scale: float
    shift: float
    confidence: NDArray[np.float64]
    abstain_below: float = 0.0
    margin: float = 0.0

    def probabilities(self, log_odds: FloatArray) -> FloatArray:
        """Calibrated p(agent needed), of the shape of `log_odds`."""
        return sigmoid(log_odds * self.scale + self.shift).astype(np.float32)

    def confidences(self, log_odds: FloatArray, selected: BoolArray, available: BoolArray) -> FloatArray:
        """Calibrated probability that each whole set is right, float32[N]."""
        return sigmoid(set_features(log_odds, selected, available) @ self.confidence).astype(np.float32)

    def confidence_of(self, log_odds: FloatArray, selected: BoolArray, available: BoolArray) -> float:
        """`confidences` of one set: log_odds float32[A], selected and available bool[A]."""
        side = np.where(selected, log_odds, -log_odds).clip(-8, 8)[available].astype(np.float64)
        constant, by_log_p, by_closest, by_empty = self.confidence.tolist()
        score = constant - by_log_p * float(np.log1p(np.exp(-side)).sum())
        score += by_closest * float(side.min(initial=8.0)) / 4
        if not selected.any():
            score += by_empty
        return 1 / (1 + exp(-max(-30.0, min(30.0, score))))

    def config(self) -> dict[str, Any]:
        return {
            "scale": self.scale,
            "shift": self.shift,
            "confidence": [float(w) for w in self.confidence],
            "abstain_below": self.abstain_below,
            "margin": self.margin,
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
        )


def _fit_scores(log_odds: FloatArray, required: BoolArray, asked: BoolArray) -> tuple[float, float]:
    x, y = log_odds[asked].astype(np.float64), required[asked]
    if not y.size:
        return 1.0, 0.0
    features = np.stack([x, np.ones_like(x)], axis=1)
    scale, shift = logistic(features, y, np.array([1.0, 0.0]), ridge=2.0)
    # A falling map would reverse the scorer's order.
    return (float(scale), float(shift)) if scale > 0.05 else (1.0, 0.0)


def _fit_confidence(
    log_odds: FloatArray, selected: BoolArray, required: BoolArray, asked: BoolArray
) -> NDArray[np.float64]:
    right = (selected == required).all(axis=1)
    return logistic(set_features(log_odds, selected, asked), right, SET_PRIOR, ridge=2.0)


def conformal_level(confidence: FloatArray, alpha: float) -> float:
    """The confidence below which to abstain, so that of queries like these at most a share α is abstained from.

    Split conformal prediction (Vovk, Gammerman and Shafer 2005): with n exchangeable confidences, the k-th smallest,
    k = floor(α (n + 1)), lies above a new one's with probability at most α. confidence float[n] of answerable queries.
    """
    k = int(np.floor(alpha * (len(confidence) + 1)))
    return float(np.sort(confidence)[k - 1]) if k >= 1 else 0.0


def fit(
    log_odds: FloatArray,
    selected: BoolArray,
    required: BoolArray,
    asked: BoolArray,
    *,
    margin: float = 0.0,
    abstain_alpha: float = 0.0,
) -> Calibration:
    """Calibrate on validation rows: the policy's log-odds float32[N, A], its sets, the required sets and who was asked,
    bool[N, A]. Without rows the answer is the scorer's own calibration."""
    if not len(log_odds):
        return Calibration(1.0, 0.0, SET_PRIOR.copy(), 0.0, margin)
    scale, shift = _fit_scores(log_odds, required, asked)
    weights = _fit_confidence(log_odds, selected, required, asked)
    found = Calibration(scale, shift, weights, 0.0, margin)
    answerable = (required & asked).any(axis=1)
    level = 0.0
    if abstain_alpha and answerable.any():
        level = conformal_level(found.confidences(log_odds, selected, asked)[answerable], abstain_alpha)
    return Calibration(scale, shift, weights, level, margin)


def cross_validated(
    log_odds: FloatArray, selected: BoolArray, required: BoolArray, asked: BoolArray, *, seed: int, folds: int = 5
) -> dict[str, float]:
    """Calibration error within the validation split, each row by maps that were fitted without it:
    {"scores_before", "scores_after", "confidence_after"}."""
    if len(log_odds) < 2 * folds:
        return {}
    fold = fold_of_group([str(i) for i in range(len(log_odds))], folds, seed)
    p, c = np.zeros_like(log_odds), np.zeros(len(log_odds), np.float32)
    for k in range(folds):
        rest, here = fold != k, fold == k
        found = fit(log_odds[rest], selected[rest], required[rest], asked[rest])
        p[here] = found.probabilities(log_odds[here])
        c[here] = found.confidences(log_odds[here], selected[here], asked[here])
    right = (selected == required).all(axis=1)
    return {
        "scores_before": calibration_error(sigmoid(log_odds)[asked], required[asked]),
        "scores_after": calibration_error(p[asked], required[asked]),
        "confidence_after": calibration_error(c, right),
    }
