"""A pool that answers: its agents, an active model, and a key."""

from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest

from agents_app import pools
from agents_app.models import Pool
from tests.training_app.serving.served import NAMES, Application, ScriptedRouter, application, promoted
from training_app.answering import decisions, serving, throttle
from training_app.engine.routing import router as engine
from training_app.models import RouterModel


@pytest.fixture(autouse=True)
def fresh_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each test begins as a process that has loaded nothing."""
    monkeypatch.setattr(engine, "Router", ScriptedRouter)
    monkeypatch.setattr(decisions, "buffer", decisions.Buffer())
    decisions.close()  # a writer that an earlier test started would write this test's decisions, in its own time
    monkeypatch.setattr(serving, "_database_fault", "")
    serving.forget()
    throttle.forget()
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
def pool(db) -> Pool:
    made = pools.create_pool("Support", "support")
    for name in NAMES:
        pools.add_agent(made, name)
    return made


@pytest.fixture
def model(pool: Pool) -> RouterModel:
    return promoted(pool, *enumerate(NAMES))


@pytest.fixture
def app(pool: Pool) -> Application:
    return application(pool)
