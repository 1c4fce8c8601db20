"""The pool that answers, of training_app's tests, for what goes through the server's own way into the API."""

from tests.training_app.conftest import app, fresh_process, model, pool  # noqa: F401
