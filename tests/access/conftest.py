"""The site with one of everything, made once a test, by a process that has loaded nothing."""

import pytest

from tests.access import world as worlds
from tests.training_app.serving.conftest import fresh_process  # noqa: F401


@pytest.fixture
def world(db: None) -> worlds.World:
    return worlds.build()
