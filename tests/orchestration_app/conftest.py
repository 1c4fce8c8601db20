"""The fixtures of training_app's tests: a labeled pool, people of every role, a pool that answers."""

from tests.training_app.conftest import *  # noqa: F403
