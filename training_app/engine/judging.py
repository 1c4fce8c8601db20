"""What a scorecard says beyond means: which agents are taken for which, what more or fewer agents would bring, and where a router
gains and loses beside another one. numpy only.

Intervals here are the bootstrap over queries of `metrics.interval`, drawn by counts: a resample of N queries is a multinomial draw
over the distinct outcomes, so its cost does not grow with N.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from training_app.engine import metrics
from training_app.engine.policy import greedy
from training_app.engine.router import Router
from training_app.engine.scorers import BoolArray

CURVE_QUERIES = 2_000  # queries, drawn at random, that an operating-point curve is measured on at most
CURVE_POINTS = 41
#: How far the values of a policy lie from STOP's, by its kind: learnt values are differences of Jaccard, thresholds compare log-odds.
REACH = {"threshold": 8.0}


# ------------------------------------------------------------------------------------------------------------- confusion


def confusion(selected: BoolArray, required: BoolArray, asked: BoolArray, ids: Sequence[int]) -> dict[str, Any]:
    """Which agent was taken in vain where which was missed: selected, required, asked bool[N, A].

    {"pairs": [[missed id, taken id, queries], …] with any, most first; "missed": {id: queries in which it was needed and not taken};
    "missed_alone": those of them in which nothing was taken in vain; "in_vain": {id: queries in which it was taken and not needed};
    "in_vain_alone": those in which nothing was missed}. A query counts for every pair that it holds.
    """
    missed = (required & ~selected & asked).astype(np.int64)
    in_vain = (selected & ~required & asked).astype(np.int64)
    together = missed.T @ in_vain  # (missed, taken)
    order = [(int(together[a, b]), int(a), int(b)) for a, b in np.argwhere(together)]
    order.sort(key=lambda pair: (-pair[0], pair[1], pair[2]))

    def by_id(counts: NDArray[np.int64]) -> dict[str, int]:
        return {str(ids[a]): int(counts[a]) for a in np.flatnonzero(counts).tolist()}

    return {
        "pairs": [[ids[a], ids[b], count] for count, a, b in order],
        "missed": by_id(missed.sum(axis=0)),
        "missed_alone": by_id(missed[~in_vain.any(axis=1)].sum(axis=0)),
        "in_vain": by_id(in_vain.sum(axis=0)),
        "in_vain_alone": by_id(in_vain[~missed.any(axis=1)].sum(axis=0)),
    }


# ------------------------------------------------------------------------------------------------------------- operating points


def point(selected: BoolArray, required: BoolArray) -> dict[str, float | None]:
    """Where a router stands: the mean number of agents it takes, and the recall over queries that need any agent (None where none
    does), with its Jaccard. selected, required bool[N, A]."""
    found = metrics.per_query(selected, required)
    needs = required.any(axis=1)
    return {
        "agents": float(found["set_size"].mean()) if len(required) else None,
        "recall": float(found["recall"][needs].mean()) if needs.any() else None,
        "jaccard": float(found["jaccard"].mean()) if len(required) else None,
    }


def operating_points(router: Router, texts: Sequence[str], required: BoolArray, *, seed: int = 0) -> dict[str, Any]:
    """What the router would do at other margins, over at most CURVE_QUERIES texts: {"queries", "chosen": point, "curve": [point with
    its "margin", fewest agents first]}. Points at which nothing changes stand once."""
    if not len(texts):
        return {}
    rows = np.arange(len(texts))
    if len(rows) > CURVE_QUERIES:
        rows = np.sort(np.random.Generator(np.random.PCG64(seed)).choice(rows, CURVE_QUERIES, replace=False))
    some, truth = [texts[i] for i in rows.tolist()], required[rows]
    seen, every = router.seen(some), np.ones_like(truth)
    least, most = router.limits
    curve: dict[bytes, dict[str, Any]] = {}
    reach = REACH.get(router.policy.kind, 1.0)
    for margin in np.linspace(reach, -reach, CURVE_POINTS).tolist():
        nothing = np.zeros((len(seen), 0), np.float32)
        sets = greedy(router.policy, seen, nothing, every, min_agents=least, max_agents=most, margin=margin)[0]
        curve.setdefault(sets.tobytes(), {"margin": margin, **point(sets, truth)})
    return {"queries": len(rows), "chosen": point(router.selections(some), truth), "curve": list(curve.values())}


# ------------------------------------------------------------------------------------------------------------- beside another router


def beside(
    ours: BoolArray, theirs: BoolArray, required: BoolArray, asked: BoolArray, ids: Sequence[int], *, seed: int = 0
) -> dict[str, Any]:
    """The paired difference of two routers on the same queries, by set size and by agent; all bool[N, A].

    {"by_size": {bucket: {"queries", "difference": of Jaccard}}, over rows in which every agent was asked; "by_agent": [{"id", "ours",
    "theirs": F1, "difference"}], over rows in which it was}. A difference is {"mean", "low", "high"}, its 95% interval; F1 is None
    where an agent was neither needed nor taken.
    """
    whole = asked.all(axis=1)
    mine, other = (metrics.per_query(sets[whole], required[whole])["jaccard"] for sets in (ours, theirs))
    buckets = np.array(metrics.bucket_of(required[whole]))
    rng = np.random.Generator(np.random.PCG64(seed))
    by_size = {
        name: {"queries": int(rows.sum()), "difference": interval_of_counts((mine - other)[rows], rng)}
        for name in metrics.BUCKETS
        if (rows := buckets == name).any()
    }
    by_agent = []
    for a, identifier in enumerate(ids):
        rows = asked[:, a]
        by_agent.append({"id": identifier, **_f1_beside(ours[rows, a], theirs[rows, a], required[rows, a], rng)})
    return {"by_size": by_size, "by_agent": by_agent}


def interval_of_counts(values: NDArray[Any], rng: np.random.Generator) -> dict[str, float]:
    """`metrics.interval` of values float64[N] of which few differ."""
    # Differences of fractions that are equal may differ in the last bit.
    distinct, counts = np.unique(np.round(values, 12), return_counts=True)
    means = rng.multinomial(len(values), counts / len(values), size=metrics.ROUNDS) @ distinct / len(values)
    low, high = np.percentile(means, [2.5, 97.5])
    return {"mean": float(values.mean()), "low": float(low), "high": float(high)}


def _f1_beside(ours: BoolArray, theirs: BoolArray, required: BoolArray, rng: np.random.Generator) -> dict[str, Any]:
    """F1 of one agent by two routers and the interval of the difference: all bool[N]."""
    if not (ours | theirs | required).any():
        return {"ours": None, "theirs": None, "difference": None}
    # Each query is one of eight cells: taken by us, taken by them, needed.
    cells = np.bincount(ours * 4 + theirs * 2 + required, minlength=8)
    drawn = rng.multinomial(len(ours), cells / len(ours), size=metrics.ROUNDS)
    difference = _f1(drawn, 4) - _f1(drawn, 2)
    low, high = np.percentile(difference, [2.5, 97.5])
    mine, other = float(_f1(cells, 4)), float(_f1(cells, 2))
    return {"ours": mine, "theirs": other, "difference": {"mean": mine - other, "low": float(low), "high": float(high)}}


def _f1(cells: NDArray[np.int64], router: int) -> NDArray[np.float64]:
    """F1 from the counts of the eight cells int64[..., 8]; 1 where nothing was needed and nothing taken, as for sets. `router` is 4
    for ours and 2 for theirs."""
    numbers = np.arange(8)
    took, needed = (numbers & router) > 0, (numbers & 1) > 0
    hits = cells[..., took & needed].sum(axis=-1)
    whole = cells[..., took].sum(axis=-1) + cells[..., needed].sum(axis=-1)
    return np.where(whole > 0, 2 * hits / np.maximum(whole, 1), 1.0)
