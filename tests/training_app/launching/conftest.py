"""The labeled pool and the people of the runs' tests."""

from tests.training_app.runs.conftest import (  # noqa: F401
    browser,
    labeled,
    make_model,
    ops,
    person,
    pool,
    run,
    snapshot,
    told_router,
    training,
)
