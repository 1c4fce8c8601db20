"""How far a pool's labeling is: one definition of what is left and of what is labeled, for every page that names such a number.

Of a large pool most of these figures are those that `counting` has stored; `counted_at` says when.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib.auth.models import User
from django.db.models import Count, Exists, F, OuterRef, Q, QuerySet, Value, prefetch_related_objects

from agents_app.models import Agent, Pool
from datasets_app.labeling import queue
from datasets_app.labeling.queue import OPEN
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
    return left_in([pool], person, agent)[pool.pk]


def left_in(pools: Sequence[Pool], person: User | None = None, agent: Agent | None = None) -> dict[int, Left]:
    """`left` in each of these pools, by its key. Three database queries, and one to three more for each large pool."""
    prefetch_related_objects(pools, "figures")
    large = [pool for pool in pools if agent is None and stored(pool) is not None]
    everybody = {pool.pk: _open_in_large(pool) for pool in large}
    small = [pool for pool in pools if pool.pk not in everybody]
    last = queue.filled_to(small) if agent is None and small else {}
    held = _held_in(pools).filter(agent=agent)
    rows = [_counted(queue.not_filled(pool, last[pool.pk]), "open", "dataset__pool") for pool in small if last]
    if small:
        rows.append(_counted(QueueItem.objects.filter(OPEN, pool__in=small, agent=agent), "open"))
    gone: dict[int, int] = {}
    if person is not None:
        gone = {pool.pk: _passed_of_large(pool, person) for pool in large if everybody[pool.pk] > LARGE}
        if counted_now := [pool for pool in pools if pool.pk not in gone]:
            rows.append(_counted(passed(counted_now, agent).filter(person=person), "passed", "item__pool"))
    mine = Exists(Assignment.objects.filter(item=OuterRef("pk"), person=person, state=queue.HELD))
    rows.append(_counted(held, "held", mine=Count("pk", filter=Q(mine)) if person else Value(0)))
    counts: Counter[tuple[str, int]] = Counter()
    for what, key, count, its in rows[0].union(*rows[1:], all=True):
        counts[what, key] += count
        counts["mine", key] += its
    result = {}
    for pool in pools:
        key = pool.pk
        open_ = everybody.get(key, counts["open", key])
        yours = open_ + counts["held", key]
        if person is not None:
            yours = max(0, open_ - gone.get(key, counts["passed", key])) + counts["mine", key]
        result[key] = Left(yours, open_ + counts["held", key] - yours)
    return result


def _counted(
    rows: "QuerySet[Any]",
    what: str | F,
    pool: str = "pool",
    mine: Count | Value = Value(0),  # noqa: B008 - it never changes
) -> "QuerySet[Any]":
    """How many of these rows each pool has, as rows (what, pool's key, count, mine); `what`: a word, or the column that has it."""
    rows = rows.order_by().annotate(what=Value(what) if isinstance(what, str) else what, of_pool=F(pool))
    return rows.values_list("what", "of_pool").annotate(count=Count("*"), mine=mine)


def passed(pools: Collection[Pool], agent: Agent | None) -> "QuerySet[Assignment]":
    """What somebody has answered or skipped of the queues of these pools, and others may still take."""
    ended = Assignment.objects.filter(item__pool__in=pools, item__agent=agent).exclude(state=queue.HELD)
    return ended.filter(item__taken__lt=F("item__needed"))


def _passed_of_large(pool: Pool, person: User) -> int:
    """How much of a large queue this person has answered or skipped, as it was counted last."""
    return int((stored(pool) or {}).get("passed", {}).get(str(person.pk), 0))


def _open_in_large(pool: Pool) -> int:
    """How many items of a large pool are open to somebody, with the queries that are about to become such."""
    counted = stored(pool) or {}
    some = QueueItem.objects.filter(OPEN, pool=pool, agent=None).order_by()[: LARGE + 1].count()
    if some <= LARGE:
        some += queue.not_filled(pool).order_by()[: LARGE + 1].count()
    return max(some, counted["open"]) if some > LARGE else some


def waiting(pool: Pool) -> "QuerySet[QueueItem]":
    """The items of the pool's queue that still want an answer: open to somebody, or held by somebody now."""
    held = Assignment.objects.filter(item__pool=pool, state=queue.HELD).values("item")
    return QueueItem.objects.filter(OPEN | Q(pk__in=held), pool=pool)


def waiting_held(pool: Pool) -> "QuerySet[QueueItem]":
    """Those of the items that wait which are open to nobody else: somebody holds them."""
    return _held_in([pool])


def _held_in(pools: Collection[Pool]) -> "QuerySet[QueueItem]":
    held = Assignment.objects.filter(item__pool__in=pools, state=queue.HELD).values("item")
    return QueueItem.objects.filter(pk__in=held, pool__in=pools).exclude(OPEN)


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
    return states_and_labeled([pool])[pool.pk][1]


def states_and_labeled(pools: Sequence[Pool]) -> dict[int, tuple[list[tuple[str, int]], Labeled]]:
    """`states` and `labeled` of each of these pools, by its key. Two database queries."""
    prefetch_related_objects(pools, "figures")
    small = [pool for pool in pools if not stored(pool)]
    counts: Counter[tuple[str, int]] = Counter()
    if small:
        alive = Query.objects.alive().filter(dataset__pool__in=small)
        labels = Label.objects.current().filter(query=OuterRef("pk"), source=Label.Source.LLM)
        unlabeled, suggested = alive.filter(~Q(is_labeled())), Exists(Suggestion.objects.filter(query=OuterRef("pk")))
        # Each is one join of two tables; one pass over the queries would look for the labels of each query several times.
        parts = {
            "by anybody": alive.filter(is_labeled()),
            "by llm": unlabeled.filter(Exists(labels)),
            "by llm, read": unlabeled.filter(Exists(by_llm())),
            "by model": unlabeled.filter(suggested, ~Exists(labels)),
        }
        rows = [_counted(part, what, "dataset__pool") for what, part in parts.items()]
        for what, key, count, _mine in _counted(alive, F("state"), "dataset__pool").union(*rows, all=True):
            counts[what, key] = count
    return {pool.pk: _states_and_labeled(pool, counts) for pool in pools}


def _states_and_labeled(pool: Pool, counts: Mapping[tuple[str, int], int]) -> tuple[list[tuple[str, int]], Labeled]:
    key = pool.pk
    if figures := stored(pool):
        states = [(state, figures["states"].get(state, 0)) for state in Query.State.values]
        return states, Labeled(figures["queries"], figures["labeled"], figures["suggested"], figures["llm"])
    states = [(state, counts[state, key]) for state in Query.State.values]
    suggested = counts["by llm", key] + counts["by model", key]
    total = sum(count for _state, count in states)
    return states, Labeled(total, counts["by anybody", key], suggested, counts["by llm, read", key])


def gold(pool: Pool) -> Gold:
    """How many of the pool's queries have a gold label: what an export, a snapshot and a run hold."""
    if counted := stored(pool):
        return Gold(counted["gold"], counted["disputed"])
    has = Query.objects.of(pool).filter(gold__isnull=False)
    return Gold(**has.aggregate(all=Count("pk"), disputed=Count("pk", filter=Q(state=Query.State.DISAGREEMENT))))


def by_agent(pool: Pool, roster: Sequence[Agent] | None = None) -> list[tuple[Agent, int]]:
    """Each active agent, and how many queries are known to need it, whatever their split; the scarcest last. `roster`: the active
    agents by number, where somebody has read them."""
    counts = dict(counted["agents"]) if (counted := stored(pool)) else needed(pool)
    agents = pool.agents.active().order_by("number") if roster is None else roster
    return sorted(((agent, counts.get(agent.pk, 0)) for agent in agents), key=lambda pair: -pair[1])


def needed(pool: Pool) -> dict[int, int]:
    """Agent's key → queries that are known to need it, counted now."""
    rows = GoldAgent.objects.filter(agent__pool=pool, gold__query__deleted_at__isnull=True)
    return dict(rows.values_list("agent").annotate(Count("pk")).order_by())


def states(pool: Pool) -> list[tuple[str, int]]:
    """How many queries of the pool are in each state, in the order of a query's life."""
    return states_and_labeled([pool])[pool.pk][0]


def disputes(pools: Sequence[Pool]) -> dict[int, int]:
    """About how many queries of each of these pools people disagree, by its key. Two database queries."""
    prefetch_related_objects(pools, "figures")
    counts = {
        pool.pk: int(counted["states"].get(Query.State.DISAGREEMENT, 0)) for pool in pools if (counted := stored(pool))
    }
    small = [pool for pool in pools if pool.pk not in counts]
    disputed = Query.objects.alive().filter(dataset__pool__in=small, state=Query.State.DISAGREEMENT).order_by()
    counts |= {pool.pk: 0 for pool in small}
    if small:
        counts |= dict(disputed.values_list("dataset__pool").annotate(Count("pk")))
    return counts
