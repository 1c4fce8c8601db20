"""How good sets of agents are. numpy only.

All metrics are means over queries. Where both the answer and the required set are empty, Jaccard, precision, recall
and F1 are 1; where one of them is, 0. Success means that all required agents are covered, so it is true for an empty
required set. An interval is a bootstrap over queries of the mean over seeds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from training_app.engine.data import Agent
from training_app.engine.scorers import BoolArray, FloatArray

Values = NDArray[Any]

BUCKETS = ("0", "1", "2-3", "4-6", "7+")
MEASURES = ("jaccard", "precision", "recall", "f1", "exact", "success", "set_size", "over", "under")
ROUNDS = 1000  # bootstrap samples behind an interval


def per_query(selected: BoolArray, required: BoolArray) -> dict[str, Values]:
    """Every measure of every query: selected and required bool[N, A] -> {measure: float64[N]}.

    `over` and `under` count the agents too many and too few.
    """
    hits = (selected & required).sum(axis=1)
    chosen, needed = selected.sum(axis=1), required.sum(axis=1)
    union = chosen + needed - hits
    empty = union == 0

    def share(part: NDArray[Any], whole: NDArray[Any]) -> Values:
        return np.where(empty, 1.0, part / np.maximum(whole, 1))

    return {
        "jaccard": share(hits, union),
        "precision": share(hits, chosen),
        "recall": share(hits, needed),
        "f1": share(2 * hits, chosen + needed),
        "exact": (hits == union).astype(np.float64),
        "success": (hits == needed).astype(np.float64),
        "set_size": chosen.astype(np.float64),
        "over": (chosen - hits).astype(np.float64),
        "under": (needed - hits).astype(np.float64),
    }


def interval(values: Values, *, rounds: int = ROUNDS, seed: int = 0) -> dict[str, float]:
    """Mean and 95% bootstrap interval over queries: values float64[N] or float64[seeds, N] ->
    {"mean", "low", "high"}. With several seeds a query's value is its mean over them."""
    values = np.atleast_2d(np.asarray(values, np.float64)).mean(axis=0)
    if not values.size:
        return {"mean": float("nan"), "low": float("nan"), "high": float("nan")}
    rng = np.random.Generator(np.random.PCG64(seed))
    means = np.empty(rounds)
    # In slices: a thousand samples of a hundred thousand queries would not fit.
    size = max(1, 2_000_000 // values.size)
    for at in range(0, rounds, size):
        count = min(size, rounds - at)
        means[at : at + count] = values[rng.integers(values.size, size=(count, values.size))].mean(axis=1)
    low, high = np.percentile(means, [2.5, 97.5])
    return {"mean": float(values.mean()), "low": float(low), "high": float(high)}


def paired(ours: Values, theirs: Values, *, rounds: int = ROUNDS, seed: int = 0) -> dict[str, float]:
    """Interval of the difference of two routers on the same queries, each float64[N] or float64[seeds, N]."""
    ours, theirs = np.atleast_2d(ours).mean(axis=0), np.atleast_2d(theirs).mean(axis=0)
    return interval(ours - theirs, rounds=rounds, seed=seed)


def summary(selected: BoolArray, required: BoolArray) -> dict[str, dict[str, float]]:
    """Every measure with its interval: {measure: {"mean", "low", "high"}}."""
    return {name: interval(values) for name, values in per_query(selected, required).items()}


def bucket_of(required: BoolArray) -> list[str]:
    """The set-size bucket of each query, see BUCKETS."""
    sizes = required.sum(axis=1)
    edges = np.searchsorted([1, 2, 4, 7], sizes, side="right")
    return [BUCKETS[edge] for edge in edges]


def by_size(selected: BoolArray, required: BoolArray) -> dict[str, dict[str, Any]]:
    """`summary` and the number of queries, per set-size bucket that has any."""
    buckets = np.array(bucket_of(required))
    found: dict[str, dict[str, Any]] = {}
    for name in BUCKETS:
        rows = buckets == name
        if rows.any():
            found[name] = {"queries": int(rows.sum()), **summary(selected[rows], required[rows])}
    return found


def by_agent(
    selected: BoolArray, required: BoolArray, asked: BoolArray, agents: Sequence[Agent]
) -> list[dict[str, Any]]:
    """Precision, recall, F1 and support of each agent over the rows in which it was asked, as plain numbers; None
    where it was neither required nor selected. `f1_low` and `f1_high` bound F1, a 95% bootstrap over those rows."""
    found = []
    rng = np.random.Generator(np.random.PCG64(0))
    for a, agent in enumerate(agents):
        rows = asked[:, a]
        s, r = selected[rows, a], required[rows, a]
        hits, chosen, needed = int((s & r).sum()), int(s.sum()), int(r.sum())
        found.append(
            {
                "id": agent.id,
                "name": agent.name,
                "queries": int(rows.sum()),
                "support": needed,
                "selected": chosen,
                "precision": hits / chosen if chosen else None,
                "recall": hits / needed if needed else None,
                "f1": 2 * hits / (chosen + needed) if chosen + needed else None,
                **_f1_interval(hits, chosen, needed, int(rows.sum()), rng),
            }
        )
    return found


def _f1_interval(hits: int, chosen: int, needed: int, rows: int, rng: np.random.Generator) -> dict[str, float | None]:
    """A resample of rows is a draw of the four cells: taken and needed, taken in vain, missed, neither."""
    if not chosen + needed:
        return {"f1_low": None, "f1_high": None}
    cells = np.array([hits, chosen - hits, needed - hits, rows - chosen - needed + hits])
    drawn = rng.multinomial(rows, cells / rows, size=ROUNDS)
    f1 = 2 * drawn[:, 0] / np.maximum(2 * drawn[:, 0] + drawn[:, 1] + drawn[:, 2], 1)
    low, high = np.percentile(f1, [2.5, 97.5])
    return {"f1_low": float(low), "f1_high": float(high)}


def empty_sets(selected: BoolArray, required: BoolArray) -> dict[str, float | None]:
    """Precision and recall of the answer "none of these"; None where there is nothing to divide by."""
    said, right = ~selected.any(axis=1), ~required.any(axis=1)
    hits = int((said & right).sum())
    return {
        "precision": hits / int(said.sum()) if said.any() else None,
        "recall": hits / int(right.sum()) if right.any() else None,
    }


def calibration_error(p: FloatArray, y: BoolArray, bins: int = 15) -> float:
    """Expected calibration error (Naeini, Cooper and Hauskrecht 2015): the mean distance of confidence and frequency
    over equally wide bins, weighted by their share. p and y of one shape."""
    said, true = np.asarray(p, np.float64).ravel(), np.asarray(y, np.float64).ravel()
    if not said.size:
        return float("nan")
    which = np.minimum((said * bins).astype(np.int64), bins - 1)
    count = np.bincount(which, minlength=bins)
    gap = np.abs(np.bincount(which, said, bins) - np.bincount(which, true, bins))
    return float(gap.sum() / count.sum())


def calibration_interval(
    p: FloatArray, y: BoolArray, counted: BoolArray, *, bins: int = 15, rounds: int = ROUNDS, seed: int = 0
) -> dict[str, float]:
    """`calibration_error` of the entries `counted`, and its 95% bootstrap interval over queries: {"mean", "low", "high"}, all
    arguments [N, A]. A resample of few queries looks less calibrated than all of them, so the interval may lie above the mean."""
    said = np.asarray(p, np.float64)
    which = np.minimum((said * bins).astype(np.int64), bins - 1)
    gaps = np.zeros((len(said), bins))  # per query and bin, what was said beyond what was true
    rows = np.broadcast_to(np.arange(len(said))[:, None], said.shape)
    np.add.at(gaps, (rows[counted], which[counted]), (said - y)[counted])
    entries = counted.sum(axis=1)
    if not entries.sum():
        return {"mean": float("nan"), "low": float("nan"), "high": float("nan")}
    rng = np.random.Generator(np.random.PCG64(seed))
    found = np.empty(rounds)
    size = max(1, 4_000_000 // len(said))
    for at in range(0, rounds, size):
        count = min(size, rounds - at)
        drawn = rng.multinomial(len(said), np.full(len(said), 1 / len(said)), size=count).astype(np.float64)
        found[at : at + count] = np.abs(drawn @ gaps).sum(axis=1) / np.maximum(drawn @ entries, 1)
    low, high = np.percentile(found, [2.5, 97.5])
    return {"mean": float(np.abs(gaps.sum(axis=0)).sum() / entries.sum()), "low": float(low), "high": float(high)}


def reliability(p: FloatArray, y: BoolArray, bins: int = 10) -> list[dict[str, float]]:
    """The bins behind a calibration plot: {"p": mean score, "frequency", "count"} of each that has any."""
    said, true = np.asarray(p, np.float64).ravel(), np.asarray(y, np.float64).ravel()
    which = np.minimum((said * bins).astype(np.int64), bins - 1)
    return [
        {"p": float(said[rows].mean()), "frequency": float(true[rows].mean()), "count": int(rows.sum())}
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


def fpr95(score: FloatArray, positive: BoolArray) -> float | None:
    """The share of negatives that still pass at the level where 95% of positives pass; None without both classes."""
    if not positive.any() or positive.all():
        return None
    level = np.quantile(score[positive], 0.05, method="lower")
    return float((score[~positive] >= level).mean())


def flip_rate(before: BoolArray, after: BoolArray) -> float:
    """The share of queries whose answer changed: bool[N, A] twice."""
    return float((before != after).any(axis=1).mean()) if len(before) else float("nan")


def means(values: Mapping[str, Values]) -> dict[str, float]:
    """The mean of each measure."""
    return {name: float(v.mean()) if v.size else float("nan") for name, v in values.items()}
