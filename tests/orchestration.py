"""Whether orchestration_app is installed. With ORCHESTRATION=0 the tests of all else run without it."""

import pytest
from django.conf import settings

from agents_app.models import Pool

INSTALLED = "orchestration_app" in settings.INSTALLED_APPS
#: For a test that needs it, outside tests/orchestration_app.
needed = pytest.mark.skipif(not INSTALLED, reason="ORCHESTRATION=0: orchestration_app is not installed")


def give_executors(pool: Pool) -> None:
    """Have every agent of a pool answer what a script says; without orchestration_app nothing."""
    if INSTALLED:
        from orchestration_app import executors

        for agent in pool.agents.all():
            script = {"do": "say", "text": f"{agent.name} is done."}
            executors.save(agent, {"kind": "scripted", "script": script}, secret=None, actor=None)
