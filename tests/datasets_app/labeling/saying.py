"""What people say of a query, and what came of it."""

from django.contrib.auth.models import User

from agents_app.models import Agent, Pool
from datasets_app.labeling import bulk, one_query, queue
from datasets_app.labeling.one_query import Choice
from datasets_app.models import Assignment, Gold, Query, Submission

EVERY = frozenset(range(4))


def gold_of(query: Query) -> tuple[list[int], list[int]] | None:
    return Gold.objects.filter(query=query).values_list("required", "asked").first()


def state_of(query: Query) -> str:
    return str(Query.objects.values_list("state", flat=True).get(pk=query.pk))


def said(*required: int) -> Choice:
    return Choice(frozenset(required), not required, False, EVERY)


def hold(pool: Pool, person: User, query: Query, agent: Agent | None = None) -> Assignment:
    lease = queue.open_item(query, person, pool, agent)
    lease.person, lease.item.pool = person, pool
    return lease


def answer(pool: Pool, person: User, query: Query, choice: Choice, key: str, agent: Agent | None = None) -> Submission:
    own = one_query.own_label(query, person)
    lease = hold(pool, person, query, agent)
    return one_query.submit(lease, choice, key=key, base=own.pk if own else 0)[0]


def only(query: Query):  # type: ignore[no-untyped-def]
    return Query.objects.filter(pk=query.pk)


def agent_of(pool: Pool, number: int) -> Agent:
    return pool.agents.get(number=number)


def everything(pool: Pool, query: Query, action: str, number: int, author: User):  # type: ignore[no-untyped-def]
    return bulk.apply(pool, only(query), action, agent_of(pool, number), author=author)
