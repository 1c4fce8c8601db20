"""How often intervals hold what they are of: `python -m benchmarks.coverage [--draws N] [--write]`.

Each figure is made again and again from a known truth, at several sizes, by the function that the product calls; what is
counted is how often its interval holds the truth (for the gate and the canary: how often a wrong verdict passes). With
--write the tables of docs/certainty.md are made anew. A few minutes on one core.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from functools import lru_cache
from math import sqrt
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")

import numpy as np

from training_app.engine.data import intervals, metrics, shares
from training_app.engine.data.examples import Agent
from training_app.engine.judging import analysis, folds, next_labels, off_policy, sequential
from training_app.engine.routing import calibration, exploring

DOCS = Path(__file__).parent.parent / "docs" / "certainty.md"
SIZES = (20, 50, 200, 1_000)
Rng = np.random.Generator


class Row(NamedTuple):
    """A figure: its name as docs call it, how it is made, and one draw of it at size n: whether its interval held the truth; None
    where the product shows no interval."""

    name: str
    method: str
    draw: Callable[[Rng, int], bool | None]


# Queries of which a share is exactly right and the others are so far right, as on real pools.
PARTLY = np.array([0, 1 / 3, 0.5, 2 / 3, 0.75])
HOW_OFTEN = np.array([0.3, 0.15, 0.25, 0.2, 0.1])


def jaccards(rng: Rng, n: int, exact: float) -> np.ndarray:
    return np.where(rng.random(n) < exact, 1.0, rng.choice(PARTLY, n, p=HOW_OFTEN))


def mean_of(exact: float) -> Callable[[Rng, int], bool]:
    truth = exact + (1 - exact) * float(PARTLY @ HOW_OFTEN)

    def draw(rng: Rng, n: int) -> bool:
        found = metrics.interval(jaccards(rng, n, exact))
        return found["low"] <= truth <= found["high"]

    return draw


def difference_of(differ: float, gain: float) -> Callable[[Rng, int], bool]:
    """A share of the queries differs; of these `gain` are won by a half, the others lost by as much."""

    def draw(rng: Rng, n: int) -> bool:
        apart = np.where(rng.random(n) < differ, np.where(rng.random(n) < gain, 0.5, -0.5), 0.0)
        found = metrics.paired(apart, np.zeros(n))
        return found["low"] <= differ * (gain - 0.5) <= found["high"]

    return draw


def f1(rng: Rng, n: int) -> bool:
    needed = rng.random(n) < 0.3
    taken = np.where(needed, rng.random(n) < 0.85, rng.random(n) < 0.05)
    row = metrics.by_agent(taken[:, None], needed[:, None], np.ones((n, 1), bool), [Agent(0, "A")])[0]
    hits, chosen = 0.3 * 0.85, 0.3 * 0.85 + 0.7 * 0.05
    truth = 2 * hits / (chosen + 0.3)
    return row["f1_low"] is None or row["f1_low"] <= truth <= row["f1_high"]


def f1_difference(rng: Rng, n: int) -> bool | None:
    needed = rng.random(n) < 0.3
    one = np.where(needed, rng.random(n) < 0.9, rng.random(n) < 0.05)
    other = np.where(needed, one & (rng.random(n) < 0.9), one)
    found = analysis.beside(one[:, None], other[:, None], needed[:, None], np.ones((n, 1), bool), [0])["by_agent"][0]
    if found["difference"] is None:
        return None
    first = 2 * 0.27 / (0.3 + 0.27 + 0.035)
    second = 2 * 0.243 / (0.3 + 0.243 + 0.035)
    return found["difference"]["low"] <= first - second <= found["difference"]["high"]


def auroc(rng: Rng, n: int) -> bool | None:
    positive = rng.random(n) < 0.7
    score = rng.normal(0, 1, n) + 1.8 * positive
    found = metrics.auroc_interval(score.astype(np.float32), positive)
    truth = 0.5 * (1 + _erf(1.8 / 2))  # Φ(1.8 / √2)
    return None if found is None else found["low"] <= truth <= found["high"]


def fpr95(rng: Rng, n: int) -> bool | None:
    positive = rng.random(n) < 0.7
    score = rng.normal(0, 1, n) + 2.5 * positive
    found = metrics.fpr95_interval(score.astype(np.float32), positive, rounds=300, seed=int(rng.integers(1 << 30)))
    truth = 0.5 * (1 - _erf((2.5 - 1.644854) / sqrt(2)))
    return None if found is None else found["low"] <= truth <= found["high"]


def _erf(x: float) -> float:
    from math import erf

    return erf(x)


def share(rng: Rng, n: int) -> bool:
    found = shares.wilson(int((rng.random(n) < 0.85).sum()), n)
    return found["low"] <= 0.85 <= found["high"]


def share_difference(rng: Rng, n: int) -> bool:
    found = shares.difference(int((rng.random(n) < 0.85).sum()), n, int((rng.random(n) < 0.8).sum()), n)
    return found["low"] <= 0.05 <= found["high"]


def alpha(rng: Rng, n: int) -> bool | None:
    from datasets_app.figures.agreement import alpha as of

    truth = rng.random(n) < 0.3
    one, other = (truth ^ (rng.random(n) < 0.1) for _ in range(2))
    counts = np.stack([(~one).astype(float) + ~other, one.astype(float) + other], axis=1)
    found = of(counts, np.array([[0.0, 1.0], [1.0, 0.0]]))
    said = 0.3 * 0.9 + 0.7 * 0.1
    value = 1 - 2 * 0.1 * 0.9 / (2 * said * (1 - said))
    if found.value is None or found.low is None or found.high is None:
        return None
    return found.low <= value <= found.high


def calibration_floor(rng: Rng, n: int) -> bool:
    p = rng.random((n, 3)).astype(np.float32)
    error = metrics.calibration_error(p, rng.random((n, 3)) < p)
    return error <= metrics.calibration_floor(p, rounds=200, seed=int(rng.integers(1 << 30)))


def abstention(rng: Rng, n: int) -> bool:
    return calibration.conformal_level(rng.random(n).astype(np.float32), 0.05) <= 0.05


def snips(rng: Rng, n: int) -> bool | None:
    """A pool that explores a tenth; the candidate answers otherwise in half of the decisions. Released as the product releases it."""
    n *= 10  # decisions with an outcome: at fewer nothing is ever released
    scores = {0: 0.9, 1: 0.6, 2: 0.1}
    flip = exploring.chances((0,), scores)
    far = rng.random(n) < 0.5
    u, who = rng.random(n), rng.choice(list(flip), n, p=list(flip.values()))
    answered = np.where(u < 0.1, who, -1)  # the agent that changed sides, -1 nobody
    candidate = np.where(far, 1, -1)
    chance = np.where(answered == -1, 0.9, 0.1 * np.array([flip.get(a, 1.0) for a in answered.tolist()]))
    own = np.where(candidate == -1, 0.9, 0.1 * flip[1])
    if own[far].sum() < 10 or n**2 / (1 / own).sum() < 30:
        return None
    rate = np.where(answered == 1, 0.8, 0.6)
    success = rng.random(n) < rate
    matched = answered == candidate
    if not matched.any():
        return None
    found = off_policy.estimate(
        success, chance, matched, answered == -1, np.full(n, 0.9), np.full(n, 0.7), np.full(n, 0.7),
        rounds=300, seed=int(rng.integers(1 << 30)),
    )  # fmt: skip
    truth = 0.5 * 0.8 + 0.5 * 0.6
    return found.snips.low <= truth <= found.snips.high


FEATURES = 24  # of a made-up query: those of WEIGHTS that are not 0 say which of four agents it needs
_drawn = np.random.default_rng(7)
WEIGHTS = _drawn.normal(size=(FEATURES, 4)) * (_drawn.random((FEATURES, 4)) < 0.4)


def world(rng: Rng, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Made-up queries: features float64[n, FEATURES] and required sets bool[n, 4]."""
    x = rng.normal(size=(n, FEATURES))
    return x, x @ WEIGHTS + rng.normal(size=(n, 4)) > 0.8


def ridge(x: np.ndarray, y: np.ndarray, seen: int) -> Callable[[np.ndarray], np.ndarray]:
    """Least squares on the first `seen` features: what a router is in this simulation."""
    design = np.c_[x[:, :seen], np.ones(len(x))]
    weights = np.linalg.solve(design.T @ design + 3 * np.eye(seen + 1), design.T @ (2.0 * y - 1))
    return lambda new: np.c_[new[:, :seen], np.ones(len(new))] @ weights > 0


@lru_cache
def learnt_from(n: int) -> float:
    """The mean Jaccard of a router that learnt from n queries, over 300 of them and the same 8,000 queries."""
    x, y = world(np.random.default_rng(5), 8_000)
    rng = np.random.default_rng((n, 5))
    made = (ridge(*world(rng, n), FEATURES) for _ in range(300))
    return float(np.mean([metrics.per_query(router(x), y)["jaccard"].mean() for router in made]))


@lru_cache
def expected(n: int, seen: int) -> float:
    """The mean Jaccard of a router that learnt from four fifths of n queries, over 300 of them and 4,000 queries each."""
    rng = np.random.default_rng((n, seen))
    x, y = world(rng, 4_000)
    made = (ridge(*world(rng, n * 4 // 5), seen) for _ in range(300))
    return float(np.mean([metrics.per_query(router(x), y)["jaccard"].mean() for router in made]))


def folded(rng: Rng, n: int, seen: tuple[int, ...]) -> list[np.ndarray]:
    """What the queries of a pool get from five folds of each router, float64[n]."""
    x, y = world(rng, n)
    fold, found = rng.permutation(n) % 5, [np.empty(n) for _ in seen]
    for k in range(5):
        out = fold == k
        for values, features in zip(found, seen, strict=True):
            values[out] = metrics.per_query(ridge(x[~out], y[~out], features)(x[out]), y[out])["jaccard"]
    return found


def cross_validated(rng: Rng, n: int) -> bool | None:
    if not folds.LEAST <= n <= folds.MOST:
        return None
    found = folds.widened(folded(rng, n, (FEATURES,))[0])
    return found["low"] <= expected(n, FEATURES) <= found["high"]


def lead_in_folds(rng: Rng, n: int) -> dict[str, float]:
    ours, theirs = folded(rng, n, (FEATURES, 18))
    return folds.widened(ours - theirs, paired=True)


def cross_validated_lead(rng: Rng, n: int) -> bool | None:
    if not folds.LEAST <= n <= folds.MOST:
        return None
    found = lead_in_folds(rng, n)
    return found["low"] <= expected(n, FEATURES) - expected(n, 18) <= found["high"]


def next_gain(rng: Rng, n: int) -> bool | None:
    """What a hundred labels more bring, whose truth is the difference of two expectations on the same queries."""
    if not next_labels.LEAST <= n <= next_labels.MOST:
        return None
    x, y = world(rng, n)
    fold, values, sizes = rng.permutation(n) % 5, [], []
    for parts in range(1, 5):
        got = np.empty(n)
        for k in range(5):
            told, out = (fold - k - 1) % 5 < parts, fold == k
            got[out] = metrics.per_query(ridge(x[told], y[told], FEATURES)(x[out]), y[out])["jaccard"]
        sizes.append(round(n * parts / 5))
        values.append(got)
    found = next_labels.expected(sizes, np.stack(values), n, int(rng.integers(1 << 30)))["gain"]
    return found["low"] <= learnt_from(n + next_labels.MORE) - learnt_from(n) <= found["high"]


ROWS = (
    Row("mean Jaccard, 95 % exactly right", "empirical likelihood on [0, 1]", mean_of(0.95)),
    Row("mean Jaccard, 85 % exactly right", "empirical likelihood on [0, 1]", mean_of(0.85)),
    Row("mean Jaccard, 50 % exactly right", "empirical likelihood on [0, 1]", mean_of(0.5)),
    Row("difference of two routers, 10 % differ", "empirical likelihood on [-1, 1], Poisson threshold", difference_of(0.1, 0.7)),
    Row("difference of two routers, 40 % differ", "empirical likelihood on [-1, 1], Poisson threshold", difference_of(0.4, 0.6)),
    Row("mean Jaccard by cross-validation", "empirical likelihood, five folds, variance times 1.4", cross_validated),
    Row("lead by cross-validation", "empirical likelihood, five folds, variance times 1.4", cross_validated_lead),
    Row("gain of the next 100 labels", "two laws of learning curves, bootstrap over rows", next_gain),
    Row("F1 of an agent", "Wilson on the Jaccard of its queries", f1),
    Row("difference of an agent's F1", "empirical likelihood of its linear part", f1_difference),
    Row("AUROC", "Newcombe's method 5", auroc),
    Row("FPR95", "bootstrap of both classes, Beta", fpr95),
    Row("a share: success, exact match live", "Wilson", share),
    Row("difference of two shares", "Newcombe's method 10", share_difference),
    Row("Krippendorff's α", "Fieller by empirical likelihood over queries", alpha),
    Row("calibration error of a perfect scorer below its floor", "drawn from the probabilities", calibration_floor),
    Row("abstention at α = 0.05: the share is not exceeded", "binomial order statistic", abstention),
    Row("off-policy SNIPS, ten times as many decisions", "bootstrap over decisions", snips),
)  # fmt: skip

#: Where a scorecard holds an interval, by a pattern of its path, and which rows vouch for it. A test holds that none is missing.
RELEASED = {
    r"metrics\.(jaccard|precision|recall|f1|exact|success)": "mean Jaccard",
    r"metrics\.(set_size|over|under)": "(counts: Student's t)",
    r"by_size\.[^.]+\.\w+": "mean Jaccard",
    r"baselines\.\w+\.metrics\.\w+": "mean Jaccard",
    r"baselines\.\w+\.difference\.\w+": "difference of two routers",
    r"baselines\.\w+\.by_size\.[^.]+\.difference": "difference of two routers",
    r"baselines\.\w+\.by_agent\.difference": "difference of an agent's F1",
    r"out_of_scope\.auroc_interval": "AUROC",
    r"out_of_scope\.fpr95_interval": "FPR95",
    r"cross_validated\.metrics\.\w+": "mean Jaccard by cross-validation",
    r"cross_validated\.baselines\.\w+\.metrics\.\w+": "mean Jaccard by cross-validation",
    r"cross_validated\.baselines\.\w+\.difference\.\w+": "lead by cross-validation",
    r"next_labels\.gain": "gain of the next 100 labels",
    r"fair_sample\.\w+": "mean Jaccard",
    r"needed\.(\w+\.)?loss_saved\w*": "(losses: Student's t)",
    r"encoder\..*": "(what chose the scorer: Student's t)",
    r"decision\..*": "(what chose the rule: Student's t)",
}


def gate(rng: Rng, n: int, gain: float, loss: float, size: float) -> bool:
    """Whether a model passes the gate's margin of 0.02 that wins and loses so many queries, by `size` each."""
    u = rng.random(n)
    return intervals.careful(size * ((u < gain) * 1.0 - (u > 1 - loss))).low > -0.02


def canary(rng: Rng) -> bool:
    """Whether a canary without any difference is called better or worse at one of 50 looks: the share goes from 5 % to
    50 % while the base falls from 0.80 to 0.75, and requests of one user are alike (correlation 0.1)."""
    users, each = 400, 20
    count = users * each
    lot, unit = rng.random(users), rng.integers(users, size=count)
    ease = rng.beta(0.8 * 9, 0.2 * 9, users) - 0.8
    period = (np.arange(count) >= count // 2).astype(int)
    new = lot[unit] < np.array([0.05, 0.5])[period]
    success = rng.random(count) < np.clip(np.array([0.80, 0.75])[period] + ease[unit], 0, 1)
    for end in np.linspace(count / 50, count, 50).astype(int):
        if min(new[:end].sum(), (~new[:end]).sum()) < 100:
            continue
        found = sequential.difference(success[:end], new[:end], unit[:end], period[:end])
        if found.units >= sequential.FEWEST_UNITS and (found.low > 0 or found.high < 0):
            return True
    return False


def coverage_table(draws: int, seed: int) -> str:
    lines = [
        "| figure | method | " + " | ".join(f"n = {n:,}" for n in SIZES) + " |",
        "| --- | --- |" + " --- |" * len(SIZES),
    ]
    for row in ROWS:
        cells = []
        for n in SIZES:
            rng = np.random.default_rng((seed, n))
            held = [one for one in (row.draw(rng, n) for _ in range(draws)) if one is not None]
            cells.append(f"{100 * np.mean(held):.1f}" if len(held) > draws / 2 else "not shown")
        lines.append(f"| {row.name} | {row.method} | " + " | ".join(cells) + " |")
        print(lines[-1], flush=True)
    return "\n".join(lines)


def gate_table(draws: int, seed: int) -> str:
    sizes = (10, 20, 50, 100, 200, 500, 2_000)
    cases = (
        ("worse: loses 2 % whole", 0.0, 0.02, 1.0), ("worse: loses 3 % whole", 0.0, 0.03, 1.0),
        ("worse: loses 5 % whole", 0.0, 0.05, 1.0), ("worse: loses 10 % whole", 0.0, 0.10, 1.0),
        ("worse by 0.02: wins 10 %, loses 14 %, by a half", 0.10, 0.14, 0.5),
        ("worse by 0.02: wins 20 %, loses 22 %, whole", 0.20, 0.22, 1.0),
        ("better by 0.05: wins 5 % whole", 0.05, 0.0, 1.0), ("better by 0.05: wins 15 %, loses 5 %, by a half", 0.15, 0.05, 0.5),
        ("better by 0.05: wins 20 %, loses 10 %, by a half", 0.20, 0.10, 0.5),
    )  # fmt: skip
    lines = [
        "| passes the gate, % | " + " | ".join(f"n = {n:,}" for n in sizes) + " |",
        "| --- |" + " --- |" * len(sizes),
    ]
    for name, *case in cases:
        cells = []
        for n in sizes:
            rng = np.random.default_rng((seed, n))
            cells.append(f"{100 * np.mean([gate(rng, n, *case) for _ in range(draws)]):.1f}")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
        print(lines[-1], flush=True)
    cells = []
    for n in sizes:
        rng = np.random.default_rng((seed, n))
        if folds.LEAST <= n <= folds.MOST:
            truth = expected(n, FEATURES) - expected(n, 18)
            passed = [lead_in_folds(rng, n)["low"] > truth for _ in range(draws // 2)]
            cells.append(f"{100 * np.mean(passed):.1f}")
        else:
            cells.append("–")
    lines.append("| by cross-validation: worse by the margin, n labels | " + " | ".join(cells) + " |")
    print(lines[-1], flush=True)
    return "\n".join(lines)


def _put(text: str, name: str, content: str) -> str:
    """The page with `content` between the marks of that name."""
    begin, end = f"<!-- {name} -->\n", "<!-- end -->"
    before, _begin, rest = text.partition(begin)
    return before + begin + content + "\n" + end + rest.partition(end)[2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", action="store_true", help="put the tables into docs/certainty.md")
    asked = parser.parse_args()
    began = time.process_time()
    tables = {"coverage": coverage_table(asked.draws, asked.seed), "gate": gate_table(2 * asked.draws, asked.seed)}
    rng = np.random.default_rng(asked.seed)
    wrong = np.mean([canary(rng) for _ in range(max(asked.draws // 2, 1))])
    tables["canary"] = (
        f"A canary without any difference was called better or worse at one of 50 looks in {100 * wrong:.1f} % of "
        f"{max(asked.draws // 2, 1)} simulated ones."
    )
    print(tables["canary"])
    if asked.write:
        text = DOCS.read_text("utf-8")
        for name, table in tables.items():
            text = _put(text, name, table)
        made = (
            f"{asked.draws} draws a cell of the first table, {2 * asked.draws} of the second, seed {asked.seed}, "
            f"{time.process_time() - began:.0f} CPU seconds."
        )
        text = _put(text, "made", made)
        DOCS.write_text(text, "utf-8")


if __name__ == "__main__":
    import django

    django.setup()
    main()
