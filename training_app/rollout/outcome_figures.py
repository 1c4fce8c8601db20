"""Success over time, by model version and by agent, from the outcomes that applications reported."""

from collections import defaultdict
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any
from uuid import UUID

from django.utils import timezone
from django.utils.translation import gettext as _

from agents_app.models import Pool
from training_app.engine.data import shares
from training_app.models import Decision, Outcome

#: Newest outcomes that are read.
MOST = 20_000
DAYS = 30
#: Lines that one chart draws: the newest model versions, the agents with the most outcomes.
LINES = 5
AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class OutcomeRow:
    """One model or agent: its outcomes, and the share of successes with its 95 % interval."""

    name: str
    agent: Any
    count: int
    success: dict[str, float]
    rating: float | None


@dataclass(frozen=True, slots=True)
class Figures:
    """What `read` found. `waiting` outcomes speak of decisions that are not kept, or not yet."""

    days: int
    count: int
    waiting: int
    by_model: list[OutcomeRow]
    by_agent: list[OutcomeRow]
    chart: dict[str, Any] | None
    agent_chart: dict[str, Any] | None


@dataclass(slots=True)
class _Sum:
    count: int = 0
    good: int = 0
    ratings: int = 0
    rating: float = 0.0

    def add(self, success: bool, rating: float | None) -> None:
        self.count += 1
        self.good += success
        if rating is not None:
            self.ratings += 1
            self.rating += rating

    def row(self, name: str, agent: Any = None) -> OutcomeRow:
        mean = self.rating / self.ratings if self.ratings else None
        return OutcomeRow(name, agent, self.count, shares.wilson(self.good, self.count), mean)


def read(pool: Pool, days: int = DAYS) -> Figures:
    """The pool's outcomes of the last `days`. An agent's are those of the decisions whose set held it, whatever was used of it."""
    since = timezone.now() - timedelta(days=days)
    outcomes = list(
        Outcome.objects.filter(pool=pool, at__gte=since)
        .order_by("-at")
        .values_list("decision_id", "success", "rating")[:MOST]
    )
    made = _decisions([key for key, _success, _rating in outcomes])
    models: dict[int, _Sum] = defaultdict(_Sum)
    agents: dict[int, _Sum] = defaultdict(_Sum)
    daily: dict[tuple[int, date], _Sum] = defaultdict(_Sum)
    daily_of_agents: dict[tuple[int, date], _Sum] = defaultdict(_Sum)
    for key, success, rating in outcomes:
        if key not in made:
            continue
        version, chosen, day = made[key]
        models[version].add(success, rating)
        daily[version, day].add(success, rating)
        for number in chosen:
            agents[number].add(success, rating)
            daily_of_agents[number, day].add(success, rating)
    listed = {agent.number: agent for agent in pool.agents.all()}
    busiest = sorted((n for n in agents if n in listed), key=lambda number: (-agents[number].count, number))
    return Figures(
        days=days,
        count=len(outcomes),
        waiting=len(outcomes) - sum(model.count for model in models.values()),
        by_model=[models[version].row(f"{pool.slug}-{version}") for version in sorted(models, reverse=True)],
        by_agent=[
            agents[number].row(listed[number].name, listed[number]) for number in sorted(agents) if number in listed
        ],
        chart=_chart(daily, {version: f"{pool.slug}-{version}" for version in sorted(models, reverse=True)[:LINES]}),
        agent_chart=_chart(daily_of_agents, {number: listed[number].name for number in busiest[:LINES]}),
    )


def _decisions(ids: list[UUID]) -> dict[UUID, tuple[int, list[int], date]]:
    """Of each decision that is kept: the model's version, the agents, and the day."""
    decisions: dict[UUID, tuple[int, list[int], date]] = {}
    for at in range(0, len(ids), AT_ONCE):
        rows = Decision.objects.filter(pk__in=ids[at : at + AT_ONCE]).order_by()
        for key, version, agents, moment in rows.values_list("pk", "model__version", "agents", "at"):
            decisions[key] = version, agents, timezone.localtime(moment).date()
    return decisions


def _chart(daily: dict[tuple[int, date], _Sum], lines: dict[int, str]) -> dict[str, Any] | None:
    """A line over the days for each of `lines`, by the name that it gets; None where there are fewer than two days."""
    days = sorted({day for _one, day in daily})
    if len(days) < 2:
        return None
    drawn = [days[0] + timedelta(days=n) for n in range((days[-1] - days[0]).days + 1)]
    return {
        "labels": [day.isoformat() for day in drawn],
        "datasets": [
            {
                "label": name,
                "pointRadius": 3,
                "data": [
                    round(daily[line, day].good / daily[line, day].count, 4) if (line, day) in daily else None
                    for day in drawn
                ],
            }
            for line, name in lines.items()
        ],
        "x": _("day of the decision"),
        "y": _("share of successes"),
    }
