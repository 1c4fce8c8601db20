"""Of the answers that are given, at most a share ε is wrong: the level of confidence that promises it. numpy only.

Rows that nothing else has looked at, neither scorer nor choice nor calibration, are routed. Some levels of confidence are tested:
with n answers above a level, whose mean loss is r, the hypothesis that the risk there is above ε has the p-value

    whole sets   P(Binomial(n, ε) <= n r)                                     exact for losses of 0 and 1
    Jaccard      min(exp(-n KL(r, ε)), e P(Binomial(n, ε) <= ⌈n r⌉))          Hoeffding and Bentkus (Bates and others 2021)

A level is let through where its p-value is at most δ / STARTS, in sequences from few answers to many, each of which begins at a place
of its own and ends at its first failure (learn then test: Angelopoulos, Bates, Candès, Jordan and Lei 2021). Whatever the router,
the risk at the level that is taken is above ε with a probability of δ at most. Answers that are given up anyway, as texts like none,
count as not given. A level is a row's own confidence, and only rows above it are counted: these are independent draws of what is
answered.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, exp, inf, lgamma, log, log1p
from typing import Any

import numpy as np
from numpy.typing import NDArray

from training_app.engine.data.arrays import BoolArray, FloatArray

DELTA = 0.05  # the promise may fail in so many of 100 trainings
STARTS = (0.25, 0.5, 1.0)  # of the answers, the shares at which sequences begin
GRID = 20  # levels that are tested, by the share that is answered
SHARE = 0.3  # of the training rows are set aside for the promise


@dataclass(frozen=True, slots=True)
class Guarantee:
    """What can be promised. `level` is the confidence from which on answers are given, infinite where nothing can be promised;
    `answered` the share of the `rows` set aside that were answered at it, `wrong` their mean loss; `needed` how many rows, at least, a
    promise takes that no row speaks against."""

    most_wrong: float
    loss: str
    level: float
    answered: float
    wrong: float
    rows: int
    needed: int

    @property
    def kept(self) -> bool:
        """Whether there is a promise."""
        return self.level < inf

    def plain(self) -> dict[str, Any]:
        """As scorecards keep it; `level` is None without a promise."""
        values = {"most_wrong": self.most_wrong, "loss": self.loss, "answered": self.answered, "wrong": self.wrong}
        return {**values, "rows": self.rows, "needed": self.needed, "level": self.level if self.kept else None}


def losses(selected: BoolArray, required: BoolArray, loss: str) -> NDArray[np.float64]:
    """What each answer loses, float64[N]: bool[N, A] twice. exact: 1 where the set is not the needed one; jaccard: 1 - J."""
    if loss == "exact":
        return (selected != required).any(axis=1).astype(np.float64)
    either = (selected | required).sum(axis=1)
    return 1 - np.where(either == 0, 1.0, (selected & required).sum(axis=1) / np.maximum(either, 1))


def fewest(most_wrong: float) -> int:
    """How many answers above a level it takes at least, if all are right."""
    return ceil(log(DELTA / len(STARTS)) / log1p(-most_wrong))


def promised(
    confidence: FloatArray,
    lost: NDArray[np.float64],
    given: BoolArray,
    most_wrong: float,
    loss: str,
    least: float = 0.0,
) -> Guarantee:
    """The lowest level that keeps the risk of what is answered at or below `most_wrong`, of rows set aside: their confidence float[N],
    what their answers lose float64[N], and which are `given` at all, bool[N]. No level below `least` is taken."""
    rows, needed = len(confidence), fewest(most_wrong)
    open_ = np.flatnonzero(given & (confidence >= least))
    order = open_[np.argsort(-confidence[open_], kind="stable")]
    level, above = inf, 0
    for first in _starts(len(order)):
        for size in range(first, len(order) + 1, max(1, len(order) // GRID)):
            if size < len(order) and confidence[order[size - 1]] == confidence[order[size]]:
                continue  # no level lies between the two
            if p_value(lost[order[:size]], most_wrong, loss) > DELTA / len(STARTS):
                break
            if size > above:
                level, above = _below(confidence[order], size, least), size
    chosen = order[:above]
    return Guarantee(
        most_wrong,
        loss,
        level,
        above / rows if rows else 0.0,
        float(lost[chosen].mean()) if above else 0.0,
        rows,
        needed,
    )


def _starts(answers: int) -> list[int]:
    """How many answers the first level of each sequence lets through."""
    return sorted({max(1, int(share * answers)) for share in STARTS}) if answers else []


def _below(ordered: FloatArray, size: int, least: float) -> float:
    """The level that the first `size` rows are above: just above the confidence of the next row, or `least` where there is none."""
    return float(np.nextafter(ordered[size], np.float32(2))) if size < len(ordered) else least


def p_value(lost: NDArray[np.float64], most_wrong: float, loss: str) -> float:
    """How likely a mean loss as small as that of `lost` float64[n] is at most, were the risk above `most_wrong`."""
    count, total = len(lost), float(lost.sum())
    if not count:
        return 1.0
    if loss == "exact":
        return _binomial(round(total), count, most_wrong)
    mean = total / count
    if mean >= most_wrong:
        return 1.0
    divergence = (mean * log(mean / most_wrong) if mean else 0.0) + (1 - mean) * log((1 - mean) / (1 - most_wrong))
    return min(exp(-count * divergence), exp(1) * _binomial(ceil(total - 1e-9), count, most_wrong))


def _binomial(most: int, count: int, p: float) -> float:
    """P(Binomial(count, p) <= most)."""
    whole = lgamma(count + 1)
    terms = (
        whole - lgamma(k + 1) - lgamma(count - k + 1) + k * log(p) + (count - k) * log1p(-p) for k in range(most + 1)
    )
    return min(1.0, sum(exp(term) for term in terms))
