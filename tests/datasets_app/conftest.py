"""A small pool, people of every role, a dataset and a queue of its queries, as the tests of queries and labels share them."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client

from agents_app import pools
from agents_app.models import Agent, Pool
from datasets_app.labeling import queue
from datasets_app.labeling.one_query import Choice
from datasets_app.models import Dataset, Query, QueueSettings, SplitGroup, group_hash, text_hash
from tests.datasets_app.files import messy

NAMES = ("Billing", "Account", "Technical", "Shipping")


@pytest.fixture
def pool(db: None) -> Pool:
    """A pool "support" with the agents 0 Billing, 1 Account, 2 Technical, 3 Shipping."""
    pool = Pool.objects.create(slug="support", name="Support", next_agent_number=len(NAMES))
    Agent.objects.bulk_create(
        [Agent(pool=pool, number=n, code=name[:2].upper(), key=name.lower(), name=name) for n, name in enumerate(NAMES)]
    )
    return pool


@pytest.fixture
def dataset(pool: Pool) -> Dataset:
    return Dataset.objects.create(pool=pool, name="Tickets")


@pytest.fixture
def add_query(dataset: Dataset) -> Callable[..., Query]:
    """Makes a query of a text, in a split group of its own."""

    def add(text: str, split: str = "", in_dataset: Dataset | None = None) -> Query:
        target = in_dataset or dataset
        group, _made = SplitGroup.objects.get_or_create(
            pool=target.pool, key=group_hash(text), defaults={"split": split}
        )
        return Query.objects.create(dataset=target, text=text, text_hash=text_hash(text), group=group)

    return add


@pytest.fixture
def query(add_query: Callable[..., Query]) -> Query:
    return add_query("I was charged twice and can't log in")


@pytest.fixture
def person(db: None) -> Callable[..., User]:
    """Makes a person of a role."""

    def make(name: str, role: str = "labeler") -> User:
        user = User.objects.create_user(name, f"{name}@example.com", "secret-enough-1", is_staff=True)
        user.groups.add(Group.objects.get_or_create(name=role)[0])
        return user

    return make


# ------------------------------------------------------------------------------------------------- the queue


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
    settings = queue.stored_settings(pool)
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


@pytest.fixture
def clinic(db: None) -> Pool:
    """The pool that messy files are about."""
    pool = pools.create_pool("Clinic", "clinic")
    for name in messy.AGENTS:
        pools.add_agent(pool, name)
    return pool


@pytest.fixture
def reviewer(client: Client, person: Callable[..., User]) -> Client:
    """A browser that a reviewer has signed in to."""
    client.force_login(person("rita", "reviewer"))
    return client
