"""Two models on the same test queries: the active one is routed again with its own artifact, so that the difference is paired."""

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from datasets_app.labels import snapshots
from datasets_app.models import Snapshot
from training_app.engine.data import metrics
from training_app.engine.data.examples import Example
from training_app.engine.judging import analysis as judging
from training_app.engine.routing.router import Router
from training_app.models import Comparison, RouterModel
from training_app.versions import kinds, registry

MEASURES = ("jaccard", "f1", "exact", "success", "set_size")
BATCH = 1_000


class Measured(NamedTuple):
    """What was found: against which model (its key), on how many test queries, and the figures: by measure ours, theirs and the
    difference, and what `judging.beside` tells by set size and by agent."""

    against: int
    queries: int
    figures: dict[str, Any]


def between(model: RouterModel, against: RouterModel, *, most: int | None = None) -> Comparison | None:
    """The comparison of two models, measured now where it was not yet.

    None where there is no snapshot with a test query to measure on, or where it was not measured yet and would take more than
    `most` queries. Raises RegistryError for an artifact that cannot be used.
    """
    snapshot = snapshot_for(model)
    if snapshot is None or not kinds.of(model.kind).answers:
        return None
    kept = Comparison.objects.filter(model=model, against=against, snapshot=snapshot).first()
    if kept is not None:
        return kept
    if most is not None and snapshot.split_sizes.get("test", 0) > most:
        return None
    measured = measure(registry.load_model(model), against, snapshot)
    return keep(model, measured, snapshot) if measured.queries else None


def with_active(artifact: bytes, snapshot: Snapshot, kind: str) -> Measured | None:
    """The figures of an artifact that is not registered yet beside its pool's active model of that kind; None without one."""
    active = registry.active(snapshot.pool, kind)
    if active is None or not kinds.of(kind).answers or not snapshot.split_sizes.get("test"):
        return None
    return measure(registry.load(artifact, kind), active, snapshot)


def keep(model: RouterModel, measured: Measured, snapshot: Snapshot) -> Comparison:
    """Store what was measured for a model; two that measure at once keep one row."""
    return Comparison.objects.get_or_create(
        model=model,
        against_id=measured.against,
        snapshot=snapshot,
        defaults={"queries": measured.queries, "figures": measured.figures},
    )[0]


def snapshot_for(model: RouterModel) -> Snapshot | None:
    """The snapshot whose test queries a model is measured on: its run's, or for an imported model the pool's newest."""
    found = model.run.snapshot if model.run else Snapshot.objects.filter(pool=model.pool_id).order_by("-number").first()
    return found if found and found.split_sizes.get("test") else None


def measure(ours: Router, against: RouterModel, snapshot: Snapshot) -> Measured:
    """Route the snapshot's test queries with both. Only queries count of which every agent that one of them knows was asked."""
    theirs = registry.load_model(against)
    roster = frozenset(agent.id for agent in snapshots.agents(snapshot))
    known = frozenset(agent.id for router in (ours, theirs) for agent in router.agents) & roster
    test = [example for example in snapshots.examples(snapshot) if _counts(example, known)]
    required = [example.required for example in test]
    sets = [_routed(router, [example.text for example in test], roster) for router in (ours, theirs)]
    ids = sorted(frozenset().union(*required, *sets[0], *sets[1]))
    truth = _matrix(required, ids)
    chosen = [_matrix(found, ids) for found in sets]
    mine, other = (metrics.per_query(found, truth) for found in chosen)
    figures: dict[str, Any] = {
        name: {
            "ours": metrics.interval(mine[name], name),
            "theirs": metrics.interval(other[name], name),
            "difference": metrics.paired(mine[name], other[name], name),
        }
        for name in MEASURES
    }
    if test:
        figures |= judging.beside(chosen[0], chosen[1], truth, np.ones_like(truth), ids)
    return Measured(against.pk, len(test), figures)


def _counts(example: Example, known: frozenset[int]) -> bool:
    return example.split == "test" and (example.asked is None or known <= example.asked)


def _routed(router: Router, texts: Sequence[str], roster: frozenset[int]) -> list[frozenset[int]]:
    """The router's sets. Of the agents that it knows it may take those that the snapshot's roster holds."""
    available = roster & {agent.id for agent in router.agents}
    found: list[frozenset[int]] = []
    for at in range(0, len(texts), BATCH):
        found += [frozenset(route.agents) for route in router.route_batch(texts[at : at + BATCH], available)]
    return found


def _matrix(sets: Sequence[Collection[int]], ids: Sequence[int]) -> Any:
    return np.array([[number in chosen for number in ids] for chosen in sets], np.bool_).reshape(len(sets), len(ids))
