"""Logistic regression on a handful of features, drawn towards what is assumed before any row is seen. numpy only."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def sigmoid(x: NDArray[Any]) -> NDArray[Any]:
    """1 / (1 + e^-x), without overflow."""
    return 1 / (1 + np.exp(-np.clip(x, -30, 30)))


def logistic(
    features: NDArray[np.float64],
    y: NDArray[np.bool_],
    prior: NDArray[np.float64],
    ridge: float = 1.0,
    counts: NDArray[np.float64] | float = 1.0,
) -> NDArray[np.float64]:
    """Logistic regression by Newton's method, drawn towards `prior` with the strength of `ridge` observations, so
    that a handful of rows moves it a little: features float64[N, D], y bool[N], prior float64[D] -> float64[D]. A row
    counts as `counts` float64[N] of them. A step that would make the fit worse is halved: where the log-odds that `prior`
    starts from are far too sure, whole steps swing from side to side for ever."""
    weights = prior.astype(np.float64).copy()
    eye = ridge * np.eye(features.shape[1])

    def loss(weights: NDArray[np.float64]) -> float:
        z = features @ weights
        return float((counts * np.logaddexp(0, np.where(y, -z, z))).sum()) + ridge / 2 * float(
            ((weights - prior) ** 2).sum()
        )

    now = loss(weights)
    for _ in range(50):
        p = sigmoid(features @ weights)
        gradient = features.T @ (counts * (p - y)) + ridge * (weights - prior)
        hessian = (features * (counts * p * (1 - p))[:, None]).T @ features + eye
        step = np.linalg.solve(hessian, gradient)
        step *= min(1.0, 2.0 / max(1e-12, float(np.abs(step).max())))
        after = loss(weights - step)
        while after > now + 1e-9 * abs(now) and np.abs(step).max() > 1e-9:
            step /= 2
            after = loss(weights - step)
        weights, now = weights - step, after
        if np.abs(step).max() < 1e-9:
            break
    return weights
