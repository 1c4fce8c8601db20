"""What the simulators say, each a function that returns figures; `manage.py simulate` prints them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from orchestration_app.engine.backends import gap, policies
from orchestration_app.engine.backends.benchmark import NOISES, decision_times
from orchestration_app.engine.backends.choosing import PRESETS, Preference
from orchestration_app.engine.backends.load import LoadTracker
from orchestration_app.engine.backends.measures import efficiency
from orchestration_app.engine.backends.model_pool import ModelPool, Pool
from orchestration_app.engine.backends.policies import Estimated, Policy, Run, fitted, run

Rows = list[dict[str, Any]]
#: Weighs success so that it hardly falls below the largest backend's.
CAREFUL = Preference.of(0.9, 0.08, 0.02)
SIMPLEX = [(a / 10, b / 10, (10 - a - b) / 10) for a in range(11) for b in range(11 - a)]


def learnt(env: ModelPool, seed: int) -> np.ndarray[Any, Any]:
    """The direct estimate's weights, from a stream of its own with little load."""
    quiet = ModelPool(env.pool, load=env.load, noise=env.noise)
    return fitted(quiet, 10_000 + seed)


def ways(pool: Pool, weights: Any) -> dict[str, Policy]:
    """Every way to choose, by name."""
    large, small = int(np.argmax(pool.price.sum(axis=1))), int(np.argmin(pool.price.sum(axis=1)))
    estimate = Estimated(weights, CAREFUL)
    return {
        "direct estimate, careful": estimate,
        "direct estimate, balanced": Estimated(weights, PRESETS["balanced"]),
        "direct estimate, best": Estimated(weights, PRESETS["best"]),
        "cheapest above 0.9": policies.cheapest_above(estimate, 0.9),
        "complexity rule": policies.complexity_rule(small, large),
        "supervised classifier": policies.classified(weights),
        "largest only": policies.constant(large),
        "smallest only": policies.constant(small),
        "oracle": policies.oracle,
    }


def compared(pool: Pool, seeds: int = 5, load: float = 0.4, calls: int = 2_000) -> Rows:
    """Every way on the same streams: means over seeds; cost beside the largest's."""
    runs: dict[str, list[Run]] = {}
    for seed in range(seeds):
        env = ModelPool(pool, load=load)
        for name, way in ways(pool, learnt(env, seed)).items():
            runs.setdefault(name, []).append(run(env, way, seed, calls))
    largest = np.mean([run.cost for run in runs["largest only"]])
    return [
        {
            "way": name, "success": _mean(some, "success"), "cost": _mean(some, "cost"),
            "less": 1 - _mean(some, "cost") / float(largest), "latency": _mean(some, "latency"), "p95": _mean(some, "p95"),
            "efficiency": efficiency(_mean(some, "success"), _mean(some, "cost"), _mean(some, "latency")),
            "imbalance": _mean(some, "imbalance"), "shares": np.mean([run.shares for run in some], axis=0).round(3).tolist(),
            "by_category": np.mean([run.by_category for run in some], axis=0).round(3).tolist(),
            "backends": list(pool.names), "categories": list(pool.categories),
        }
        for name, some in runs.items()
    ]  # fmt: skip


def preferences(pool: Pool) -> dict[str, Any]:
    """Each of 66 preferences against every constant backend: who is better in success, cost and latency at once."""
    env = ModelPool(pool, load=0.05)  # nobody waits: a constant backend is at its best
    seed, calls = 0, 600
    weights = learnt(env, seed)
    constants = [run(env, policies.constant(backend), seed, calls) for backend in range(env.count)]
    runs = {each: run(env, Estimated(weights, Preference.of(*each)), seed, calls) for each in SIMPLEX}
    dominated = [
        each for each, run in runs.items()
        if any(
            other.likely > run.likely + 1e-9 and other.cost < run.cost - 1e-12 and other.latency < run.latency - 1e-9
            for other in constants
        )
    ]  # fmt: skip
    line = [
        run(env, Estimated(weights, Preference.of(0.7 * (1 - w), w, 0.3 * (1 - w))), seed, calls).cost
        for w in np.linspace(0, 1, 21).tolist()
    ]
    return {
        "preferences": len(runs), "dominated": dominated, "cost_by_its_weight": line,
        "monotone": all(later <= before * (1 + 1e-9) for before, later in pairwise(line)),
        "best_success": runs[1.0, 0.0, 0.0].likely, "best_constant": max(constant.likely for constant in constants),
        "cheapest_cost": runs[0.0, 1.0, 0.0].cost, "cheapest_constant": min(constant.cost for constant in constants),
    }  # fmt: skip


def hot(pool: Pool, seeds: int = 20, calls: int = 800) -> dict[str, Any]:
    """The load penalty on and off, paired over seeds: imbalance σ / μ, and what it costs in success with its 95 % interval."""
    preference = Preference.of(0.95, 0.05, 0.0)
    lost, off, on = [], [], []
    for seed in range(seeds):
        env = ModelPool(pool, load=0.4)
        weights = learnt(env, seed % 5)
        before = run(env, Estimated(weights, preference, queues=False), seed, calls)
        after = run(env, Estimated(weights, preference, queues=False, spread=LoadTracker()), seed, calls)
        lost.append(before.likely - after.likely)
        off.append(before.imbalance)
        on.append(after.imbalance)
    within = 1.96 * float(np.std(lost, ddof=1)) / seeds**0.5
    return {
        "imbalance_off": float(np.mean(off)), "imbalance_on": float(np.mean(on)), "success_lost": float(np.mean(lost)),
        "within": within, "returns": returns(),
    }  # fmt: skip


def returns() -> list[int]:
    """Two backends, one a little better: whom the penalty takes, twelve times in a row."""
    tracker, rows = LoadTracker(), []
    for _ in range(12):
        worth = np.array([0.90, 0.85]) - np.array([tracker.penalty(member, (0, 1)) for member in (0, 1)])
        rows.append(int(np.argmax(worth)))
        tracker.record(rows[-1])
    return rows


def rising(pool: Pool, seeds: int = 3, calls: int = 1_500) -> Rows:
    """λ rises to and past the best backend's μ: who is taken, and p95 latency in seconds, beside the best backend alone."""
    preference = Preference.of(0.985, 0.0, 0.015)
    best = int(np.argmax(pool.skill.mean(axis=1) - pool.slope))
    rows = []
    for share in (0.1, 0.3, 0.5, 0.7, 0.9, 1.0, 1.2):
        with_queue, without = [], []
        for seed in range(seeds):
            env = ModelPool(pool, load=share * float(pool.rate[best]))
            weights = learnt(env, seed)
            with_queue.append(run(env, Estimated(weights, preference), seed, calls))
            without.append(run(env, policies.constant(best), seed, calls))
        rows.append({
            "load": share, "taken": float(np.mean([run.shares[best] for run in with_queue])),
            "p95": _mean(with_queue, "p95"), "p95_constant": _mean(without, "p95"), "success": _mean(with_queue, "success"),
        })  # fmt: skip
    return rows


def noise(pool: Pool, seeds: int = 5, calls: int = 1_500) -> Rows:
    """What the estimator's noise takes from efficiency, the direct estimate learnt under the same noise."""
    rows = []
    for sigma in NOISES:
        each = []
        for seed in range(seeds):
            env = ModelPool(pool, load=0.4, noise=sigma)
            each.append(run(env, Estimated(learnt(env, seed), CAREFUL), seed, calls))
        whole = efficiency(_mean(each, "likely"), _mean(each, "cost"), _mean(each, "latency"))
        rows.append(
            {"noise": sigma, "success": _mean(each, "likely"), "cost": _mean(each, "cost"), "efficiency": whole}
        )
    for row in rows:
        row["lost"] = 1 - row["efficiency"] / rows[0]["efficiency"]
    return rows


def gaps(seeds: int = 300) -> Rows:
    """The share of the gap that each learner closes, with half of its 95 % interval; the specialist an agent, or one pair alone."""
    return [
        {"learner": name, "by_pair": by_pair, "share": result.share, "within": result.within}
        for by_pair in (False, True)
        for name in gap.LEARNERS
        for result in (gap.closed(name, seeds, by_pair=by_pair),)
    ]


def ppo_beside(
    pool: Pool, steps: int, seeds: int = 3, calls: int = 1_000, tell: Callable[[str], None] = print
) -> dict[str, Any]:
    """PPO against the direct estimate, paired over seeds: w · r of a call, over ten preferences. Imports torch."""
    from orchestration_app.engine.backends import ppo

    env = ModelPool(pool, load=0.4)
    differences, scores = [], {"ppo": [], "direct estimate": []}  # type: ignore[var-annotated]
    drawn = [Preference.of(*w) for w in np.random.Generator(np.random.PCG64(5)).dirichlet(np.ones(3), 10)]
    for seed in range(seeds):
        served = None
        for done, reward, served in ppo.train(env, ppo.PpoSettings(steps=steps), seed):  # noqa: B007
            pass
        tell(f"seed {seed}: {steps:,} steps")
        weights = learnt(env, seed)
        assert served is not None
        for wanted in drawn:
            vector = (wanted.quality, wanted.cost, wanted.latency)
            ours, theirs = (
                _worth(env, run(env, way, 50 + seed, calls), vector)
                for way in (served.taking(vector), Estimated(weights, wanted))
            )
            scores["ppo"].append(ours)
            scores["direct estimate"].append(theirs)
            differences.append(ours - theirs)
    within = 1.96 * float(np.std(differences, ddof=1)) / len(differences) ** 0.5
    means = {name: float(np.mean(each)) for name, each in scores.items()}
    return {"steps": steps, **means, "difference": float(np.mean(differences)), "within": within}


def collaboration(steps: int = 20_000, seeds: int = 3) -> Rows:
    """What always signalling earns a round, and PPO beside Q-learning on the mended reward, after so many steps. Imports torch."""
    from orchestration_app.engine.backends.collaboration import SIGNAL, Collaboration

    rows: Rows = []
    for published in (True, False):
        env = Collaboration(published=published)
        env.reset(seed=0)
        earned = [env.step(SIGNAL)[1] for _ in range(100)]
        rows.append({
            "who": "always signals", "published": published, "steps": 0, "a_round": float(np.sum(earned[-4:])),
            "largest_in_matrix": float(env.matrix.max()),
        })  # fmt: skip
    for some in (2_048, steps):
        for who, learn in (("Q-learning", _tabular), ("PPO", _optimised)):
            each = []
            for seed in range(seeds):
                env = Collaboration(published=False)
                act = learn(env, some, seed)
                env.reset(seed=900 + seed)
                each.append(float(np.mean([env.step(act())[1] for _ in range(env.length)])) * env.agents)
            rows.append({"who": who, "published": False, "steps": some, "a_round": float(np.mean(each))})
    return rows


def _tabular(env: Any, steps: int, seed: int) -> Callable[[], int]:
    from orchestration_app.engine.backends.collaboration import Tabular

    table = Tabular(env, np.random.Generator(np.random.PCG64(seed)))
    table.learn(steps)
    return lambda: table.action(int(np.argmax(table.values[table.state()])))


def _optimised(env: Any, steps: int, seed: int) -> Callable[[], int]:
    from orchestration_app.engine.backends import ppo

    served = [served for _done, _reward, served in ppo.train(env, ppo.PpoSettings(steps=steps), seed)][-1]
    even = np.full(3, 1 / 3)
    return lambda: int(np.argmax(served.probabilities(np.concatenate([env.observation(), even]).astype(np.float32))))


def estimated() -> dict[str, Any]:
    """The estimator on its made-up queries: error of complexity, accuracy and Brier score of category and tool, on test."""
    from orchestration_app.engine.backends import estimator

    train, validation, test = estimator.generated(seed=0)
    complexity, category, tool = estimator.fit(train, validation, len(estimator.CATEGORIES), 0).estimate(test.texts)
    return {
        "queries": list(estimator.SIZES),
        "complexity_mae": float(np.abs(complexity - test.complexity).mean()),
        "category_accuracy": float((category.argmax(axis=1) == test.category).mean()),
        "category_confidence": float(category.max(axis=1).mean()),
        "tool_accuracy": float(((tool > 0.5) == test.tool).mean()),
        "tool_brier": float(((tool - test.tool) ** 2).mean()),
    }


def counts() -> Rows:
    """Microseconds of a choice by number of backends."""
    return decision_times()


def _worth(env: ModelPool, run: Run, weights: Sequence[float]) -> float:
    return weights[0] * run.likely - weights[1] * run.cost / env.dearest - weights[2] * run.latency / env.slowest


def _mean(some: Sequence[Run], name: str) -> float:
    return float(np.mean([getattr(run, name) for run in some]))
