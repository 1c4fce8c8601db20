"""Routers between backends on a folder of outcomes: train.jsonl, val.jsonl and test.jsonl, as `benchmark_backends` reads them.

A row has `text`, `category` (may be missing) and `outcomes`: a list of {backend, success, cost}. Every router gives points of mean
cost and mean quality on test; what it chooses was settled on train and val.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orchestration_app.engine.backends import choosing, direct, estimator, measures
from orchestration_app.engine.backends.direct import DirectEstimate, Outcomes
from orchestration_app.engine.backends.estimator import Labels
from orchestration_app.engine.backends.measures import Point, Traded
from training_app.engine.reading import sentences

Floats = NDArray[np.float64]
#: Of quality a dollar, from "cost is nothing" to "nothing but cost".
LAMBDAS = np.concatenate([[0.0], np.geomspace(0.1, 1e7, 400)])
FLOORS = np.linspace(0.0, 1.0, 101)
NOISES = (0.0, 0.1, 0.2, 0.3)
COUNTS = (3, 5, 10, 20, 200)
OURS = "routerweb"


class BenchmarkError(ValueError):
    """A folder that cannot be measured; the message names file and line."""


# --- Reading ------------------------------------------------------------------------------------------------------


def read(folder: str | Path) -> tuple[Outcomes, Outcomes, Outcomes]:
    """Train, val and test. Raises BenchmarkError, and OSError where a file is missing."""
    train = _read(Path(folder) / "train.jsonl", None)
    return train, *(_read(Path(folder) / name, train.backends) for name in ("val.jsonl", "test.jsonl"))  # type: ignore[return-value]


def _read(path: Path, backends: tuple[str, ...] | None) -> Outcomes:
    texts, categories, outcomes = [], [], []
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
                texts.append(str(row["text"]))
                categories.append(str(row.get("category") or ""))
                outcomes.append(
                    {
                        str(outcome["backend"]): (float(outcome["success"]), float(outcome["cost"]))
                        for outcome in row["outcomes"]
                    }
                )
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise BenchmarkError(f"{path}, line {number}: {type(error).__name__}: {error}") from None
    if not outcomes:
        raise BenchmarkError(f"{path} has no rows")
    names = backends or tuple(sorted({name for row in outcomes for name in row}))
    for number, row in enumerate(outcomes, 1):
        if set(row) != set(names):
            raise BenchmarkError(
                f"{path}, row {number}: the backends are not those of train.jsonl: {sorted(set(row) ^ set(names))}"
            )
    both = np.array([[row[name] for name in names] for row in outcomes])  # [N, B, 2]
    if not np.isfinite(both).all():
        raise BenchmarkError(f"{path}: success and cost must be finite numbers")
    return Outcomes(texts, categories, both[:, :, 0], both[:, :, 1], names)


# --- Routers ------------------------------------------------------------------------------------------------------


def benchmark(folder: str | Path, tell: Callable[[str], None] = lambda _line: None) -> dict[str, Any]:
    """Every router's figures on test, `{"routers": {name: {aiq, best_quality, cost_at_95, cost_at_100}}, …}`, and their points."""
    train, validation, test = read(folder)
    with sentences.remembering():
        tell("fitting the direct estimate")
        began = time.process_time()
        fitted = direct.fit(train, validation)
        seconds = time.process_time() - began
        tell("estimating the test queries")
        measured = points(fitted, train, validation, test)
    routers = {name: measures.traded(some, test.success, test.cost) for name, some in measured.items()}
    each = [
        {"backend": name, "quality": float(test.success[:, b].mean()), "cost": float(test.cost[:, b].mean())}
        for b, name in enumerate(test.backends)
    ]
    return {
        "routers": {name: result.as_json() for name, result in routers.items()},
        "queries": {"train": len(train), "val": len(validation), "test": len(test)},
        "backends": each,
        "points": {name: measures.hull(some) for name, some in measured.items()},
        "fit_cpu_seconds": round(seconds, 1),
        "slope": fitted.slope,
    }


def points(fitted: DirectEstimate, train: Outcomes, validation: Outcomes, test: Outcomes) -> dict[str, list[Point]]:
    """Every router's points on test."""
    success, cost = test.success, test.cost
    worth, price = fitted.estimate(test.texts, test.categories)
    each = list(zip(cost.mean(axis=0).tolist(), success.mean(axis=0).tolist(), strict=True))
    mean_cost = train.cost.mean(axis=0)
    terms = fitted.terms
    fitted.terms = ()
    by_category = fitted.estimate(test.texts, test.categories)[0]
    fitted.terms = ("kernel",)
    linear = fitted.estimate(test.texts, test.categories)[0]
    fitted.terms = terms
    return {
        OURS: measures.curve(worth, price, success, cost, LAMBDAS),
        "linear": measures.curve(linear, price, success, cost, LAMBDAS),
        "nearest neighbours": measures.curve(nearest(fitted, validation, test), price, success, cost, LAMBDAS),
        "by category": measures.curve(by_category, price, success, cost, LAMBDAS),
        "cheapest above a floor": floors(worth, price, success, cost),
        "complexity rule": complexity_rule(train, validation, test),
        "supervised classifier": [classified(train, test)],
        "single backends": each,
        "largest only": [each[int(np.argmax(mean_cost))]],
        "smallest only": [each[int(np.argmin(mean_cost))]],
        "oracle": measures.curve(success, cost, success, cost, LAMBDAS),
    }


def nearest(fitted: DirectEstimate, validation: Outcomes, test: Outcomes) -> Floats:
    """What the k most alike training queries say, k by the best AIQ on val; float64[N, B]."""
    price = fitted.estimate(validation.texts, validation.categories)[1]

    def judged(k: int) -> float:
        worth = fitted.nearest(validation.texts, validation.categories, k)
        curve = measures.curve(worth, price, validation.success, validation.cost, LAMBDAS)
        return measures.traded(curve, validation.success, validation.cost).aiq

    return fitted.nearest(test.texts, test.categories, max(direct.NEIGHBOURS, key=judged))


def floors(worth: Floats, price: Floats, success: Floats, cost: Floats) -> list[Point]:
    """The cheapest backend whose estimate reaches a floor, the likeliest where none does; a point for each floor."""
    rows = np.arange(len(worth))
    curve = []
    for floor in FLOORS:
        reaches = worth >= floor
        cheapest = np.argmin(np.where(reaches, price, np.inf), axis=1)
        chosen = np.where(reaches.any(axis=1), cheapest, np.argmax(worth, axis=1))
        curve.append((float(cost[rows, chosen].mean()), float(success[rows, chosen].mean())))
    return curve


def complexity_rule(train: Outcomes, validation: Outcomes, test: Outcomes) -> list[Point]:
    """Simple queries to the cheapest backend, hard ones to the best, at each threshold of what the estimator says of complexity: the
    share of backends that fail."""
    small, large = int(np.argmin(train.cost.mean(axis=0))), int(np.argmax(train.success.mean(axis=0)))
    names = sorted(set(train.categories))

    def labels(rows: Outcomes) -> Labels:
        kinds = [names.index(name) if name in names else -1 for name in rows.categories]
        return Labels(rows.texts, 1 - rows.success.mean(axis=1), np.array(kinds), np.full(len(rows), np.nan))

    complexity = estimator.fit(labels(train), labels(validation), len(names)).estimate(test.texts)[0]
    success, cost, rows = test.success, test.cost, np.arange(len(test))
    curve = []
    for threshold in np.quantile(complexity, np.linspace(0, 1, 41)):
        chosen = np.where(complexity >= threshold, large, small)
        curve.append((float(cost[rows, chosen].mean()), float(success[rows, chosen].mean())))
    return curve


def classified(train: Outcomes, test: Outcomes) -> Point:
    """One point: a classifier of the cheapest backend that succeeds, the best single where none does."""
    best = int(np.argmax(train.success.mean(axis=0)))
    cheapest = np.argmin(np.where(train.success > 0.5, train.cost, np.inf), axis=1)
    wanted = np.where((train.success > 0.5).any(axis=1), cheapest, best)
    labels = np.eye(len(train.backends))[wanted]
    fitted = direct.fit(Outcomes(train.texts, train.categories, labels, train.cost, train.backends), terms=("kernel",))
    chosen = np.argmax(fitted.estimate(test.texts, test.categories)[0], axis=1)
    rows = np.arange(len(test))
    return float(test.cost[rows, chosen].mean()), float(test.success[rows, chosen].mean())


# --- Noise and numbers of backends ----------------------------------------------------------------------------------


def noise(folder: str | Path, seeds: int = 5) -> list[dict[str, float]]:
    """Success, cost and efficiency of the balanced choice on test with noise on every estimate, σ of NOISES."""
    train, validation, test = read(folder)
    fitted = direct.fit(train, validation)
    worth, price = fitted.estimate(test.texts, test.categories)
    scale = float(train.cost.mean(axis=0).max())
    preference = choosing.PRESETS["balanced"]
    rows, levels = np.arange(len(test)), []
    for sigma in NOISES:
        drawn = []
        for seed in range(seeds):
            rng = np.random.Generator(np.random.PCG64(seed))
            noisy = np.clip(worth + sigma * rng.standard_normal(worth.shape), 0, 1)
            chosen = np.argmax(preference.quality * noisy - preference.cost * price / scale, axis=1)
            good, spent = float(test.success[rows, chosen].mean()), float(test.cost[rows, chosen].mean())
            drawn.append((good, spent, measures.efficiency(good, spent, 0.0)))
        success, cost, efficiency = np.mean(drawn, axis=0).tolist()
        levels.append({"noise": sigma, "success": success, "cost": cost, "efficiency": efficiency})
    return levels


def decision_times(counts: Sequence[int] = COUNTS, rounds: int = 2000) -> list[dict[str, float]]:
    """Microseconds of one choice, median and 99th percentile, for each number of backends."""
    rng = np.random.Generator(np.random.PCG64(0))
    results = []
    for count in counts:
        figures = rng.uniform(size=(count, 4))
        candidates = [choosing.Candidate(key, *(float(x) for x in row)) for key, row in enumerate(figures)]
        preference = choosing.PRESETS["balanced"]
        seconds = []
        for _ in range(rounds):
            began = time.perf_counter_ns()
            choosing.choose(candidates, preference)
            seconds.append((time.perf_counter_ns() - began) / 1000)
        middle, late = np.percentile(seconds, [50, 99]).tolist()
        results.append({"backends": count, "p50": middle, "p99": late})
    return results


def table(figures: dict[str, Any]) -> list[str]:
    """The routers as lines for a terminal, the largest AIQ first."""

    def shown(value: float | None) -> str:
        return "–" if value is None else f"{value:.2f}"

    lines = [f"{'router':<24} {'AIQ':>7} {'best':>7} {'cost at 95%':>12} {'at 100%':>8}"]
    for name, result in sorted(figures["routers"].items(), key=lambda item: -item[1]["aiq"]):
        lines.append(
            f"{name:<24} {result['aiq']:7.4f} {result['best_quality']:7.4f} "
            f"{shown(result['cost_at_95']):>12} {shown(result['cost_at_100']):>8}"
        )
    return lines


__all__ = ["Traded", "benchmark", "decision_times", "noise", "points", "read", "table"]
