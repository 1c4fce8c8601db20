"""What was measured of a pool's backends: success, overall and by category, latency, tokens; from the calls that were reported."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

import numpy as np
from django.db.models import QuerySet
from django.utils import timezone

from orchestration_app.models import BackendCall

#: Calls of the last DAYS are looked at, at most so many of a pool, the newest first.
DAYS, MOST = 14, 5_000
RECENT = 200  # calls of one backend that latencies and tokens are taken from
WEIGHT = 0.1  # of the newest latency in the moving average


@dataclass
class Tally:
    """How many calls there were, how many were judged and good, and what they cost together."""

    calls: int = 0
    judged: int = 0
    good: int = 0
    spent: float = 0.0

    @property
    def success(self) -> float | None:
        """The share of judged calls that succeeded."""
        return self.good / self.judged if self.judged else None

    def count(self, call: "Call | Bare") -> None:
        """One call more."""
        self.calls += 1
        self.spent += call.cost
        if call.success is not None:
            self.judged += 1
            self.good += call.success


@dataclass
class Part(Tally):
    """What was measured of one backend in one category; sums."""

    timed: int = 0
    milliseconds: float = 0.0

    @property
    def cost(self) -> float:
        """Of a call."""
        return self.spent / self.calls

    @property
    def latency(self) -> float | None:
        """The mean of a call, in milliseconds."""
        return self.milliseconds / self.timed if self.timed else None


@dataclass
class Measured(Tally):
    """One backend's figures; latencies in milliseconds, None where nothing was reported. Lists are newest first."""

    failed: int = 0
    latencies: list[float] = field(default_factory=list)
    tokens: list[tuple[int, int]] = field(default_factory=list)
    by_category: dict[str, Part] = field(default_factory=lambda: defaultdict(Part))

    @property
    def p50(self) -> float | None:
        """Of the window of RECENT calls."""
        return float(np.percentile(self.latencies, 50)) if self.latencies else None

    @property
    def p95(self) -> float | None:
        """Of the window of RECENT calls."""
        return float(np.percentile(self.latencies, 95)) if self.latencies else None

    @property
    def moving(self) -> float | None:
        """The exponentially weighted moving average, oldest to newest."""
        average: float | None = None
        for latency in reversed(self.latencies):
            average = latency if average is None else average + WEIGHT * (latency - average)
        return average

    @property
    def mean_tokens(self) -> tuple[float, float] | None:
        """Tokens in and out of a call."""
        if not self.tokens:
            return None
        into, out = np.mean(self.tokens, axis=0).tolist()
        return into, out


def tokens_by_agent(figures: Mapping[int, Measured], agents: Mapping[int, int]) -> dict[int, tuple[float, float]]:
    """By agent, the mean tokens in and out of its backends' calls: what a backend that was not called yet is expected to take.
    `agents` has the agent of each backend."""
    tokens: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for backend, agent in agents.items():
        if backend in figures:
            tokens[agent] += figures[backend].tokens
    return {agent: tuple(np.mean(some, axis=0).tolist()) for agent, some in tokens.items() if some}


class Bare(NamedTuple):
    """What figures are made of, of one reported call: a third of a whole one's time to read."""

    backend: int
    success: bool | None
    failed: bool
    cost: float
    latency: float | None
    tokens_in: int
    tokens_out: int
    category: str


class Call(NamedTuple):
    """One reported call, as BackendCall has it."""

    decision: UUID
    agent: int
    backend: int
    success: bool | None
    failed: bool
    cost: float
    latency: float | None
    tokens_in: int
    tokens_out: int
    category: str
    assigned: int | None
    propensity: float | None
    decided_by: str
    as_direct: bool | None
    at: datetime


def log(pool: int) -> list[Call]:
    """The last calls of a pool, newest first; one database query."""
    return [
        Call(*row) for row in _newest(pool).values_list(
            "decision_id", "agent", "backend_id", "success", "failed", "cost", "latency", "tokens_in", "tokens_out", "category",
            "assigned", "propensity", "decided_by", "as_direct", "at",
        )[:MOST]
    ]  # fmt: skip


def of_pool(pool: int) -> dict[int, Measured]:
    """By backend; one database query."""
    rows = _newest(pool).values_list(
        "backend_id", "success", "failed", "cost", "latency", "tokens_in", "tokens_out", "category"
    )[:MOST]  # fmt: skip
    return of_log(Bare(*row) for row in rows)


def _newest(pool: int) -> QuerySet[BackendCall]:
    since = timezone.now() - timedelta(days=DAYS)
    return BackendCall.objects.filter(pool=pool, at__gte=since).order_by("-at", "-pk")


def of_log(calls: Iterable[Call | Bare]) -> dict[int, Measured]:
    """By backend, of calls that are newest first."""
    by_backend: dict[int, Measured] = defaultdict(Measured)
    for call in calls:
        figures = by_backend[call.backend]
        part = figures.by_category[call.category]
        figures.count(call)
        part.count(call)
        figures.failed += call.failed
        if call.latency is not None and not call.failed:
            part.timed += 1
            part.milliseconds += call.latency
            if len(figures.latencies) < RECENT:
                figures.latencies.append(call.latency)
        if (call.tokens_in or call.tokens_out) and len(figures.tokens) < RECENT:
            figures.tokens.append((call.tokens_in, call.tokens_out))
    return dict(by_backend)
