"""A small router, really trained: three agents that a few words tell apart."""

import json
from functools import cache
from itertools import product
from pathlib import Path
from unittest import mock

from tests.made_once import ENGINE, made_once
from training_app.engine.config import Config
from training_app.engine.data.examples import Agent, Example
from training_app.engine.progress import Result
from training_app.engine.routing import router
from training_app.engine.routing.router import Router

AGENTS = (Agent(0, "Billing", code="BI"), Agent(1, "Shipping", code="SH"), Agent(2, "Technical", code="TE"))
NEEDS = ((0, "refund the invoice"), (1, "the parcel is late"), (2, "the app crashes"), (None, "tell me a joke"))
OPENINGS = ("hello", "hi there", "please help", "good morning", "urgent", "quick question", "hey team", "dear all")


def examples() -> list[Example]:
    """Each pair of needs behind each opening; the last two openings are val and test."""
    found: list[Example] = []
    for (place, opening), (first, one), (second, two) in product(enumerate(OPENINGS), NEEDS, NEEDS):
        required = frozenset(agent for agent in (first, second) if agent is not None)
        split = {6: "val", 7: "test"}.get(place, "train")
        text = f"{opening}, {one}" if first == second else f"{opening}, {one} and {two}"
        found.append(Example(f"{len(found)}", text, required, split=split))
    return found


@cache
def result() -> Result:
    """The artifact and the scorecard of a few seconds of training: once for all test processes."""
    folder = made_once("trained", _train, ENGINE)
    return Result((folder / "model.zip").read_bytes(), json.loads((folder / "scorecard.json").read_text()))


def _train(folder: Path) -> None:
    # Whoever asks first may have put another router in the real one's place.
    with mock.patch.object(router, "Router", Router):
        from training_app.engine.train import train  # brings torch

    config = Config(total_steps=400, folds=3, val_eval_freq=50, encoder="linear", max_features=2000)
    result = next(progress.result for progress in train(config, AGENTS, examples()) if progress.result)
    (folder / "model.zip").write_bytes(result.artifact)
    (folder / "scorecard.json").write_text(json.dumps(result.scorecard))
