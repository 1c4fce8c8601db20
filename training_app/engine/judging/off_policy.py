"""Off-policy evaluation: how a candidate would have done on decisions that another policy made, from their outcomes. numpy only.

Per decision i: the reward r_i (1 a success), the propensity π_i of the set that was answered, and whether the candidate's set is that
one. With w_i = 1[same] / π_i

    IPS   mean(w r)                            unbiased where every set of the candidate had a chance
    SNIPS Σ w r / Σ w                          less variance, a bias that vanishes with n; never leaves [0, 1]
    DR    mean(m(C) + w (r - m(A)))            with a model m of the reward, consistent where either m or π is right

(Horvitz and Thompson 1952; Swaminathan and Joachims 2015; Dudík, Langford and Li 2011). m is a logistic curve over the candidate's own
confidence in a set, fitted on the other half of the decisions. Intervals are percentiles of a bootstrap over decisions. The effective
sample size is (Σ w)² / Σ w² (Kish).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from training_app.engine.reading.logistic import logistic, sigmoid

ROUNDS = 1000
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A success rate with its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Estimates:
    """The candidate's success rate three ways, what the answering model has on the same decisions (SNIPS), and SNIPS' difference.

    `matched` decisions were answered with the candidate's very set; `effective` is the effective sample size.
    """

    ips: Estimate
    snips: Estimate
    dr: Estimate
    answering: Estimate
    difference: Estimate
    decisions: int
    matched: int
    effective: float


@dataclass(frozen=True, slots=True)
class Logged:
    """n decisions with an outcome, all arrays [n].

    `candidate` and `own` tell whether the set that was answered is the candidate's, and whether it is what the answering model chose
    before exploration; `propensity` is that of the answered set, `own_propensity` not needed where `own` is false. The confidences are
    the candidate's, in its own set and in the answered one.
    """

    success: NDArray[np.bool_]
    propensity: Floats
    candidate: NDArray[np.bool_]
    own: NDArray[np.bool_]
    own_propensity: Floats
    confidence_candidate: Floats
    confidence_answered: Floats


def estimate(logged: Logged, *, rounds: int = ROUNDS, seed: int = 0) -> Estimates:
    """What these decisions say of the candidate. Raises ValueError without a decision of its set."""
    candidate, own = logged.candidate, logged.own
    if not candidate.any():
        raise ValueError("no decision was answered with the candidate's set")
    reward = logged.success.astype(np.float64)
    weight = candidate / logged.propensity
    weight_own = own / logged.own_propensity
    ours, answered = _reward_model(reward, logged.confidence_candidate, logged.confidence_answered)
    doubly = ours + weight * (reward - answered)
    rng = np.random.Generator(np.random.PCG64(seed))
    count = len(reward)
    sampled: dict[str, list[float]] = {name: [] for name in ("ips", "snips", "dr", "own", "difference")}
    for _ in range(rounds):
        rows = rng.integers(count, size=count)
        w, o, r = weight[rows], weight_own[rows], reward[rows]
        sampled["ips"].append(float((w * r).mean()))
        sampled["dr"].append(float(doubly[rows].mean()))
        if w.any() and o.any():
            theirs = float((o * r).sum() / o.sum())
            sampled["snips"].append(float((w * r).sum() / w.sum()))
            sampled["own"].append(theirs)
            sampled["difference"].append(sampled["snips"][-1] - theirs)
    snips = float((weight * reward).sum() / weight.sum())
    theirs = float((weight_own * reward).sum() / weight_own.sum()) if own.any() else float("nan")
    return Estimates(
        ips=_interval(float((weight * reward).mean()), sampled["ips"]),
        snips=_interval(snips, sampled["snips"]),
        dr=_interval(float(doubly.mean()), sampled["dr"]),
        answering=_interval(theirs, sampled["own"]),
        difference=_interval(snips - theirs, sampled["difference"]),
        decisions=count,
        matched=int(candidate.sum()),
        effective=float(weight.sum() ** 2 / (weight**2).sum()),
    )


def _interval(value: float, sampled: list[float]) -> Estimate:
    low, high = np.percentile(sampled, [2.5, 97.5]) if sampled else (float("nan"), float("nan"))
    return Estimate(value, float(low), float(high))


def _reward_model(reward: Floats, candidate: Floats, answered: Floats) -> tuple[Floats, Floats]:
    """m of the candidate's set and of the answered one, each fitted on the half of the decisions that it is not applied to."""
    halves = np.arange(len(reward)) % 2
    ours, theirs = np.empty(len(reward)), np.empty(len(reward))
    for half in (0, 1):
        fit, apply = halves != half, halves == half
        weights = logistic(_features(answered[fit]), reward[fit] > 0.5, np.array([0.0, 1.0]), ridge=2.0)
        ours[apply] = sigmoid(_features(candidate[apply]) @ weights)
        theirs[apply] = sigmoid(_features(answered[apply]) @ weights)
    return ours, theirs


def _features(confidence: Floats) -> Floats:
    p = np.clip(confidence, 1e-3, 1 - 1e-3)
    return np.stack([np.ones_like(p), np.log(p / (1 - p))], axis=1)
