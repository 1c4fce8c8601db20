"""What asking users brings: the answers most worth a question, with the user's answer in place of the router's. numpy only."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from training_app.engine.data.arrays import BoolArray, FloatArray
from training_app.engine.routing.asking import doubt

SHARES = (0.01, 0.05, 0.1, 0.2)


def asking(p: FloatArray, selected: BoolArray, required: BoolArray, confidence: FloatArray) -> dict[str, Any]:
    """For a scorecard: {"exact", "at": [{"share", "cost", "exact"}]}, of calibrated probabilities and sets [N, A] and
    confidences [N].

    `cost` is the pool's setting at which that share of queries would be asked about, and `exact` the share answered right if the user
    always says truly which of the agents in doubt are needed; {} without queries.
    """
    if not len(p):
        return {}
    worth, resolved = np.zeros(len(p)), selected.copy()
    for i in range(len(p)):
        scores = dict(enumerate(p[i].tolist()))
        in_doubt = doubt(scores, np.flatnonzero(selected[i]).tolist(), float(confidence[i]))
        if in_doubt is not None:
            about = list(in_doubt.agents)
            worth[i], resolved[i, about] = in_doubt.worth, required[i, about]
    right, asked_right = (selected == required).all(axis=1), (resolved == required).all(axis=1)
    order = np.argsort(-worth, kind="stable")
    rows: list[dict[str, float]] = []
    for share in SHARES:
        asked = order[: round(share * len(p))]
        now = right.copy()
        now[asked] = asked_right[asked]
        rows.append({"share": share, "cost": _level(worth, order, len(asked)), "exact": float(now.mean())})
    return {"exact": float(right.mean()), "at": rows}


def _level(worth: NDArray[np.float64], order: NDArray[np.intp], asked: int) -> float:
    """The cost at which so many queries are asked about."""
    return float(worth[order[min(asked, len(order) - 1)]])
