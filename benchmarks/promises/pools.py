"""The pools that promises are checked on, and routers learnt from few of their labels."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import made_up
from benchmarks.growth import pools as invented
from training_app.engine.config import Config
from training_app.engine.data.arrays import BoolArray
from training_app.engine.data.examples import Agent, Example, group_key
from training_app.engine.data.folders import read_folder
from training_app.engine.routing.router import Router
from training_app.engine.train import train

#: As the demo's first router learns, and judged by cross-validation.
QUICK: dict[str, Any] = {
    "recipe": "classifier", "classifier": "logreg", "encoder": "linear", "unlabeled": False, "sentences": False, "tidy": False,
    "folds": 3, "judging_folds": 5,
}  # fmt: skip
FOLDERS = ("research_static", "mixsnips", "clinc_domains", "nlupp_hotels")
MADE = ("costs", "invented")
#: Those of the range: two of them made up, in domains of their own.
FIVE = ("research_static", "mixsnips", "nlupp_hotels", *MADE)
MOST = 4_000  # queries of one pool


@dataclass(frozen=True, slots=True)
class Pool:
    """Agents and labeled queries, all that there are."""

    name: str
    agents: Sequence[Agent]
    examples: Sequence[Example]


def pool(name: str, data: Path) -> Pool:
    """The pool of that name: a made-up one, or the folder of `data`; of a larger one MOST queries drawn at random."""
    if name == "costs":
        return Pool(name, made_up.agents(name), made_up.examples(name, 0))
    if name == "invented":
        agents, examples = invented.pool(1_500, 8, 0)
        return Pool(name, agents, examples)
    folder = read_folder(data / name)
    found = list({group_key(e.text): e for e in (*folder.train, *folder.val, *folder.test)}.values())
    random.Random(0).shuffle(found)
    return Pool(name, folder.agents, found[:MOST])


def split(examples: Sequence[Example]) -> list[Example]:
    """The same with splits: of five three to train, one val, one test."""
    return [replace(e, split=("train", "train", "train", "val", "test")[i % 5]) for i, e in enumerate(examples)]


def learnt(agents: Sequence[Agent], labeled: Sequence[Example], **more: Any) -> tuple[Router, dict[str, Any]]:
    """A router and its scorecard from labeled examples with splits, by the quick recipe with `more` settings."""
    config = Config.from_mapping({**QUICK, **more})
    *_rest, last = train(config, agents, labeled)
    assert last.result is not None
    return Router.load(last.result.artifact), last.result.scorecard


def right(router: Router, agents: Sequence[Agent], examples: Sequence[Example]) -> BoolArray:
    """Which queries get exactly the set that they need, bool[N]."""
    place = {agent.id: a for a, agent in enumerate(router.agents)}
    chosen = router.selections([e.text for e in examples])
    needed = np.array([[agent in e.required for agent in place] for e in examples])
    foreign = np.array([not e.required <= set(place) for e in examples])
    return np.asarray((chosen == needed).all(axis=1) & ~foreign)
