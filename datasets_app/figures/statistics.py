"""What a pool's data looks like, in figures: how much is labeled, by whom, in which split, for which agents."""

from collections import Counter
from dataclasses import dataclass, field

from django.db.models import Count

from agents_app import pools
from agents_app.models import Pool
from datasets_app.models import Label, Query
from training_app.engine.data.examples import Agent

SIZES = ("0", "1", "2–3", "4–6", "7+")


def size_bucket(size: int) -> str:
    """The bucket of a set size: 0, 1, 2–3, 4–6 or 7+."""
    return SIZES[0 if size == 0 else 1 if size == 1 else 2 if size <= 3 else 3 if size <= 6 else 4]


@dataclass(slots=True)
class AgentCounts:
    """One agent's figures: in how many gold rows it is required, by split, and in how many it was asked about."""

    agent: Agent
    retired: bool
    asked: int = 0
    required: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class PoolStatistics:
    """Figures of a pool. `splits` and the inner keys of `sizes` are "train", "val", "test" and "" for none."""

    queries: int
    states: Counter[str]
    datasets: dict[str, int]
    sources: Counter[str]
    gold: int
    partly_asked: int
    splits: Counter[str]
    sizes: dict[str, Counter[str]]
    mean_size: float
    agents: list[AgentCounts]


def describe(pool: Pool) -> PoolStatistics:
    """Count everything once: six database queries, one pass over the gold labels."""
    alive = Query.objects.of(pool)
    states = Counter(dict(alive.values_list("state").annotate(n=Count("pk")).order_by()))
    datasets = dict(alive.values_list("dataset__name").annotate(n=Count("pk")).order_by("dataset__name"))
    current = Label.objects.current().filter(query__dataset__pool=pool, query__deleted_at__isnull=True)
    sources = Counter(dict(current.values_list("source").annotate(n=Count("pk")).order_by()))

    everyone = pools.roster(pool, retired=True)
    active = {agent.id for agent in pools.roster(pool)}
    counts = {agent.id: AgentCounts(agent, agent.id not in active) for agent in everyone}
    splits: Counter[str] = Counter()
    sizes: dict[str, Counter[str]] = {bucket: Counter() for bucket in SIZES}
    members = partly = total = 0
    rows = alive.filter(gold__isnull=False).values_list("group__split", "gold__required", "gold__asked")
    for split, required, asked in rows.iterator():
        total += 1
        splits[split] += 1
        sizes[size_bucket(len(required))][split] += 1
        members += len(required)
        partly += not active <= set(asked)
        for agent in asked:
            counts[agent].asked += 1
        for agent in required:
            counts[agent].required[split] += 1
    return PoolStatistics(
        queries=sum(states.values()),
        states=states,
        datasets=datasets,
        sources=sources,
        gold=total,
        partly_asked=partly,
        splits=splits,
        sizes=sizes,
        mean_size=members / total if total else 0.0,
        agents=list(counts.values()),
    )
