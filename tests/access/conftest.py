"""The site with one of everything, made once a test, by a process that has loaded nothing."""

import pytest

from tests.access import world as worlds
from tests.training_app.conftest import fresh_process  # noqa: F401


@pytest.fixture(autouse=True)
def alone(fresh_process: None) -> None:  # noqa: F811
    """Each test of this folder begins so."""


@pytest.fixture
def world(db: None) -> worlds.World:
    return worlds.build()
