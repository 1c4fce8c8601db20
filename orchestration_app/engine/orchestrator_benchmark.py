"""The orchestrator on a folder of recorded outputs: `manage.py benchmark_orchestrator DIR`.

Trains on `train.jsonl`, chooses on `val.jsonl`, reads `test.jsonl` once; rows may have a `trajectory` of agents and outputs, of
which only agents and outputs are read. An agent that a task did not need answers what it said to another task of the training
split, so that no output tells by being empty that its agent is not needed. Beside the orchestrator stand the set router that it
starts from, run once each (`one_shot`), and the baselines that know nothing of texts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from orchestration_app.engine.orchestrating import baselines
from orchestration_app.engine.orchestrating.environment import (
    Chooser,
    Environment,
    RecordedPath,
    RecordedWorld,
    Walk,
    by_network,
    read_paths,
    read_tasks,
    walk,
)
from orchestration_app.engine.orchestrating.policy import Orchestrator
from orchestration_app.engine.orchestrating.rewards import reward_of
from orchestration_app.engine.orchestrating.scorecard import convergence
from orchestration_app.engine.orchestrating.training import train_policy
from orchestration_app.engine.orchestrator_config import OrchestratorConfig
from orchestration_app.engine.train_orchestrator import Read, problem_of, read_by_router
from training_app.engine.data import metrics
from training_app.engine.data.arrays import BoolArray
from training_app.engine.data.examples import Example
from training_app.engine.data.folders import read_folder
from training_app.engine.judging.llm_baseline import TRIES, LanguageModel
from training_app.engine.llm import CallLimits, Client, LLMError
from training_app.engine.progress import Result

MEASURED = ("f1", "jaccard", "success")
#: One call an agent is enough where order does not matter, and there are never more steps than agents.
SETTINGS: dict[str, Any] = {"repeats": 1, "price": 0.02, "updates": 60, "val_eval_freq": 20, "baselines": False}


class BenchmarkError(Exception):
    """A folder that cannot be measured; the message says why."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What one router did on the test split: sets bool[N, A], costs float64[N], steps float64[N]."""

    sets: BoolArray
    costs: np.ndarray
    steps: np.ndarray


@dataclass(frozen=True, slots=True)
class Conductor:
    """The language model that orchestrates beside ours, and how many of the test tasks; None for all."""

    model: LanguageModel
    tasks: int | None = None


def benchmark(
    path: str | Path,
    seeds: int = 1,
    settings: dict[str, Any] | None = None,
    report: Callable[[str], None] = lambda line: None,
    llm: Conductor | None = None,
) -> dict[str, Any]:
    """Measure on the folder `path`: {"data": …, "routers": {name: {"f1", "jaccard", "success", "steps", "cost", …}}}, each a mean
    over test tasks and seeds. Success means that every needed agent was called; `steps` counts calls, `extra` those of agents that
    were not needed, `intervals` has the 95% interval of each figure, and of the orchestrator `lead` the paired one over
    `one_shot`. `convergence` is the mean reward on validation as the policy learns, with its interval over seeds.

    With `llm` there is a row of that name: of its tasks alone, with the first seed's orchestrator on the same ones as `orchestrator`
    and the paired difference as `orchestrator_lead`; where its server is of no use the row is missing and `warnings` says why.
    Raises DataError, ConfigError or BenchmarkError."""
    folder = read_folder(path)
    if not folder.test or not folder.val:
        raise BenchmarkError(f"{path} needs val.jsonl and test.jsonl beside train.jsonl")
    if seeds < 1:
        raise BenchmarkError("seeds must be at least 1")
    try:
        paths = {split: read_paths(Path(path) / f"{split}.jsonl", folder.agents) for split in ("train", "val", "test")}
    except ValueError as error:
        raise BenchmarkError(str(error)) from None
    required = np.array([[a.id in e.required for a in folder.agents] for e in folder.test], np.bool_)
    runs: dict[str, list[Measured]] = {}
    networks: list[dict[str, Any]] = []
    logs: list[list[dict[str, float]]] = []
    warnings: list[str] = []
    conducted: dict[str, Any] = {}
    for seed in range(seeds):
        config = OrchestratorConfig.from_mapping(
            {"max_steps": len(folder.agents), **SETTINGS, **(settings or {}), "seed": seed}
        )
        measured, card, environment = _run(config, folder.agents, folder.train + folder.val, folder.test, paths, report)
        networks.append(card["kept"])
        logs.append(card["log"])
        if llm is not None and seed == 0:  # its answers cost money and do not hang on the seed
            report("asking the language model")
            try:
                conducted = _conducted(llm, environment, measured["orchestrator"], required)
            except LLMError as error:
                warnings.append(f"The language model was not measured: {error}.")
        for name, measured_run in measured.items():
            runs.setdefault(name, []).append(measured_run)
    routers = {name: figures(runs_of_router, required) for name, runs_of_router in runs.items()}
    ours, theirs = ([metrics.per_query(m.sets, required) for m in runs[name]] for name in ("orchestrator", "one_shot"))
    routers["orchestrator"]["lead"] = {
        m: metrics.paired(np.stack([v[m] for v in ours]), np.stack([v[m] for v in theirs]), m) for m in MEASURED
    }
    if conducted:
        routers["llm"] = conducted
    data = {s: len(getattr(folder, s)) for s in ("agents", "train", "val", "test")}
    learnt = convergence(logs)
    return {
        "data": data, "seeds": seeds, "kept": networks, "convergence": learnt, "routers": routers, "warnings": warnings,
    }  # fmt: skip


def _conducted(llm: Conductor, environment: Environment, ours: Measured, required: BoolArray) -> dict[str, Any]:
    """What the language model does on its tasks, drawn at random, and our orchestrator on the same. Raises LLMError."""
    count = len(required) if llm.tasks is None else min(llm.tasks, len(required))
    rows = np.sort(np.random.Generator(np.random.PCG64(0)).permutation(len(required))[:count])
    agents = environment.orchestrator.agents
    with Client(llm.model.base_url, llm.model.model, llm.model.api_key, limits=CallLimits(tries=TRIES)) as client:
        walks = walk(environment, baselines.llm(client, agents), rows.tolist(), keep=False)
    theirs = _measured(walks, {agent.id: a for a, agent in enumerate(agents)})
    same = Measured(ours.sets[rows], ours.costs[rows], ours.steps[rows])
    ours_by, theirs_by = (metrics.per_query(predicted.sets, required[rows]) for predicted in (same, theirs))
    return {
        **figures([theirs], required[rows]),
        "model": llm.model.model,
        "tasks": int(count),
        "orchestrator": figures([same], required[rows]),
        "orchestrator_lead": {m: metrics.paired(ours_by[m], theirs_by[m], m) for m in MEASURED},
    }


def _run(
    config: OrchestratorConfig,
    agents: Sequence[Any],
    examples: Sequence[Example],
    test: Sequence[Example],
    paths: dict[str, list[RecordedPath]],
    report: Callable[[str], None],
) -> tuple[dict[str, Measured], dict[str, Any], Environment]:
    """What each router does on the test tasks after training with one seed, the orchestrator's scorecard, and the test tasks as its
    environment."""
    reading = read_by_router(config, agents, examples)
    read: Read | None = None
    while read is None:
        try:
            report(f"seed {config.seed}, {next(reading).phase}")
        except StopIteration as end:
            read = end.value
    every = [p for split in ("train", "val", "test") for p in paths[split]]
    world = RecordedWorld.of(read.agents, every, lenders=paths["train"])
    problem = problem_of(read, examples, paths["train"], world)
    result: Result | None = None
    for progress in train_policy(config, problem):
        if progress.phase != "policy" or progress.step % 10 == 0:
            report(f"seed {config.seed}, {progress.phase}")
        result = progress.result or result
    assert result is not None
    # What is measured is what would be served: the artifact, loaded.
    orchestrator = Orchestrator.load(result.artifact)
    reward = reward_of(config)
    environment = Environment(orchestrator, world, read_tasks(orchestrator, [e.text for e in test]), reward)
    learning = Environment(orchestrator, world, read_tasks(orchestrator, problem.train, problem.log_odds), reward)
    choosers: dict[str, Chooser] = {
        "orchestrator": by_network(orchestrator.network, None),
        "one_shot": baselines.one_shot(),
        "greedy_step": baselines.greedy_step(learning, config.seed),
        "fixed_order": baselines.fixed_order(baselines.best_order(learning, config.seed, len(agents))),
        "random": baselines.at_random(np.random.Generator(np.random.PCG64(config.seed))),
    }
    places = {agent.id: a for a, agent in enumerate(agents)}
    figures = {}
    for name, chooser in choosers.items():
        report(f"seed {config.seed}, measuring {name}")
        figures[name] = _measured(walk(environment, chooser, range(len(test)), keep=False), places)
    return figures, result.scorecard, environment


def _measured(walks: Sequence[Walk], places: dict[int, int]) -> Measured:
    sets = np.zeros((len(walks), len(places)), np.bool_)
    for row, walked in enumerate(walks):
        sets[row, [places[call.agent] for call in walked.calls]] = True
    costs = np.array([walked.money for walked in walks])
    return Measured(sets, costs, np.array([float(len(walked.calls)) for walked in walks]))


def figures(runs: Sequence[Measured], required: BoolArray) -> dict[str, Any]:
    """The figures of one router from its runs, one a seed."""
    per = [metrics.per_query(run.sets, required) for run in runs]
    values = {m: np.stack([v[m] for v in per]) for m in MEASURED}
    values["steps"] = np.stack([run.steps for run in runs])
    values["cost"] = np.stack([run.costs for run in runs])
    values["extra"] = np.stack([(run.sets & ~required).sum(axis=1) + run.steps - run.sets.sum(axis=1) for run in runs])
    return {
        **{name: float(v.mean()) for name, v in values.items()},
        "intervals": {
            name: metrics.interval(v, name if name in MEASURED else "set_size") for name, v in values.items()
        },
        "by_seed": {name: [round(float(row.mean()), 6) for row in v] for name, v in values.items()},
    }


def table(results: dict[str, Any]) -> list[str]:
    """The figures as lines of text."""
    names = ("f1", "jaccard", "success", "steps", "extra", "cost")
    lines = [f"{'router':14}" + "".join(f"{name:>10}" for name in names)]
    for name, row in results["routers"].items():
        lines.append(f"{name:14}" + "".join(f"{row[m]:10.4f}" for m in names))
    lead = results["routers"]["orchestrator"]["lead"]["f1"]
    lines.append(f"orchestrator over one_shot, F1: {lead['mean']:+.4f} ({lead['low']:+.4f} to {lead['high']:+.4f})")
    if (llm := results["routers"].get("llm")) is not None:
        lead = llm["orchestrator_lead"]["f1"]
        lines.append(
            f"llm is {llm['model']} on {llm['tasks']} of the test tasks; orchestrator over llm there, F1: {lead['mean']:+.4f} "
            f"({lead['low']:+.4f} to {lead['high']:+.4f})"
        )
    for at in results["convergence"]:
        worth = at["val_reward"]
        between = f" ({worth['low']:+.4f} to {worth['high']:+.4f})" if worth["low"] is not None else ""
        lines.append(f"after {at['step']} updates: reward on validation {worth['mean']:+.4f}{between}")
    return [*lines, *results["warnings"]]
