"""What a model learnt and how well it does, in tables of their own: a list of models reads neither."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from django.db import models
from django.utils.translation import gettext_lazy as _

from routerweb.holds import Holds
from training_app.engine.judging.standard import Standard, standard_of
from training_app.engine.measures import HEADLINE, PRIMARY

if TYPE_CHECKING:
    from training_app.models.versions import RouterModel


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean with its 95 % interval. `bound` is the lower end that the gate goes by, which for a difference of two may lie
    below `low`."""

    mean: float
    low: float
    high: float
    bound: float

    @classmethod
    def of(cls, figure: Mapping[str, Any]) -> "Interval":
        """From {"mean", "low", "high"}, as the engine gives it, with or without "bound"."""
        return cls(figure["mean"], figure["low"], figure["high"], figure.get("bound", figure["low"]))

    def words(self) -> dict[str, float]:
        """For a sentence with %(mean), %(low), %(high) and %(bound)."""
        return asdict(self)


def _intervals(figures: Mapping[str, Any]) -> dict[str, Interval]:
    return {name: Interval.of(figure) for name, figure in figures.items()}


@dataclass(frozen=True, slots=True)
class Baseline:
    """What stood beside a model on the same queries: its figures by measure, and the model's lead over it."""

    metrics: Mapping[str, Interval]
    lead: Mapping[str, Interval]


def _baselines(content: Mapping[str, Any]) -> dict[str, Baseline]:
    return {
        name: Baseline(_intervals(beside["metrics"]), _intervals(beside.get("difference") or {}))
        for name, beside in content.items()
    }


@dataclass(frozen=True, slots=True)
class Folded:
    """What cross-validation in `folds` folds says of the recipe on `queries` labeled queries: figures by measure, and what
    stood beside. `answers`: by query, what it needs and what was chosen, as `folds.cross_validated` gives them."""

    queries: int
    folds: int
    metrics: Mapping[str, Interval]
    baselines: Mapping[str, Baseline]
    answers: Mapping[str, tuple[Sequence[int], Sequence[int]]] = field(default_factory=dict)


def _judges(content: Mapping[str, Any]) -> Mapping[str, int]:
    """Of the queries that the figures are of. By cross-validation these are all labeled ones, but an LLM's labels judge there only
    where they judge the test split too."""
    by_split: Mapping[str, Mapping[str, int]] = content.get("judges") or {}
    measured = by_split.get(content.get("measured_on") or "test") or {}
    if not content.get("cross_validated"):
        return measured
    together: Counter[str] = Counter()
    for of in by_split.values():
        together.update(of)
    if not measured.get("llm"):
        del together["llm"]
    return together


@dataclass(frozen=True, slots=True)
class Card:
    """A scorecard. One that came without figures has no `metrics`.

    `queries` are those that it was measured on, of the split `measured_on`. `best_baseline` names the strongest one, "" without any.
    `folded` is there where the test split is too small to judge by. `validation` is the Jaccard on validation by which the policy
    was chosen. `judges`: who said what the queries need that it was measured on (people, import, llm) → how many of them; empty where
    that was not kept. `errors` are {"text", "required", "selected", "nearest"}. `content` is all of it as the engine wrote it, for
    what pages only draw.
    """

    metrics: Mapping[str, Interval] = field(default_factory=dict)
    baselines: Mapping[str, Baseline] = field(default_factory=dict)
    best_baseline: str = ""
    queries: int = 0
    measured_on: str = "test"
    folded: Folded | None = None
    validation: float | None = None
    judges: Mapping[str, int] = field(default_factory=dict)
    errors: Sequence[Mapping[str, Any]] = ()
    content: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> "Card":
        """From the engine's JSON."""
        folded = content.get("cross_validated")
        return cls(
            metrics=_intervals(content.get("metrics") or {}),
            baselines=_baselines(content.get("baselines") or {}),
            folded=folded
            and Folded(
                folded["queries"],
                folded["folds"],
                _intervals(folded["metrics"]),
                _baselines(folded["baselines"]),
                {key: ([*needed], [*chosen]) for key, (needed, chosen) in folded.get("answers", {}).items()},
            ),
            best_baseline=content.get("best_baseline") or "",
            queries=content.get("queries") or 0,
            measured_on=content.get("measured_on") or "test",
            validation=(content.get("best_validation") or {}).get("val_jaccard"),
            judges=_judges(content),
            errors=content.get("errors") or (),
            content=content,
        )

    @property
    def checked(self) -> int:
        """How many queries judge the model: all labeled ones where it was cross-validated, else those of the test split. Validation
        queries chose it, so they judge nothing."""
        if self.folded is not None:
            return self.folded.queries
        return self.queries if self.measured_on == "test" else 0

    @property
    def figures(self) -> Mapping[str, Interval]:
        """The figures of the `checked` queries, by measure."""
        return self.folded.metrics if self.folded is not None else self.metrics

    @property
    def judged_by(self) -> str:
        """ "llm" where an LLM alone labeled some of the queries, else "people", or "import" where a file named every answer; "" where
        that was not kept."""
        return next((who for who in ("llm", "people", "import") if self.judges.get(who)), "")

    @property
    def standard(self) -> Standard:
        """What the model is judged by: its run's goal."""
        standard = self.content.get("standard")
        if standard:
            return Standard(**standard)
        return standard_of(self.content.get("config") or self.content.get("decision") or {})

    def means(self, beside: Mapping[str, Baseline]) -> dict[str, dict[str, float]]:
        """The means of what stood beside the model, without the rule that answers: it is no baseline of itself."""
        rule = (self.content.get("decision") or {}).get("rule")
        return {
            name: {measure: figure.mean for measure, figure in standing.metrics.items()}
            for name, standing in beside.items()
            if name != rule
        }

    @property
    def beside(self) -> Mapping[str, Baseline]:
        """What stood beside the model on the `checked` queries, by name."""
        return self.folded.baselines if self.folded is not None else self.baselines

    def lead(self, baseline: str, measure: str = PRIMARY) -> Interval | None:
        """The model's lead over a baseline on the `checked` queries, None where that was not measured beside it."""
        compared = self.beside.get(baseline)
        return compared.lead.get(measure) if compared else None


class Scorecard(models.Model):
    """A model's scorecard as the engine wrote it; the figures that lists show and sort by, HEADLINE, have columns of their own."""

    model = models.OneToOneField("training_app.RouterModel", on_delete=models.CASCADE, related_name="measured")
    content = models.JSONField(_("scorecard"), default=dict)
    jaccard = models.FloatField(null=True)
    f1 = models.FloatField(null=True)
    exact = models.FloatField(null=True)
    validation = models.FloatField(null=True)
    holds = Holds(remark=[content])

    def __str__(self) -> str:
        return str(self.model)

    @classmethod
    def of(cls, model: "RouterModel", content: Mapping[str, Any]) -> "Scorecard":
        """A row that is not saved yet."""
        card = Card.of(content)
        figures = {name: card.metrics[name].mean for name in HEADLINE if name in card.metrics}
        return cls(model=model, content=dict(content), validation=card.validation, **figures)

    @property
    def card(self) -> Card:
        """The scorecard in its types."""
        return Card.of(self.content)


class LearntRoster(models.Model):
    """The agents as they were when a model learnt them, one JSON object each."""

    model = models.OneToOneField("training_app.RouterModel", on_delete=models.CASCADE, related_name="learnt")
    agents = models.JSONField(_("roster"), default=list)
    holds = Holds(shared=[agents])

    def __str__(self) -> str:
        return str(self.model)
