"""How often the intervals of means and of differences hold, over many laws rather than a few: exactly, over all numbers of queries
that were missed, won or lost; and the range that a learning curve spans, over made-up pools whose next labels were drawn."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import product
from math import exp, lgamma, log
from typing import NamedTuple

import numpy as np

from benchmarks.coverage.figures import Rng, ridge
from training_app.engine.data import metrics
from training_app.engine.judging import next_labels

SIZES = (20, 50, 200)
NOMINAL = (0.92, 0.98)
RIGHT = (0.5, 0.7, 0.85, 0.9, 0.95, 0.98)
DIFFER = (0.05, 0.1, 0.2, 0.4)
GAINS = (0.0, 0.3, 0.5, 0.7, 1.0)
#: Outcomes less likely than this are left out.
RARE = 1e-7


class Law(NamedTuple):
    """Of a query, the probability of a win and by how much, and the same of a loss. A mean is a router that never wins over a
    perfect one."""

    name: str
    win: float
    gain: float
    lose: float
    loss: float

    @property
    def mean(self) -> float:
        return self.win * self.gain - self.lose * self.loss


def means(by: float) -> list[Law]:
    """Routers of which a share is right and that get 1 - `by` of the others."""
    return [Law(f"{right:.0%} right", 0.0, by, 1 - right, by) for right in RIGHT]


def differences(by: float) -> list[Law]:
    """Routers that differ in a share of the queries, of which a share is won, all by as much."""
    return [
        Law(f"{differ:.0%} differ, {won:.0%} of them won", differ * won, by, differ * (1 - won), by)
        for differ, won in product(DIFFER, GAINS)
    ]


#: Small wins and whole losses: what is lost has not been seen while all that was won was small.
UNLIKE = [
    Law("20 % won by a quarter, 8 % lost whole", 0.2, 0.25, 0.08, 1.0),
    Law("10 % won by a quarter, 3 % lost whole", 0.1, 0.25, 0.03, 1.0),
    Law("20 % won by a half, 10 % lost whole", 0.2, 0.5, 0.1, 1.0),
]
FAMILIES: tuple[tuple[str, str, list[Law]], ...] = (
    ("a mean, the others missed whole", "mean", means(1.0)),
    ("a mean, the others half right", "mean", means(0.5)),
    ("a difference, whole", "paired", differences(1.0)),
    ("a difference, by a half", "paired", differences(0.5)),
    ("a difference, by a quarter", "paired", differences(0.25)),
    ("a difference, small wins and whole losses", "paired", UNLIKE),
)


def holds(law: Law, kind: str, n: int) -> float:
    """The probability that the interval of n queries holds the law's mean."""
    covered = 0.0
    for won, lost, chance in _outcomes(n, law.win, law.lose):
        low, high = _ends(kind, n, won, lost, law.gain, law.loss)
        truth = law.mean + (1 if kind == "mean" else 0)
        covered += chance * (low - 1e-9 <= truth <= high + 1e-9)
    return covered


def at_best(law: Law, n: int) -> float:
    """The probability that a test accepts the truth that knows the whole law but for its mean: that of the estimates whose two tails,
    each with itself, have more than 2.5 %. No interval of 95 % that is right on both sides can hold it less often."""
    chances: dict[float, float] = {}
    for won, lost, chance in _outcomes(n, law.win, law.lose):
        apart = round(won * law.gain - lost * law.loss, 9)
        chances[apart] = chances.get(apart, 0.0) + chance
    ordered = np.array([chances[apart] for apart in sorted(chances)])
    kept = (ordered.cumsum() > 0.025) & (ordered[::-1].cumsum()[::-1] > 0.025)
    return float(ordered[kept].sum())


@cache
def _ends(kind: str, n: int, won: int, lost: int, gain: float, loss: float) -> tuple[float, float]:
    apart = np.concatenate([np.full(won, gain), np.full(lost, -loss), np.zeros(n - won - lost)])
    found = metrics.interval(1 + apart) if kind == "mean" else metrics.paired(apart, np.zeros(n))
    return found["low"], found["high"]


def _outcomes(n: int, win: float, lose: float) -> Iterator[tuple[int, int, float]]:
    """(queries won, lost, probability) of the trinomial law."""
    same = 1 - win - lose
    for won in range(n + 1 if win else 1):
        for lost in range(n - won + 1 if lose else 1):
            logs = lgamma(n + 1) - lgamma(won + 1) - lgamma(lost + 1) - lgamma(n - won - lost + 1)
            logs += (won * log(win) if won else 0) + (lost * log(lose) if lost else 0) + (n - won - lost) * log(same)
            if logs > log(RARE):
                yield won, lost, exp(logs)


# ---------------------------------------------------------------------------------------------- the next labels


class World(NamedTuple):
    """A made-up pool: four agents, each needed where a weighted sum of some of the features passes a threshold, give or take noise."""

    name: str
    features: int
    used: float
    noise: float
    seed: int

    def draw(self, rng: Rng, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Features float64[n, features] and required sets bool[n, 4]."""
        made = np.random.default_rng(self.seed)
        weights = made.normal(size=(self.features, 4)) * (made.random((self.features, 4)) < self.used)
        x = rng.normal(size=(n, self.features))
        return x, x @ weights + self.noise * rng.normal(size=(n, 4)) > 0.8

    def learnt_from(self, n: int) -> float:
        """The mean Jaccard of a router that learnt from n queries, over 150 of them and the same 5,000 queries."""
        x, y = self.draw(np.random.default_rng(5), 5_000)
        rng = np.random.default_rng((n, 5))
        made = (ridge(*self.draw(rng, n), self.features) for _ in range(150))
        return float(np.mean([metrics.per_query(router(x), y)["jaccard"].mean() for router in made]))

    def span(self, rng: Rng, n: int) -> tuple[float, float]:
        """What the product says that a hundred labels more bring."""
        x, y = self.draw(rng, n)
        fold, values, sizes = rng.permutation(n) % 5, [], []
        for parts in range(1, 5):
            got = np.empty(n)
            for k in range(5):
                told, out = (fold - k - 1) % 5 < parts, fold == k
                got[out] = metrics.per_query(ridge(x[told], y[told], self.features)(x[out]), y[out])["jaccard"]
            sizes.append(round(n * parts / 5))
            values.append(got)
        gain = next_labels.expected(sizes, np.stack(values), n, int(rng.integers(1 << 30)))["gain"]
        return gain["low"], gain["high"]


NEXT_LABELS = "gain of the next 100 labels"
WORLDS = (
    World("eight features, 60 % of them used", 8, 0.6, 1.0, 10),
    World("24 features, 40 % used", 24, 0.4, 1.0, 7),
    World("24 features, 40 % used, much noise", 24, 0.4, 3.0, 8),
    World("80 features, 15 % used", 80, 0.15, 1.0, 9),
)
LABELS = (100, 200, 400)


def spanned(world: World, n: int, draws: int, seed: int) -> float:
    """In what share of draws the range of the two laws held what the next labels brought."""
    truth = world.learnt_from(n + next_labels.MORE) - world.learnt_from(n)
    rng = np.random.default_rng((seed, n))
    spans = (world.span(rng, n) for _ in range(draws))
    return float(np.mean([low <= truth <= high for low, high in spans]))
