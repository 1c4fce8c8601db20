"""How far a pool's labeling is: one definition of what is left and of what is labeled, for every page that names such a number.

Of a large pool most of these figures are those that `counting` has stored; `counted_at` says when.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib.auth.models import User
from django.db.models import Count, Exists, F, OuterRef, Q, QuerySet

from agents_app.models import Agent, Pool
from datasets_app.labels import queue
from datasets_app.labels.queue import OPEN
from datasets_app.models import Assignment, GoldAgent, Label, Query, QueueItem, Suggestion

#: Whose words make a query "labeled": people's, and those of an imported file. An LLM's are a suggestion.
SPOKEN = (Label.Source.HUMAN, Label.Source.ADJUDICATION, Label.Source.IMPORT)
#: A pool of more queries is counted in the background, and up to so many are counted while somebody waits.
LARGE = 10_000
#: With fewer labels there is nothing to put into three splits.
LEAST_TO_TRAIN = 12


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
    model has; `llm` of these have an LLM's. `bare`: nobody has. `labeled`, `suggested` and `bare` add up to `queries`."""

    queries: int
    labeled: int
    suggested: int
    llm: int = 0

    @property
    def bare(self) -> int:
        return self.queries - self.labeled - self.suggested


@dataclass(frozen=True, slots=True)
class Gold:
    """Queries with a gold label. About some agents of the `disputed` ones people still disagree, and the gold leaves these agents out:
    such a query is in the state Disagreement, not Gold."""

    all: int
    disputed: int


def stored(pool: Pool) -> dict[str, Any] | None:
    """The figures of a large pool as they were counted last; None where they are counted when asked. Read once for each `pool`."""
    figures = getattr(pool, "figures", None)
    return figures.counts if figures is not None else None


def counted_at(pool: Pool) -> datetime | None:
    """When the stored figures were counted; None where all are of this moment."""
    figures = getattr(pool, "figures", None)
    return figures.counted_at if figures is not None else None


def left(pool: Pool, person: User | None = None, agent: Agent | None = None) -> Left:
    """What waits in the pool's queue, or in the one about `agent`, as this person sees it; without a person nothing is an other's.

    Queries that have just come in, and wait for somebody to take work so that they are put into the queue, are counted with it. What
    is open to everybody is a stored figure where it is more than LARGE in a large pool.
    """
    held = waiting_held(pool).filter(agent=agent)
    everybody = _open(pool, agent)
    if person is None:
        return Left(everybody + held.count(), 0)
    passed = _passed(pool, agent, person, everybody)
    mine = Exists(Assignment.objects.filter(item=OuterRef("pk"), person=person, state=queue.HELD))
    counted = held.aggregate(all=Count("pk"), yours=Count("pk", filter=mine))
    yours = max(0, everybody - passed) + counted["yours"]
    return Left(yours, everybody + counted["all"] - yours)


def passed(pool: Pool, agent: Agent | None) -> "QuerySet[Assignment]":
    """What somebody has answered or skipped of the queue, and others may still take."""
    ended = Assignment.objects.filter(item__pool=pool, item__agent=agent).exclude(state=queue.HELD)
    return ended.filter(item__taken__lt=F("item__needed"))


def _passed(pool: Pool, agent: Agent | None, person: User, everybody: int) -> int:
    """How much of it this person has: a stored figure where that of the queue is."""
    counted = stored(pool)
    if agent is None and counted is not None and everybody > LARGE:
        return int(counted.get("passed", {}).get(str(person.pk), 0))
    return passed(pool, agent).filter(person=person).count()


def _open(pool: Pool, agent: Agent | None) -> int:
    """How many items are open to somebody, with the queries that are about to become such."""
    counted = stored(pool)
    if agent is not None or counted is None:
        new = queue.not_filled(pool).count() if agent is None else 0
        return queue.still_open(pool, agent) + new
    some = QueueItem.objects.filter(OPEN, pool=pool, agent=None)[: LARGE + 1].count()
    if some <= LARGE:
        some += queue.not_filled(pool)[: LARGE + 1].count()
    return max(some, counted["open"]) if some > LARGE else some


def waiting(pool: Pool) -> "QuerySet[QueueItem]":
    """The items of the pool's queue that still want an answer: open to somebody, or held by somebody now."""
    held = Assignment.objects.filter(item__pool=pool, state=queue.HELD).values("item")
    return QueueItem.objects.filter(OPEN | Q(pk__in=held), pool=pool)


def waiting_held(pool: Pool) -> "QuerySet[QueueItem]":
    """Those of the items that wait which are open to nobody else: somebody holds them."""
    held = Assignment.objects.filter(item__pool=pool, state=queue.HELD).values("item")
    return QueueItem.objects.filter(pk__in=held, pool=pool).exclude(OPEN)


def questions(pool: Pool, person: User | None = None) -> list[tuple[Agent, int]]:
    """The active agents that queries are being asked about on their own, each with how many wait: for this person, or for anybody."""
    with_questions = (
        QueueItem.objects.filter(OPEN, pool=pool, agent__isnull=False).order_by().values("agent").distinct()
    )
    held = waiting_held(pool).filter(agent__isnull=False).values("agent")
    agents = pool.agents.active().filter(Q(pk__in=with_questions) | Q(pk__in=held)).order_by("number")
    counted = [(agent, left(pool, person, agent).yours) for agent in agents]
    return [(agent, count) for agent, count in counted if count]


def trainable(pool: Pool) -> bool:
    """Whether the pool has labels enough to train on."""
    gold = Query.objects.of(pool).filter(state=Query.State.GOLD)
    return gold[:LEAST_TO_TRAIN].count() == LEAST_TO_TRAIN


def is_labeled() -> Exists:
    """What is true of a labeled query: people or a file have said what it needs."""
    return Exists(Label.objects.current().filter(query=OuterRef("pk"), source__in=SPOKEN))


def by_llm() -> "QuerySet[Label]":
    """An LLM's labels of the query outside; what stood in for an answer that could not be read is none."""
    labels = Label.objects.current().filter(query=OuterRef("pk"), source=Label.Source.LLM)
    return labels.filter(provenance__fallback__isnull=True)


def is_suggested() -> Q:
    """What is true of a query with suggestions only."""
    labels = Label.objects.current().filter(query=OuterRef("pk"), source=Label.Source.LLM)
    return ~Q(is_labeled()) & Q(Exists(labels) | Exists(Suggestion.objects.filter(query=OuterRef("pk"))))


def labeled(pool: Pool) -> Labeled:
    """How many of the pool's queries are labeled, suggested and neither."""
    if stored_counts := stored(pool):
        return Labeled(
            stored_counts["queries"], stored_counts["labeled"], stored_counts["suggested"], stored_counts["llm"]
        )
    counted = Query.objects.of(pool).aggregate(
        all=Count("pk"),
        labeled=Count("pk", filter=Q(is_labeled())),
        suggested=Count("pk", filter=is_suggested()),
        llm=Count("pk", filter=~Q(is_labeled()) & Q(Exists(by_llm()))),
    )
    return Labeled(counted["all"], counted["labeled"], counted["suggested"], counted["llm"])


def gold(pool: Pool) -> Gold:
    """How many of the pool's queries have a gold label: what an export, a snapshot and a run hold."""
    if counted := stored(pool):
        return Gold(counted["gold"], counted["disputed"])
    has = Query.objects.of(pool).filter(gold__isnull=False)
    return Gold(**has.aggregate(all=Count("pk"), disputed=Count("pk", filter=Q(state=Query.State.DISAGREEMENT))))


def by_agent(pool: Pool) -> list[tuple[Agent, int]]:
    """Each active agent, and how many queries are known to need it, whatever their split; the scarcest last."""
    counts = dict(counted["agents"]) if (counted := stored(pool)) else needed(pool)
    agents = pool.agents.active().order_by("number")
    return sorted(((agent, counts.get(agent.pk, 0)) for agent in agents), key=lambda pair: -pair[1])


def needed(pool: Pool) -> dict[int, int]:
    """Agent's key → queries that are known to need it, counted now."""
    rows = GoldAgent.objects.filter(agent__pool=pool, gold__query__deleted_at__isnull=True)
    return dict(rows.values_list("agent").annotate(Count("pk")).order_by())


def states(pool: Pool) -> list[tuple[str, int]]:
    """How many queries of the pool are in each state, in the order of a query's life."""
    if counted := stored(pool):
        counts = counted["states"]
    else:
        counts = dict(Query.objects.of(pool).values_list("state").annotate(Count("pk")).order_by())
    return [(state, counts.get(state, 0)) for state in Query.State.values]


def disputes(pool: Pool) -> int:
    """About how many queries people disagree."""
    if counted := stored(pool):
        return int(counted["states"].get(Query.State.DISAGREEMENT, 0))
    return Query.objects.of(pool).filter(state=Query.State.DISAGREEMENT).count()
