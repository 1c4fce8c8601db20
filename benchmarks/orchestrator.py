"""The orchestrator on its simulated support desk: over seeds, and over the price of a unit of cost.

    python -m benchmarks.orchestrator [--seeds 5] [--json FILE] [--plot FILE.svg]

Every seed trains its own set router (linear) and policies, on its own 800 training and 400 validation tasks, and is measured on
its own 2,000. Intervals of leads are paired by task and count each seed as one observation.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.growth.plot import STYLE
from orchestration_app.engine.orchestrating import baselines
from orchestration_app.engine.orchestrating.environment import Environment, SimulatedWorld, by_network, read_tasks, walk
from orchestration_app.engine.orchestrating.optimum import Optimum
from orchestration_app.engine.orchestrating.policy import Orchestrator
from orchestration_app.engine.orchestrating.rewards import reward_of
from orchestration_app.engine.orchestrating.scorecard import convergence, values
from orchestration_app.engine.orchestrating.support import DESK_SETTINGS, playbook, support_examples, support_pool
from orchestration_app.engine.orchestrating.training import train_policy
from orchestration_app.engine.orchestrator_config import OrchestratorConfig
from orchestration_app.engine.train_orchestrator import Read, problem_of, read_by_router
from training_app.engine.data import intervals

PRICES = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5)
PRICE = 0.1  # at which baselines stand beside it
TASKS = {"train": 800, "val": 400, "test": 2000}


_solved: dict[float, Optimum] = {}


def optimum_at(price: float, config: OrchestratorConfig) -> Optimum:
    """The optimum of the pool at a price, solved once for all seeds."""
    if price not in _solved:
        _solved[price] = Optimum(support_pool(), reward_of(config), config.max_steps)
    return _solved[price]


def one(seed: int, prices: Sequence[float]) -> dict[str, Any]:
    """One seed: {"router_cpu": …, "prices": {price: {"ours": …, "optimum": …, "baselines": …, "cpu": …}}}, each a mean of reward,
    success, cost and steps over the test tasks."""
    pool = support_pool()
    examples = support_examples(pool, TASKS, 100 + seed)
    config = OrchestratorConfig.from_mapping({**DESK_SETTINGS, "seed": seed})
    began = time.process_time()
    reading, read = read_by_router(config, pool.agents, examples), None
    while read is None:
        try:
            next(reading)
        except StopIteration as end:
            read = end.value
    assert isinstance(read, Read)
    found: dict[str, Any] = {"router_cpu": time.process_time() - began, "prices": {}}
    paths = [playbook(pool, e.text) for e in examples if e.split == "train"][:300]
    test = [e.text for e in examples if e.split == "test"]
    for price in prices:
        own = OrchestratorConfig.from_mapping({**config.to_mapping(), "price": price, "baselines": False})
        training = [e for e in examples if e.split != "test"]
        result = None
        for progress in train_policy(own, problem_of(read, training, paths, SimulatedWorld(pool))):
            result = progress.result or result
        assert result is not None
        orchestrator = Orchestrator.load(result.artifact)
        environment = Environment(orchestrator, SimulatedWorld(pool), read_tasks(orchestrator, test), reward_of(own))
        mine = values(
            environment, walk(environment, by_network(orchestrator.network, None), range(len(test)), keep=False)
        )
        row: dict[str, Any] = {"ours": _means(mine), "kept": orchestrator.version_info["kept"], "baselines": {}}
        row["log"] = result.scorecard["log"]
        row["cpu"] = result.scorecard["timing"]["reading"] + result.scorecard["timing"]["policy"]
        optimum = optimum_at(price, own)
        row["optimum"] = optimum.value().plain()
        if price == PRICE:
            best = baselines.optimal(optimum)
            rivals = {**baselines.of_pool(pool, environment, seed), "optimum": best}
            for name, chooser in rivals.items():
                theirs = values(environment, walk(environment, chooser, range(len(test)), keep=False))
                row["baselines"][name] = _means(theirs)
        found["prices"][str(price)] = row
        print(f"seed {seed}, price {price}: {row['ours']}, optimum {row['optimum']['reward']:.3f}", flush=True)
    return found


def _means(found: dict[str, np.ndarray]) -> dict[str, float]:
    return {name: round(float(found[name].mean()), 5) for name in ("reward", "success", "cost", "steps")}


def summary(seeds: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Means over seeds: the lead over each baseline with its interval, and the curve over prices."""
    at = [seed["prices"][str(PRICE)] for seed in seeds]

    def lead(name: str, measure: str) -> dict[str, float]:
        return intervals.spread(
            np.array([row["ours"][measure] - row["baselines"][name][measure] for row in at])
        ).plain()

    curve = []
    for price in PRICES:
        rows = [seed["prices"][str(price)] for seed in seeds if str(price) in seed["prices"]]
        if rows:
            mean = {m: float(np.mean([row["ours"][m] for row in rows])) for m in rows[0]["ours"]}
            curve.append({"price": price, "seeds": len(rows), **mean, "optimum": rows[0]["optimum"]})
    return {
        "ours": {m: float(np.mean([row["ours"][m] for row in at])) for m in at[0]["ours"]},
        "baselines": {
            name: {
                **{m: float(np.mean([row["baselines"][name][m] for row in at])) for m in at[0]["ours"]},
                "lead": {m: lead(name, m) for m in ("reward", "success", "cost")},
            }
            for name in at[0]["baselines"]
        },
        "share_of_optimum": [row["ours"]["reward"] / row["optimum"]["reward"] for row in at],
        "cpu_seconds": float(np.mean([seed["router_cpu"] + row["cpu"] for seed, row in zip(seeds, at, strict=True)])),
        "curve": curve,
        "convergence": convergence([row["log"] for row in at]),
    }


def svg(curve: Sequence[dict[str, Any]]) -> str:
    """Success against mean cost, a point for each price: what was learnt, and dashed the optimum."""
    width, height, left, right, top, bottom = 560, 340, 56, 28, 44, 48
    lines = [
        ("", [(p["cost"], p["success"], p["price"]) for p in curve]),
        (" dashed", [(p["optimum"]["cost"], p["optimum"]["success"], p["price"]) for p in curve]),
    ]
    costs = [point[0] for _, points in lines for point in points]
    low, high = np.floor(min(costs) * 2) / 2, np.ceil(max(costs) * 2) / 2
    floor = np.floor(min(point[1] for _, points in lines for point in points) * 10) / 10

    def x(cost: float) -> float:
        return float(left + (width - left - right) * (cost - low) / (high - low))

    def y(success: float) -> float:
        return float(top + (height - top - bottom) * (1 - (success - floor) / (1 - floor)))

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        'aria-label="Success against mean cost as the price of cost rises; the table beside it has the figures">',
        f"<style>{STYLE}</style>",
        f'<rect class="ground" width="{width}" height="{height}"/>',
        f'<text class="title" x="{left}" y="22">success by mean cost, at λ from 0.02 to 0.5 (dashed: the optimum)</text>',
    ]
    for tick in np.arange(floor, 1.001, 0.1).tolist():
        parts.append(f'<line class="grid" x1="{left}" x2="{width - right}" y1="{y(tick):.1f}" y2="{y(tick):.1f}"/>')
        parts.append(f'<text class="faint" x="{left - 8}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:.1f}</text>')
    for tick in np.arange(low, high + 0.01, 0.5).tolist():
        parts.append(
            f'<text class="faint" x="{x(tick):.1f}" y="{height - bottom + 18}" text-anchor="middle">{tick:g}</text>'
        )
    parts.append(
        f'<text x="{(left + width - right) / 2}" y="{height - 10}" text-anchor="middle">mean cost of an episode</text>'
    )
    for style, points in lines:
        path = " ".join(f"{x(c):.1f},{y(s):.1f}" for c, s, _ in points)
        parts.append(f'<polyline class="line{style}" points="{path}"/>')
        for c, s, price in points:
            parts.append(f'<circle class="dot{" hollow" if style else ""}" cx="{x(c):.1f}" cy="{y(s):.1f}" r="4"/>')
            if not style:
                # Two prices that come to nearly the same cost: the lower one's number stands to the left.
                crowded = any(0 < x(other) - x(c) < 30 for other, _, _ in points)
                place = f'x="{x(c) - 9:.1f}" y="{y(s) + 5:.1f}" text-anchor="end"'
                below = f'x="{x(c):.1f}" y="{y(s) + 20:.1f}" text-anchor="middle"'
                parts.append(f"<text {place if crowded else below}>{price:g}</text>")
    return "\n".join([*parts, "</svg>"]) + "\n"


def table(found: dict[str, Any]) -> str:
    """Both tables in Markdown."""
    lines = ["| | reward | success | cost | steps | our lead in reward |", "| --- | --- | --- | --- | --- | --- |"]
    ours = found["ours"]
    lines.append(
        f"| orchestrator | {ours['reward']:.3f} | {ours['success']:.3f} | {ours['cost']:.2f} | {ours['steps']:.2f} | |"
    )
    for name, row in found["baselines"].items():
        lead = row["lead"]["reward"]
        shown = f"{lead['mean']:+.3f} ({lead['low']:+.3f} to {lead['high']:+.3f})"
        lines.append(
            f"| {name} | {row['reward']:.3f} | {row['success']:.3f} | {row['cost']:.2f} | {row['steps']:.2f} | {shown} |"
        )
    lines += [
        "",
        "| λ | cost | success | reward | optimum's cost | success | reward |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for p in found["curve"]:
        best = p["optimum"]
        learnt = f"{p['cost']:.3f} | {p['success']:.3f} | {p['reward']:.3f}"
        lines.append(f"| {p['price']} | {learnt} | {best['cost']:.3f} | {best['success']:.3f} | {best['reward']:.3f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--curve-seeds", type=int, default=0, help="seeds that walk all prices; 0 is all of them")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--plot", metavar="FILE.svg")
    options = parser.parse_args()
    walking = options.curve_seeds or options.seeds
    found = summary([one(seed, PRICES if seed < walking else (PRICE,)) for seed in range(options.seeds)])
    if options.json:
        Path(options.json).write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    if options.plot:
        Path(options.plot).write_text(svg(found["curve"]), encoding="utf-8")
    print(table(found))
    print(f"share of the optimum: {[round(share, 3) for share in found['share_of_optimum']]}")
    print(f"{found['cpu_seconds']:.1f} CPU seconds to train one, its set router included")


if __name__ == "__main__":
    main()
