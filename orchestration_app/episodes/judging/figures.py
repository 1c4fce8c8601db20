"""What episodes add up to: what calls cost and took by agent, which agent follows which, success, cost and steps over time."""

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import groupby, product
from typing import Any

from django.db.models import Avg, Count, Q, QuerySet
from django.db.models.functions import TruncDay
from django.utils import timezone

from agents_app.models import Pool
from orchestration_app.models import ANSWERED, UNDER_WAY, Episode, Step

DAYS = 30
#: The newest episodes that a graph is drawn of.
MOST = 2_000
START, STOP = "start", "stop"


@dataclass(frozen=True, slots=True)
class Measured:
    """An agent's calls: how many, the share that failed, and the means of cost, seconds and attempts of those that did not."""

    calls: int
    failed: float
    cost: float | None
    seconds: float | None
    attempts: float | None


def measured(pool: Pool, days: int = DAYS) -> dict[int, Measured]:
    """By agent id, the calls of the last days."""
    since = timezone.now() - timedelta(days=days)
    done = Q(status=Step.Status.DONE)
    rows = (
        Step.objects.filter(episode__pool=pool, call__isnull=False, at__gte=since)
        .filter(status__in=(Step.Status.DONE, Step.Status.FAILED))
        .order_by()
        .values("agent")
        .annotate(
            calls=Count("pk"), bad=Count("pk", filter=~done), cost=Avg("cost", filter=done), seconds=Avg("latency", filter=done),
            tries=Avg("attempts", filter=done),
        )
    )  # fmt: skip
    return {
        row["agent"]: Measured(row["calls"], row["bad"] / row["calls"], row["cost"], row["seconds"], row["tries"])
        for row in rows
        if row["agent"] is not None
    }


@dataclass(slots=True)
class Graph:
    """Which agent was called after which. `uses` counts calls by agent id, `edges` transitions between ids, START and STOP; `places`
    adds up at which step of its path each was called."""

    episodes: int = 0
    places: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    uses: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    failures: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    edges: dict[tuple[Any, Any], int] = field(default_factory=lambda: defaultdict(int))

    @property
    def cycles(self) -> list[tuple[int, int, int]]:
        """Pairs of agents that followed each other both ways, or themselves: (one, other, the lesser count), most first."""
        pairs = []
        for (source, target), count in self.edges.items():
            if isinstance(source, int) and isinstance(target, int) and source <= target:
                back = count if source == target else min(count, self.edges.get((target, source), 0))
                if back:
                    pairs.append((source, target, back))
        return sorted(pairs, key=lambda cycle: -cycle[2])

    @property
    def hubs(self) -> list[tuple[int, int]]:
        """Agents by how many different others they are connected with: (agent, connections), from three on, most first."""
        near: dict[int, set[int]] = defaultdict(set)
        for source, target in self.edges:
            if isinstance(source, int) and isinstance(target, int) and source != target:
                near[source].add(target)
                near[target].add(source)
        return sorted(((a, len(others)) for a, others in near.items() if len(others) > 2), key=lambda hub: -hub[1])


def graph(episodes: "QuerySet[Episode]") -> Graph:
    """The transitions of the newest MOST of these episodes."""
    keys = list(episodes.order_by("-created_at").values_list("pk", flat=True)[:MOST])
    result = Graph(len(keys))
    rows = (
        Step.objects.filter(episode_id__in=keys, aim="answer")
        .order_by("episode_id", "path", "turn", "place")
        .values_list("episode_id", "path", "turn", "agent", "status")
    )
    for _walk, steps in groupby(rows.iterator(chunk_size=2_000), key=lambda row: row[:2]):
        before: set[Any] = {START}
        for place, (_turn, calls) in enumerate(groupby(steps, key=lambda row: row[2])):
            # Calls at once follow all calls of the turn before, and not each other.
            here: set[Any] = set()
            for *_of, agent, status in calls:
                here.add(STOP if agent is None else agent)
                if agent is not None:
                    result.uses[agent] += 1
                    result.places[agent] += place
                    result.failures[agent] += status == Step.Status.FAILED
            for edge in product(before, here):
                result.edges[edge] += 1
            before = here
    return result


@dataclass(frozen=True, slots=True)
class Group:
    """Episodes of one day or one version: how many ended, the shares answered and judged right, the means of cost, steps, seconds."""

    name: Any
    episodes: int
    answered: float
    success: float | None
    judged: int
    cost: float
    steps: float
    seconds: float


def by_day(episodes: "QuerySet[Episode]") -> list[Group]:
    """Day by day, oldest first."""
    return _grouped(episodes.annotate(name=TruncDay("created_at")), "name")


def uses_by_day(episodes: "QuerySet[Episode]") -> dict[Any, dict[int, int]]:
    """How often each agent (id) was called on each day, oldest first: days of calls that began in these episodes."""
    calls = Step.objects.filter(episode__in=episodes.order_by().values("pk"), call__isnull=False, agent__isnull=False)
    rows = calls.order_by().annotate(day=TruncDay("episode__created_at")).values_list("day", "agent")
    uses: dict[Any, dict[int, int]] = {}
    for day, agent, count in rows.annotate(count=Count("pk")).order_by("day", "agent"):
        uses.setdefault(day, {})[agent] = count
    return uses


def by_policy(episodes: "QuerySet[Episode]") -> list[Group]:
    """Version by version."""
    return _grouped(episodes, "policy")


def _grouped(episodes: "QuerySet[Episode]", by: str) -> list[Group]:
    ended = episodes.exclude(status__in=UNDER_WAY).order_by()
    rows = (
        ended.values(by)
        .annotate(
            episodes=Count("pk"), answered=Count("pk", filter=Q(status__in=ANSWERED)),
            right=Count("pk", filter=Q(success=True)), judged=Count("pk", filter=Q(success__isnull=False)),
            money=Avg("cost"), mean_steps=Avg("steps"), took=Avg("latency"),
        )
        .order_by(by)
    )  # fmt: skip
    return [
        Group(
            row[by], row["episodes"], row["answered"] / row["episodes"], row["right"] / row["judged"] if row["judged"] else None,
            row["judged"], row["money"], row["mean_steps"], row["took"],
        )
        for row in rows
    ]  # fmt: skip
