"""The small pool of the queries' tests."""

from tests.datasets_app.conftest import add_query, dataset, pool  # noqa: F401
