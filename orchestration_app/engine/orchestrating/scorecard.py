"""The scorecard of an orchestrator: what it does on measured tasks, beside every baseline on the same tasks. numpy only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from orchestration_app.engine.orchestrating import baselines
from orchestration_app.engine.orchestrating.environment import (
    Chooser,
    Environment,
    SimulatedWorld,
    Walk,
    by_network,
    walk,
)
from orchestration_app.engine.orchestrating.optimum import Optimum
from training_app.engine.data import intervals


def scorecard(
    measured: Environment,
    train: Environment | None = None,
    *,
    llm: Chooser | None = None,
    llm_tasks: int = 0,
    seed: int = 0,
) -> dict[str, Any]:
    """Everything measured on the tasks of `measured`; JSON-able. Baselines learn on `train`, and are left out
    without it. `llm` walks `llm_tasks` of the tasks, drawn at random, and is compared on those.

    `metrics` holds the mean of each measure with its interval: reward r - λ C (undiscounted, costs counted once, time
    among them), success (a whole score), score (0 to 1), cost in the pool's currency, seconds that its calls took one after another,
    steps (calls). `baselines` have the same, and the paired interval of
    the policy's lead as `difference`. `utilisation` is each agent's share of all calls and the share of episodes that call it.
    """
    agents = [agent.id for agent in measured.orchestrator.agents]
    ours = walk(measured, by_network(measured.orchestrator.network, None), range(len(measured)), keep=False)
    mine = values(measured, ours)
    card: dict[str, Any] = {
        "queries": len(measured),
        "metrics": figures(mine),
        "success": float(mine["success"].mean()),
        "utilisation": utilisation(ours, agents),
        "transitions": transitions(ours, agents),
        "baselines": {},
    }
    world = measured.world
    if train is None or not len(train):
        rivals: dict[str, Chooser] = {}
    elif isinstance(world, SimulatedWorld):
        rivals = baselines.of_pool(world.pool, train, seed)
    else:
        rivals = baselines.of_world(train, seed)
    for name, chooser in rivals.items():
        theirs = values(measured, walk(measured, chooser, range(len(measured)), keep=False))
        card["baselines"][name] = {"metrics": figures(theirs), "difference": lead(mine, theirs)}
    if card["baselines"]:
        card["best_baseline"] = max(card["baselines"], key=lambda b: card["baselines"][b]["metrics"]["reward"]["mean"])
    if llm is not None and llm_tasks:
        drawn = np.random.Generator(np.random.PCG64(seed)).permutation(len(measured))[:llm_tasks]
        theirs = values(measured, walk(measured, llm, drawn.tolist(), keep=False))
        difference = lead({m: v[drawn] for m, v in mine.items()}, theirs)
        card["baselines"]["llm"] = {"metrics": figures(theirs), "difference": difference, "queries": len(drawn)}
    if train is not None and isinstance(world, SimulatedWorld):
        optimum = Optimum(world.pool, measured.reward, measured.orchestrator.max_steps)
        theirs = values(measured, walk(measured, baselines.optimal(optimum), range(len(measured)), keep=False))
        card["optimum"] = {
            "expected": optimum.value().plain(),
            "metrics": figures(theirs),
            "share": float(mine["reward"].mean() / theirs["reward"].mean()),
            "difference": lead(mine, theirs),
        }
    return card


def values(environment: Environment, walks: Sequence[Walk]) -> dict[str, np.ndarray]:
    """Every measure of every episode, float64[N] each."""
    reward = environment.reward
    return {
        "reward": np.array([reward.total(sum(w.costs), w.score) for w in walks]),
        "success": np.array([float(w.score >= 1 - 1e-9) for w in walks]),
        "score": np.array([w.score for w in walks]),
        "cost": np.array([w.money for w in walks]),
        "seconds": np.array([w.seconds for w in walks]),
        "steps": np.array([float(len(w.calls)) for w in walks]),
    }


def figures(arrays: Mapping[str, np.ndarray]) -> dict[str, dict[str, float]]:
    """Means with their 95% intervals."""
    return {
        m: (intervals.bounded(v) if m in ("success", "score") else intervals.spread(v)).plain()
        for m, v in arrays.items()
    }


def lead(ours: Mapping[str, np.ndarray], theirs: Mapping[str, np.ndarray]) -> dict[str, dict[str, float]]:
    """By how much the first is above the second on the same tasks, with paired 95% intervals."""
    return {m: intervals.spread(ours[m] - theirs[m]).plain() for m in ("reward", "success", "cost", "seconds", "steps")}


def utilisation(walks: Sequence[Walk], agents: Sequence[int]) -> list[dict[str, float]]:
    """How much each agent (id) is used."""
    calls = [call.agent for w in walks for call in w.calls]
    return [
        {
            "id": agent,
            "calls": calls.count(agent) / max(len(calls), 1),
            "episodes": float(np.mean([any(call.agent == agent for call in w.calls) for w in walks])) if walks else 0.0,
        }
        for agent in agents
    ]


def transitions(walks: Sequence[Walk], agents: Sequence[int]) -> list[list[int]]:
    """How often which agent followed which: rows are agents in their order and the start, columns agents and STOP."""
    place = {agent: a for a, agent in enumerate(agents)}
    counts = np.zeros((len(agents) + 1, len(agents) + 1), np.int64)
    for walked in walks:
        path = [len(agents), *(place[call.agent] for call in walked.calls if call.agent in place)]
        for before, after in zip(path, [*path[1:], len(agents)], strict=True):
            counts[before, after] += 1
    counted: list[list[int]] = counts.tolist()
    return counted


def convergence(logs: Sequence[Sequence[Mapping[str, float]]]) -> list[dict[str, Any]]:
    """How learning goes, from the `log` of each seed's scorecard: {"step", "val_reward": {"mean", "low", "high"}} for each update at
    which all seeds were measured on validation, with the 95 % interval over seeds; of one seed low and high are None."""
    by_step = [{int(entry["step"]): float(entry["val_reward"]) for entry in log} for log in logs]
    steps = sorted(set.intersection(*(set(measured_steps) for measured_steps in by_step))) if by_step else []
    measured_steps = []
    for step in steps:
        worths = np.array([by_seed[step] for by_seed in by_step])
        spread: dict[str, Any] = {"mean": float(worths[0]), "low": None, "high": None}
        measured_steps.append(
            {"step": step, "val_reward": intervals.spread(worths).plain() if len(worths) > 1 else spread}
        )
    return measured_steps
