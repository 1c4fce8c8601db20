"""What the next hundred labels should bring: a learning curve of a pool's own rows, and where it leads. numpy only.

All labeled rows but the test ones are dealt to FOLDS folds by group. For each fold a scorer learns from one of the others, from two, …
from all of them, and is judged on it, so that every row is judged once at every size, by a threshold that the other half of the rows
chose. How the error e = 1 - J goes on falling is not known; two laws bracket it,

    e(n) = a n^-b, b >= 0          a power of the labels without end (Hestness et al. 2017, arXiv 1712.00409)
    e(n) = c + a / n, a >= 0       down to a floor, as fast as a model of fixed size learns (Amari and Murata 1993)

both by least squares over the sizes. The gain is e(N) - e(N + MORE): the mean of the two, from the lower end of the one to the
upper end of the other, each a bootstrap over rows, widened as in `folds.py`. The scorer is the quick one of those that the router
reads with: what counts is how much there is left to learn, and the router is usually ahead of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from training_app.engine.data.arrays import BoolArray, FloatArray
from training_app.engine.data.metrics import jaccard
from training_app.engine.data.rows import Rows, fold_of_group
from training_app.engine.progress import ScorerProgress
from training_app.engine.reading.scorers import Scorer
from training_app.engine.routing.threshold import best_threshold

FOLDS = 5
MORE = 100
RIGHT_MORE = 60  # labels whose effect on right answers is said in words: about an hour's work
MEASURED = ("jaccard", "exact")
LEAST, MOST = 80, 500  # labeled rows: of fewer a hundred more are another pool, and of more both laws say too much
ROUNDS = 400
INFLATION = 1.6  # of the variance: scorers of different folds share rows; see benchmarks/coverage.py
LEAST_ERROR = 1e-3

Floats = NDArray[np.float64]


def measured(
    scorer: Scorer, rows: Rows, groups: Sequence[str], seed: int, progress: ScorerProgress
) -> tuple[list[int], dict[str, Floats]]:
    """(sizes, {one of MEASURED: float64[sizes, N]}): how many rows were learnt from, and what every row got then. `groups` (N) are the
    rows'."""
    fold = fold_of_group(groups, FOLDS, seed)
    half = fold_of_group(groups, 2, seed + 1)
    sizes: list[int] = []
    values: dict[str, list[Floats]] = {name: [] for name in MEASURED}
    for parts in range(1, FOLDS):
        margins = np.zeros(rows.required.shape, np.float32)
        for k in range(FOLDS):
            progress((parts - 1) * FOLDS + k, FOLDS * (FOLDS - 1), "the learning curve")
            inside = rows.take(np.flatnonzero((fold - k - 1) % FOLDS < parts))
            outside = np.flatnonzero(fold == k)
            fitted = scorer.fit(inside.texts, inside.required, inside.asked, seed=seed)
            margins[outside] = fitted.logits([rows.texts[i] for i in outside.tolist()])
        sizes.append(round(len(rows) * parts / FOLDS))
        for name, got in judged(margins, rows.required, rows.asked, half).items():
            values[name].append(got)
    return sizes, {name: np.stack(got) for name, got in values.items()}


def judged(margins: FloatArray, required: BoolArray, asked: BoolArray, half: NDArray[np.int64]) -> dict[str, Floats]:
    """What each row gets at the threshold that is best for the rows of the other half, float64[N] for each of MEASURED."""
    worth, right = np.zeros(len(margins)), np.zeros(len(margins))
    for side in (0, 1):
        here, there = half == side, half != side
        level = best_threshold(margins[there], required[there], asked[there])
        sets, needed = (margins[here] > level) & asked[here], required[here] & asked[here]
        worth[here], right[here] = jaccard(sets, needed), (sets == needed).all(axis=1)
    return {"jaccard": worth, "exact": right}


def in_all(sizes: Sequence[int], values: Mapping[str, Floats], labels: int, seed: int) -> dict[str, Any]:
    """`expected` of Jaccard, and under "right" what RIGHT_MORE labels should bring in right answers: {"more", "gain": interval}."""
    right = expected(sizes, values["exact"], labels, seed, RIGHT_MORE)
    return {
        **expected(sizes, values["jaccard"], labels, seed),
        "right": {name: right[name] for name in ("more", "gain")},
    }


def expected(sizes: Sequence[int], values: Floats, labels: int, seed: int, more: int = MORE) -> dict[str, Any]:
    """{"labels", "points": [{"labels", "jaccard"}], "more", "gain": interval} from Jaccards, or other shares, float64[sizes, N]: what
    so many `more` labels beside the `labels` there are should bring."""
    rng = np.random.Generator(np.random.PCG64(seed))
    rows = values.shape[1]
    drawn = rng.integers(rows, size=(ROUNDS, rows))
    resampled, mean = values[:, drawn].mean(axis=2), values.mean(axis=1, keepdims=True)
    points, ends = [], []
    for law in (_endless, _floored):
        (gain,) = law(sizes, mean, labels, more).tolist()
        points.append(gain)
        ends += [
            gain + INFLATION**0.5 * (end - gain)
            for end in np.percentile(law(sizes, resampled, labels, more), [2.5, 97.5])
        ]
    return {
        "labels": labels,
        "points": [{"labels": n, "jaccard": float(v.mean())} for n, v in zip(sizes, values, strict=True)],
        "more": more,
        "gain": {"mean": sum(points) / 2, "low": max(0.0, float(min(ends))), "high": float(max(ends))},
    }


def _endless(sizes: Sequence[int], means: Floats, labels: int, more: int = MORE) -> Floats:
    """e(n) = a n^-b: means float64[sizes, R] -> gains float64[R]."""
    x, error = np.log(sizes), np.log(np.maximum(1 - means, LEAST_ERROR))
    slope = np.minimum((x - x.mean()) @ error / ((x - x.mean()) @ x), 0)  # [R]
    now, then = (np.exp(error.mean(axis=0) + slope * (np.log(n) - x.mean())) for n in (labels, labels + more))
    return np.asarray(now - then)


def _floored(sizes: Sequence[int], means: Floats, labels: int, more: int = MORE) -> Floats:
    """e(n) = c + a / n: means float64[sizes, R] -> gains float64[R]."""
    x, error = 1 / np.asarray(sizes, np.float64), 1 - means
    slope = np.maximum((x - x.mean()) @ error / ((x - x.mean()) @ x), 0)
    return np.asarray(slope * (1 / labels - 1 / (labels + more)))
