"""What a scorecard says beyond means: which agents are taken for which, what more or fewer agents would bring, and
where a router gains and loses beside another one. numpy only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from training_app.engine.data import intervals, metrics
from training_app.engine.data.arrays import BoolArray
from training_app.engine.routing.allowed import SetLimits
from training_app.engine.routing.router import Router
from training_app.engine.routing.walking import greedy

CURVE_QUERIES = 2_000  # queries, drawn at random, that an operating-point curve is measured on at most
CURVE_POINTS = 41
#: How far the values of a policy lie from STOP's, by its kind: learnt values are differences of Jaccard, thresholds
#: compare log-odds.
REACH = {"threshold": 8.0}


# -------------------------------------------------------------------------------------------------------------
# confusion


def confusion(selected: BoolArray, required: BoolArray, asked: BoolArray, ids: Sequence[int]) -> dict[str, Any]:
    """Which agent was taken in vain where which was missed: selected, required, asked bool[N, A].

    {"pairs": [[missed id, taken id, queries], …] with any, most first; "missed": {id: queries in which it was needed
    and not taken}; "missed_alone": those of them in which nothing was taken in vain; "in_vain": {id: queries in which
    it was taken and not needed}; "in_vain_alone": those in which nothing was missed}. A query counts for every pair
    that it holds.
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


# -------------------------------------------------------------------------------------------------------------
# operating points


def point(selected: BoolArray, required: BoolArray) -> dict[str, float | None]:
    """Where a router stands: the mean number of agents it takes, and the recall over queries that need any agent (None
    where none does), with its Jaccard. selected, required bool[N, A]."""
    measures = metrics.per_query(selected, required)
    needs = required.any(axis=1)
    return {
        "agents": float(measures["set_size"].mean()) if len(required) else None,
        "recall": float(measures["recall"][needs].mean()) if needs.any() else None,
        "jaccard": float(measures["jaccard"].mean()) if len(required) else None,
    }


def operating_points(router: Router, texts: Sequence[str], required: BoolArray, *, seed: int = 0) -> dict[str, Any]:
    """What the router would do at other margins, over at most CURVE_QUERIES texts: {"queries", "chosen": point,
    "curve": [point with its "margin", fewest agents first]}. Points at which nothing changes stand once."""
    if not len(texts):
        return {}
    rows = np.arange(len(texts))
    if len(rows) > CURVE_QUERIES:
        rows = np.sort(np.random.Generator(np.random.PCG64(seed)).choice(rows, CURVE_QUERIES, replace=False))
    some, truth = [texts[i] for i in rows.tolist()], required[rows]
    log_odds, every = router.reader.log_odds(some), np.ones_like(truth)
    seen, needed = router.reader.seen(some, log_odds), router.needed(some, log_odds)
    curve: dict[bytes, dict[str, Any]] = {}
    reach = REACH.get(router.policy.kind, 1.0)
    for margin in np.linspace(reach, -reach, CURVE_POINTS).tolist():
        sets, *_ = greedy(router.policy, seen, needed, every, SetLimits(*router.limits, margin))
        curve.setdefault(sets.tobytes(), {"margin": margin, **point(sets, truth)})
    return {"queries": len(rows), "chosen": point(router.selections(some), truth), "curve": list(curve.values())}


# ------------------------------------------------------------------------------------------------------------- beside
# another router


def beside(
    ours: BoolArray, theirs: BoolArray, required: BoolArray, asked: BoolArray, ids: Sequence[int]
) -> dict[str, Any]:
    """The paired difference of two routers on the same queries, by set size and by agent; all bool[N, A].

    {"by_size": {bucket: {"queries", "difference": of Jaccard}}, over rows in which every agent was asked; "by_agent":
    [{"id", "ours", "theirs": F1, "difference"}], over rows in which it was}. A difference is {"mean", "low", "high"},
    its 95% interval; F1 is None where an agent was neither needed nor taken.
    """
    whole = asked.all(axis=1)
    mine, other = (metrics.per_query(sets[whole], required[whole])["jaccard"] for sets in (ours, theirs))
    buckets = np.array(metrics.bucket_of(required[whole]))
    by_size = {
        name: {"queries": int(rows.sum()), "difference": metrics.paired(mine[rows], other[rows])}
        for name in metrics.BUCKETS
        if (rows := buckets == name).any()
    }
    by_agent = []
    for a, identifier in enumerate(ids):
        rows = asked[:, a]
        by_agent.append({"id": identifier, **_f1_beside(ours[rows, a], theirs[rows, a], required[rows, a])})
    return {"by_size": by_size, "by_agent": by_agent}


def _f1_beside(ours: BoolArray, theirs: BoolArray, required: BoolArray) -> dict[str, Any]:
    """F1 of one agent by two routers and the interval of the difference: all bool[N].

    The difference is linear in the queries up to small terms: query i moves it by u_i = Σ± k (2 hit_i - F1 (taken_i +
    needed_i)) / S, with S the agents taken and needed in all k queries that have any. The interval is that of the mean
    of u, around the difference.
    """
    some = ours | theirs | required
    if not some.any():
        return {"ours": None, "theirs": None, "difference": None}
    needed = required[some]
    differences, moved = [], np.zeros(len(needed))
    for selected, sign in ((ours[some], 1), (theirs[some], -1)):
        whole = int(selected.sum() + needed.sum())
        f1 = 2 * int((selected & needed).sum()) / whole if whole else 1.0
        moved += sign * len(needed) * (2.0 * (selected & needed) - f1 * (selected * 1.0 + needed)) / max(whole, 1)
        differences.append(f1)
    reach = max(1.0, float(np.abs(moved).max()))
    moved = np.round(moved, 12)
    around = intervals.difference(moved, intervals.careful(moved, -reach, reach))
    difference = differences[0] - differences[1]
    low, high = max(-1.0, difference + around.low), min(1.0, difference + around.high)
    return {
        "ours": differences[0],
        "theirs": differences[1],
        "difference": {"mean": difference, "low": low, "high": high},
    }
