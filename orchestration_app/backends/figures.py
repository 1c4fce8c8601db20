"""What a page shows of a pool's backends: prices, what was measured, load, and what a preference would choose."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import NamedTuple

from django.db.models import Sum
from django.utils import timezone

from agents_app.models import Agent, Pool
from orchestration_app.backends import measured
from orchestration_app.backends.measured import Measured
from orchestration_app.backends.state import PRIOR_CALLS, lines_of
from orchestration_app.backends.windows import flying_of
from orchestration_app.engine.backends.choosing import PRESETS, Candidate, Preference, choose
from orchestration_app.engine.backends.load import HOT
from orchestration_app.models import Backend, BackendCall, BackendLoad


class AgentBackend(NamedTuple):
    """One backend; `share` is its part of the last assignments of its agent, None where there were none."""

    backend: Backend
    measured: Measured
    expected: Candidate
    flying: float
    share: float | None
    hot: bool
    cooling: bool


class Preferred(NamedTuple):
    """Whom one preference takes for an agent, everybody free."""

    preference: str
    agent: Agent
    backend: Backend
    success: float
    cost: float
    latency: float


def rows(pool: Pool) -> list[AgentBackend]:
    """Every backend of the pool, by agent and order. Three database queries."""
    every = list(
        Backend.objects.filter(agent__pool=pool).select_related("agent", "provider").order_by("agent__number", "order")
    )
    if not every:
        return []
    measured_by_backend = measured.of_pool(pool.pk)
    load = BackendLoad.objects.filter(pool=pool).first()
    state = load.state if load else {}
    figures = []
    alike = measured.tokens_by_agent(measured_by_backend, {row.pk: row.agent_id for row in every})
    lines = lines_of(row for row in every if row.active and row.agent.state == "active")
    for row in every:
        mine = {other.pk for other in every if other.agent_id == row.agent_id}
        last = [key for key in state.get("last", []) if key in mine]
        share = last.count(row.pk) / len(last) if last else None
        figures.append(
            AgentBackend(
                row, measured_by_backend.get(row.pk, Measured()),
                candidate(row, measured_by_backend.get(row.pk), alike.get(row.agent_id)),
                flying_of(state, lines.get(row.pk, row.pk)), share,
                share is not None and len(mine) > 1 and share > HOT / len(mine),
                row.cooling_until is not None and row.cooling_until > timezone.now(),
            )
        )  # fmt: skip
    return figures


def candidate(row: Backend, measurements: Measured | None, alike: tuple[float, float] | None = None) -> Candidate:
    """What is expected of a backend that nobody waits for; `alike` are the tokens of its agent's other backends."""
    figures = measurements or Measured()
    into, out = figures.mean_tokens or alike or (row.tokens_in, row.tokens_out)
    success = (figures.good + PRIOR_CALLS * row.quality) / (figures.judged + PRIOR_CALLS)
    service = figures.moving if figures.moving is not None else row.latency
    return Candidate(row.pk, success, row.cost(into, out), service, rank=row.order)


def choices(every: Sequence[AgentBackend], tried: Mapping[str, float]) -> list[Preferred]:
    """What each preset and the tried weights take for each agent that has a choice."""
    by_agent: dict[int, list[AgentBackend]] = {}
    for row in every:
        if row.backend.active:
            by_agent.setdefault(row.backend.agent.number, []).append(row)
    preferences = dict(PRESETS)
    if any(tried.values()):
        preferences = {"": Preference.of(**tried)} | preferences
    preferred = []
    for some in by_agent.values():
        if len(some) < 2:
            continue
        of = {row.backend.pk: row for row in some}
        for name, preference in preferences.items():
            chosen = choose([row.expected for row in some], preference).candidate
            row = of[chosen.key]
            preferred.append(
                Preferred(name, row.backend.agent, row.backend, chosen.success, chosen.cost, chosen.service)
            )
    return preferred


def categories(every: Sequence[AgentBackend]) -> list[tuple[Backend, list[tuple[str, measured.Part]]]]:
    """(backend, [(category, what was measured)]) of those that have any with a name."""
    shares = []
    for row in every:
        named = [(name, part) for name, part in sorted(row.measured.by_category.items()) if name]
        if named:
            shares.append((row.backend, named))
    return shares


def spent_today(pool: Pool) -> float:
    """What was billed since midnight, UTC."""
    day = timezone.now().replace(hour=0, minute=0, second=0, microsecond=0)
    today = BackendCall.objects.filter(pool=pool, at__gte=day, at__lt=day + timedelta(days=1))
    return today.aggregate(spent=Sum("cost"))["spent"] or 0.0
