"""A labeled pool, people of every role, a stand-in for the engine whose training does what a test says, and a pool that answers."""

import json
import sys
import threading
from collections.abc import Callable, Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client

from agents_app.audit import Actor
from agents_app.models import Agent, Pool
from datasets_app.labels import snapshots
from datasets_app.models import Snapshot
from tests import orchestration
from tests.clients import signed_in
from tests.training_app.labeled import label
from tests.training_app.receiving import Receiver
from tests.training_app.served import NAMES, Application, ScriptedRouter, application, promoted
from tests.training_app.served import artifact as served_artifact
from tests.training_app.told import NotAnArtifact, ToldRouter, TrainError, artifact, progress, result
from tests.training_app.words import WordRouter, card
from training_app.answering import decisions, serving, shadowing, throttle
from training_app.engine.routing import router as engine
from training_app.models import AlarmReceiver, Canary, LiveSettings, RouterModel, Run
from training_app.rollout import trials
from training_app.training import runs
from training_app.versions import registry
from training_app.watching import deliveries


@pytest.fixture
def pool(db: None) -> Pool:
    """A pool "support" with the agents 0 Billing, 1 Shipping, 2 Technical, and no query."""
    made = Pool.objects.create(slug="support", name="Support", next_agent_number=len(NAMES))
    Agent.objects.bulk_create(
        [Agent(pool=made, number=n, code=name[:2].upper(), key=name.lower(), name=name) for n, name in enumerate(NAMES)]
    )
    return made


@pytest.fixture
def labeled(pool: Pool) -> Pool:
    """The pool with 72 labeled queries in all three splits: each need alone, in pairs, or none."""
    label(pool)
    return pool


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
    return signed_in(ops)


# ---------------------------------------------------------------------------------------------------- an engine that obeys


@pytest.fixture
def told_router(monkeypatch: pytest.MonkeyPatch) -> None:
    """The registry takes the artifacts that `artifact` makes."""
    monkeypatch.setattr("training_app.engine.routing.router.Router", ToldRouter)
    monkeypatch.setattr(registry, "ArtifactError", NotAnArtifact)


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
        written: Any = None,
        rules: Any = None,
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


@pytest.fixture
def word_model(monkeypatch: pytest.MonkeyPatch, snapshot: Snapshot) -> Callable[..., RouterModel]:
    """Registers a candidate of the labeled pool that answers by words."""
    monkeypatch.setattr("training_app.engine.routing.router.Router", WordRouter)

    def make(words: dict[str, int], scorecard: dict | None = None) -> RouterModel:
        return registry.register(
            None, snapshot.pool, json.dumps(words).encode(), card() if scorecard is None else scorecard
        )

    return make


# -------------------------------------------------------------------------------------------------- a pool that answers


@pytest.fixture
def fresh_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The test begins as a process that has loaded nothing."""
    monkeypatch.setattr(engine, "Router", ScriptedRouter)
    monkeypatch.setattr(decisions, "buffer", decisions.Buffer())
    decisions.close()  # a writer that an earlier test started would write this test's decisions, in its own time
    monkeypatch.setattr(serving, "_database_fault", "")
    serving.forget()
    throttle.forget()
    if orchestration.INSTALLED:
        from orchestration_app.backends import state

        state.forget()
    yield
    serving.forget()
    decisions.buffer = decisions.Buffer()
    decisions.close()


@pytest.fixture
def in_memory(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """A process whose watcher runs: the stamp is looked at when the test says so, not at each request."""

    def begin() -> None:
        monkeypatch.setattr(serving, "_watcher", SimpleNamespace(started=True))
        serving.refresh()

    return begin


@pytest.fixture
def model(pool: Pool) -> RouterModel:
    return promoted(pool, *enumerate(NAMES))


@pytest.fixture
def app(pool: Pool) -> Application:
    return application(pool)


# ------------------------------------------------------------------------------ a second version, beside the active one


OVERRIDE = "measured elsewhere"


@pytest.fixture
def nothing_waits() -> Iterator[None]:
    shadowing.forget()
    yield
    shadowing.forget()


@pytest.fixture
def candidate(model: RouterModel) -> RouterModel:
    """Knows billing and shipping, but nothing of technical matters."""
    return registry.register(None, model.pool, served_artifact((0, "Billing"), (1, "Shipping")), {})


@pytest.fixture
def canary(candidate: RouterModel) -> Callable[..., Canary]:
    def start(share: float = 0.5, model: RouterModel = candidate) -> Canary:
        return trials.start_canary(model, share, actor=Actor("test"), override=OVERRIDE)

    return start


@pytest.fixture
def live(pool: Pool) -> Callable[..., LiveSettings]:
    """Sets the pool's live settings."""

    def change(**fields: object) -> LiveSettings:
        return trials.change_settings(pool, fields.items(), actor=None)

    return change


# ------------------------------------------------------------------------------------------- where alarms are sent


@pytest.fixture
def receiver(settings: Any) -> Iterator[Receiver]:
    settings.INTERNAL_HOSTS = ("localhost",)
    with Receiver() as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def webhook(receiver: Receiver, pool: Pool, ops: Any) -> AlarmReceiver:
    return deliveries.add_receiver(pool, "webhook", receiver.url, ops)
