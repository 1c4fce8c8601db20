"""Models in the playground: which there are to try, and what another one answers to the same query."""

from collections.abc import Sequence
from typing import Any

from agents_app.models import Pool
from routerweb.pages import parameters
from training_app.answering import answer, serving
from training_app.engine.routing.router import ArtifactError
from training_app.engine.routing.routes import Route
from training_app.models import RouterModel
from training_app.models.kinds import SET_ROUTER
from training_app.versions import registry

#: The newest models that are offered.
OFFERED = 30


def versions(pool: Pool) -> list[RouterModel]:
    """The pool's set routers whose artifacts are there, newest first."""
    models = RouterModel.objects.filter(pool=pool, kind=SET_ROUTER, artifact__isnull=False)
    return list(models.select_related("pool").order_by("-version")[:OFFERED])


def chosen(versions: Sequence[RouterModel], value: str) -> RouterModel | None:
    """The version of that number; None for what is no version of these, as "" for what answers now."""
    number = parameters.number(value)
    return next((model for model in versions if model.version == number), None)


def beside(model: RouterModel, query: str, route: Route) -> dict[str, Any]:
    """What the model answers to the same query, and how that differs: what it takes besides and what it leaves out."""
    try:
        answered = answer.answer(serving.pool_of(model), query, explore=False)
    except (registry.RegistryError, ArtifactError) as problem:
        return {"model": model, "problem": str(problem)}
    by_number = {agent.id: agent for agent in answered.pool.roster}

    def agents(numbers: set[int]) -> list[Any]:
        return [by_number[number] for number in sorted(numbers) if number in by_number]

    theirs, ours = set(answered.route.agents), set(route.agents)
    return {
        "model": model,
        "route": answered.route,
        "agents": agents(theirs),
        "more": agents(theirs - ours),
        "less": agents(ours - theirs),
    }
