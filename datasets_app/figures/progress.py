"""How far a pool's labeling is: one definition of what is left and of what is labeled, for every page that names such a number."""

from dataclasses import dataclass

from django.contrib.auth.models import User
from django.db.models import Count, Exists, OuterRef, Q

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


def left(pool: Pool, person: User | None = None, agent: Agent | None = None, *, filled: bool = False) -> Left:
    """What waits in the pool's queue, or in the one about `agent`, as this person sees it; without a person nothing is an other's.

    Queries that have just come in are put into the queue first, so that a page counts what the next one will ask; unless the caller
    has just done so (`filled`).
    """
    if agent is None and not filled:
        queue.fill(pool)
    held = Exists(Assignment.objects.filter(item=OuterRef("pk"), state=queue.HELD))
    waiting = QueueItem.objects.filter(queue.OPEN | held, pool=pool, agent=agent)
    if person is None:
        return Left(waiting.count(), 0)
    touched = Assignment.objects.filter(item=OuterRef("pk"), person=person)
    yours = (queue.OPEN & ~Exists(touched)) | Exists(touched.filter(state=queue.HELD))
    counted = waiting.aggregate(all=Count("pk"), yours=Count("pk", filter=yours))
    return Left(counted["yours"], counted["all"] - counted["yours"])


def labeled(pool: Pool) -> Labeled:
    """How many of the pool's queries are labeled, suggested and neither."""
    current = Label.objects.current().filter(query=OuterRef("pk"))
    spoken = Exists(current.filter(source__in=SPOKEN))
    offered = Exists(current.filter(source=Label.Source.LLM)) | Exists(Suggestion.objects.filter(query=OuterRef("pk")))
    counted = Query.objects.of(pool).aggregate(
        all=Count("pk"), labeled=Count("pk", filter=spoken), suggested=Count("pk", filter=Q(~spoken & offered))
    )
    return Labeled(counted["all"], counted["labeled"], counted["suggested"])


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
