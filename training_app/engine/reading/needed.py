"""Whether a query needs anybody at all: one probability from two witnesses. numpy only.

    score(x)        = log(sum over agents of log(1 + e^x_a))        small where no agent's log-odds x_a speak for it
    logit P(needed) = w_1 score(x) + w_2 10 nearness(text) + w_3      ten: so that both vary alike, and are held back alike

Under independence the probability that no agent is needed is exp(-sum log(1 + e^x_a)); the three weights say how much
of that to believe, and what being near to a training query (`nearness.py`) adds. They are fitted on log-odds that no row
had a part in, and on nearness to other rows only. Where validation does not show that nearness helps, beyond the noise,
or too few queries need nobody to learn it from, there is no `Needed`: the answer then costs and says what it did without.

Nearness is that of n-grams, or in meaning (`precedents.Likeness`) where validation shows that this saves more: enough to load the
sentence encoder for it, if the scorer does not read with it already.
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
from training_app.engine.reading import sentences
from training_app.engine.reading.logistic import logistic
from training_app.engine.reading.nearness import Nearness
from training_app.engine.reading.precedents import Likeness

LEAST_TRAIN, LEAST_VAL = 20, 10  # rows that need nobody, and rows that need somebody
SAMPLED = 4_000  # training rows of either kind that the weights are fitted on
WORTH = 0.002  # the loss a query, in nats, that nearness must save on validation to be worth its time
WORTH_ENCODER = 0.01  # what nearness in meaning must save beyond that where nothing else asks for the sentence encoder
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

    nearness: Nearness | Likeness
    weights: NDArray[np.float64]

    def logits(
        self, texts: Sequence[str], log_odds: FloatArray, available: BoolArray | None = None
    ) -> NDArray[np.float64]:
        """The log-odds that each text needs any of the agents available, float64[N]; log_odds and available [N, A]."""
        return self._weighed(score(log_odds, available), self.nearness.of_all(texts))

    def logit_of(self, near: float, log_odds: FloatArray, available: BoolArray) -> float:
        """`logits` of one text of that nearness (`nearness.of`): log_odds float32[A], available bool[A]."""
        each = zip(log_odds.tolist(), available.tolist(), strict=True)
        expected = sum(log1p(exp(-LIMIT if x < -LIMIT else LIMIT if x > LIMIT else x)) for x, on in each if on)
        by_score, by_nearness, constant = self.weights.tolist()
        logit = by_score * log(max(expected, 1e-9)) + by_nearness * SPREAD * near + constant
        return float(max(-SURE, min(SURE, logit)))

    def tensors(self) -> dict[str, NDArray[Any]]:
        """All arrays, by name."""
        return self.nearness.tensors()

    def config(self) -> dict[str, Any]:
        """All else, as JSON-able values."""
        values: dict[str, Any] = {"weights": self.weights.tolist()}
        return {**values, "sentence_encoder": sentences.NAME} if self.reads_meaning else values

    @property
    def reads_meaning(self) -> bool:
        """Whether it asks the sentence encoder."""
        return isinstance(self.nearness, Likeness)

    @classmethod
    def from_parts(cls, config: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> Needed:
        """The inverse of `config` and `tensors`. Raises ValueError, TypeError or KeyError where they do not fit together."""
        weights = np.array([float(w) for w in config["weights"]])
        if weights.shape != PRIOR.shape or not np.isfinite(weights).all():
            raise ValueError("needed: the wrong number of weights")
        if "sentence_encoder" in config:
            sentences.check(str(config["sentence_encoder"]))
            return cls(Likeness.from_tensors(tensors), weights)
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
    encoder: str = "",
) -> tuple[Needed | None, dict[str, Any]]:
    """What was learnt from training `rows`, if validation approves, and a report: {"kept", and where it was tried "weights",
    "none_share", the share of queries that need nobody which the log-odds reckon with, and of validation "auroc": {"scores",
    "with_nearness"}, "loss", "loss_saved": interval, "loss_saved_with_training": interval}, and where meaning was tried the same under
    "meaning"}. `log_odds` float32[M, A] are out-of-fold ones, of the rows whose numbers are `scored` (all, where None). `encoder`: ""
    where nearness in meaning is not to be tried, "loaded" where the scorer reads with the sentence encoder, "there" where it would be
    loaded for this.

    Rows in which some agent was not asked are left out. Both splits are weighed so that queries that need nobody make up
    `none_share`, the assumption on which the policy learns too.
    """
    numbers = np.arange(len(rows)) if scored is None else scored
    whole: BoolArray = np.asarray(rows.asked[numbers].all(axis=1))
    numbers, log_odds = numbers[whole], log_odds[whole]
    val_whole = np.flatnonzero(val.asked.all(axis=1))
    needs: BoolArray = np.asarray(rows.required[numbers].any(axis=1))
    val_needs: BoolArray = np.asarray(val.required[val_whole].any(axis=1))
    if not (_enough(needs, LEAST_TRAIN) and _enough(val_needs, LEAST_VAL)):
        return None, {"kept": False}
    some = _sample(needs, seed)
    seen = _Seen(score(log_odds[some]), needs[some], _counts(needs[some], none_share))
    judged = _Seen(score(val_log_odds[val_whole]), val_needs, _counts(val_needs, none_share))
    texts = [val.texts[i] for i in val_whole.tolist()]
    weighed, place = rows.required & rows.asked, numbers[some]
    made = Nearness.fit(rows.texts, weighed, seed=seed)
    if made is None:
        return None, {"kept": False}
    near = [_without_itself(*made, rows.texts, i) for i in place.tolist()]
    nothing = np.zeros(len(some), np.float32), np.zeros(len(texts), np.float32)
    grams, report, saved = _tried(made[0], seen, judged, (np.array(near, np.float32), made[0].of_all(texts)), nothing)
    report["kept"] = bool(grams.weights[1] > 0 and saved > WORTH and report["loss_saved_with_training"]["low"] > 0)
    fitted_needed = grams if report["kept"] else None
    least = WORTH if encoder == "loaded" else WORTH + WORTH_ENCODER
    lost = report["loss"] - (
        saved if report["kept"] else 0.0
    )  # no nearness saves more; to embed 8,000 queries takes half a minute
    alike = _in_meaning(rows, place, texts, seed) if encoder and lost > least else None
    if alike is not None:
        index, near_in_meaning = alike
        before = nothing if fitted_needed is None else (np.array(near, np.float32), made[0].of_all(texts))
        meaning, meaning_report, saved = _tried(index, seen, judged, near_in_meaning, before)
        surely = meaning_report["loss_saved_with_training"]["low"] > 0
        meaning_report["kept"] = bool(meaning.weights[1] > 0 and saved > least and surely)
        if meaning_report["kept"]:
            fitted_needed, report = meaning, {**meaning_report, "grams": report}
        else:
            report["meaning"] = meaning_report
    report["none_share"] = float(seen.counts[~seen.needs].sum() / seen.counts.sum())
    return fitted_needed, report


@dataclass(frozen=True, slots=True)
class _Seen:
    """Rows that teach or judge: score float64[N], whether they need anybody bool[N], and how much each counts float64[N]."""

    score: NDArray[np.float64]
    needs: BoolArray
    counts: NDArray[np.float64]


def _tried(
    index: Nearness | Likeness,
    seen: _Seen,
    judged: _Seen,
    near: tuple[FloatArray, FloatArray],
    before: tuple[FloatArray, FloatArray],
) -> tuple[Needed, dict[str, Any], float]:
    """What nearness by `index` brings against what was `before` (all 0: the scores alone): (found, report, nats a query saved on
    validation). `near` and `before` are the nearness of the rows that teach and of those that judge."""

    def fitted(nearness: FloatArray) -> Needed:
        columns = [seen.score, SPREAD * nearness.astype(np.float64), np.ones(len(nearness))]
        return Needed(index, logistic(np.stack(columns, axis=1), seen.needs, PRIOR, 3.0, seen.counts))

    with_nearness, without = fitted(near[0]), fitted(before[0])
    ours, theirs = with_nearness._weighed(judged.score, near[1]), without._weighed(judged.score, before[1])
    loss = judged.counts * _loss(theirs, judged.needs)
    saved = loss - judged.counts * _loss(ours, judged.needs)
    # A hundred rows that need nobody are few to tell a gain from noise by: the training rows, scored without themselves,
    # bear witness as well. Three weights fitted on thousands of rows flatter them little.
    inside = _loss(without._weighed(seen.score, before[0]), seen.needs) - _loss(
        with_nearness._weighed(seen.score, near[0]), seen.needs
    )
    alone = fitted(np.zeros_like(near[0]))._weighed(judged.score, np.zeros_like(near[1]))
    report = {
        "weights": with_nearness.weights.tolist(),
        "auroc": {
            "scores": auroc(alone.astype(np.float32), judged.needs),
            "with_nearness": auroc(ours.astype(np.float32), judged.needs),
        },
        "loss": float(loss.mean()),
        "loss_saved": spread(saved).plain(),
        "loss_saved_with_training": spread(np.concatenate([saved, seen.counts * inside])).plain(),
    }
    return with_nearness, report, float(saved.mean())


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


def _in_meaning(
    rows: Rows, place: NDArray[np.int64], texts: Sequence[str], seed: int
) -> tuple[Likeness, tuple[FloatArray, FloatArray]] | None:
    """The index of nearness in meaning, and how near the rows at these places, each without itself, and the `texts` are by it."""
    made = Likeness.fit(rows.texts, rows.required & rows.asked, seed=seed)
    if made is None:
        return None
    index, kept = made
    at = np.minimum(np.searchsorted(kept, place), len(kept) - 1)
    itself = np.where(kept[at] == place, at, -1)
    return index, (index.of_all([rows.texts[i] for i in place.tolist()], itself), index.of_all(texts))


def _without_itself(nearness: Nearness, kept: NDArray[np.int64], texts: Sequence[str], row: int) -> float:
    at = int(kept.searchsorted(row))
    itself = np.array([at]) if at < len(kept) and kept[at] == row else None
    return nearness.of(texts[row], itself)


def _loss(logits: NDArray[np.float64], needs: BoolArray) -> NDArray[np.float64]:
    return np.asarray(np.logaddexp(0.0, np.where(needs, -logits, logits)))
