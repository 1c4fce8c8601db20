"""What written queries bring beside few labels, on test queries of public pools.

    .venv/bin/python -m benchmarks.written DATA [--pools nlupp_hotels,mixsnips] [--labels 50,100] [--draws 0,1] [--set NAME=VALUE]

DATA holds the pools' folders. Of each draw as many labels, a fifth of them for validation, are learnt from twice: alone, and beside
the pool's written queries (`texts.py`), without those that say the same as a query of the pool. Prints the mean test Jaccard of both
and the gain with its 95 % interval over draws, a line a pool and number of labels. With 0 labels the agents' descriptions answer,
alone and with the written queries of one agent as its examples.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.written.texts import written
from training_app.engine.config import Config
from training_app.engine.data.examples import Example, Folder, news
from training_app.engine.data.folders import read_folder
from training_app.engine.data.metrics import jaccard
from training_app.engine.judging.learning_curve import interval, write_subset
from training_app.engine.reading.descriptions import Descriptions
from training_app.engine.routing.router import Router
from training_app.engine.train import train

MOST_TEST = 1_500
POOLS = "nlupp_hotels,mixsnips,clinc_domains,research_static"
#: What takes long and changes no answer.
UNMEASURED = {"baselines": False, "judging_folds": 0}


def worth(router: Router, test: Sequence[Example]) -> float:
    """The router's mean Jaccard on these queries, of which every agent was asked."""
    place = {agent.id: a for a, agent in enumerate(router.agents)}
    needed = np.array([[agent in example.required for agent in place] for example in test])
    return float(jaccard(router.selections([example.text for example in test]), needed).mean())


def learnt(folder: Folder, more: Sequence[Example], settings: Mapping[str, Any]) -> Router:
    """The router that learns from the folder's labels, and beside them from `more`."""
    config = Config.from_mapping({**UNMEASURED, **settings})
    *_rest, last = train(config, folder.agents, [*folder.train, *folder.val], written=more)
    assert last.result is not None
    return Router.load(last.result.artifact)


def new_ones(whole: Folder, pool: str) -> list[Example]:
    """The pool's written queries without those that say the same as one of its queries."""
    return news(written(pool), whole.examples)


def pairs(
    data: Path, pool: str, labels: int, draws: Sequence[int], settings: Mapping[str, Any]
) -> Iterator[tuple[float, float]]:
    """(test Jaccard alone, with written queries) of each draw."""
    whole = read_folder(data / pool)
    more, test = new_ones(whole, pool), whole.test[:MOST_TEST]
    if not labels:
        alone = Router.of_descriptions(Descriptions(whole.agents, meaning=True))
        examples: dict[int, list[str]] = {}
        for example in more:
            if len(example.required) == 1:
                examples.setdefault(min(example.required), []).append(example.text)
        both = Router.of_descriptions(Descriptions(whole.agents, meaning=True, examples=examples))
        yield worth(alone, test), worth(both, test)
        return
    for draw in draws:
        with TemporaryDirectory() as place:
            write_subset(data / pool, Path(place), labels, draw)
            folder = read_folder(place)
        seeded = {**settings, "seed": draw}
        yield worth(learnt(folder, (), seeded), test), worth(learnt(folder, more, seeded), test)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--pools", default=POOLS)
    parser.add_argument("--labels", default="0,50,100,200")
    parser.add_argument("--draws", default="0,1,2")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    options = parser.parse_args()
    settings = dict(pair.split("=", 1) for pair in options.set)
    draws = [int(number) for number in options.draws.split(",")]
    print("| pool | written | labels | alone | with written queries | gain |\n|---|---|---|---|---|---|", flush=True)
    for pool in options.pools.split(","):
        count = len(new_ones(read_folder(options.data / pool), pool))
        for labels in map(int, options.labels.split(",")):
            results = list(pairs(options.data, pool, labels, draws, settings))
            alone, both = (statistics.fmean(values) for values in zip(*results, strict=True))
            mean, low, high = interval([after - before for before, after in results])
            between = f" ({low:+.3f} to {high:+.3f})" if len(results) > 1 else ""
            print(f"| {pool} | {count} | {labels} | {alone:.3f} | {both:.3f} | {mean:+.3f}{between} |", flush=True)


if __name__ == "__main__":
    main()
