"""A pool with three agents, a person of every role, and a browser for each."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client
from django.utils.module_loading import import_string
from django_q.models import OrmQ
from django_q.signing import SignedPackage

from agents_app import pools
from agents_app.models import Agent, Pool

ROLES = ("labeler", "reviewer", "ops", "admin")
NAMES = ("Billing", "Account", "Shipping")


@pytest.fixture
def pool(db: None) -> Pool:
    pool = pools.create_pool("Support")
    for name in NAMES:
        pools.add_agent(pool, name, f"All about {name.lower()}")
    return pool


@pytest.fixture
def billing(pool: Pool) -> Agent:
    return Agent.objects.get(pool=pool, name="Billing")


@pytest.fixture
def person(db: None) -> Callable[[str], User]:
    """The person of a role, made on first use: `person("ops")`."""

    def of(role: str) -> User:
        name = f"{role}@example.com"
        user = User.objects.filter(username=name).first()
        if user is None:
            user = User.objects.create_user(name, name, "a long enough one", is_staff=True)
            user.groups.add(Group.objects.get(name=role))
        return user

    return of


@pytest.fixture
def client_of(person: Callable[[str], User]) -> Callable[[str], Client]:
    """A browser in which the person of a role is signed in; of nobody for "anonymous"."""

    def of(role: str) -> Client:
        client = Client()
        if role != "anonymous":
            client.force_login(person(role))
        return client

    return of


@pytest.fixture
def ops(client_of: Callable[[str], Client]) -> Client:
    return client_of("ops")


@pytest.fixture
def admin(client_of: Callable[[str], Client]) -> Client:
    return client_of("admin")


@pytest.fixture
def run_jobs(db: None) -> Callable[[], int]:
    """Does the waiting jobs of the queue as a worker would, and says how many."""

    def run() -> int:
        waiting = list(OrmQ.objects.order_by("pk"))
        for row in waiting:
            task = SignedPackage.loads(row.payload)
            import_string(task["func"])(*task["args"])
            row.delete()
        return len(waiting)

    return run
