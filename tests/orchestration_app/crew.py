"""A pool whose orchestrator calls who a test says, and agents that answer over HTTP."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from agents_app import pools
from agents_app.models import Pool
from benchmarks.orchestration.agents import Agents
from orchestration_app import executors
from orchestration_app.episodes import policies
from orchestration_app.models import Executor
from tests.orchestration_app.conducted import artifact
from tests.training_app.served import Application, application
from training_app.answering import serving, throttle
from training_app.models import RouterModel
from training_app.versions import registry

NAMES = ("Triage", "Billing", "Checker")


@pytest.fixture(autouse=True)
def fresh(db: None) -> Iterator[None]:
    """A process that has loaded nothing."""
    for module in (serving, throttle, policies):
        module.forget()
    yield
    for module in (serving, throttle, policies):
        module.forget()


@pytest.fixture
def crew(db: None) -> Pool:
    """A pool "crew" whose agents 0 Triage, 1 Billing and 2 Checker have no executor yet."""
    pool = pools.create_pool("Crew", "crew")
    for name in NAMES:
        pools.add_agent(pool, name, cost=0.01)
    return pool


@pytest.fixture
def conducted(crew: Pool) -> Callable[..., RouterModel]:
    """Promotes an orchestrator of the pool that calls these agents in this order."""

    def make(*order: int, **options: Any) -> RouterModel:
        model = registry.register(None, crew, artifact(crew, order, **options), {}, kind="orchestrator")
        registry.promote(model, actor=None)
        return model

    return make


@pytest.fixture
def executor(crew: Pool) -> Callable[..., Executor]:
    """Gives an agent (by id) an executor."""

    def make(number: int, kind: str = "scripted", secret: str | None = None, **values: Any) -> Executor:
        agent = crew.agents.get(number=number)
        return executors.save(agent, {"kind": kind, **values}, secret=secret, actor=None)

    return make


@pytest.fixture
def app(crew: Pool) -> Application:
    return application(crew)


class Served(Agents):
    """Agents in a thread of their own, at `url`."""

    url = ""

    def __enter__(self) -> "Served":
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        port = asyncio.run_coroutine_threadsafe(self.listen(), self._loop).result(10)
        self.url = f"http://127.0.0.1:{port}"
        return self

    def __exit__(self, *_raised: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _end(self) -> None:
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture
def agents() -> Iterator[Served]:
    with Served() as served:
        yield served
