"""What a pool does with live traffic beside answering from its active model: a canary, shadows, exploration, agents routed cold.

`plans` reads it from the database when the version stamp moved; requests meet it as the pool's immutable `Live`, which is None where
all of it is off. An answer is finished in this order: the model's set, exploration, agents that are routed cold. What was done is kept
with the decision, so that a replay can do it again.
"""

import hashlib
import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random, SystemRandom
from typing import TYPE_CHECKING, Any, NamedTuple

from django.db import Error as DatabaseFault

from agents_app.models import Agent
from agents_app.pools import engine_agent
from training_app import shadowing
from training_app.engine import exploring
from training_app.engine.cold import ColdScorer
from training_app.engine.router import Route, StopReason
from training_app.models import Canary, LiveSettings, LiveTally, RouterModel, unread

if TYPE_CHECKING:
    from training_app.serving import LoadedModel, LoadedPool

logger = logging.getLogger(__name__)

#: Draws who is explored. Of the system, so that forked processes do not draw alike; a test may put its own here.
chance: Random = SystemRandom()


class Finished(NamedTuple):
    """An answer with all that was done to the model's set: the route, the fields that the answer shows, what the decision keeps."""

    route: Route
    shown: dict[str, Any]
    propensity: float | None
    detail: dict[str, Any] | None
    microseconds: int


@dataclass(frozen=True, slots=True)
class CanarySide:
    """The pool as its canary answers it, for a share of the keys."""

    pool: "LoadedPool"
    share: float
    salt: str


@dataclass(frozen=True, slots=True)
class Live:
    """What is on in one pool, for the side of its active model or of its canary."""

    exploration: float = 0.0
    cold: ColdScorer | None = None
    threshold: float = 1.0
    canary: CanarySide | None = None
    shadows: tuple[shadowing.Shadow, ...] = ()
    is_canary: bool = False

    def side(self, pool: "LoadedPool", key: str) -> "LoadedPool":
        """Who answers that key: the pool itself, or the pool as its canary answers it. The same key, the same side."""
        canary = self.canary
        return canary.pool if canary is not None and lot(canary.salt, key) < canary.share else pool

    def finish(self, model: "LoadedModel", number: int, text: str, route: Route, microseconds: int) -> Finished:
        """The answer that is given for the model's route, and the text handed to the shadows. `number` is the decision's id."""
        for shadow in self.shadows:
            shadowing.offer(shadowing.Task(shadow, model.pk, number, text, route.agents, microseconds))
        own, shown, detail = route, dict[str, Any](), dict[str, Any]()
        propensity = None
        if self.is_canary:
            detail["canary"] = shown["canary"] = True
        if self.exploration:
            least, most = model.router.limits
            explored = exploring.explore(own.agents, own.scores, self.exploration, chance, least=least, most=most)
            propensity = explored.propensity
            detail["share"] = self.exploration
            if explored.agent is not None:
                route = with_agents(route, explored.agents)
                detail["explored"] = explored.agent
                shown["explored"] = True
        if self.cold is not None:
            began = time.perf_counter_ns()
            route, scores, taken = self.with_cold(self.cold, model, text, route)
            detail["cold"] = {
                "scores": scores, "threshold": self.threshold, "profile": self.cold.profile, "taken": bool(taken),
            }  # fmt: skip
            shown |= {"cold": bool(taken), "cold_scores": scores}
            microseconds += (time.perf_counter_ns() - began) // 1000
        return Finished(route, shown, propensity, detail or None, microseconds)

    def with_cold(
        self, cold: ColdScorer, model: "LoadedModel", text: str, route: Route
    ) -> tuple[Route, dict[int, float], list[int]]:
        """The route with the cold agents that the text is like, the likeness of all of them, and which were taken."""
        scores = cold.scores(text)
        taken = cold_agents(scores, self.threshold, len(route.agents), model.router.limits[1])
        return with_agents(route, (*route.agents, *taken)) if taken else route, scores, taken

    def failed(self, model: "LoadedModel", error: Exception) -> None:
        """The canary could not answer, and the active model did in its place."""
        logger.error("The canary %s failed, the active model answers: %s: %s", model.name, type(error).__name__, error)
        shadowing.note(model.pk, LiveTally.Kind.CANARY, errors=1, error=f"{type(error).__name__}: {error}")


def lot(salt: str, key: str) -> float:
    """Where a key falls, from 0 up to 1: evenly over keys, always the same for one salt and key."""
    digest = hashlib.blake2b(f"{salt}\n{key}".encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


def with_agents(route: Route, agents: Sequence[int]) -> Route:
    """The route with another set; "stop" and "none" follow it, "max_agents" and "abstained" stay."""
    reason: StopReason = route.stop_reason
    if reason in ("stop", "none"):
        reason = "stop" if agents else "none"
    return replace(route, agents=tuple(agents), stop_reason=reason)


def cold_agents(scores: Mapping[int, float], threshold: float, size: int, most: int) -> list[int]:
    """Which cold agents join a set of that size, most alike first, within the model's largest set (0: no limit)."""
    alike = sorted((agent for agent, score in scores.items() if score >= threshold), key=lambda agent: -scores[agent])
    return alike[: max(most - size, 0)] if most else alike


# --- Reading it from the database ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Plan:
    """What the database says about one pool's live traffic."""

    settings: LiveSettings | None = None
    canary: Canary | None = None
    shadows: list[RouterModel] = field(default_factory=list)


def plans() -> dict[int, Plan]:
    """What is on, by pool id; pools where nothing ever was are not in it. Three database queries."""
    settings = {row.pool_id: row for row in LiveSettings.objects.all()}
    running = Canary.objects.filter(ended_at=None).select_related("model__pool").defer(*unread("model"))
    canaries = {row.pool_id: row for row in running}
    shadows: dict[int, list[RouterModel]] = {}
    for model in RouterModel.objects.filter(state="shadow").select_related("pool").defer("scorecard").order_by("pk"):
        shadows.setdefault(model.pool_id, []).append(model)
    return {
        pool: Plan(settings.get(pool), canaries.get(pool), shadows.get(pool, []))
        for pool in settings.keys() | canaries.keys() | shadows.keys()
    }


def attach(
    loaded: "LoadedPool",
    agents: Sequence[Agent],
    plan: Plan,
    load: Callable[[RouterModel], "LoadedModel"],
    assemble: Callable[["LoadedModel"], "LoadedPool"],
) -> "LoadedPool":
    """The pool with its `live`; as it is where nothing is on.

    `load` gives a model version, `assemble` the pool as that version would answer it. A canary or a shadow that cannot be loaded is
    left out and counted as an error of its own; a refused canary is a problem of the pool too.
    """
    if loaded.model is None:
        return loaded
    canary, problem = None, loaded.problem
    if plan.canary is not None and plan.canary.model_id != loaded.model.pk:
        model, why = _loaded(plan.canary.model, load, LiveTally.Kind.CANARY)
        if model is None:
            problem = problem or f"The canary {why}; {loaded.model.name} answers all."
        else:
            side = assemble(model)
            side = replace(side, live=_side(side, agents, plan.settings, is_canary=True))
            salt = f"{plan.settings.salt if plan.settings else ''}:{model.pk}"
            canary = CanarySide(side, plan.canary.share, salt)
    shadows = []
    for row in plan.shadows:
        model, _why = _loaded(row, load, LiveTally.Kind.SHADOW)
        if model is not None:
            shadows.append(shadowing.Shadow(model.pk, model.name, model.router, assemble(model).available))
    live = replace(_side(loaded, agents, plan.settings), canary=canary, shadows=tuple(shadows))
    return replace(loaded, live=None if live == Live() else live, problem=problem)


def _side(
    loaded: "LoadedPool", agents: Sequence[Agent], settings: LiveSettings | None, is_canary: bool = False
) -> Live:
    cold = cold_numbers(agents, loaded.not_covered, settings)
    scorer = None
    if cold:
        active = [engine_agent(agent) for agent in agents if agent.state == Agent.State.ACTIVE]
        scorer = ColdScorer(active, cold)
    return Live(
        exploration=settings.exploration if settings else 0.0,
        cold=scorer,
        threshold=(settings or LiveSettings()).cold_threshold if cold else 1.0,
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


def _loaded(
    row: RouterModel, load: Callable[[RouterModel], "LoadedModel"], kind: LiveTally.Kind
) -> tuple["LoadedModel | None", str]:
    try:
        return load(row), ""
    except DatabaseFault:
        raise
    except Exception as error:  # an artifact may be broken in any way; the active model must go on answering
        why = f"{row.name} was refused: {error or type(error).__name__}"
        logger.error("%s %s.", kind.label, why)
        shadowing.note(row.pk, kind, errors=1, error=why)
        return None, why
