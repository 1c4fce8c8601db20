"""Who answered until now beside a model on the same queries, which is what a team compares its first router with: whom traces name,
and in a pool without a model the agents' descriptions."""

from collections.abc import Mapping, Sequence, Set
from typing import Any

import numpy as np

from agents_app import allowed_sets, pools
from datasets_app.labels import snapshots, suggestions
from datasets_app.models import Query, Snapshot, TracedTurn, text_hash
from training_app.engine.data import metrics
from training_app.engine.data.examples import Example
from training_app.engine.judging import folds
from training_app.engine.measures import COMPARED_SHARES
from training_app.engine.reading import sentences
from training_app.engine.reading.descriptions import Descriptions
from training_app.engine.routing import holding
from training_app.engine.routing.router import Router
from training_app.models.kinds import SET_ROUTER
from training_app.versions import registry
from training_app.versions.scorecards import LEAST_CHECKED

BATCH = 1_000


def measure(
    artifact: bytes, snapshot: Snapshot, cross_validated: Mapping[str, Any] | None = None
) -> dict[str, Any] | None:
    """The row of a scorecard: on the queries that traces have with agents of the pool, how today's handoffs do and how far the model
    is ahead; None without any. Queries of which some agent was not asked are left out.

    They are test queries or, where these are fewer than LEAST_CHECKED, all that were `cross_validated` (`folds`), each answered by a
    router that was not trained on it; the intervals are then as wide as those of the folds.
    """
    if not TracedTurn.objects.filter(pool=snapshot.pool).exists():
        return None
    router, examples = registry.load(artifact, SET_ROUTER), list(snapshots.examples(snapshot))
    test = _traced(snapshot, _judged(router, examples))
    if len(test) >= LEAST_CHECKED or not cross_validated:
        return _beside_router(router, test)
    answers = cross_validated["answers"]
    return _beside_folds(
        answers, _traced(snapshot, [example for example in examples if folds.key_of(example) in answers])
    )


def of_descriptions(
    artifact: bytes, snapshot: Snapshot, cross_validated: Mapping[str, Any] | None = None
) -> dict[str, Any] | None:
    """The same of the agents' descriptions, under the pool's rules, on at most BATCH queries; None where a model answers the pool, and
    without a query to judge by."""
    pool = snapshot.pool
    agents = list(pool.agents.active().order_by("number").prefetch_related("sources"))
    if registry.active(pool) is not None or not agents:
        return None
    router, examples = registry.load(artifact, SET_ROUTER), list(snapshots.examples(snapshot))
    described = Descriptions(
        [pools.engine_agent(agent) for agent in agents],
        meaning=sentences.installed(),
        examples={agent.number: pools.card_examples(agent) for agent in agents},
    )
    rules = allowed_sets.rules_of(pool, agents)

    def today(chosen: Sequence[Example]) -> list[tuple[Example, set[int]]]:
        routes = holding.routes(Router.of_descriptions(described), [example.text for example in chosen], rules=rules)
        return [(example, set(route.agents)) for example, route in zip(chosen, routes, strict=True)]

    test = _judged(router, examples)
    if len(test) >= LEAST_CHECKED or not cross_validated:
        return _beside_router(router, today(test[:BATCH]))
    answers = cross_validated["answers"]
    return _beside_folds(answers, today([one for one in examples if folds.key_of(one) in answers][:BATCH]))


def _judged(router: Router, examples: Sequence[Example]) -> list[Example]:
    """The test queries of which every agent of the router was asked."""
    own_agents = {agent.id for agent in router.agents}
    return [e for e in examples if e.split == "test" and (e.asked is None or own_agents <= e.asked)]


def _beside_router(router: Router, rows: Sequence[tuple[Example, set[int]]]) -> dict[str, Any] | None:
    """The row of a scorecard: each query with who answers it today, beside what the router answers."""
    own_agents = frozenset(agent.id for agent in router.agents)
    routes = [
        set(route.agents)
        for at in range(0, len(rows), BATCH)
        for route in holding.routes(router, [example.text for example, _agents in rows[at : at + BATCH]], own_agents)
    ]
    return _beside([(e.required, today, ours) for (e, today), ours in zip(rows, routes, strict=True)], folded=False)


def _beside_folds(answers: Mapping[str, Any], rows: Sequence[tuple[Example, set[int]]]) -> dict[str, Any] | None:
    """The same, beside what routers answered that were not trained on the query."""
    sets = [(answers[folds.key_of(example)], today) for example, today in rows]
    return _beside([(set(required), today, set(ours)) for (required, ours), today in sets], folded=True)


def _beside(rows: Sequence[tuple[Set[int], Set[int], Set[int]]], *, folded: bool) -> dict[str, Any] | None:
    """The row of a scorecard from each query's agents that it needs, that answered, and that the router chose."""
    if not rows:
        return None
    ids = sorted(frozenset().union(*(agents for row in rows for agents in row)))
    required, today, chosen = (_matrix([row[place] for row in rows], ids) for place in range(3))
    theirs, ours = metrics.per_query(today, required), metrics.per_query(chosen, required)
    if folded:
        difference = {name: folds.lead(ours[name], theirs[name]) for name in COMPARED_SHARES}
        figures = [{name: folds.widened(values[name]) for name in COMPARED_SHARES} for values in (theirs, ours)]
    else:
        difference = {name: metrics.paired(ours[name], theirs[name], name) for name in COMPARED_SHARES}
        figures = [
            {name: metrics.interval(values[name], name) for name in COMPARED_SHARES} for values in (theirs, ours)
        ]
    return {"queries": len(rows), "metrics": figures[0], "ours": figures[1], "difference": difference}


def _traced(snapshot: Snapshot, examples: Sequence[Example]) -> list[tuple[Example, set[int]]]:
    """Those of the examples that traces have, with the agents that answered them."""
    answered = _answered(snapshot, [text_hash(example.text) for example in examples])
    return [(e, answered[key]) for e in examples if (key := text_hash(e.text)) in answered]


def _answered(snapshot: Snapshot, hashes: list[str]) -> dict[str, set[int]]:
    """Text hash → the agents that answered, of the pool's queries that traces have."""
    answered: dict[str, set[int]] = {}
    for at in range(0, len(hashes), BATCH):
        queries = Query.objects.of(snapshot.pool).filter(text_hash__in=hashes[at : at + BATCH])
        keys = dict(queries.values_list("pk", "text_hash"))
        for key, (_source, agents) in suggestions.who_answered(list(keys)).items():
            answered[keys[key]] = set(agents)
    return answered


def _matrix(sets: Sequence[Set[int]], ids: list[int]) -> Any:
    return np.array([[number in chosen for number in ids] for chosen in sets], np.bool_).reshape(len(sets), len(ids))
