"""What every step stands on: the rows that each example begins with, one example, and how a step picks what it is about."""

from collections import Counter
from typing import Any

from django.contrib.auth.models import Group, User
from django.db import transaction
from hypothesis.stateful import RuleBasedStateMachine

from agents_app.models import Agent, Pool
from datasets_app.labeling import queue
from datasets_app.labels import peers
from datasets_app.models import (
    Assignment,
    Dataset,
    Label,
    Query,
    QueueSettings,
)
from tests.datasets_app.stateful import reference as ref
from tests.datasets_app.stateful.drawn import AGENTS, LABELERS


class World:
    """The rows that every example begins with."""

    def __init__(self) -> None:
        self.pool = Pool.objects.create(slug="stateful", name="Stateful", next_agent_number=AGENTS)
        Agent.objects.bulk_create(
            Agent(pool=self.pool, number=n, code=f"A{n}", key=f"agent-{n}", name=f"Agent {n}") for n in range(AGENTS)
        )
        self.datasets = [Dataset.objects.create(pool=self.pool, name=name) for name in ("One", "Two")]
        self.people = {}
        for name, role in [*((name, "labeler") for name in LABELERS), ("rita", "reviewer")]:
            self.people[name] = User.objects.create_user(name, is_staff=True)
            self.people[name].groups.add(Group.objects.get_or_create(name=role)[0])
        settings = queue.stored_settings(self.pool)
        settings.order = QueueSettings.Order.OLDEST
        settings.overlap, settings.overlap_share = 1, 1.0
        settings.blind_share = settings.evaluation_share = 0.0
        settings.save()


class Steps(RuleBasedStateMachine):
    """One example: a pool, two datasets, three labelers and a reviewer, and some fifty steps. The test sets `world` and `steps`."""

    world: World
    steps: Counter[str] = Counter()

    def __init__(self) -> None:
        super().__init__()
        self.transaction = transaction.atomic()
        self.transaction.__enter__()
        self.ref = ref.Reference(AGENTS)
        self.pool, self.datasets, self.people = self.world.pool, self.world.datasets, self.world.people
        self.rita = self.people["rita"]
        self.keys = self.compared = 0
        self.drawn: tuple[ref.Query, frozenset[int]] | None = None
        self.retired: set[int] = set()

    def teardown(self) -> None:
        transaction.set_rollback(True)
        self.transaction.__exit__(None, None, None)
        peers._noted.clear()  # what waits to be written is of queries whose keys come again

    def step(self, name: str) -> int:
        self.steps[name] += 1
        return self.ref.tick()

    def pick(self, place: int, alive: bool = True) -> ref.Query | None:
        found = [one for one in self.ref.queries.values() if not (alive and one.deleted)]
        return found[place % len(found)] if found else None

    def row(self, query: ref.Query) -> Query:
        return Query.objects.get(pk=query.key)

    def agent(self, number: int) -> Agent:
        return Agent.objects.get(pool=self.pool, number=number)

    def known(self, wanted: frozenset[int]) -> frozenset[int]:
        return wanted & frozenset(range(self.ref_agents))

    @property
    def ref_agents(self) -> int:
        return len(self.ref.active) + len(self.retired)

    def lease(self, person: str, query: ref.Query, agent: int | None) -> Assignment:
        about = None if agent is None else self.agent(agent)
        lease = queue.open_item(self.row(query), self.people[person], self.pool, about)
        lease.person, lease.item.pool = self.people[person], self.pool
        query.items[agent].people.setdefault(person, "held")
        return lease

    def add(self, query: ref.Query, label: Label, voice: ref.Voice, time: int, **more: Any) -> ref.Statement:
        said = ref.Statement(
            label.pk, voice, frozenset(label.required), frozenset(label.asked), not label.partial, time, **more
        )
        query.said.append(said)
        return said
