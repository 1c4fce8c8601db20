"""What the database says a pool does with live traffic, and how that becomes the pool's immutable `Live`.

`plans` reads it when the version stamp moved, in three queries for all pools. A canary or a shadow that cannot be loaded is left out.
"""

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from django.db import Error as DatabaseFault

from agents_app.models import Agent
from agents_app.pools import engine_agent
from training_app.answering import shadowing
from training_app.answering.loaded import CanarySide, Live, LoadedModel, LoadedPool
from training_app.engine.reading.cold import ColdScorer
from training_app.models import SET_ROUTER, Canary, LiveSettings, LiveTally, RouterModel

logger = logging.getLogger(__name__)

Loaded = TypeVar("Loaded")

# --- Reading it from the database ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Plan:
    """What the database says about one pool's live traffic."""

    settings: LiveSettings | None = None
    canary: Canary | None = None
    shadows: list[RouterModel] = field(default_factory=list)

    def salt(self, model: int) -> str:
        """What decides, with a key, whether it meets that model as the canary."""
        return f"{self.settings.salt if self.settings else ''}:{model}"


def plans(kind: str = SET_ROUTER) -> dict[int, Plan]:
    """What is on for models of that kind, by pool id; pools where nothing ever was are not in it. Three database queries."""
    settings = {row.pool_id: row for row in LiveSettings.objects.all()}
    running = Canary.objects.running(kind).select_related("model__pool")
    canaries = {row.pool_id: row for row in running}
    shadows: dict[int, list[RouterModel]] = {}
    for model in RouterModel.objects.filter(kind=kind, state="shadow").select_related("pool").order_by("pk"):
        shadows.setdefault(model.pool_id, []).append(model)
    return {
        pool: Plan(settings.get(pool), canaries.get(pool), shadows.get(pool, []))
        for pool in settings.keys() | canaries.keys() | shadows.keys()
    }


def attach(
    loaded: LoadedPool,
    agents: Sequence[Agent],
    plan: Plan,
    load: Callable[[RouterModel], LoadedModel],
    assemble: Callable[[LoadedModel], LoadedPool],
) -> LoadedPool:
    """The pool with its `live`; as it is where nothing is on.

    `load` gives a model version, `assemble` the pool as that version would answer it. A canary or a shadow that cannot be loaded is
    left out and counted as an error of its own; a refused canary is a problem of the pool too.
    """
    if loaded.model is None:
        return loaded
    canary, problem = None, loaded.problem
    if plan.canary is not None and plan.canary.model_id != loaded.model.pk:
        model, why = or_why(plan.canary.model, load, LiveTally.Kind.CANARY)
        if model is None:
            problem = problem or f"The canary {why}; {loaded.model.name} answers all."
        else:
            side = assemble(model)
            side = replace(side, live=_side(side, agents, plan.settings, is_canary=True))
            canary = CanarySide(side, plan.canary.share, plan.salt(model.pk))
    shadows = []
    for row in plan.shadows:
        model, _why = or_why(row, load, LiveTally.Kind.SHADOW)
        if model is not None:
            side = assemble(model)
            shadows.append(shadowing.Shadow(model.pk, model.name, model.router, side.available, side.rules))
    live = replace(_side(loaded, agents, plan.settings), canary=canary, shadows=tuple(shadows))
    return replace(loaded, live=None if live == Live() else live, problem=problem)


def _side(loaded: LoadedPool, agents: Sequence[Agent], settings: LiveSettings | None, is_canary: bool = False) -> Live:
    cold = cold_numbers(agents, loaded.not_covered, settings)
    scorer = None
    if cold:
        active = [engine_agent(agent) for agent in agents if agent.state == Agent.State.ACTIVE]
        model = loaded.model
        examples = {agent.id: agent.examples for agent in loaded.roster}
        scorer = ColdScorer(active, cold, meaning=model is not None and model.router.reads_meaning, examples=examples)
    return Live(
        exploration=settings.exploration if settings else 0.0,
        cold=scorer,
        threshold=(settings or LiveSettings()).cold_threshold if cold else 1.0,
        ask_cost=settings.ask_cost if settings else None,
        is_canary=is_canary,
    )


def cold_numbers(
    agents: Sequence[Agent], not_covered: Collection[int], settings: LiveSettings | None
) -> frozenset[int]:
    """The ids of the agents that are routed by their descriptions: not learnt, available, and so set, by themselves or the pool."""
    wanted = {Agent.Cold.ALWAYS} | ({Agent.Cold.POOL} if settings and settings.cold else set())
    return frozenset(
        agent.number
        for agent in agents
        if agent.number in not_covered
        and agent.available
        and agent.state == Agent.State.ACTIVE
        and agent.cold in wanted
    )


def or_why(row: RouterModel, load: Callable[[RouterModel], Loaded], kind: LiveTally.Kind) -> tuple[Loaded | None, str]:
    """What `load` makes of a canary or a shadow; or None, and why it was refused, which is counted as an error of its own."""
    try:
        return load(row), ""
    except DatabaseFault:
        raise
    except Exception as error:  # an artifact may be broken in any way; the active model must go on answering
        why = f"{row.name} was refused: {error or type(error).__name__}"
        logger.error("%s %s.", kind.label, why)
        shadowing.note(row.pk, kind, errors=1, error=why)
        return None, why
