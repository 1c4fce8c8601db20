"""Who answered until now, as traces say, beside a model on the same test queries: what a team compares its first router with."""

from typing import Any

import numpy as np

from datasets_app.labels import snapshots, suggestions
from datasets_app.models import Query, Snapshot, TracedTurn, text_hash
from training_app.engine.data import metrics
from training_app.engine.measures import COMPARED_SHARES
from training_app.models.kinds import SET_ROUTER
from training_app.versions import registry

BATCH = 1_000


def measure(artifact: bytes, snapshot: Snapshot) -> dict[str, Any] | None:
    """The row of a scorecard: on the test queries that traces have with agents of the pool, how today's handoffs do and how far the
    model is ahead; None without any. Queries of which some agent was not asked are left out."""
    if not TracedTurn.objects.filter(pool=snapshot.pool).exists():
        return None
    router = registry.load(artifact, SET_ROUTER)
    own_agents = frozenset(agent.id for agent in router.agents)
    measured = [example for example in snapshots.examples(snapshot) if example.split == "test"]
    test = [example for example in measured if example.asked is None or own_agents <= example.asked]
    answered = _answered(snapshot, [text_hash(example.text) for example in test])
    test = [example for example in test if text_hash(example.text) in answered]
    if not test:
        return None
    ids = sorted(own_agents.union(*(example.required for example in test), *answered.values()))
    routed: list[set[int]] = []
    for at in range(0, len(test), BATCH):
        routes = router.route_batch([example.text for example in test[at : at + BATCH]], own_agents)
        routed += [set(route.agents) for route in routes]
    required = _matrix([example.required for example in test], ids)
    theirs = metrics.per_query(_matrix([answered[text_hash(example.text)] for example in test], ids), required)
    ours = metrics.per_query(_matrix(routed, ids), required)
    return {
        "queries": len(test),
        "metrics": {name: metrics.interval(theirs[name], name) for name in COMPARED_SHARES},
        "ours": {name: metrics.interval(ours[name], name) for name in COMPARED_SHARES},
        "difference": {name: metrics.paired(ours[name], theirs[name], name) for name in COMPARED_SHARES},
    }


def _answered(snapshot: Snapshot, hashes: list[str]) -> dict[str, set[int]]:
    """Text hash → the agents that answered, of the pool's queries that traces have."""
    answered: dict[str, set[int]] = {}
    for at in range(0, len(hashes), BATCH):
        queries = Query.objects.of(snapshot.pool).filter(text_hash__in=hashes[at : at + BATCH])
        keys = dict(queries.values_list("pk", "text_hash"))
        for key, (_source, agents) in suggestions.who_answered(list(keys)).items():
            answered[keys[key]] = set(agents)
    return answered


def _matrix(sets: list[Any], ids: list[int]) -> Any:
    return np.array([[number in chosen for number in ids] for chosen in sets], np.bool_).reshape(len(sets), len(ids))
