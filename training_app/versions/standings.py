"""Every model of a pool on the same queries, none of which any of them learnt from; measured again when gold changes.

Two scorecards are of two sets of queries, so their figures do not rank two models. What counts here are gold queries that every agent
of the pool was asked about, and that

* are in no group that one of the models learnt from or was chosen by; and
* belong to the test split, or came after every unlabeled text that one of them read, and were
  not picked by the queue's order, which prefers what the model in use is unsure of. With an imported model, whose training is not
  known, only the test split counts; and
* need no agent that was retired: what such a query needs now, nobody has said. Judged by the agents that are left, a pool would look
  better for each agent that leaves.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from django.db import transaction
from django.db.models import Count, Max
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from agents_app import pools
from agents_app.models import Pool
from agents_app.texts.columns import chunks
from datasets_app.labeling import filling
from datasets_app.labels import snapshots
from datasets_app.models import Gold, Label, Query, QueueSettings, Split
from training_app.engine.data.conversations import from_json
from training_app.engine.judging import paired
from training_app.models import SET_ROUTER, Comparison, RouterModel, Standing
from training_app.versions import registry, scorecards

#: The newest models that are compared, and the newest queries that each of them routes.
MODELS, QUERIES = 20, 1_000


class Gathered(NamedTuple):
    """The queries that are routed, their required sets, and the models. `left_out` counts those that need a retired agent."""

    texts: list[str]
    required: list[frozenset[int]]
    models: list[RouterModel]
    left_out: int = 0


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
    models = registry.models(pool).filter(kind=SET_ROUTER, pruned_at=None).select_related("run__snapshot")
    active = models.filter(state=RouterModel.State.ACTIVE)
    others = models.exclude(state=RouterModel.State.ACTIVE)[: MODELS - 1]
    return sorted([*active, *others], key=lambda model: -model.version)


def _stamp(pool: Pool, models: Sequence[RouterModel]) -> str:
    """What the figures are of: it changes where gold, the roster, the models or the one in use change."""
    gold = Gold.objects.of(pool).aggregate(count=Count("pk"), newest=Max("composed_at"))
    roster = sorted(agent.id for agent in pools.roster(pool))
    parts = [gold, roster, [(model.pk, model.state == RouterModel.State.ACTIVE) for model in models]]
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _gathered(pool: Pool, models: list[RouterModel]) -> Gathered:
    everyone = frozenset(agent.id for agent in pools.roster(pool))
    is_independent = _independence(pool, models)
    gold = Gold.objects.filter(query__in=Query.objects.of(pool).filter(erased_at=None)).order_by("-query")
    columns = ("query", "query__group", "query__group__split", "query__created_at", "asked", "required")
    chosen: list[int] = []
    left_out = 0
    for query, group, split, at, asked, required in gold.values_list(*columns).iterator() if models else ():
        if not everyone <= frozenset(asked) or not is_independent(query, group, split, at):
            continue
        if everyone.issuperset(required):
            chosen.append(query)
        else:
            left_out += 1
        if len(chosen) == QUERIES:
            break
    rows = list(gold.filter(query__in=chosen).values_list("query__text", "query__messages", "required"))
    texts = [from_json(text, messages) for text, messages, _required in rows]
    return Gathered(texts, [frozenset(required) for _text, _messages, required in rows], models, left_out)


def _independence(pool: Pool, models: Sequence[RouterModel]) -> Callable[[int, int | None, str | None, datetime], bool]:
    """Whether none of the models learnt from a query, by its key, its group, that group's split and when the query came."""
    used = {model.run.snapshot for model in models if model.run}
    learnt = {row["query"] for snapshot in used for row in snapshots.rows(snapshot) if row["split"] != Split.TEST}
    groups = _groups(learnt)
    if not used or any(model.run is None for model in models):
        return lambda _query, group, split, _at: split == Split.TEST and group not in groups
    used_queries = learnt | _picked(pool, max(snapshot.created_at for snapshot in used))
    read = [model.run.snapshot.created_at for model in models if model.run and model.run.config.get("unlabeled", True)]
    since = max(read) if read else datetime.min.replace(tzinfo=UTC)
    return lambda query, group, split, at: (
        group not in groups and (split == Split.TEST or (at > since and query not in used_queries))
    )


def _groups(queries: set[int]) -> set[int]:
    """The groups of these queries."""
    parts = (Query.objects.filter(pk__in=part, group__isnull=False) for part in chunks(sorted(queries)))
    return {group for part in parts for group in part.values_list("group", flat=True)}


def _picked(pool: Pool, since: datetime) -> set[int]:
    """The queries that the queue gave out in an order that chooses, since then; none where its order asks no model."""
    if filling.settings_of(pool).order in (QueueSettings.Order.RANDOM, QueueSettings.Order.OLDEST):
        return set()
    labels = Label.objects.current().filter(query__dataset__pool=pool, created_at__gt=since, provenance__via="queue")
    rows = labels.values_list("query", "provenance")  # to exclude a key of JSON leaves out rows that lack it
    return {query for query, provenance in rows if not provenance.get("evaluation")}


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
    active = next((model for model in gathered.models if model.state == RouterModel.State.ACTIVE), None)
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
                | {"retired": {"queries": gathered.left_out}}
                if gathered.texts
                else {},
                stamp=stamp,
            )
        )
    return rows
