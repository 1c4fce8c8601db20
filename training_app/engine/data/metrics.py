"""How good sets of agents are. numpy only.

All metrics are means over queries. Where both the answer and the required set are empty, Jaccard, precision, recall
and F1 are 1; where one of them is, 0. Success means that all required agents are covered, so it is true for an empty
required set. An interval is of the mean over queries of the mean over seeds, see `intervals`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from training_app.engine.data import intervals, shares
from training_app.engine.data.arrays import BoolArray, FloatArray
from training_app.engine.data.examples import Agent
from training_app.engine.measures import MEASURES, PRIMARY

Values = NDArray[Any]

BUCKETS = ("0", "1", "2-3", "4-6", "7+")


def per_query(selected: BoolArray, required: BoolArray) -> dict[str, Values]:
    """Every measure of every query: selected and required bool[N, A] -> {measure: float64[N]}."""
    hits = (selected & required).sum(axis=1)
    chosen, needed = selected.sum(axis=1), required.sum(axis=1)
    return {name: measure.formula(hits, chosen, needed).astype(np.float64) for name, measure in MEASURES.items()}


def jaccard(selected: BoolArray, required: BoolArray) -> FloatArray:
    """J along the last axis, float32: bool[..., A] and bool[..., A] -> float32[...]; both empty is 1."""
    both = (selected & required).sum(axis=-1)
    either = (selected | required).sum(axis=-1)
    return np.where(either == 0, 1.0, both / np.maximum(either, 1)).astype(np.float32)


def interval(values: Values, measure: str = PRIMARY) -> dict[str, float]:
    """Mean over queries with its 95% interval: values float64[N] or float64[seeds, N] -> {"mean", "low", "high"}. With
    several seeds a query's value is its mean over them. `measure` tells whether values lie in 0 to 1."""
    values = _over_seeds(values)
    return (intervals.bounded(values) if MEASURES[measure].bounded else intervals.spread(values)).plain()


def paired(ours: Values, theirs: Values, measure: str = PRIMARY) -> dict[str, float]:
    """Interval of the difference of two routers on the same queries, each float64[N] or float64[seeds, N]:
    {"mean", "low", "high"}, and where values lie in 0 to 1 "bound", the lower end that the gate goes by. It is never
    above `low`, nor is the interval ever without width."""
    # Differences of fractions that are equal may differ in the last bit.
    apart = np.round(_over_seeds(ours) - _over_seeds(theirs), 12)
    if not MEASURES[measure].bounded:
        return intervals.spread(apart).plain()
    sure = intervals.careful(apart)
    return {**intervals.difference(apart, sure).plain(), "bound": sure.low}


def _over_seeds(values: Values) -> Values:
    mean: Values = np.atleast_2d(np.asarray(values, np.float64)).mean(axis=0)
    return mean


def summary(selected: BoolArray, required: BoolArray) -> dict[str, dict[str, float]]:
    """Every measure with its interval: {measure: {"mean", "low", "high"}}."""
    return {name: interval(values, name) for name, values in per_query(selected, required).items()}


def bucket_of(required: BoolArray) -> list[str]:
    """The set-size bucket of each query, see BUCKETS."""
    sizes = required.sum(axis=1)
    edges = np.searchsorted([1, 2, 4, 7], sizes, side="right")
    return [BUCKETS[edge] for edge in edges]


def by_size(selected: BoolArray, required: BoolArray) -> dict[str, dict[str, Any]]:
    """`summary` and the number of queries, per set-size bucket that has any."""
    buckets = np.array(bucket_of(required))
    by_bucket: dict[str, dict[str, Any]] = {}
    for name in BUCKETS:
        rows = buckets == name
        if rows.any():
            by_bucket[name] = {"queries": int(rows.sum()), **summary(selected[rows], required[rows])}
    return by_bucket


def by_agent(
    selected: BoolArray, required: BoolArray, asked: BoolArray, agents: Sequence[Agent]
) -> list[dict[str, Any]]:
    """Precision, recall, F1 and support of each agent over the rows in which it was asked, as plain numbers; None
    where it was neither required nor selected. `f1_low` and `f1_high` bound F1, at 95%."""
    figures = []
    for a, agent in enumerate(agents):
        rows = asked[:, a]
        s, r = selected[rows, a], required[rows, a]
        hits, chosen, needed = int((s & r).sum()), int(s.sum()), int(r.sum())
        figures.append(
            {
                "id": agent.id,
                "name": agent.name,
                "queries": int(rows.sum()),
                "support": needed,
                "selected": chosen,
                "precision": hits / chosen if chosen else None,
                "recall": hits / needed if needed else None,
                "f1": 2 * hits / (chosen + needed) if chosen + needed else None,
                **_f1_interval(hits, chosen, needed),
            }
        )
    return figures


def _f1_interval(hits: int, chosen: int, needed: int) -> dict[str, float | None]:
    """Of the queries in which the agent is taken or needed a share J holds both, and F1 = 2 J / (1 + J): J's ends give
    F1's."""
    either = chosen + needed - hits
    if not either:
        return {"f1_low": None, "f1_high": None}
    share = shares.wilson(hits, either)
    return {f"f1_{end}": 2 * share[end] / (1 + share[end]) for end in ("low", "high")}


def empty_sets(selected: BoolArray, required: BoolArray) -> dict[str, float | None]:
    """Precision and recall of the answer "none of these"; None where there is nothing to divide by."""
    answered_none, right = ~selected.any(axis=1), ~required.any(axis=1)
    hits = int((answered_none & right).sum())
    return {
        "precision": hits / int(answered_none.sum()) if answered_none.any() else None,
        "recall": hits / int(right.sum()) if right.any() else None,
    }


def calibration_error(p: FloatArray, y: BoolArray, bins: int = 15) -> float:
    """Expected calibration error (Naeini, Cooper and Hauskrecht 2015): the mean distance of confidence and frequency
    over equally wide bins, weighted by their share. p and y of one shape."""
    confidence, true = np.asarray(p, np.float64).ravel(), np.asarray(y, np.float64).ravel()
    if not confidence.size:
        return float("nan")
    which = np.minimum((confidence * bins).astype(np.int64), bins - 1)
    count = np.bincount(which, minlength=bins)
    gap = np.abs(np.bincount(which, confidence, bins) - np.bincount(which, true, bins))
    return float(gap.sum() / count.sum())


def calibration_floor(p: FloatArray, *, bins: int = 15, rounds: int = 400, seed: int = 0) -> float:
    """The calibration error that a perfect scorer with these probabilities stays below in 95 of 100 draws of the truth:
    what a measured error has to exceed before it says anything. p of any shape."""
    confidence = np.asarray(p, np.float64).ravel()
    if not confidence.size:
        return float("nan")
    which = np.minimum((confidence * bins).astype(np.int64), bins - 1)
    claimed = np.bincount(which, confidence, bins)
    rng = np.random.Generator(np.random.PCG64(seed))
    drawn = np.empty(rounds)
    for round_ in range(rounds):
        true = np.bincount(which, rng.random(confidence.size) < confidence, bins)
        drawn[round_] = np.abs(claimed - true).sum() / confidence.size
    return float(np.percentile(drawn, 95))


def reliability(p: FloatArray, y: BoolArray, bins: int = 10) -> list[dict[str, float]]:
    """The bins behind a calibration plot: {"p": mean score, "frequency", "count"} of each that has any."""
    confidence, true = np.asarray(p, np.float64).ravel(), np.asarray(y, np.float64).ravel()
    which = np.minimum((confidence * bins).astype(np.int64), bins - 1)
    return [
        {"p": float(confidence[rows].mean()), "frequency": float(true[rows].mean()), "count": int(rows.sum())}
        for b in range(bins)
        if (rows := which == b).any()
    ]


def auroc(score: FloatArray, positive: BoolArray) -> float | None:
    """The chance that a positive scores above a negative, ties half (Mann and Whitney 1947). score float[N], positive
    bool[N]; None where a class is missing."""
    positives, negatives = int(positive.sum()), int((~positive).sum())
    if not positives or not negatives:
        return None
    _, inverse, counts = np.unique(score, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    return float((ranks[positive].sum() - positives * (positives + 1) / 2) / (positives * negatives))


def auroc_interval(score: FloatArray, positive: BoolArray) -> dict[str, float] | None:
    """`auroc` with its 95% interval: every θ with |AUROC - θ| <= z sqrt(V(θ)), V of Hanley and McNeil (1982) with both
    classes' sizes alike (Newcombe 2006, method 5), so that neither end leaves 0 to 1 and one that is 1 has a width.
    None where a class is missing."""
    area = auroc(score, positive)
    if area is None:
        return None
    positives, negatives = int(positive.sum()), int((~positive).sum())
    half = (positives + negatives) / 2 - 1

    def outside(theta: float) -> bool:
        variance = theta * (1 - theta) * (1 + half * (1 - theta) / (2 - theta) + half * theta / (1 + theta))
        return (area - theta) ** 2 > shares.Z**2 * variance / (positives * negatives)

    def end(far: float) -> float:
        near = area
        for _ in range(50):
            middle = (near + far) / 2
            near, far = (near, middle) if outside(middle) else (middle, far)
        return near

    return {"mean": area, "low": end(0.0), "high": end(1.0)}


def fpr95(score: FloatArray, positive: BoolArray) -> float | None:
    """The share of negatives that still pass at the level where 95% of positives pass; None without both classes."""
    if not positive.any() or positive.all():
        return None
    good = np.sort(score[positive])
    return float((score[~positive] >= good[_failing(good.size)]).mean())


def _failing(positives: int) -> int:
    """How many positives may fail where 95% pass."""
    return positives // 20


def fpr95_interval(
    score: FloatArray, positive: BoolArray, *, rounds: int = 1000, seed: int = 0
) -> dict[str, float] | None:
    """`fpr95` with its 95% interval: a bootstrap of both classes, of which each draw's share of negatives is drawn
    again from the Beta law with half a success and half a failure more, so that no end is without doubt. None without
    both classes."""
    rate = fpr95(score, positive)
    if rate is None:
        return None
    rng = np.random.Generator(np.random.PCG64(seed))
    good, bad = np.sort(score[positive]), np.sort(score[~positive])
    rank = _failing(good.size)
    drawn = np.empty(rounds)
    for round_ in range(rounds):
        level = np.partition(rng.choice(good, good.size), rank)[rank]
        passing = bad.size - int(bad.searchsorted(level))
        drawn[round_] = rng.beta(passing + 0.5, bad.size - passing + 0.5)
    low, high = np.percentile(drawn, [2.5, 97.5])
    return {"mean": rate, "low": float(min(low, rate)), "high": float(max(high, rate))}


def flip_rate(before: BoolArray, after: BoolArray) -> float:
    """The share of queries whose answer changed: bool[N, A] twice."""
    return float((before != after).any(axis=1).mean()) if len(before) else float("nan")
