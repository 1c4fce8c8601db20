"""A queue of queries and people to work it."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User

from agents_app.models import Pool
from datasets_app.labels import queue
from datasets_app.labels.labeling import Choice
from datasets_app.models import Query, QueueSettings


@pytest.fixture
def ana(person: Callable[..., User]) -> User:
    """A labeler."""
    return person("ana")


@pytest.fixture
def rita(person: Callable[..., User]) -> User:
    """A reviewer."""
    return person("rita", "reviewer")


@pytest.fixture
def queries(add_query: Callable[..., Query]) -> list[Query]:
    """Six unlabeled queries, oldest first."""
    return [add_query(f"question number {n}: where is my parcel {n}?") for n in range(6)]


@pytest.fixture
def plain(pool: Pool) -> QueueSettings:
    """The pool's queue without overlap, blind or evaluation share, oldest first: what a test expects is easy to see."""
    settings = queue.settings_of(pool)
    settings.order = QueueSettings.Order.OLDEST
    settings.overlap_share = settings.blind_share = settings.evaluation_share = 0.0
    settings.save()
    return settings


@pytest.fixture
def choose() -> Callable[..., Choice]:
    """Makes a choice of the agents named, of the four that the pool has."""

    def make(*required: int, none: bool = False, unsure: bool = False) -> Choice:
        return Choice(frozenset(required), none, unsure, frozenset(range(4)))

    return make
