"""Of the answers given, are at most ε wrong? Routers of several trainings, and for each many splits into rows that the promise is made
on and rows that show whether it is kept."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.promises import pools
from training_app.engine.data.rows import rows_of
from training_app.engine.routing import guarantee

POOLS = ("mixsnips", "clinc_domains", "costs", "invented")
MOST_WRONG = (0.02, 0.05, 0.10)
LABELS, APART = 500, 300  # labeled queries that are learnt from, and that are set aside for the promise
TRAININGS = 10


@dataclass(frozen=True, slots=True)
class Split:
    """One split: the share of fresh queries that are answered, of these the share that is wrong, and how many they are."""

    most_wrong: float
    answered: float
    wrong: float
    answers: int

    @property
    def kept(self) -> bool:
        return self.wrong <= self.most_wrong


def splits(name: str, data: Path, count: int) -> Iterator[Split]:
    """So many splits for each of MOST_WRONG."""
    pool = pools.pool(name, data)
    for training in range(TRAININGS):
        rows = list(pool.examples)
        random.Random(f"{name} {training}").shuffle(rows)
        router, _card = pools.learnt(
            pool.agents, pools.split(rows[:LABELS]), seed=training, judging_folds=0, baselines=False
        )
        fresh = rows_of(rows[LABELS:], router.agents)
        log_odds, selected = router.log_odds(fresh.texts), router.selections(fresh.texts)
        confidence = router.certainty(fresh.texts, log_odds, selected)
        given = ~router.strangers(fresh.texts, log_odds, selected)
        lost = guarantee.losses(selected, fresh.required, "exact")
        rng = np.random.default_rng(training)
        for _ in range(count // TRAININGS):
            order = rng.permutation(len(lost))
            apart, rest = order[:APART], order[APART:]
            for most_wrong in MOST_WRONG:
                found = guarantee.promised(
                    guarantee.HeldOut(confidence[apart], lost[apart], given[apart]), most_wrong, "exact"
                )
                answered = given[rest] & (confidence[rest] >= found.level)
                wrong = float(lost[rest][answered].mean()) if answered.any() else 0.0
                yield Split(most_wrong, float(answered.mean()), wrong, int(answered.sum()))
