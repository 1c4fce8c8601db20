"""What lists show of models and sort them by: figures on the queries that all models of a pool are measured on, where these are
enough, else those of each model's scorecard."""

from collections.abc import Sequence

from django.db.models import Case, F, FloatField, IntegerField, Q, QuerySet, Value, When
from django.db.models.expressions import OrderBy
from django.db.models.fields.json import KeyTextTransform, KeyTransform
from django.db.models.functions import Cast

from training_app.engine.measures import HEADLINE
from training_app.models import Card, RouterModel, Scorecard, Standing
from training_app.versions import kinds
from training_app.versions.scorecards import LEAST_CHECKED, enough, too_few_in_a_cell

#: The parts of a scorecard that say how good a model is and on how many queries.
PARTS = ("metrics", "queries", "measured_on", "judges", "cross_validated", "standard", "decision", "alike", "spoken")


def headline(model: RouterModel) -> dict[str, float]:
    """The model's headline figures, as far as it has them; none of too few queries."""
    return _headline(model.card, standing_of(model))


def _headline(card: Card, standing: Standing | None) -> dict[str, float]:
    if standing is not None:
        figures = {name: standing.figures[name]["ours"]["mean"] for name in HEADLINE if name in standing.figures}
    else:
        figures = {name: figure.mean for name, figure in card.figures.items()} if enough(card) else {}
    return {name: figures[name] for name in HEADLINE if name in figures}


def standing_of(model: RouterModel) -> Standing | None:
    """What the model shows on the queries that all models of its pool are measured on; None of too few of them."""
    return _standings([model]).get(model.pk)


def _standings(models: Sequence[RouterModel]) -> dict[int, Standing]:
    rows = Standing.objects.filter(model__in=[model.pk for model in models], queries__gte=LEAST_CHECKED)
    return {row.model_id: row for row in rows.select_related("against__pool")}


def with_headlines(models: Sequence[RouterModel]) -> Sequence[RouterModel]:
    """The same models, each with `shown`, its scorecard without the parts that only its own page draws, and with what lists show of
    it: its `headline`, its `listed` figures where its kind has others, who it was `judged_by`, and `measured_with_all`, its Standing
    of enough queries. Two database queries."""
    paths = [f"content__{part}" for part in PARTS]
    rows = Scorecard.objects.filter(model__in=[model.pk for model in models]).values_list("model", *paths)
    cards = {pk: Card.of(dict(zip(PARTS, parts, strict=True))) for pk, *parts in rows}
    standings = _standings(models)
    for model in models:
        card, names = cards.get(model.pk, Card()), kinds.of(model.kind).listed
        model.shown = card  # type: ignore[attr-defined]
        model.measured_with_all = standings.get(model.pk)  # type: ignore[attr-defined]
        model.headline = _headline(card, standings.get(model.pk))  # type: ignore[attr-defined]
        model.judged_by = card.judged_by  # type: ignore[attr-defined]
        figures = card.figures if enough(card) else {}
        model.listed = [(names[name], figures[name].mean) for name in names if name in figures]  # type: ignore[attr-defined]
        few = names and card.metrics and not figures
        model.too_few = too_few_in_a_cell(card.checked) if few else ""  # type: ignore[attr-defined]
    return models


def figure_column(name: str, scorecard: str) -> Case:
    """What a list sorts by: the figure that it shows, None of too few queries. `scorecard` is the path to it, "measured__"."""
    of = f"{scorecard}content__"
    with_all = f"{scorecard.removesuffix('measured__')}standing__"
    shared = KeyTransform("ours", KeyTransform(name, f"{with_all}figures"))
    folded = KeyTransform(name, KeyTransform("metrics", KeyTransform("cross_validated", f"{scorecard}content")))
    enough_folded = {f"{of}cross_validated__queries__gte": LEAST_CHECKED}
    enough_tested = {f"{of}cross_validated__queries__isnull": True, f"{of}queries__gte": LEAST_CHECKED}
    return Case(
        When(**{f"{with_all}queries__gte": LEAST_CHECKED}, then=Cast(KeyTextTransform("mean", shared), FloatField())),
        When(**enough_folded, then=Cast(KeyTextTransform("mean", folded), FloatField())),
        When(~Q(**{f"{of}measured_on": "val"}), **enough_tested, then=F(f"{scorecard}{name}")),
        default=None,
        output_field=FloatField(),
    )


def figure_of(model: RouterModel, name: str) -> float | None:
    """One figure of a model that `with_headlines` has seen; None where it has none."""
    value: float | None = getattr(model, "headline", {}).get(name)
    return value


def in_order(models: QuerySet[RouterModel], figure: str, order: Sequence[OrderBy]) -> QuerySet[RouterModel]:
    """The models by a figure, first those that were measured on the same queries, then those of each snapshot's queries, the newest
    snapshot first: figures of different queries say nothing of which is better."""
    together = Q(standing__queries__gte=LEAST_CHECKED)
    apart = Case(When(together, then=None), default=F("run__snapshot__number"), output_field=IntegerField())
    alone = Case(When(together, then=Value(0)), default=Value(1))
    models = models.annotate(**{figure: figure_column(figure, "measured__")})
    return models.order_by(alone, OrderBy(apart, descending=True, nulls_last=True), *order)
