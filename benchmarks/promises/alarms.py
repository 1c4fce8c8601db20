"""How soon a broken promise is told, how often a kept one is, and how often a headline names a better model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from training_app.engine.data import metrics, shares
from training_app.engine.judging import sequential
from training_app.rollout.promises import SURPRISING

Rng = np.random.Generator
PROMISED, DELIVERED = 0.8, 0.6
CHECKED = 212  # queries that the promise is made on, as an example
MONTH = 600  # outcomes of a quiet month


@dataclass(frozen=True, slots=True)
class AlarmResult:
    """Whether outcomes told within 60, whether 30 checked answers did, and whether a kept promise was told of in a month."""

    outcomes: bool
    checks: bool
    false: bool


def alarm_of(rng: Rng) -> AlarmResult:
    """One pool with a broken promise, and one with a kept one."""
    promised = rng.binomial(CHECKED, PROMISED) / CHECKED
    range_ = shares.wilson(round(promised * CHECKED), CHECKED)
    spread = (range_["high"] - range_["low"]) / (2 * shares.Z)
    within = sequential.broken(promised, spread, rng.random(60) < DELIVERED)
    surprised = sequential.surprise(promised, spread, int(rng.binomial(30, DELIVERED)), 30) <= SURPRISING
    false = sequential.broken(promised, spread, rng.random(MONTH) < PROMISED)
    false |= sequential.surprise(promised, spread, int(rng.binomial(30, PROMISED)), 30) <= SURPRISING
    return AlarmResult(within, surprised, bool(false))


def named(rng: Rng, queries: int, better: float, alike: float = 0.6) -> bool:
    """Whether of two models on the same queries one is named better, as a verdict does; the new one is right in `better` more of them.

    `alike`: on such a share of the queries both are right or wrong together.
    """
    base, together = 0.6, rng.random(queries) < alike
    common = rng.random(queries) < base
    # Where they go apart, the new one is right more often by so much that the whole differs by `better`.
    ours = np.where(together, common, rng.random(queries) < base + better / (1 - alike))
    theirs = np.where(together, common, rng.random(queries) < base)
    lead = metrics.paired(ours.astype(float), theirs.astype(float), "exact")
    return queries >= 50 and (lead["bound"] > 0 or lead["high"] < 0)
