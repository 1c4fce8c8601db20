"""Whether a query needs anybody at all: one probability from two witnesses. numpy only.

    score(x)        = log(sum over agents of log(1 + e^x_a))        small where no agent's log-odds x_a speak for it
    logit P(needed) = w_1 score(x) + w_2 10 nearness(text) + w_3      ten: so that both vary alike, and are held back alike

Under independence the probability that no agent is needed is exp(-sum log(1 + e^x_a)); the three weights say how much
of that to believe, and what being near to a training query (`nearness.py`) adds. They are fitted on log-odds that no row
had a part in, and on nearness to other rows only. Where validation does not show that nearness helps, beyond the noise,
or too few queries need nobody to learn it from, there is no `Needed`: the answer then costs and says what it did without.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, log, log1p
from typing import Any

import numpy as np
from numpy.typing import NDArray

from training_app.engine.data.arrays import BoolArray, FloatArray
from training_app.engine.data.intervals import spread
from training_app.engine.data.metrics import auroc
from training_app.engine.data.rows import Rows, draw_weights
from training_app.engine.reading.logistic import logistic
from training_app.engine.reading.nearness import Nearness

LEAST_TRAIN, LEAST_VAL = 20, 10  # rows that need nobody, and rows that need somebody
SAMPLED = 4_000  # training rows of either kind that the weights are fitted on
WORTH = 0.002  # the loss a query, in nats, that nearness must save on validation to be worth its time
LIMIT = 12.0  # log-odds beyond this say nothing more
SURE = 8.0  # a logit beyond this says nothing more
SPREAD = 10.0  # nearness is taken times this
PRIOR = np.array([1.0, 0.0, 0.0])


def score(log_odds: FloatArray, available: BoolArray | None = None) -> NDArray[np.float64]:
    """How the log-odds alone speak for any agent of those `available` (all, where None), float64[...]; both [..., A]."""
    expected = np.log1p(np.exp(np.clip(log_odds.astype(np.float64), -LIMIT, LIMIT)))
    if available is not None:
        expected = np.where(available, expected, 0)
    return np.asarray(np.log(np.maximum(expected.sum(axis=-1), 1e-9)))


@dataclass(frozen=True)
class Needed:
    """The index of training queries, and the `weights` float64[3] of score, nearness and 1."""

    nearness: Nearness
    weights: NDArray[np.float64]

    def logits(
        self, texts: Sequence[str], log_odds: FloatArray, available: BoolArray | None = None
    ) -> NDArray[np.float64]:
        """The log-odds that each text needs any of the agents available, float64[N]; log_odds and available [N, A]."""
        return self._weighed(score(log_odds, available), self.nearness.of_all(texts))

    def logit_of(self, text: str, log_odds: FloatArray, available: BoolArray) -> float:
        """`logits` of one text: log_odds float32[A], available bool[A]."""
        each = zip(log_odds.tolist(), available.tolist(), strict=True)
        expected = sum(log1p(exp(-LIMIT if x < -LIMIT else LIMIT if x > LIMIT else x)) for x, on in each if on)
        by_score, by_nearness, constant = self.weights.tolist()
        found = by_score * log(max(expected, 1e-9)) + by_nearness * SPREAD * self.nearness.of(text) + constant
        return float(max(-SURE, min(SURE, found)))

    def tensors(self) -> dict[str, NDArray[Any]]:
        """All arrays, by name."""
        return self.nearness.tensors()

    def config(self) -> dict[str, Any]:
        """All else, as JSON-able values."""
        return {"weights": self.weights.tolist()}

    @classmethod
    def from_parts(cls, config: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> Needed:
        """The inverse of `config` and `tensors`. Raises ValueError, TypeError or KeyError where they do not fit together."""
        weights = np.array([float(w) for w in config["weights"]])
        if weights.shape != PRIOR.shape or not np.isfinite(weights).all():
            raise ValueError("needed: the wrong number of weights")
        return cls(Nearness.from_tensors(tensors), weights)

    def _weighed(self, scores: NDArray[np.float64], near: FloatArray) -> NDArray[np.float64]:
        by_score, by_nearness, constant = self.weights.tolist()
        return np.clip(by_score * scores + by_nearness * SPREAD * near.astype(np.float64) + constant, -SURE, SURE)


def fit(
    log_odds: FloatArray,
    rows: Rows,
    val_log_odds: FloatArray,
    val: Rows,
    *,
    scored: NDArray[np.int64] | None = None,
    none_share: float,
    seed: int,
) -> tuple[Needed | None, dict[str, Any]]:
    """What was learnt from training `rows`, if validation approves, and a report: {"kept", and where it was tried "weights",
    and of validation "auroc": {"scores", "with_nearness"}, "loss", "loss_saved": interval, "loss_saved_with_training":
    interval}. `log_odds` float32[M, A] are out-of-fold ones, of the rows whose numbers are `scored` (all, where None).

    Rows in which some agent was not asked are left out. Both splits are weighed so that queries that need nobody make up
    `none_share`, the assumption on which the policy learns too.
    """
    numbers = np.arange(len(rows)) if scored is None else scored
    whole: BoolArray = np.asarray(rows.asked[numbers].all(axis=1))
    numbers, log_odds = numbers[whole], log_odds[whole]
    val_whole: BoolArray = np.asarray(val.asked.all(axis=1))
    val_texts = [text for text, full in zip(val.texts, val_whole.tolist(), strict=True) if full]
    needs: BoolArray = np.asarray(rows.required[numbers].any(axis=1))
    val_needs: BoolArray = np.asarray(val.required[val_whole].any(axis=1))
    if not (_enough(needs, LEAST_TRAIN) and _enough(val_needs, LEAST_VAL)):
        return None, {"kept": False}
    made = Nearness.fit(rows.texts, rows.required & rows.asked, seed=seed)
    if made is None:
        return None, {"kept": False}
    nearness, kept = made
    some = _sample(needs, seed)
    near = [_without_itself(nearness, kept, rows.texts, i) for i in numbers[some].tolist()]
    seen = score(log_odds[some]), np.array(near, np.float32)
    columns = [seen[0], SPREAD * seen[1], np.ones(len(some))]
    counts = _counts(needs[some], none_share)
    weights = logistic(np.stack(columns, axis=1), needs[some], PRIOR, 3.0, counts)
    columns[1] = np.zeros(len(some))
    alone = logistic(np.stack(columns, axis=1), needs[some], PRIOR, 3.0, counts)

    found, unaided = Needed(nearness, weights), Needed(nearness, alone)
    scores, val_near = score(val_log_odds[val_whole]), nearness.of_all(val_texts)
    with_nearness, without = found._weighed(scores, val_near), unaided._weighed(scores, val_near)
    share = _counts(val_needs, none_share)
    loss = share * _loss(without, val_needs)
    saved = loss - share * _loss(with_nearness, val_needs)
    # A hundred rows that need nobody are few to tell a gain from noise by: the training rows, scored without themselves,
    # bear witness as well. Three weights fitted on thousands of rows flatter them little.
    inside = counts * (_loss(unaided._weighed(*seen), needs[some]) - _loss(found._weighed(*seen), needs[some]))
    report = {
        "weights": weights.tolist(),
        "auroc": {
            "scores": auroc(scores.astype(np.float32), val_needs),
            "with_nearness": auroc(with_nearness.astype(np.float32), val_needs),
        },
        "loss": float(loss.mean()),
        "loss_saved": spread(saved).plain(),
        "loss_saved_with_training": spread(np.concatenate([saved, inside])).plain(),
    }
    surely = report["loss_saved_with_training"]["low"] > 0
    report["kept"] = bool(weights[1] > 0 and saved.mean() > WORTH and surely)
    return (found if report["kept"] else None), report


def _enough(needs: BoolArray, least: int) -> bool:
    return least <= int((~needs).sum()) <= len(needs) - least


def _counts(needs: BoolArray, none_share: float) -> NDArray[np.float64]:
    """How much each row counts, of mean one."""
    drawn = draw_weights(needs[:, None], none_share)
    return np.ones(len(needs)) if drawn is None else drawn / drawn.mean()


def _sample(needs: BoolArray, seed: int) -> NDArray[np.int64]:
    """At most SAMPLED rows of either kind."""
    rng = np.random.Generator(np.random.PCG64(seed))
    kinds = [rng.permutation(np.flatnonzero(kind))[:SAMPLED] for kind in (needs, ~needs)]
    return np.sort(np.concatenate(kinds))


def _without_itself(nearness: Nearness, kept: NDArray[np.int64], texts: Sequence[str], row: int) -> float:
    at = int(kept.searchsorted(row))
    itself = np.array([at]) if at < len(kept) and kept[at] == row else None
    return nearness.of(texts[row], itself)


def _loss(logits: NDArray[np.float64], needs: BoolArray) -> NDArray[np.float64]:
    return np.asarray(np.logaddexp(0.0, np.where(needs, -logits, logits)))
