"""Two models beside each other: on the same test queries, the active one measured again with its own artifact, so that the difference
is paired; or, for a kind that has no such way, by their scorecards."""

from importlib import import_module
from typing import Any, NamedTuple

from agents_app import pools
from datasets_app.labels import snapshots
from datasets_app.models import Snapshot
from training_app.engine.data import shares
from training_app.engine.judging import paired
from training_app.models import Card, Comparison, RouterModel
from training_app.versions import kinds, registry, scorecards, standings


class Measured(NamedTuple):
    """What was found: against which model (its key), on how many test queries, and the figures, as the kind's `beside` gives them."""

    against: int
    queries: int
    figures: dict[str, Any]


def between(model: RouterModel, against: RouterModel, *, max_queries: int | None = None) -> Comparison | None:
    """The comparison of two models of one kind: on the queries that all models of the pool are measured on, where these are enough;
    else by cross-validation on the labeled queries that both were judged on, where these are; else on the test queries of the model's
    snapshot, measured now where it was not yet.

    With `max_queries`, as pages ask, nothing is stored, and more queries than that are not measured: None. None too where there is no
    snapshot with a test query, and where a kind is compared by scorecards and one of them lacks its measure. Raises RegistryError for
    an artifact that cannot be used.
    """
    if not kinds.of(model.kind).beside:
        return by_scorecards(model, against)
    together = standings.between(model, against) or by_folds(model, against)
    if together is not None:
        return together
    snapshot = snapshot_for(model)
    if snapshot is None:
        return None
    comparison = Comparison.objects.filter(model=model, against=against, snapshot=snapshot).first()
    if comparison is not None:
        return comparison
    if max_queries is not None and snapshot.split_sizes.get("test", 0) > max_queries:
        return None
    measured = measure(registry.load_model(model), against, snapshot)
    if not measured.queries:
        return None
    if max_queries is not None:  # a page, which writes nothing
        return Comparison(model=model, against=against, queries=measured.queries, figures=measured.figures)
    return keep(model, measured, snapshot)


def by_folds(
    model: RouterModel, against: RouterModel, ours: Card | None = None, theirs: Card | None = None
) -> Comparison | None:
    """Two models whose test splits are small, on the labeled queries that both were cross-validated on, each answered by a router that
    had not learnt from it; a row that is not kept. None of too few, and where the two were judged in different numbers of folds: with
    fewer, each answer comes from a router that learnt from less, and the model would look worse than it is. `ours`, `theirs`: their
    scorecards, where the caller has them."""
    mine, other = ours or model.card, theirs or against.card
    if mine.folded is None or other.folded is None or mine.folded.folds != other.folded.folds:
        return None
    shared = [key for key in mine.folded.answers if key in other.folded.answers]
    if len(shared) < scorecards.LEAST_CHECKED:
        return None
    agents = pools.roster(model.pool)
    ids = frozenset(agent.id for agent in agents)
    needed = [mine.folded.answers[key][0] for key in shared]
    chosen = ([ids.intersection(side.answers[key][1]) for key in shared] for side in (mine.folded, other.folded))
    settings = model.run.config if model.run else {}
    figures = paired.of_sets(settings, agents, needed, *chosen, folded=True)
    return Comparison(model=model, against=against, queries=len(shared), figures=figures)


def by_scorecards(model: RouterModel, against: RouterModel) -> Comparison | None:
    """The two scorecards' difference in every measure that both have, as a row that is not kept; None without the kind's own.

    The interval takes them as measured on queries of their own, which on shared ones is wider than it needs to be.
    """
    ours, theirs = model.card, against.card
    shared = [name for name in ours.metrics if name in theirs.metrics]
    if kinds.of(model.kind).measure not in shared:
        return None
    both = {name: (ours.metrics[name].words(), theirs.metrics[name].words()) for name in shared}
    figures = {
        name: {"ours": ours, "theirs": other, "difference": shares.apart(ours, other)}
        for name, (ours, other) in both.items()
    }
    return Comparison(model=model, against=against, queries=min(ours.queries, theirs.queries), figures=figures)


def with_active(artifact: bytes, snapshot: Snapshot, kind: str) -> Measured | None:
    """The figures of an artifact that is not registered yet beside its pool's active model of that kind; None without one, and where
    the kind is compared by scorecards."""
    active = registry.active(snapshot.pool, kind)
    if active is None or not kinds.of(kind).beside or not snapshot.split_sizes.get("test"):
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
    snapshot = (
        model.run.snapshot if model.run else Snapshot.objects.filter(pool=model.pool_id).order_by("-number").first()
    )
    return snapshot if snapshot and snapshot.split_sizes.get("test") else None


def measure(ours: Any, against: RouterModel, snapshot: Snapshot) -> Measured:
    """A loaded version and a model of the same kind on the snapshot's test queries."""
    theirs = registry.load_model(against)
    way = import_module(kinds.of(against.kind).beside)
    queries, figures = way.beside(ours, theirs, snapshots.agents(snapshot), list(snapshots.examples(snapshot)))
    return Measured(against.pk, queries, figures)
