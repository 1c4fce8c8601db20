"""Does the range of exactly right answers that a page states hold what fresh queries show?"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.promises import pools
from training_app.engine.data.examples import Example
from training_app.engine.data.intervals import Interval
from training_app.engine.judging import shift

LABELS = 60
FRESH = 600  # queries that show the truth
#: Traffic of the second question: shares of queries for several agents and for nobody, of which no label knows.
SEVERAL, NOBODY = 0.30, 0.15
#: Pools of the second question, which have queries for one agent.
SHIFTED = ("costs", "invented", "mixsnips", "clinc_domains", "nlupp_hotels")


@dataclass(frozen=True, slots=True)
class Draw:
    """One draw of labels: the range, the truth, and whether a warning was given."""

    low: float
    high: float
    truth: float
    warned: bool = False

    @property
    def held(self) -> bool:
        return self.low <= self.truth <= self.high


def alike(name: str, data: Path, draws: int) -> Iterator[Draw]:
    """Labels and fresh queries drawn alike."""
    pool = pools.pool(name, data)
    for draw in range(draws):
        rows = list(pool.examples)
        random.Random(f"{name} {draw}").shuffle(rows)
        router, card = pools.learnt(pool.agents, pools.split(rows[:LABELS]), seed=draw)
        exact = card["cross_validated"]["metrics"]["exact"]
        fresh = rows[LABELS : LABELS + FRESH]
        yield Draw(exact["low"], exact["high"], float(pools.right(router, pool.agents, fresh).mean()))


def apart(name: str, data: Path, draws: int) -> Iterator[Draw]:
    """Labels that need one agent each; traffic with queries for several and for nobody too."""
    pool = pools.pool(name, data)
    outside = [e for e in pools.pool("clinc_domains", data).examples if not e.required]
    for draw in range(draws):
        rng = random.Random(f"{name} {draw}")
        rows = list(pool.examples)
        rng.shuffle(rows)
        one = [e for e in rows if len(e.required) == 1]
        several = [e for e in rows if len(e.required) > 1] or _joined(one[LABELS:], rng)
        nobody = [e for e in rows if not e.required]
        nobody += [replace(e, required=frozenset()) for e in rng.sample(outside, 100)] if len(nobody) < 90 else []
        labeled = pools.split(one[:LABELS])
        rest = one[LABELS : LABELS + round(FRESH * (1 - SEVERAL - NOBODY))]
        whole = len(rest) / (1 - SEVERAL - NOBODY)
        fresh = [*rest, *several[: round(SEVERAL * whole)], *nobody[: round(NOBODY * whole)]]
        router, card = pools.learnt(pool.agents, labeled, seed=draw)
        exact = card["cross_validated"]["metrics"]["exact"]
        found = shift.compare([e.text for e in labeled], [1] * LABELS, [e.text for e in fresh])
        assert found is not None
        range_ = found.expected(Interval(exact["mean"], exact["low"], exact["high"]))
        truth = float(pools.right(router, pool.agents, fresh).mean())
        yield Draw(range_.low, range_.high, truth, found.differs or found.lacking)


def _joined(one: Sequence[Example], rng: random.Random) -> list[Example]:
    """Queries for two agents, made of two for one each."""
    found: list[Example] = []
    while len(found) < FRESH * SEVERAL:
        first, second = rng.sample(list(one), 2)
        if first.required != second.required:
            text = f"{first.text} and {second.text}"
            found.append(Example(f"both {len(found)}", text, first.required | second.required, None, "test"))
    return found
