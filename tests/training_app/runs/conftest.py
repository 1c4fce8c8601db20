"""A labeled pool, people of every role, and a stand-in for the engine whose training does what a test says."""

import json
import sys
import threading
from collections.abc import Callable, Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.db import connections
from django.test import Client

from agents_app import pools
from agents_app.models import Pool
from datasets_app.labels import labels, snapshots
from datasets_app.models import Dataset, Query, Snapshot, SplitGroup, group_hash, text_hash
from training_app.engine.data.examples import Agent
from training_app.models import RouterModel, Run
from training_app.training import runs
from training_app.versions import registry

NAMES = ("Billing", "Shipping", "Technical")
NEEDS = {0: ("refund", "invoice"), 1: ("parcel", "courier"), 2: ("crash", "error")}


@pytest.fixture
def pool(db: None) -> Pool:
    """A pool "support" with the agents 0 Billing, 1 Shipping, 2 Technical, and no query."""
    made = pools.create_pool("Support", "support", actor=None)
    for name in NAMES:
        pools.add_agent(made, name)
    return made


@pytest.fixture
def labeled(pool: Pool) -> Pool:
    """The pool with 72 labeled queries in all three splits: each need alone, in pairs, or none."""
    label(pool)
    return pool


def label(pool: Pool, variants: int = 8) -> None:
    dataset = Dataset.objects.create(pool=pool, name="Tickets")
    split_of = ("train", "train", "train", "train", "train", "val", "test", "test")
    statements = []
    for variant in range(variants):
        rows: list[tuple[str, list[int]]] = [(f"what a nice day {variant}", []), (f"tell me a joke {variant}", [])]
        rows.append((f"who won match {variant}", []))
        for first, words in NEEDS.items():
            second = (first + 1) % 3
            rows.append((f"about my {words[variant % 2]} number {variant}", [first]))
            both = f"my {words[variant % 2]} and the {NEEDS[second][variant % 2]} of order {variant}"
            rows.append((both, sorted((first, second))))
        for text, required in rows:
            group = SplitGroup.objects.create(pool=pool, key=group_hash(text), split=split_of[variant % 8])
            query = Query.objects.create(dataset=dataset, text=text, text_hash=text_hash(text), group=group)
            statements.append(labels.NewLabel(query_id=query.pk, source="import", required=required, asked=[0, 1, 2]))
    labels.record_many(statements)


@pytest.fixture
def snapshot(labeled: Pool) -> Snapshot:
    return snapshots.take(labeled)


@pytest.fixture
def run(snapshot: Snapshot) -> Run:
    """A queued run."""
    return runs.launch(snapshot.pool, snapshot=snapshot, queue=False)


@pytest.fixture
def person(db: None) -> Callable[..., User]:
    """Makes a person of a role."""

    def make(role: str) -> User:
        user = User.objects.create_user(f"{role}-person", is_staff=True)
        user.groups.add(Group.objects.get_or_create(name=role)[0])
        return user

    return make


@pytest.fixture
def ops(person: Callable[..., User]) -> User:
    return person("ops")


@pytest.fixture
def browser(ops: User) -> Client:
    """A browser in which ops is signed in."""
    client = Client()
    client.force_login(ops)
    return client


# ---------------------------------------------------------------------------------------------------- an engine that obeys


class NotAnArtifact(Exception):
    """Stands in for the engine's ArtifactError."""


class TrainError(Exception):
    """Stands in for the engine's TrainError."""


class ToldRouter:
    """Loads an artifact that is a JSON list of (id, name); takes no agent for any query."""

    def __init__(self, agents: tuple[Agent, ...]) -> None:
        self.agents = agents

    @classmethod
    def load(cls, artifact: bytes) -> "ToldRouter":
        try:
            return cls(tuple(Agent(number, name) for number, name in json.loads(artifact)))
        except ValueError:
            raise NotAnArtifact("not an artifact of this version") from None

    def route_batch(self, texts: list[str], available: Any = None) -> list[SimpleNamespace]:
        return [SimpleNamespace(agents=()) for _text in texts]


def artifact(*names: str) -> bytes:
    return json.dumps(list(enumerate(names or NAMES))).encode()


@pytest.fixture
def told_router(monkeypatch: pytest.MonkeyPatch) -> None:
    """The registry takes the artifacts that `artifact` makes."""
    monkeypatch.setattr("training_app.engine.routing.router.Router", ToldRouter)
    monkeypatch.setattr(registry, "ArtifactError", NotAnArtifact)


def progress(phase: str = "policy", step: int = 0, total: int = 10, **said: Any) -> SimpleNamespace:
    given = {"message": "", "metrics": {}, "checkpoint": None, "result": None, **said}
    return SimpleNamespace(phase=phase, step=step, total=total, **given)


def result(content: bytes | None = None) -> SimpleNamespace:
    return SimpleNamespace(artifact=content or artifact(), scorecard={})


@pytest.fixture
def training(monkeypatch: pytest.MonkeyPatch, told_router: None) -> SimpleNamespace:
    """The engine's training walks through `training.steps`: a progress is yielded, a function called, an error raised.

    `training.checkpoints` are those that it was started from, `training.models` the LLMs that it may ask, `training.unlabeled` the
    texts without labels that it may learn from.
    The real module, which brings torch, is not imported.
    """
    told = SimpleNamespace(
        steps=[progress(result=result())], checkpoints=[], models=[], unlabeled=[], TrainError=TrainError
    )

    def train(
        config: Any,
        agents: Any,
        examples: Any,
        *,
        checkpoint: bytes | None = None,
        llm: Any = None,
        unlabeled: Any = None,
    ) -> Iterator[Any]:
        told.checkpoints.append(checkpoint)
        told.unlabeled.append(unlabeled)
        told.models.append(llm)
        for step in told.steps:
            if isinstance(step, BaseException):
                raise step
            if callable(step):
                step()
            else:
                yield step

    module = ModuleType("training_app.engine.train")
    vars(module).update(train=train, TrainError=TrainError)
    monkeypatch.setitem(sys.modules, "training_app.engine.train", module)
    return told


@pytest.fixture
def make_model(pool: Pool, told_router: None) -> Callable[..., RouterModel]:
    """Registers a candidate of the pool."""

    def make(scorecard: dict[str, Any] | None = None) -> RouterModel:
        return registry.register(None, pool, artifact(), scorecard or {})

    return make


def at_once(count: int, act: Callable[[int], Any]) -> list[Any]:
    """What `act(0)` … `act(count - 1)` return or raise, each in a thread and a database connection of its own, let go together."""
    gate, found = threading.Barrier(count), [None] * count

    def one(number: int) -> None:
        try:
            gate.wait(20)
            found[number] = act(number)
        except Exception as error:
            found[number] = error
        finally:
            connections.close_all()

    threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return found
