"""What grows with queries and agents: `python -m benchmarks.growth.run OUT`.

Trains a router on made-up pools (`pools.py`), each in a process of its own on one thread, and measures the processor
time of training by phase, the peak memory of the process, the size of the model and the time of one route. Every point
is a line of OUT/points.jsonl as soon as it is measured; points that stand there already are left out. At the end
OUT/growth.md and OUT/growth.svg show all points.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.growth.plot import FIXED_AGENTS, FIXED_QUERIES, svg, table
from benchmarks.growth.pools import pool
from training_app.engine.config import Config
from training_app.engine.routing.router import Router

QUERIES = (1_000, 3_000, 10_000, 30_000, 100_000)
AGENTS = (5, 20, 50, 100, 200)
CORNER = (100_000, 200)
TIMED = 1000  # test queries whose route time is measured
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

Point = dict[str, Any]


def grid() -> list[tuple[int, int]]:
    """(queries, agents) of every point, the corner first: it says soonest whether all of this is worth while."""
    points = [CORNER, *((q, FIXED_AGENTS) for q in QUERIES), *((FIXED_QUERIES, a) for a in AGENTS)]
    return list(dict.fromkeys(points))


def measure(queries: int, agents: int, settings: dict[str, Any]) -> Point:
    """Train on one made-up pool in this process and time its router.

    Processor seconds of training in all and by phase, wall seconds, peak megabytes until the end of training (the pool
    and its making included), megabytes of the artifact, quality on the test queries, and of one route the median and
    the 99th percentile, in microseconds of the thread's processor time, over TIMED test queries after a pass over them.
    """
    from training_app.engine.train import train

    roster, examples = pool(queries, agents)
    began, wall = time.process_time(), time.perf_counter()
    result = None
    for progress in train(Config.from_mapping(settings), roster, examples):
        result = progress.result or result
        if progress.message:
            print(f"{time.process_time() - began:8.0f} s  {progress.phase}: {progress.message}", file=sys.stderr)
    assert result is not None
    card = result.scorecard
    point: Point = {
        "queries": queries,
        "agents": agents,
        "settings": settings,
        "cpu_seconds": time.process_time() - began,
        "wall_seconds": time.perf_counter() - wall,
        "phases": card["timing"],
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "artifact_mb": len(result.artifact) / 1e6,
        "encoder": card["encoder"]["encoder"],
        "jaccard": card["metrics"]["jaccard"]["mean"],
        "exact": card["metrics"]["exact"]["mean"],
        "baselines": {name: found["metrics"]["jaccard"]["mean"] for name, found in card["baselines"].items()},
    }
    router = Router.load(result.artifact)
    texts = [e.text for e in examples if e.split == "test"][:TIMED]
    for text in texts:
        router.route(text)
    times = []
    for text in texts:
        began_ns = time.thread_time_ns()
        router.route(text)
        times.append((time.thread_time_ns() - began_ns) / 1000)
    return point | {"route_us_p50": float(np.percentile(times, 50)), "route_us_p99": float(np.percentile(times, 99))}


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="benchmarks.growth.run", description=__doc__.split("\n\n")[0])
    parser.add_argument("out", type=Path, help="folder for points.jsonl, growth.md and growth.svg")
    parser.add_argument("--point", metavar="QUERIES,AGENTS", action="append", help="these points only")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of the router")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    settings = dict(pair.split("=", 1) for pair in options.set)
    wanted = [(int(q), int(a)) for q, a in (p.split(",") for p in options.point or [])] or grid()
    if options.child:
        print(json.dumps(measure(*wanted[0], settings)))
        return 0
    options.out.mkdir(parents=True, exist_ok=True)
    kept = options.out / "points.jsonl"
    lines = kept.read_text().splitlines() if kept.exists() else []
    points = [json.loads(line) for line in lines]
    for queries, agents in wanted:
        if any((p["queries"], p["agents"], p["settings"]) == (queries, agents, settings) for p in points):
            continue
        print(f"{queries:,} queries, {agents} agents", file=sys.stderr, flush=True)
        command = [sys.executable, "-m", "benchmarks.growth.run", str(options.out), "--child"]
        command += ["--point", f"{queries},{agents}", *(f"--set={pair}" for pair in options.set)]
        environment = os.environ | dict.fromkeys(_THREADS, "1")
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
        points.append(json.loads(done.stdout))
        with kept.open("a") as stream:
            stream.write(json.dumps(points[-1]) + "\n")
    (options.out / "growth.md").write_text(table(points) + "\n")
    (options.out / "growth.svg").write_text(svg(points) + "\n")
    print(table(points))
    return 0


if __name__ == "__main__":
    sys.exit(main())
