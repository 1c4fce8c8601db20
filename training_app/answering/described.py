"""Pools that no model answers yet: the agents' descriptions do, by one scorer for all pools (`engine/reading/descriptions.py`).

The router is an ordinary one, whose scorer nobody fitted, so that options, explanations, batches and decisions work as with a model.
Making it costs nothing; the first text that it routes loads the sentence encoder, 150 MB and a second. A process that has such a pool
loads it beforehand.
"""

import logging
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache

from training_app.answering.loaded import LoadedModel, LoadedPool, RosterAgent
from training_app.engine.data.examples import Agent
from training_app.engine.reading import sentences
from training_app.engine.reading.descriptions import Descriptions
from training_app.engine.routing import holding
from training_app.engine.routing.allowed import Rules
from training_app.engine.routing.router import Router
from training_app.models import Decision

logger = logging.getLogger(__name__)

#: The key of no version: what answers by descriptions is kept nowhere.
NO_VERSION = 0


def described(pool: LoadedPool) -> LoadedPool | None:
    """The pool as its descriptions answer it; None where a model was promoted that cannot be used, which nothing should hide, or where
    no agent is there to be chosen."""
    if pool.problem:
        return None
    router = router_of(pool.roster)
    if router is None:
        return None
    available = frozenset(agent.id for agent in pool.roster if agent.state == "active" and agent.available)
    every = len(available) == len(router.agents)
    model = LoadedModel(NO_VERSION, Decision.DESCRIPTIONS, router)
    return replace(pool, model=model, available=None if every else available, not_covered=())


def make_ready(pools: Iterable[LoadedPool]) -> None:
    """Load the sentence encoder where one of the pools is answered by descriptions, so that its first text does not wait for it."""
    if sentences.installed() and any(pool.model is None and pool.roster and not pool.problem for pool in pools):
        try:
            sentences.load()
        except sentences.EncoderError as error:
            logger.warning("The sentence encoder cannot be loaded: %s", error)


def probabilities(pool: LoadedPool, text: str) -> dict[int, float]:
    """By the id of each active agent of a pool, how likely the text needs it as far as descriptions can say."""
    router = router_of(pool.roster)
    return {} if router is None else router.route(text).scores


@lru_cache(maxsize=64)
def router_of(roster: tuple[RosterAgent, ...]) -> Router | None:
    """The router of the active agents among these; None where there are none."""
    agents = [
        Agent(agent.id, agent.name, agent.description, agent.keywords, agent.code, agent.cost, agent.key)
        for agent in roster
        if agent.state == "active"
    ]
    if not agents:
        return None
    examples = {agent.id: agent.examples for agent in roster}
    return Router.of_descriptions(Descriptions(agents, meaning=sentences.installed(), examples=examples))


@lru_cache(maxsize=16)
def right(roster: tuple[RosterAgent, ...], rules: Rules, labeled: tuple[tuple[str, frozenset[int]], ...]) -> int:
    """How many of the labeled texts are routed to exactly the agents that each needs, by the descriptions of a roster."""
    router = router_of(roster)
    if router is None:
        return 0
    routes = holding.routes(router, [text for text, _required in labeled], rules=rules)
    return sum(set(route.agents) == required for route, (_text, required) in zip(routes, labeled, strict=True))
