"""A stand-in for the engine: artifacts, errors and progress as a test tells them."""

import json
from types import SimpleNamespace
from typing import Any

from tests.training_app.served import NAMES
from training_app.engine.data.examples import Agent


class NotAnArtifact(Exception):
    """Stands in for the engine's ArtifactError."""


class TrainError(Exception):
    """Stands in for the engine's TrainError."""


class ToldRouter:
    """Loads an artifact that is a JSON list of (id, name); takes no agent for any query."""

    def __init__(self, agents: tuple[Agent, ...]) -> None:
        self.agents = agents
        self.training: dict[str, Any] = {}

    @classmethod
    def load(cls, artifact: bytes) -> "ToldRouter":
        try:
            return cls(tuple(Agent(number, name) for number, name in json.loads(artifact)))
        except ValueError:
            raise NotAnArtifact("not an artifact of this version") from None

    def route_batch(self, texts: list[str], available: Any = None, rules: Any = None) -> list[SimpleNamespace]:
        return [SimpleNamespace(agents=()) for _text in texts]


def artifact(*names: str) -> bytes:
    return json.dumps(list(enumerate(names or NAMES))).encode()


def progress(phase: str = "policy", step: int = 0, total: int = 10, **said: Any) -> SimpleNamespace:
    given = {"message": "", "metrics": {}, "checkpoint": None, "result": None, **said}
    return SimpleNamespace(phase=phase, step=step, total=total, **given)


def result(content: bytes | None = None) -> SimpleNamespace:
    return SimpleNamespace(artifact=content or artifact(), scorecard={})
