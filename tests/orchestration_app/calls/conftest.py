"""The fixtures of tests/orchestration_app/crew.py: a pool that calls who a test says, and its agents."""

from tests.orchestration_app.crew import *  # noqa: F403
