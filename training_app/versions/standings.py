"""Every model of a pool on the same queries, none of which any of them learnt from; measured again when gold changes.

Two scorecards are of two sets of queries, so their figures do not rank two models. What counts here are gold queries that every agent
of the pool was asked about, and that

* belong to the test split, whose groups are never learnt from; or
* are in no group that one of the models learnt from or was chosen by, came after every unlabeled text that one of them read, and were
  not picked by the queue's order, which prefers what the model in use is unsure of. With an imported model, whose training is not
  known, only the test split counts.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from django.db import transaction
from django.db.models import Count, Max, QuerySet
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from agents_app import pools
from agents_app.models import Pool
from datasets_app.labels import filling, snapshots
from datasets_app.models import Gold, Label, Query, QueueSettings, Snapshot, Split
from training_app.engine.data.conversations import from_json
from training_app.engine.judging import paired
from training_app.models import SET_ROUTER, Comparison, RouterModel, Standing
from training_app.versions import registry, scorecards

#: The newest models that are compared, and the newest queries that each of them routes.
MODELS, QUERIES = 20, 1_000


class Gathered(NamedTuple):
    """The queries that are routed, their required sets, and the models."""

    texts: list[str]
    required: list[frozenset[int]]
    models: list[RouterModel]


@dataclass(frozen=True, slots=True)
class Together:
    """On how many `queries` so many `models` of a pool were measured together, and when."""

    queries: int
    models: int
    at: datetime

    @property
    def few(self) -> bool:
        """Whether the queries are too few to show a figure or an order."""
        return self.queries < scorecards.LEAST_CHECKED

    def sentence(self) -> str:
        """What can be compared, or how many labels that takes."""
        if not self.few:
            text = _("%(models)d models were measured on the same %(n)d queries, which none of them was trained on.")
            return text % {"models": self.models, "n": self.queries}
        text = ngettext(
            "%(n)d query is labeled that none of these models was trained on: too few to say which is better. Label %(more)d more.",
            "%(n)d queries are labeled that none of these models was trained on: too few to say which is better. Label %(more)d more.",
            self.queries,
        )
        return text % {"n": self.queries, "more": scorecards.LEAST_CHECKED - self.queries}


def of(pool: Pool) -> Together | None:
    """How the pool's models were measured together; None of fewer than two, and where that was not done yet."""
    rows = Standing.objects.filter(model__pool=pool)
    queries, models, at = rows.aggregate(queries=Max("queries"), models=Count("pk"), at=Max("at")).values()
    return Together(queries, models, at) if models > 1 else None


def between(model: RouterModel, against: RouterModel) -> Comparison | None:
    """Two models of a pool on the queries that all were measured on, as a row that is not kept; None of too few of them."""
    rows = Standing.objects.filter(model__in=(model.pk, against.pk), queries__gte=scorecards.LEAST_CHECKED)
    both = {row.model_id: row for row in rows}
    ours, theirs = both.get(model.pk), both.get(against.pk)
    if ours is None or theirs is None or ours.stamp != theirs.stamp:
        return None
    settings = model.run.config if model.run else {}
    figures = paired.of_sets(settings, pools.roster(model.pool), ours.required, ours.answers, theirs.answers)
    return Comparison(model=model, against=against, queries=ours.queries, figures=figures)


def measure_all() -> int:
    """Measure every pool whose gold, agents or models have changed; how many were. A schedule calls it."""
    return sum(measure(pool) for pool in Pool.objects.filter(models__kind=SET_ROUTER).distinct())


def measure(pool: Pool) -> bool:
    """Measure the pool's models on what none of them learnt from, unless nothing has changed; whether it was measured."""
    models = comparable(pool)
    stamp = _stamp(pool, models)
    old = Standing.objects.filter(model__pool=pool)
    stamps = set(old.values_list("stamp", flat=True))
    if stamps == {stamp} or not (stamps or (models and Gold.objects.of(pool).exists())):
        return False
    judged = Gold.objects.of(pool).exists()  # where nobody but an LLM has labeled, scorecards say what its labels say
    rows = _measured(_gathered(pool, models), pool, stamp) if judged else []
    with transaction.atomic():
        old.delete()
        Standing.objects.bulk_create(rows)
    return True


def comparable(pool: Pool) -> list[RouterModel]:
    """The active model and the newest others whose artifact is still there, the newest first."""
    kept = registry.models(pool).filter(kind=SET_ROUTER, pruned_at=None).select_related("run__snapshot")
    active = kept.filter(state=RouterModel.State.ACTIVE)
    others = kept.exclude(state=RouterModel.State.ACTIVE)[: MODELS - 1]
    return sorted([*active, *others], key=lambda model: -model.version)


def _stamp(pool: Pool, models: Sequence[RouterModel]) -> str:
    """What the figures are of: it changes where gold, the roster, the models or the one in use change."""
    gold = Gold.objects.of(pool).aggregate(count=Count("pk"), newest=Max("composed_at"))
    roster = sorted(agent.id for agent in pools.roster(pool))
    parts = [gold, roster, [(model.pk, model.state == RouterModel.State.ACTIVE) for model in models]]
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _gathered(pool: Pool, models: list[RouterModel]) -> Gathered:
    everyone = frozenset(agent.id for agent in pools.roster(pool))
    queries = _independent(pool, models) if models else Query.objects.none()
    gold = Gold.objects.filter(query__in=queries).order_by("-query")
    rows = gold.values_list("query__text", "query__messages", "required", "asked")
    whole = [
        (from_json(text, messages), frozenset(required) & everyone)
        for text, messages, required, asked in rows.iterator()
        if everyone <= frozenset(asked)
    ][:QUERIES]
    return Gathered([text for text, _required in whole], [required for _text, required in whole], models)


def _independent(pool: Pool, models: Sequence[RouterModel]) -> QuerySet[Query]:
    """The queries that none of the models learnt from."""
    queries = Query.objects.of(pool).filter(erased_at=None)
    test = queries.filter(group__split=Split.TEST)
    used = {model.run.snapshot for model in models if model.run}
    if not used or any(model.run is None for model in models):
        return test
    learnt = _learnt(used)
    read = [model.run.snapshot.created_at for model in models if model.run and model.run.config.get("unlabeled", True)]
    fresh = queries.exclude(group__in=Query.objects.filter(pk__in=learnt).values("group"))
    if read:
        fresh = fresh.filter(created_at__gt=max(read))
    return test | fresh.exclude(pk__in=_picked(pool, max(snapshot.created_at for snapshot in used)))


def _learnt(used: set[Snapshot]) -> set[int]:
    """The keys of the queries that these snapshots give to training and validation."""
    return {
        row["query"] for snapshot in used for row in snapshots.rows(snapshot) if row["split"] != Split.TEST
    }  # fmt: skip


def _picked(pool: Pool, since: datetime) -> list[int]:
    """The queries that the queue gave out in an order that chooses, since then; none where its order asks no model."""
    if filling.settings_of(pool).order in (QueueSettings.Order.RANDOM, QueueSettings.Order.OLDEST):
        return []
    labels = Label.objects.current().filter(query__dataset__pool=pool, created_at__gt=since, provenance__via="queue")
    made = labels.values_list("query", "provenance")  # to exclude a key of JSON leaves out rows that lack it
    return [query for query, provenance in made if not provenance.get("evaluation")]


def _measured(gathered: Gathered, pool: Pool, stamp: str) -> list[Standing]:
    """A row for each model that can be loaded. Each is loaded once, and let go before the next."""
    roster = pools.roster(pool)
    ids = frozenset(agent.id for agent in roster)
    answers: dict[int, list[frozenset[int]]] = {}
    training: dict[int, dict[str, Any]] = {}
    for model in gathered.models:
        try:
            router = registry.load_model(model)
        except registry.RegistryError:
            continue
        answers[model.pk] = paired.routed(router, gathered.texts, ids)
        training[model.pk] = dict(router.training)
    active = next((one for one in gathered.models if one.state == RouterModel.State.ACTIVE), None)
    rows = []
    for model in gathered.models:
        if model.pk not in answers:
            continue
        theirs = active if active is not None and active.pk in answers else model
        rows.append(
            Standing(
                model=model,
                against=theirs if theirs is not model else None,
                queries=len(gathered.texts),
                answers=[sorted(chosen) for chosen in answers[model.pk]],
                required=[sorted(needed) for needed in gathered.required],
                figures=paired.of_sets(
                    training[model.pk], roster, gathered.required, answers[model.pk], answers[theirs.pk]
                )
                if gathered.texts
                else {},
                stamp=stamp,
            )
        )
    return rows
