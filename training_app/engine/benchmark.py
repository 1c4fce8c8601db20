"""Every router on one folder of labeled queries: `python -m training_app.engine.benchmark DIR`.

Trains on `train.jsonl`, chooses on `val.jsonl`, reads `test.jsonl` once. The files are taken as they are: no test row
is dropped, and how many of them also stand in the training files is reported. Each router is measured in a process of
its own, so that time and memory are its own.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from training_app.engine.config import Config, ConfigError
from training_app.engine.data import metrics
from training_app.engine.data.examples import DataError, Example, Folder, group_key
from training_app.engine.data.folders import read_folder
from training_app.engine.data.rows import rows_of
from training_app.engine.judging import learning_curve, llm_baseline
from training_app.engine.judging.leaderboard import leaderboard
from training_app.engine.judging.llm_baseline import LanguageModel
from training_app.engine.judging.standard import Judged, priced, standard_of
from training_app.engine.judging.standard import interval as interval_of
from training_app.engine.llm import LLMError
from training_app.engine.measures import COMPARED_SHARES
from training_app.engine.routing.goals import Goal

#: Routers that can be measured, the product's own first; `bayes` and `threshold` are its scorer with that decision rule.
ROUTERS = ("ddqn", "bayes", "threshold", "svm", "logreg", "neighbours", "constant", "keyword", "random", "llm")
#: Those of a plain `benchmark DIR`. The LLM has to be named: it costs money.
DEFAULT = ("ddqn", "bayes", "threshold", "svm", "logreg", "constant", "keyword", "random")

__all__ = ["BenchmarkError", "benchmark", "combine", "curve", "leaderboard", "measure"]

TIMED = 1000  # test queries whose route time is measured
LLM_QUERIES = 100  # test queries that the LLM is asked about where llm_queries says nothing
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class BenchmarkError(Exception):
    """A benchmark that cannot be run, or a router that failed in it; the message says why."""


def describe(folder: Folder) -> dict[str, Any]:
    """What the folder holds, and how many test rows also stand in train or val, by text without punctuation."""
    train = {group_key(e.text) for e in folder.train}
    learnable = train | {group_key(e.text) for e in folder.val}
    return {
        "agents": len(folder.agents),
        "train": len(folder.train),
        "val": len(folder.val),
        "test": len(folder.test),
        "unlabeled": folder.unlabeled,
        "empty": {s: sum(not e.required for e in getattr(folder, s)) for s in ("train", "val", "test")},
        "test_in_train": sum(group_key(e.text) in train for e in folder.test),
        "test_in_train_or_val": sum(group_key(e.text) in learnable for e in folder.test),
    }


def benchmark(
    path: str | Path,
    routers: Sequence[str] = DEFAULT,
    seeds: int = 1,
    settings: dict[str, Any] | None = None,
    report: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Measure `routers` on the folder `path`, `seeds` times each, the LLM once; `settings` are the router's (`Config`).

    Returns {"data": …, "routers": {name: …}} as `measure` describes; of the LLM, which the environment names as it does
    for the application (LLM_MODEL, LLM_API_KEY, …), also "llm" with what it cost and the interval of the router's lead
    on the queries that it was asked about. `report` hears of each step. Raises DataError,
    ConfigError or BenchmarkError.
    """
    folder = read_folder(path)
    if not folder.test or not folder.val:
        raise BenchmarkError(f"{path} needs val.jsonl and test.jsonl beside train.jsonl")
    unknown = [name for name in routers if name not in ROUTERS]
    if unknown:
        raise BenchmarkError(f"unknown router {unknown[0]}: one of {', '.join(ROUTERS)}")
    if seeds < 1:
        raise BenchmarkError("seeds must be at least 1")
    Config.from_mapping(settings or {})
    if "llm" in routers:
        language_model()
    whole = np.array([e.asked is None or len(e.asked) == len(folder.agents) for e in folder.test])
    required = _required(folder.test, folder)[whole]
    results: dict[str, Any] = {}
    goal = priced(settings or {}, folder.agents)
    ours = None
    for name in sorted(routers, key=lambda name: name == "llm"):
        runs = []
        for seed in range(1 if name == "llm" else seeds):
            report(f"{name}, seed {seed}")
            runs.append(_in_child(path, name, seed, settings or {}))
        if name == "ddqn":
            ours = [run["selected"] for run in runs]
        if name == "llm":
            (run,) = runs
            asked = whole & run["asked"]
            results[name] = {**combine(runs, _required(folder.test, folder)[asked], asked, goal), "llm": run["llm"]}
            if ours is not None:
                results[name]["llm"]["lead"] = lead(ours, run["selected"], _required(folder.test, folder), asked)
        else:
            results[name] = combine(runs, required, whole, goal)
    return {"data": describe(folder), "standard": standard_of(settings or {}).plain(), "routers": results}


def sizes_of(numbers: str) -> list[int]:
    """The sizes of a learning curve, from text such as "50,100". Raises BenchmarkError."""
    try:
        return sorted({int(number) for number in numbers.split(",") if number.strip()})
    except ValueError:
        raise BenchmarkError(f"--curve {numbers}: numbers of labels with commas between, such as 50,100,200") from None


def curve(
    path: str | Path,
    sizes: Sequence[int],
    subsets: int,
    routers: Sequence[str],
    settings: dict[str, Any],
    unlabeled: bool = False,
    report: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """The learning curve of `routers`: see `learning_curve`. Raises as `benchmark`."""
    if not sizes or subsets < 1:
        raise BenchmarkError("a learning curve needs numbers of labels, and at least one subset")

    def measured(place: Path) -> dict[str, Any]:
        return benchmark(place, routers, 1, settings)

    try:
        return learning_curve.learning_curve(path, sizes, subsets, measured, unlabeled=unlabeled, report=report)
    except (OSError, ValueError) as error:
        raise BenchmarkError(f"{path}: {error}") from None


def language_model() -> LanguageModel:
    """The LLM of the environment. Raises BenchmarkError where it names none."""
    name = os.environ.get("LLM_MODEL", "")
    if not name:
        raise BenchmarkError(
            "the router llm needs LLM_MODEL, and LLM_BASE_URL and LLM_API_KEY as the server wants them"
        )
    try:
        prices = [float(os.environ.get(f"LLM_PRICE_{way}", "") or 0) for way in ("IN", "OUT")]
    except ValueError:
        raise BenchmarkError("LLM_PRICE_IN and LLM_PRICE_OUT must be numbers, prices of a million tokens") from None
    address = os.environ.get("LLM_BASE_URL") or "https://api.openai.com/v1"
    return LanguageModel(address, name, os.environ.get("LLM_API_KEY", ""), *prices)


def lead(ours: Sequence[Any], theirs: Any, required: Any, rows: Any) -> dict[str, dict[str, float]]:
    """By how much the router is better on some rows: ours a bool[N, A] each seed, theirs and required bool[N, A], rows
    bool[N] -> {measure: paired interval}."""
    mine = [metrics.per_query(sets[rows], required[rows]) for sets in ours]
    other = metrics.per_query(theirs[rows], required[rows])
    return {m: metrics.paired(np.stack([v[m] for v in mine]), other[m]) for m in COMPARED_SHARES}


def _required(examples: Sequence[Example], folder: Folder) -> Any:
    return np.array([[agent.id in e.required for agent in folder.agents] for e in examples], np.bool_)


def combine(runs: Sequence[dict[str, Any]], required: Any, whole: Any, goal: Goal | None = None) -> dict[str, Any]:
    """The figures of one router from its runs, one a seed; `goal` is one that counts costs. Intervals are bootstraps over queries of
    the mean over seeds; times are the mean over seeds, memory the largest."""
    sets = [run["selected"][whole] for run in runs]
    values = [Judged.of(chosen, required, goal).values for chosen in sets]
    stacked = {m: np.stack([v[m] for v in values]) for m in values[0] if values[0][m].size}
    empties = [metrics.empty_sets(chosen, required) for chosen in sets]

    def mean(numbers: Sequence[float | None]) -> float | None:
        present = [n for n in numbers if n is not None]
        return float(np.mean(present)) if present else None

    needs = required.any(axis=1)
    scored = [run["answerable"][whole] for run in runs if run["answerable"] is not None]
    return {
        **{m: interval_of(v.mean(axis=0), m) for m, v in stacked.items()},
        "empty": {k: mean([e[k] for e in empties]) for k in ("precision", "recall")},
        "out_of_scope": {
            "auroc": mean([metrics.auroc(s, needs) for s in scored]),
            "fpr95": mean([metrics.fpr95(s, needs) for s in scored]),
        },
        "by_size": {
            bucket: {"queries": int(rows.sum()), "jaccard": float(stacked["jaccard"][:, rows].mean())}
            for bucket in metrics.BUCKETS
            if (rows := np.array(metrics.bucket_of(required)) == bucket).any()
        },
        "seeds": [{m: float(v[m].mean()) for m in COMPARED_SHARES} for v in values],
        "rules": [run["rule"] for run in runs if run.get("rule")],
        "train_cpu_seconds": mean([run["train_cpu_seconds"] for run in runs]),
        "peak_mb": max(run["peak_mb"] for run in runs),
        "route_us_p50": mean([run["route_us_p50"] for run in runs]),
        "route_us_p99": mean([run["route_us_p99"] for run in runs]),
        "batch_routes_per_second": mean([run["batch_routes_per_second"] for run in runs]),
    }


def _in_child(path: str | Path, name: str, seed: int, settings: dict[str, Any]) -> dict[str, Any]:
    """`measure` in a process of its own, on one thread."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        root = Path(__file__).resolve().parents[2]
        environment = os.environ | dict.fromkeys(_THREADS, "1")
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(root), environment.get("PYTHONPATH", "")]))
        command = [sys.executable, "-m", "training_app.engine.benchmark", str(path)]
        command += ["--child", name, "--seed", str(seed), "--settings", json.dumps(settings), "--json", str(out)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)  # noqa: S603
        if done.returncode:
            lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
            raise BenchmarkError(f"{name}, seed {seed}: {lines[-1]}")
        measured: dict[str, Any] = json.loads(out.with_suffix(".json").read_text())
        with np.load(out.with_suffix(".npz"), allow_pickle=False) as arrays:
            measured["selected"] = arrays["selected"]
            measured["answerable"] = arrays.get("answerable")
            measured["asked"] = arrays.get("asked")
        return measured


def measure(path: str | Path, name: str, seed: int, settings: dict[str, Any]) -> dict[str, Any]:
    """Train and time one router in this process.

    `selected` bool[test, A]; `rule` what turns scores into sets, "" of a baseline;
    `answerable` float32[test] or None; CPU seconds of training (reading the files and
    importing libraries not counted); peak resident megabytes of the process; microseconds of one route, over at most
    TIMED test queries after a first pass over them; routes a second in one batch.
    """
    folder = read_folder(path)
    texts = [e.text for e in folder.test]
    if name == "llm":
        return _measure_llm(folder, Config.from_mapping({**settings, "seed": seed}))
    if name in ("ddqn", "bayes", "threshold"):
        decision = {} if name == "ddqn" else {"decision": name}
        fitted = _fit_router(folder, Config.from_mapping({**settings, **decision, "seed": seed, "baselines": False}))
    else:
        fitted = _fit_baseline(folder, name, seed)
    select, answerable, route, batch, cpu, rule = fitted
    sample = texts[:TIMED]
    for text in sample:
        route(text)
    times = []
    for text in sample:
        began = time.perf_counter_ns()
        route(text)
        times.append((time.perf_counter_ns() - began) / 1000)
    rates = []
    for _ in range(3):
        began_s = time.perf_counter()
        batch(texts)
        rates.append(len(texts) / (time.perf_counter() - began_s))
    return {
        "selected": select(texts),
        "rule": rule,
        "answerable": None if answerable is None else answerable(texts),
        "train_cpu_seconds": cpu,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "route_us_p50": float(np.percentile(times, 50)),
        "route_us_p99": float(np.percentile(times, 99)),
        "batch_routes_per_second": max(rates),
    }


def _measure_llm(folder: Folder, config: Config) -> dict[str, Any]:
    """As `measure`; `asked` bool[test] are the queries that the LLM was asked about, the times those of its calls."""
    texts = [e.text for e in folder.test]
    answered = llm_baseline.ask(
        language_model(),
        folder.agents,
        texts,
        llm_baseline.drawn(len(texts), config.llm_queries or LLM_QUERIES, config.seed),
        min_agents=config.min_agents,
        max_agents=config.max_agents,
    )
    selected, asked = np.zeros((len(texts), len(folder.agents)), np.bool_), np.zeros(len(texts), np.bool_)
    selected[answered.rows], asked[answered.rows] = answered.selected, True
    row = llm_baseline.figures(answered, _required(folder.test, folder))
    return {
        "selected": selected,
        "answerable": None,
        "asked": asked,
        "llm": {k: v for k, v in row.items() if k not in ("metrics", "empty")},
        "train_cpu_seconds": 0.0,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "route_us_p50": row["latency_ms"]["p50"] * 1000,
        "route_us_p99": row["latency_ms"]["p99"] * 1000,
        "batch_routes_per_second": len(answered.rows) / answered.wall_seconds,
    }


#: What selects, what tells queries that need nobody, one route, a batch of them, CPU seconds, the rule that decides or "".
Fitted = tuple[
    Callable[[Any], Any], Callable[[Any], Any] | None, Callable[[str], Any], Callable[[Any], Any], float, str
]


def _fit_router(folder: Folder, config: Config) -> Fitted:
    from training_app.engine.routing.router import Router
    from training_app.engine.train import train

    began = time.process_time()
    result = None
    # The test rows stay outside: what is measured is read once, here, and not by training.
    for progress in train(config, folder.agents, folder.train + folder.val, unlabeled=folder.texts):
        result = progress.result or result
    cpu = time.process_time() - began
    assert result is not None
    router = Router.load(result.artifact)
    place = {agent.id: a for a, agent in enumerate(folder.agents)}
    columns = [place[agent.id] for agent in router.agents]

    def select(texts: Sequence[str]) -> Any:
        chosen = np.zeros((len(texts), len(folder.agents)), np.bool_)
        chosen[:, columns] = router.selections(texts)
        return chosen

    return select, router.reader.answerable, router.route, router.route_batch, cpu, router.rule


def _fit_baseline(folder: Folder, name: str, seed: int) -> Fitted:
    from training_app.engine.judging.baselines import BASELINES

    train, val = rows_of(folder.train, folder.agents), rows_of(folder.val, folder.agents)
    began = time.process_time()
    fitted = BASELINES[name](folder.agents, train, val, seed)
    cpu = time.process_time() - began
    return fitted.select, fitted.answerable, lambda text: fitted.select([text]), fitted.select, cpu, ""


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; exit status 1 and one line on failure."""
    parser = argparse.ArgumentParser(
        prog="benchmark",
        description="Train and measure every router on a folder of labeled queries.",
        epilog="example: benchmark data/pool --routers ddqn,svm --seeds 3 --json result.json",
    )
    parser.add_argument("dir", help="folder with agents.jsonl, train.jsonl, val.jsonl and test.jsonl")
    parser.add_argument("--routers", default=",".join(DEFAULT), help=f"some of {', '.join(ROUTERS)}")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--json", help="file for the figures")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of the router")
    parser.add_argument("--curve", help="numbers of labels, such as 50,100,200,500: a learning curve instead")
    parser.add_argument("--subsets", type=int, default=5, help="random subsets of each size of the curve")
    parser.add_argument("--unlabeled", action="store_true", help="in a curve, keep the other training texts, unlabeled")
    parser.add_argument("--plot", help="file for the curve as a picture (.svg)")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--settings", default="{}", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    try:
        if options.child:
            measured = measure(options.dir, options.child, options.seed, json.loads(options.settings))
            arrays = {k: measured.pop(k, None) for k in ("selected", "answerable", "asked")}
            out = Path(options.json)
            np.savez(out.with_suffix(".npz"), **{k: v for k, v in arrays.items() if v is not None})
            out.with_suffix(".json").write_text(json.dumps(measured))
            return 0
        settings = dict(pair.split("=", 1) for pair in options.set if "=" in pair)
        names = [name for name in options.routers.split(",") if name]

        def report(line: str) -> None:
            print(line, file=sys.stderr, flush=True)

        if options.curve:
            sizes = sizes_of(options.curve)
            measured = curve(options.dir, sizes, options.subsets, names, settings, options.unlabeled, report)
        else:
            measured = benchmark(options.dir, names, options.seeds, settings, report)
    except (DataError, ConfigError, BenchmarkError, LLMError) as error:
        print(f"benchmark: {error}", file=sys.stderr)
        return 1
    except Exception as error:
        # A child's failure of any kind becomes the one line that its parent shows.
        if options.child:
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
            return 1
        raise
    print("\n".join(learning_curve.table(measured) if options.curve else leaderboard(measured)))
    if options.curve and options.plot:
        Path(options.plot).write_text(learning_curve.svg(measured), "utf-8")
    if options.json:
        Path(options.json).write_text(json.dumps(measured, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
