"""Of the answers given, are at most ε wrong? Runs on several draws of labels make promises, and fresh queries show whether these are
kept."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.promises import pools
from training_app.engine.data.examples import Example
from training_app.engine.routing.router import Router

POOLS = ("mixsnips", "clinc_domains", "costs", "invented")
MOST_WRONG = (0.02, 0.05, 0.10)
LABELS = 800


@dataclass(frozen=True, slots=True)
class Split:
    """One draw: the share of fresh queries that are answered, of these the share that is wrong, and how many they are."""

    most_wrong: float
    answered: float
    wrong: float
    answers: int

    @property
    def kept(self) -> bool:
        return self.wrong <= self.most_wrong


def splits(name: str, data: Path, count: int) -> Iterator[Split]:
    """So many draws for each of MOST_WRONG. A run's scorecard has the level of each."""
    pool = pools.pool(name, data)
    for draw in range(count):
        rows = list(pool.examples)
        random.Random(f"{name} {draw}").shuffle(rows)
        router, card = pools.learnt(
            pool.agents, pools.split(rows[:LABELS]), seed=draw, judging_folds=5, baselines=False, most_wrong=0.05
        )
        levels = {row["most_wrong"]: row["level"] for row in card["promises"]}
        for most_wrong in MOST_WRONG:
            yield _kept(router, pool, rows[LABELS:], most_wrong, levels[most_wrong])


def _kept(router: Router, pool: pools.Pool, fresh: list[Example], most_wrong: float, level: float | None) -> Split:
    """What a router that answers from `level` on does with fresh queries; None: it promises nothing."""
    if level is None:
        return Split(most_wrong, 0.0, 0.0, 0)
    answers = router.answers([e.text for e in fresh])
    given = ~answers.strange & (answers.confidence >= level)
    wrong = ~pools.right(router, pool.agents, fresh)[given]
    return Split(most_wrong, float(given.mean()), float(wrong.mean()) if wrong.size else 0.0, int(np.sum(given)))
