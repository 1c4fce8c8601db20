"""Each test begins as a process that has loaded nothing, and for which no shadow waits."""

import pytest


@pytest.fixture(autouse=True)
def alone(fresh_process: None, nothing_waits: None) -> None:
    """Each test of this folder begins so."""
