"""A pool that answers, and a second version of its router that has learnt fewer agents."""

from collections.abc import Callable, Iterator

import pytest

from agents_app.models import Pool
from tests.training_app.runs.conftest import ops, person  # noqa: F401
from tests.training_app.serving.conftest import app, fresh_process, in_memory, model, pool  # noqa: F401
from tests.training_app.serving.served import artifact
from training_app.answering import shadowing
from training_app.models import Canary, LiveSettings, RouterModel
from training_app.rollout import trials
from training_app.versions import registry

OVERRIDE = "measured elsewhere"


@pytest.fixture(autouse=True)
def nothing_waits() -> Iterator[None]:
    shadowing.forget()
    yield
    shadowing.forget()


@pytest.fixture
def candidate(model: RouterModel) -> RouterModel:  # noqa: F811
    """Knows billing and shipping, but nothing of technical matters."""
    return registry.register(None, model.pool, artifact((0, "Billing"), (1, "Shipping")), {})


@pytest.fixture
def canary(candidate: RouterModel) -> Callable[..., Canary]:
    def start(share: float = 0.5, model: RouterModel = candidate) -> Canary:  # noqa: F811
        return trials.start_canary(model, share, actor=None, override=OVERRIDE, actor_name="test")

    return start


@pytest.fixture
def live(pool: Pool) -> Callable[..., LiveSettings]:  # noqa: F811
    """Sets the pool's live settings."""

    def change(**fields: object) -> LiveSettings:
        return trials.change_settings(pool, fields.items(), actor=None)

    return change
