"""Of the answers that are given, at most a share ε is wrong: the level of confidence that promises it. numpy only.

Rows that nothing else has looked at, neither scorer nor choice nor calibration, are routed. Some levels of confidence are tested:
with n answers above a level, whose mean loss is r, the hypothesis that the risk there is above ε has the p-value

    whole sets   P(Binomial(n, ε) <= n r)                                     exact for losses of 0 and 1
    Jaccard      min(exp(-n KL(r, ε)), e P(Binomial(n, ε) <= ⌈n r⌉))          Hoeffding and Bentkus (Bates and others 2021)

Levels are tested in one order, from few answers to many (learn then test: Angelopoulos, Bates, Candès, Jordan and Lei 2021). Each
place of STARTS adds its part of δ to what there is to spend; a level is let through where its p-value is at most that, and hands it on
whole to the next; at a failure it is lost (the fallback procedure: Wiens 2003). Whatever the router,
the risk at the level that is taken is above ε with a probability of δ at most. Answers that are given up anyway, as texts like none,
count as not given. A level is a row's own confidence, and only rows above it are counted: these are independent draws of what is
answered.

Where a pool is small, the rows are all of its labeled ones, each answered by the router of a fold that has not seen it. Folds share
rows, so they count for fewer, by the inflation of their variance (`judging/folds.py`), and the model that is served has learnt from a
fifth more.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, exp, inf, lgamma, log, log1p
from typing import Any

import numpy as np
from numpy.typing import NDArray

from training_app.engine.data.arrays import BoolArray, FloatArray
from training_app.engine.data.examples import Example
from training_app.engine.data.prepared import Prepared
from training_app.engine.data.rows import Rows, rows_of
from training_app.engine.routing.router import Router

DELTA = 0.05  # the promise may fail in so many of 100 trainings
#: Where which share of δ is given out: at so many times the answers that a promise takes at least, and at such a share of all. Chosen
#: on 21 draws of the pools of `benchmarks.promises`: more places let more through where the surest answers hold a slip.
STARTS = ((1.0, 0.0, 0.5), (1.6, 0.15, 0.25), (1.0, 0.4, 0.25))
GRID = 40  # levels that are tested, by the share that is answered
SHARE = 0.3  # of the training rows are set aside for the promise where the pool is large
SUREST = 20  # answers, at least, from which it is estimated how many labels a promise takes
SHOWN = (0.01, 0.02, 0.05, 0.1, 0.2)  # promises of the scorecard's table


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Answers to rows that their router has not seen: `confidence` float[N], what each loses, `lost` float64[N], and which are `given`
    at all, bool[N]. As many independent rows say as much as `inflation` times as many of these."""

    confidence: FloatArray
    lost: NDArray[np.float64]
    given: BoolArray
    inflation: float = 1.0

    @classmethod
    def of(cls, router: Router, rows: Rows, loss: str) -> HeldOut:
        """What a router answers to rows of its agents, and what that loses."""
        if not len(rows):
            return cls(np.zeros(0, np.float32), np.zeros(0), np.zeros(0, np.bool_))
        answers = router.answers(rows.texts)
        return cls(answers.confidence, losses(answers.selected, rows.required, loss), ~answers.strange)

    @classmethod
    def together(cls, folds: Sequence[HeldOut], inflation: float) -> HeldOut:
        """The rows of all folds."""
        confidence = np.concatenate([fold.confidence for fold in folds])
        lost, given = (np.concatenate([getattr(fold, name) for fold in folds]) for name in ("lost", "given"))
        return cls(confidence, lost, given, inflation)


@dataclass(frozen=True, slots=True)
class Guarantee:
    """What can be promised. `level` is the confidence from which on answers are given, infinite where nothing can be promised;
    `answered` the share of the `rows` that were answered at it, `wrong` their mean loss. `needed`: about how many rows a promise
    takes, if the surest answers stay as they are; None where too many of these are wrong."""

    most_wrong: float
    loss: str
    level: float
    answered: float
    wrong: float
    rows: int
    needed: int | None

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
    return ceil(log(DELTA * STARTS[0][2]) / log1p(-most_wrong))


def promised(held: HeldOut, most_wrong: float, loss: str, least: float = 0.0) -> Guarantee:
    """The lowest level that keeps the risk of what is answered at or below `most_wrong`. No level below `least` is taken."""
    rows, confidence = len(held.confidence), held.confidence
    open_ = np.flatnonzero(held.given & (confidence >= least))
    order = open_[np.argsort(-confidence[open_], kind="stable")]
    sizes = [
        size
        for size in _sizes(len(order), ceil(held.inflation * fewest(most_wrong)))
        if size == len(order)
        or confidence[order[size - 1]] != confidence[order[size]]  # else no level lies between the two
    ]
    above, spare, starts = 0, 0.0, list(STARTS)
    for size in sizes:
        while starts and size >= max(starts[0][0] * sizes[0], starts[0][1] * len(order)):
            spare += starts.pop(0)[2] * DELTA
        if p_value(held.lost[order[:size]], most_wrong, loss, held.inflation) <= spare:
            above = size
        else:
            spare = 0.0
    chosen = order[:above]
    return Guarantee(
        most_wrong,
        loss,
        _below(confidence[order], above, least) if above else inf,
        above / rows if rows else 0.0,
        float(held.lost[chosen].mean()) if above else 0.0,
        rows,
        rows if above else _needed(held, order, most_wrong),
    )


def table(held: HeldOut, loss: str, least: float = 0.0) -> list[dict[str, Any]]:
    """What each promise of SHOWN would take, as scorecards keep it."""
    return [promised(held, most_wrong, loss, least).plain() for most_wrong in SHOWN]


def _sizes(answers: int, first: int) -> list[int]:
    """How many answers each level that is tested lets through, fewest first."""
    return [*range(first, answers, max(1, answers // GRID)), *([answers] if answers >= first else [])]


def _needed(held: HeldOut, order: NDArray[np.intp], most_wrong: float) -> int | None:
    """About how many rows a promise takes if losses stay as they are, by Chernoff's bound; `order` is that of confidence."""
    rows, lost = len(held.confidence), held.lost[order]
    if len(lost) < SUREST:
        return ceil(held.inflation * fewest(most_wrong))
    wanted = []
    for size in _sizes(len(order), SUREST):
        rate = (float(lost[:size].sum()) + 0.5) / (size + 1)
        if rate < most_wrong:
            answers = max(fewest(most_wrong), log(1 / (DELTA * STARTS[0][2])) / _divergence(rate, most_wrong))
            wanted.append(held.inflation * answers * rows / size)
    return ceil(min(wanted)) if wanted else None


def _below(ordered: FloatArray, size: int, least: float) -> float:
    """The level that the first `size` rows are above: just above the confidence of the next row, or `least` where there is none."""
    return float(np.nextafter(ordered[size], np.float32(2))) if size < len(ordered) else least


def p_value(lost: NDArray[np.float64], most_wrong: float, loss: str, inflation: float = 1.0) -> float:
    """How likely a mean loss as small as that of `lost` float64[n] is at most, were the risk above `most_wrong`."""
    count = int(len(lost) / inflation)
    if not count:
        return 1.0
    mean = float(lost.mean())
    if loss == "exact":
        return _binomial(ceil(mean * count - 1e-9), count, most_wrong)
    if mean >= most_wrong:
        return 1.0
    return min(
        exp(-count * _divergence(mean, most_wrong)), exp(1) * _binomial(ceil(mean * count - 1e-9), count, most_wrong)
    )


def _divergence(mean: float, most_wrong: float) -> float:
    """KL(mean, most_wrong) of two Bernoulli laws."""
    return (mean * log(mean / most_wrong) if mean else 0.0) + (1 - mean) * log((1 - mean) / (1 - most_wrong))


def _binomial(successes: int, count: int, p: float) -> float:
    """P(Binomial(count, p) <= successes)."""
    whole = lgamma(count + 1)
    terms = (
        whole - lgamma(k + 1) - lgamma(count - k + 1) + k * log(p) + (count - k) * log1p(-p)
        for k in range(successes + 1)
    )
    return min(1.0, sum(exp(term) for term in terms))


def set_aside(examples: Sequence[Example], seed: int) -> tuple[list[Example], list[Example]]:
    """(what a run learns from, what nothing looks at but the promise): a share of the training examples, by group."""
    train = [e for e in examples if e.split == "train" and e.judges]
    groups = sorted({e.fold_key for e in train})
    order = np.random.Generator(np.random.PCG64(seed)).permutation(len(groups)).tolist()
    chosen = {groups[g] for g in order[: round(SHARE * len(groups))]}
    apart = [e for e in train if e.fold_key in chosen]
    return [e for e in examples if e.split != "train" or e.fold_key not in chosen], apart


def answers_set_aside(wrong: str, data: Prepared, router: Router, apart: Sequence[Example]) -> HeldOut:
    """What the router answers to rows that were set aside, of which every agent was asked."""
    rows = rows_of(apart, data.agents)
    return HeldOut.of(router, rows.take(np.flatnonzero(rows.asked.all(axis=1))), wrong)


def answers_of_fold(wrong: str, data: Prepared, router: Router) -> HeldOut:
    """Of the rows of a fold that judge and of which every agent was asked. Who needs an agent that the fold has not learnt is answered
    wrong."""
    measured = data.measured
    places = [
        i for i, e in enumerate(measured.examples) if e.judges and (e.asked is None or measured.rows.asked[i].all())
    ]
    held = HeldOut.of(router, measured.rows.take(np.array(places, np.intp)), wrong)
    learnt = {agent.id for agent in data.agents}
    foreign = np.array([not measured.examples[i].required <= learnt for i in places], np.bool_)
    return dataclasses.replace(held, lost=np.where(foreign, 1.0, held.lost))
