"""How many labels each order of the queue takes for what random order has with so many: labeling, simulated.

    .venv/bin/python -m benchmarks.queue_order DIR... [--labels 300] [--draws 5] [--pool 1500] [--every 20]

Each DIR holds agents.jsonl, train.jsonl and test.jsonl. Of the training queries at most --pool wait; the first START labels are drawn
at random, and every --every labels a scorer is refitted and ranks what waits. It is the quick one of a new pool (word and character
n-grams, the sentence encoder, the agents' descriptions as rows), by kernel ridge regression, so that each of hundreds of fits takes
milliseconds; its log-odds come from rows left out one at a time, and Bayes' rule answers. Prints, for each order, the mean test
Jaccard on the way, made to rise (isotonic regression: a mean of few draws goes up and down), and how many labels fewer it takes to
what random order has at --labels.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from training_app.engine.data.arrays import BoolArray, FloatArray
from training_app.engine.data.folders import read_folder
from training_app.engine.data.metrics import jaccard
from training_app.engine.data.rows import rows_of
from training_app.engine.judging import asking_order
from training_app.engine.reading import sentences
from training_app.engine.reading.fused_fit import SCALE, described
from training_app.engine.reading.linear import fit_tfidf
from training_app.engine.reading.logistic import logistic, sigmoid
from training_app.engine.routing.bayes import BayesPolicy

START = 20  # labels that are drawn at random, whatever the order
TEST = 800  # test queries
RIDGE = 0.5  # of the kernel regression: with kernels of about six on the diagonal, a row of its own weighs most


@dataclass(frozen=True)
class Pool:
    """Queries that wait, then those of the test, then what agents say of themselves; all known to whoever simulates."""

    kernel: NDArray[np.float64]  # [N, N]
    features: FloatArray  # [waiting, F], of `asking_order`
    required: BoolArray  # [N, A]
    waiting: int
    test: int

    @property
    def said(self) -> NDArray[np.int64]:
        return np.arange(self.waiting + self.test, len(self.required))


def pool_of(folder: Path, most: int) -> Pool:
    """The pool of a folder, `most` waiting queries of it."""
    found = read_folder(folder)
    rng = np.random.Generator(np.random.PCG64(0))
    parts = []
    for examples, count in ((found.train, most), (found.test, TEST)):
        drawn = np.sort(rng.permutation(len(examples))[:count])
        parts.append(rows_of([examples[i] for i in drawn.tolist()], found.agents))
    waiting, test = parts
    taught = described(found.agents)
    texts = [str(text) for text in (*waiting.texts, *test.texts, *taught.texts)]
    _, grams = fit_tfidf(texts)
    vectors = sentences.embed(texts)
    kernel = np.asarray((grams @ grams.T).todense()) + SCALE**2 * (vectors @ vectors.T)
    required = np.concatenate([waiting.required, test.required, taught.required])
    seen = asking_order.features([str(text) for text in waiting.texts])
    return Pool(kernel.astype(np.float64), seen, required, len(waiting), len(test))


def log_odds(pool: Pool, labeled: NDArray[np.int64]) -> FloatArray:
    """Of every row by a scorer that has learnt from those `labeled` and from what agents say: float32[N, A].

    α = (K + λ)⁻¹ (y − ȳ),   margin = K α + ȳ,   of row i left out: y_i − α_i / ((K + λ)⁻¹)_ii       (Rifkin and Lippert 2007)
    """
    known = np.concatenate([labeled, pool.said])
    y = 2.0 * pool.required[known] - 1
    centre = y[: len(labeled)].mean(axis=0)
    inverse = np.linalg.inv(pool.kernel[np.ix_(known, known)] + RIDGE * np.eye(len(known)))
    alpha = inverse @ (y - centre)
    left_out = (y - alpha / np.diag(inverse)[:, None])[: len(labeled)]
    margins = pool.kernel[:, known] @ alpha + centre
    features = np.stack([left_out.ravel(), np.ones(left_out.size)], axis=1)
    scale, shift = logistic(features, pool.required[labeled].ravel(), np.array([2.0, 0.0]), 3.0)
    return np.asarray(max(scale, 0.1) * margins + shift, np.float32)


@dataclass(frozen=True)
class Waiting:
    """What an order sees: log-odds float32[N, A] and features float32[N, F] of what waits, `labeled` float32[L, F]."""

    log_odds: FloatArray
    features: FloatArray
    labeled: FloatArray
    rng: np.random.Generator

    @property
    def probabilities(self) -> NDArray[np.float64]:
        """float64[N, A]."""
        return np.asarray(sigmoid(self.log_odds.astype(np.float64)))


def at_random(waiting: Waiting, count: int) -> list[int]:
    """Whichever."""
    return waiting.rng.permutation(len(waiting.log_odds))[:count].tolist()


def least_certain(waiting: Waiting, count: int) -> list[int]:
    """By entropy, summed over agents."""
    p = np.clip(waiting.probabilities, 1e-9, 1 - 1e-9)
    entropy = -(p * np.log2(p) + (1 - p) * np.log2(1 - p)).sum(axis=1)
    return np.argsort(-entropy, kind="stable")[:count].tolist()


def least_like(waiting: Waiting, count: int) -> list[int]:
    """By how unlike everything labeled they are."""
    return np.argsort((waiting.features @ waiting.labeled.T).max(axis=1), kind="stable")[:count].tolist()


def doubted_and_varied(waiting: Waiting, count: int) -> list[int]:
    """The queue's own order, "uncertain and varied"."""
    doubt = asking_order.expected_loss(waiting.probabilities)
    return asking_order.varied(waiting.features, doubt, waiting.labeled, limit=count)


ORDERS: dict[str, Callable[[Waiting, int], Sequence[int]]] = {
    "random": at_random,
    "uncertainty": least_certain,
    "novelty": least_like,
    "diverse": doubted_and_varied,
}


def curve(pool: Pool, order: str, labels: int, every: int, draw: int) -> list[float]:
    """Mean test Jaccard with START labels, START + every, … up to `labels`."""
    rng = np.random.Generator(np.random.PCG64(draw))
    labeled = rng.permutation(pool.waiting)[:START].astype(np.int64)
    test = np.arange(pool.waiting, pool.waiting + pool.test)
    found = []
    while True:
        x = log_odds(pool, labeled)
        sets = BayesPolicy(1.0, 0.0).sets(x[test], np.ones_like(pool.required[test]))[0]
        found.append(float(jaccard(sets, pool.required[test]).mean()))
        if len(labeled) >= labels or len(labeled) + every > pool.waiting:
            return found
        left = np.setdiff1d(np.arange(pool.waiting), labeled)
        waiting = Waiting(x[left], pool.features[left], pool.features[labeled], rng)
        labeled = np.concatenate([labeled, left[np.asarray(ORDERS[order](waiting, every), np.int64)]])


def rising(values: Sequence[float]) -> list[float]:
    """The nearest sequence that never falls, by pooling neighbours that do (Ayer et al. 1955)."""
    blocks: list[tuple[float, int]] = []
    for value in values:
        mean, count = float(value), 1
        while blocks and blocks[-1][0] > mean:
            before, size = blocks.pop()
            mean, count = (mean * count + before * size) / (count + size), count + size
        blocks.append((mean, count))
    return [mean for mean, count in blocks for _ in range(count)]


def saved(found: Sequence[float], wanted: float, labels: int, every: int) -> float:
    """The share of `labels` that a rising curve saves where it reaches what is `wanted`; 0 where it does not."""
    for place, value in enumerate(found):
        if value >= wanted - 1e-9:
            before = found[place - 1] if place else value
            part = (wanted - before) / (value - before) if value > before else 1.0
            return 1 - (START + every * (place - 1 + part)) / labels
    return 0.0


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, metavar="DIR")
    parser.add_argument("--labels", type=int, default=300)
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--first", type=int, default=0, help="the number of the first draw")
    parser.add_argument("--pool", type=int, default=1500)
    parser.add_argument("--every", type=int, default=20)
    options = parser.parse_args()
    total: dict[str, list[float]] = {name: [] for name in ORDERS}
    for folder in options.folders:
        pool = pool_of(folder, options.pool)
        print(f"{folder.name}: {pool.waiting} queries wait, {pool.required.shape[1]} agents, {pool.test} test queries")
        wanted = 0.0
        for name in ORDERS:
            draws = range(options.first, options.first + options.draws)
            each = [curve(pool, name, options.labels, options.every, draw) for draw in draws]
            mean = rising(np.mean(each, axis=0).tolist())
            wanted = mean[-1] if name == "random" else wanted
            share = saved(mean, wanted, options.labels, options.every)
            total[name].append(share)
            steps = " ".join(f"{value:.3f}" for value in mean[:: max(1, 60 // options.every)])
            print(f"  {name:14} {share:6.1%} fewer   Jaccard {steps}", flush=True)
    for name, shares in total.items():
        print(f"{name:16} {np.mean(shares):6.1%} fewer on average")


if __name__ == "__main__":
    main()
