"""A sweep of eight points on a Ray cluster of two workers with one core each, against one process on one core.

    .venv/bin/python -m benchmarks.cluster DIR [--rows 1000] [--set NAME=VALUE ...] [--rounds 1]

DIR is a folder as `benchmark` reads it. The points differ in their learning rate. In every round the sweep runs here and on the
cluster, and the artifacts are compared; last, a worker of the cluster is killed halfway and another one joins. Needs the package ray,
two cores, and nothing else that computes.
"""

import argparse
import hashlib
import os
import random
import statistics
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[threads] = "1"
os.environ["RAY_ENABLE_UV_RUN_RUNTIME_ENV"] = "0"

from training_app.engine.config import Config  # noqa: E402
from training_app.engine.data.examples import Agent, Example  # noqa: E402
from training_app.engine.data.folders import read_folder  # noqa: E402
from training_app.engine.remote import Train, training  # noqa: E402
from training_app.engine.train import train  # noqa: E402

POINTS, WORKERS = 8, 2


def points(settings: dict[str, str]) -> list[Config]:
    """The settings of each point."""
    base = Config.from_mapping({"encoder": "linear", "baselines": False, **settings})
    return [replace(base, learning_rate=base.learning_rate * 2 ** (place / 4 - 1)) for place in range(POINTS)]


def artifact(config: Config, agents: list[Agent], rows: list[Example], cluster: str = "") -> str:
    """The hash of what a training gives, here or on a cluster."""
    *_steps, last = training(cast(Train, train), (config, agents, rows), {"checkpoint": None}, cluster=cluster)
    assert last.result is not None
    return hashlib.sha256(last.result.artifact).hexdigest()


@contextmanager
def cluster_of(workers: int) -> Iterator[Any]:
    """A head without cores and so many machines of one core."""
    import ray
    from ray.cluster_utils import Cluster

    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    made: Any = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    try:
        made.machines = [made.add_node(num_cpus=1) for _ in range(workers)]
        yield made
    finally:
        ray.shutdown()
        made.shutdown()


def on_cluster(cluster: Any, sweep: list[Config], agents: list[Agent], rows: list[Example]) -> list[str]:
    """The hashes of all points, as many at once as there are workers."""
    with ThreadPoolExecutor(WORKERS) as workers:
        return list(workers.map(lambda config: artifact(config, agents, rows, cluster.address), sweep))


def main() -> int:
    """The command line; 1 where any byte differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=1_000, help="training rows")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    options = parser.parse_args()
    folder = read_folder(options.folder)
    agents, taught = list(folder.agents), list(folder.train)
    random.Random(0).shuffle(taught)
    rows = [replace(e, split="train") for e in taught[: options.rows]] + [replace(e, split="val") for e in folder.val]
    sweep = points(dict(pair.split("=", 1) for pair in options.set))
    ratios, same = [], True
    with cluster_of(WORKERS) as cluster:
        artifact(sweep[0], agents, rows, cluster.address)  # the workers import what they need
        for _ in range(options.rounds):
            began = time.perf_counter()
            here = [artifact(config, agents, rows) for config in sweep]
            between = time.perf_counter()
            there = on_cluster(cluster, sweep, agents, rows)
            ended = time.perf_counter()
            ratios.append((between - began) / (ended - between))
            same &= here == there
            print(
                f"one process {between - began:.1f} s, cluster {ended - between:.1f} s, {ratios[-1]:.2f} times",
                flush=True,
            )

        began_again = time.perf_counter()
        with ThreadPoolExecutor(1) as beside:
            sweeping = beside.submit(on_cluster, cluster, sweep, agents, rows)
            time.sleep((ended - between) / 2)
            cluster.remove_node(cluster.machines.pop(), allow_graceful=False)
            cluster.machines.append(cluster.add_node(num_cpus=1))  # Ray starts one in the main thread only
            there = sweeping.result()
        same &= here == there
        print(f"with a worker killed halfway {time.perf_counter() - began_again:.1f} s")
    print(f"median {statistics.median(ratios):.2f} times as fast; {'the same bytes' if same else 'BYTES DIFFER'}")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
