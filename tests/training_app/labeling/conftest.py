"""The queue of queries of the datasets' tests, and a key that labels as Ana."""

import pytest
from django.contrib.auth.models import User

from agents_app.keys import create_key
from tests.datasets_app.conftest import add_query, dataset, person, pool  # noqa: F401
from tests.datasets_app.labeling.conftest import plain, queries  # noqa: F401
from tests.training_app.serving.served import Application
from training_app.answering import serving


@pytest.fixture(autouse=True)
def fresh_process():
    serving.forget()
    yield
    serving.forget()


@pytest.fixture
def ana(person) -> User:  # noqa: F811
    return person("ana")


@pytest.fixture
def app(pool, plain, queries, ana) -> Application:  # noqa: F811
    key, secret = create_key("Slack", [pool], ["label"], labels_as=ana)
    return Application(secret, key)
