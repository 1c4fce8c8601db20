"""How far a pool's labeling is: one definition of what is left and of what is labeled, for every page that names such a number."""

from dataclasses import dataclass

from django.contrib.auth.models import User
from django.db.models import Count, Exists, OuterRef, Q, QuerySet

from agents_app.models import Agent, Pool
from datasets_app.labels import queue
from datasets_app.models import Assignment, GoldAgent, Label, Query, QueueItem, Suggestion

#: Whose words make a query "labeled": people's, and those of an imported file. An LLM's are a suggestion.
SPOKEN = (Label.Source.HUMAN, Label.Source.ADJUDICATION, Label.Source.IMPORT)


@dataclass(frozen=True, slots=True)
class Left:
    """Items of the queue that wait for an answer. `yours`: open to this person or held by them. `others`: those that only
    somebody else can answer now, because this person has answered or skipped them, or another holds them."""

    yours: int
    others: int

    @property
    def total(self) -> int:
        return self.yours + self.others


@dataclass(frozen=True, slots=True)
class Labeled:
    """Queries of a pool that are not deleted. `labeled`: people or a file have said what they need. `suggested`: only an LLM or a
    model has. `bare`: nobody has. The three add up to `queries`."""

    queries: int
    labeled: int
    suggested: int

    @property
    def bare(self) -> int:
        return self.queries - self.labeled - self.suggested


@dataclass(frozen=True, slots=True)
class Gold:
    """Queries with a gold label. About some agents of the `disputed` ones people still disagree, and the gold leaves these agents out:
    such a query is in the state Disagreement, not Gold."""

    all: int
    disputed: int


def left(pool: Pool, person: User | None = None, agent: Agent | None = None, *, filled: bool = False) -> Left:
    """What waits in the pool's queue, or in the one about `agent`, as this person sees it; without a person nothing is an other's.

    Queries that have just come in are put into the queue first, so that a page counts what the next one will ask; unless the caller
    has just done so (`filled`).
    """
    if agent is None and not filled:
        queue.fill(pool)
    items = waiting(pool).filter(agent=agent)
    if person is None:
        return Left(items.count(), 0)
    touched = Assignment.objects.filter(item=OuterRef("pk"), person=person)
    yours = (queue.OPEN & ~Exists(touched)) | Exists(touched.filter(state=queue.HELD))
    counted = items.aggregate(all=Count("pk"), yours=Count("pk", filter=yours))
    return Left(counted["yours"], counted["all"] - counted["yours"])


def waiting(pool: Pool) -> "QuerySet[QueueItem]":
    """The items of the pool's queue that still want an answer: open to somebody, or held by somebody now."""
    held = Exists(Assignment.objects.filter(item=OuterRef("pk"), state=queue.HELD))
    return QueueItem.objects.filter(queue.OPEN | held, pool=pool)


def questions(pool: Pool, person: User | None = None) -> list[tuple[Agent, int]]:
    """The active agents that queries are being asked about on their own, each with how many wait: for this person, or for anybody."""
    asked = waiting(pool).filter(agent__state=Agent.State.ACTIVE).values("agent")
    counted = [
        (agent, left(pool, person, agent).yours) for agent in Agent.objects.filter(pk__in=asked).order_by("number")
    ]
    return [(agent, count) for agent, count in counted if count]


def is_labeled() -> Exists:
    """What is true of a labeled query: people or a file have said what it needs."""
    return Exists(Label.objects.current().filter(query=OuterRef("pk"), source__in=SPOKEN))


def is_suggested() -> Q:
    """What is true of a query with suggestions only."""
    said = Label.objects.current().filter(query=OuterRef("pk"), source=Label.Source.LLM)
    return ~Q(is_labeled()) & Q(Exists(said) | Exists(Suggestion.objects.filter(query=OuterRef("pk"))))


def labeled(pool: Pool) -> Labeled:
    """How many of the pool's queries are labeled, suggested and neither."""
    counted = Query.objects.of(pool).aggregate(
        all=Count("pk"), labeled=Count("pk", filter=Q(is_labeled())), suggested=Count("pk", filter=is_suggested())
    )
    return Labeled(counted["all"], counted["labeled"], counted["suggested"])


def gold(pool: Pool) -> Gold:
    """How many of the pool's queries have a gold label: what an export, a snapshot and a run hold."""
    has = Query.objects.of(pool).filter(gold__isnull=False)
    return Gold(**has.aggregate(all=Count("pk"), disputed=Count("pk", filter=Q(state=Query.State.DISAGREEMENT))))


def by_agent(pool: Pool) -> list[tuple[Agent, int]]:
    """Each active agent, and how many queries are known to need it, whatever their split; the scarcest last."""
    needed = dict(
        GoldAgent.objects.filter(agent__pool=pool, gold__query__deleted_at__isnull=True)
        .values_list("agent")
        .annotate(Count("pk"))
        .order_by()
    )
    agents = pool.agents.active().order_by("number")
    return sorted(((agent, needed.get(agent.pk, 0)) for agent in agents), key=lambda pair: -pair[1])
