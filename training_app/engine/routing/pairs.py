"""Which agents go together beyond what the text says of each: evidence of pairs, learnt out of fold. numpy only.

With x_a the log-odds of agent a, and S some of the other agents that are required, the rest unknown,

    logit P(a required | x, S) = s_a x_a + c_a + Σ_{b in S} W_ba

is one logistic regression an agent, S drawn at random from the other required agents of each row (as in the pseudo-likelihood of
Besag 1975, but for half of the others at a time), drawn to W = 0, s = 1, c = 0. W_ba > 0 says that a comes with b, W_ba < 0 that it
comes instead. In a walk the selected agents stand for S: `policy.conditional` moves the log-odds that the network sees.

`fit_pairwise` fits the same regressions with all other required agents known, W made symmetric: the log-linear model of Besag (1974)
by its pseudo-likelihood, which the exact rule decides by (`exact.py`). In pools of up to LISTED agents what it saves is the likelihood
of whole sets, by the sum over all of them; in larger ones it is the pseudo-likelihood, and only pairs that TOGETHER rows hold count.
Rows count as the network draws them, as in the other rules: those that need nobody are rarer among labels than in traffic.

The rows that a policy learns from have taught W, so each row is shown a W that was fitted without its fold; the one of all rows
serves. W is kept where it saves at least LEAST_GAIN nats a query on rows that it has not seen, and surely more than nothing. The exact
rule keeps it only where its sets are surely worth more on such rows, too: where one cause stands behind several agents, each of their
log-odds tells of it, pairs count it once more, and a likelier model chooses worse sets.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from training_app.engine.data.arrays import BoolArray, FloatArray
from training_app.engine.data.intervals import spread
from training_app.engine.reading.logistic import logistic
from training_app.engine.routing.bayes import Pairwise
from training_app.engine.routing.exact import LISTED, energies, within

if TYPE_CHECKING:  # it brings torch
    from training_app.engine.routing.ddqn import Queries

MOST_AGENTS = 32  # in larger pools a policy looks at a short list of agents, and no pair is learnt
LEAST_ROWS = 100
FOLDS = 5
RIDGE = 2.0  # observations that draw each number to where it begins
LEAST_GAIN = 0.01
TOGETHER = 10  # rows of a large pool that need both agents, fewer are no pair
MOST_COLUMNS = 300  # agents of a pool in which the exact rule looks for pairs
MOST_DECIDED = 2_000  # rows whose sets are compared: an interval of more is no narrower than what is looked for


@dataclass(frozen=True, slots=True)
class Pairs:
    """`weights` float32[FOLDS + 1, A, A]: W without each fold, and at last of all rows; `fold` int64[N] of the rows; `gain`: what W
    saves a row that it has not seen, in nats, {"mean", "low", "high"}."""

    weights: FloatArray
    fold: NDArray[np.int64]
    gain: dict[str, float]

    @property
    def kept(self) -> bool:
        """Whether the evidence is worth its cost."""
        return self.gain["low"] > 0 and self.gain["mean"] >= LEAST_GAIN


def fit_pairs(queries: Queries, seed: int) -> Pairs | None:
    """Evidence of pairs from queries with out-of-fold log-odds; None where there are too few of them, too many agents, or one agent
    only."""
    x, asked = queries.x, queries.asked
    required = queries.required & asked
    rows, agents = x.shape
    if rows < LEAST_ROWS or not 2 <= agents <= MOST_AGENTS:
        return None
    rng = np.random.Generator(np.random.PCG64(seed))
    fold = queries.folds(FOLDS, seed)
    evidence = required & asked & (rng.random(required.shape) < 0.5)
    weights = np.zeros((FOLDS + 1, agents, agents), np.float32)
    gain = np.zeros(rows)
    for a in range(agents):
        alone = np.stack([x[:, a].astype(np.float64), np.ones(rows)], axis=1)  # (N, 2)
        others = np.arange(agents) != a
        with_pairs = np.concatenate([alone, evidence[:, others]], axis=1)  # (N, 1 + A)
        y = required[:, a]
        for k in range(FOLDS + 1):
            learned = (fold != k) & asked[:, a]
            fitted = logistic(with_pairs[learned], y[learned], _prior(agents + 1), RIDGE)
            weights[k, others, a] = fitted[2:]
            if k < FOLDS:
                unseen = (fold == k) & asked[:, a]
                plain = logistic(alone[learned], y[learned], _prior(2), RIDGE)
                gain[unseen] += _loss(alone[unseen] @ plain, y[unseen]) - _loss(with_pairs[unseen] @ fitted, y[unseen])
    return Pairs(weights, fold, spread(gain).plain())


def _prior(numbers: int) -> NDArray[np.float64]:
    prior = np.zeros(numbers)
    prior[0] = 1
    return prior


def _loss(z: NDArray[np.float64], y: BoolArray) -> NDArray[np.float64]:
    """Cross-entropy in nats of log-odds."""
    return np.logaddexp(0, np.where(y, -z, z))


#: What the sets of some unseen queries (the second) are worth with pairs more than without, float64[N], by rules of the first.
Lead = Callable[["Queries", "Queries", Pairwise], NDArray[np.float64]]


def fit_pairwise(queries: Queries, seed: int, lead: Lead) -> tuple[Pairwise | None, dict[str, Any] | None]:
    """The log-linear model of queries with out-of-fold log-odds, and what it saves a row that it has not seen, in nats, {"mean",
    "low", "high", "worth"}, with `worth` the `lead` of its sets as such an interval, where that was looked at. The model is None where
    that is not surely enough; both are where it is not tried."""
    whole = np.flatnonzero(queries.asked.all(axis=1))
    agents = queries.x.shape[1]
    if len(whole) < LEAST_ROWS or not 2 <= agents <= MOST_COLUMNS:
        return None, None
    complete = queries.take(whole)
    counts = np.ones(len(whole)) if queries.weight is None else queries.weight[whole] / queries.weight[whole].mean()
    own, required = complete.x.astype(np.float64), complete.required
    beside = ~np.eye(agents, dtype=np.bool_)
    if agents > LISTED:
        beside &= required.T.astype(np.float64) @ required >= TOGETHER
    if not beside.any():
        return None, None
    fold = complete.folds(FOLDS, seed)
    gain, fitted = np.zeros(len(whole)), []
    for k in range(FOLDS):
        learned, unseen = fold != k, fold == k
        alone = _regressions(own[learned], required[learned], np.zeros_like(beside), counts[learned])
        with_pairs = _regressions(own[learned], required[learned], beside, counts[learned])
        gain[unseen] = _log_p(with_pairs, own[unseen], required[unseen]) - _log_p(alone, own[unseen], required[unseen])
        fitted.append(with_pairs)
    saved: dict[str, Any] = spread(counts * gain).plain()
    if saved["low"] <= 0 or saved["mean"] < LEAST_GAIN:
        return None, saved
    some = np.flatnonzero(np.arange(len(whole)) % -(-len(whole) // MOST_DECIDED) == 0)
    leads = np.zeros(len(whole))
    for k in range(FOLDS):
        judged = some[fold[some] == k]
        leads[judged] = lead(complete.take(np.flatnonzero(fold != k)), complete.take(judged), fitted[k])
    worth = spread(counts[some] * leads[some]).plain()
    kept = _regressions(own, required, beside, counts) if worth["low"] > 0 else None
    return kept, saved | {"worth": worth}


def _regressions(
    x: NDArray[np.float64], required: BoolArray, beside: BoolArray, counts: NDArray[np.float64]
) -> Pairwise:
    """One logistic regression an agent on its log-odds and on those of the other agents that stand `beside` it, bool[A, A]; a row
    counts as `counts` float64[N] says."""
    rows, agents = x.shape
    scale, shift = np.ones(agents, np.float32), np.zeros(agents, np.float32)
    weights = np.zeros((agents, agents))
    for a in range(agents):
        others = np.flatnonzero(beside[a])
        features = np.concatenate([x[:, [a]], np.ones((rows, 1)), required[:, others]], axis=1)
        fitted = logistic(features, required[:, a], _prior(2 + len(others)), RIDGE, counts)
        scale[a], shift[a], weights[a, others] = max(fitted[0], 0.05), fitted[1], fitted[2:]
    return Pairwise(scale, shift, ((weights + weights.T) / 2).astype(np.float32))


def _log_p(model: Pairwise, x: NDArray[np.float64], required: BoolArray) -> NDArray[np.float64]:
    """log P of each row's required set, float64[N]; in a larger pool its pseudo-likelihood."""
    weights, agents = model.weights.astype(np.float64), x.shape[1]
    if agents > LISTED:
        own = np.stack([model.z(row) for row in x]) + required @ weights
        return -_loss(own, required).sum(axis=1)
    log_p, inside = np.empty(len(x)), within(weights)
    for row, (own, needs) in enumerate(zip(x, required, strict=True)):
        e = energies(model.z(own), inside)
        at = int(needs @ (1 << np.arange(agents)[::-1]))
        top = e.max()
        log_p[row] = e[at] - top - np.log(np.exp(e - top).sum())
    return log_p
