"""A pool that answers, with backends: Billing has three that differ, Shipping one, Technical none."""

from types import SimpleNamespace

import pytest

from agents_app.models import Pool
from orchestration_app import providers
from orchestration_app.models import Backend


@pytest.fixture(autouse=True)
def alone(fresh_process: None, nothing_waits: None) -> None:
    """Each test begins as a process that has loaded nothing."""


@pytest.fixture
def rows(pool: Pool, model: object) -> SimpleNamespace:
    """`large` is right and dear, `small` cheap, `quick` fast; `ships` is Shipping's only one."""
    provider = providers.save_provider(pool, "acme", secret="sk-never-shown", actor=None)
    agents = {agent.number: agent for agent in pool.agents.all()}

    def made(agent: int, model: str, **values: float) -> Backend:
        return providers.save(agents[agent], provider, {"model": model, **values}, actor=None)

    return SimpleNamespace(
        provider=provider,
        large=made(0, "large", quality=0.95, price_in=10.0, price_out=30.0, latency=2000.0),
        small=made(0, "small", quality=0.8, price_in=0.2, price_out=0.6, latency=800.0),
        quick=made(0, "quick", quality=0.7, price_in=1.0, price_out=2.0, latency=150.0),
        ships=made(1, "large", quality=0.9, price_in=10.0, price_out=30.0, latency=2000.0),
    )
