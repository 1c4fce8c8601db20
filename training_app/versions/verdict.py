"""The one verdict on a set router: how many of 100 queries it gets right, with the range, beside the model in use.

Pages, API and commands show this and nothing else; every other figure is for engineers. Below LEAST_CHECKED queries there is no
verdict, only what is missing: of so few, chance moves the figure by more than any two models differ.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

from django.utils.formats import number_format
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from training_app.engine.judging.standard import Standard, is_share
from training_app.engine.measures import PRIMARY
from training_app.models import Card, Comparison, Interval, RouterModel, Standing
from training_app.versions import comparisons, headlines, kinds, registry, scorecards, standings

#: Goals whose verdict is the share of right answers.
RIGHT = (PRIMARY, "exact")
#: More checked answers than so many times those that there are: the difference is too small to wait for.
WORTH_WAITING = 10


@dataclass(frozen=True, slots=True)
class ByGoal:
    """What a goal other than right answers is judged by: a figure of the model and of the one in use, and who keeps the goal's
    limit. `misses` is True where a model misses it for sure."""

    label: str
    share: bool
    ours: Interval
    it: Interval
    misses: bool = False
    it_misses: bool = False

    def sentence(self, name: str) -> str:
        """Both figures, and the limit where one of the two misses it."""
        places = {"what": self.label, "ours": self._shown(self.ours), "it": self._shown(self.it), "name": name}
        text = _("By its goal, %(what)s: %(ours)s; %(name)s: %(it)s.") % places
        if self.misses:
            text += " " + _("This model misses the limit of its goal.")
        elif self.it_misses:
            text += " " + _("%(name)s misses that goal's limit.") % places
        return text

    def _shown(self, figure: Interval) -> str:
        return _("%(n)d of 100") % of_100(figure) if self.share else str(number_format(round(figure.mean, 2), 2))


@dataclass(frozen=True, slots=True)
class Beside:
    """The model in use on the same `queries`: how many of 100 `it` gets right, both as shares, and the `lead` over it in what the
    model is judged by: right answers, or what `goal` holds."""

    name: str
    queries: int
    ours: Interval
    it: Interval
    lead: Interval
    goal: ByGoal | None = None

    @classmethod
    def of(cls, name: str, compared: Comparison, standard: Standard = Standard()) -> "Beside":  # noqa: B008 - frozen
        """From what was measured on the same queries beside the model of that name."""
        ours, theirs, lead = (Interval.of(compared.figures["exact"][key]) for key in ("ours", "theirs", "difference"))
        if (standard.measure in RIGHT and not standard.limited) or standard.measure not in compared.figures:
            return cls(name, compared.queries, ours, theirs, lead)
        mine, other, apart = (
            Interval.of(compared.figures[standard.measure][key]) for key in ("ours", "theirs", "difference")
        )
        missing = [
            standard.misses(figure["low"], figure["high"])
            for figure in (compared.figures.get(standard.limited, {}).get(key) for key in ("ours", "theirs"))
            if figure
        ]
        goal = ByGoal(
            str(scorecards.LABELS[standard.measure]),
            is_share(standard.measure),
            mine,
            other,
            *(missing or (False, False)),
        )
        return cls(name, compared.queries, ours, theirs, scorecards.lead_of(standard, apart) or apart, goal)

    @property
    def conclusion(self) -> str:
        """ "few", "better", "worse", "same" or "close"."""
        if self.queries < scorecards.LEAST_CHECKED:
            return "few"
        if self.goal is not None and self.goal.misses != self.goal.it_misses:
            return "worse" if self.goal.misses else "better"
        if self.lead.bound > 0:
            return "better"
        if self.lead.high < 0:
            return "worse"
        return "same" if self.lead.mean == 0 == self.lead.low == self.lead.high else "close"

    @property
    def more_needed(self) -> int:
        """How many more checked answers would tell the two apart if the difference stays as it is; 0 where that is out of reach."""
        if not self.lead.mean or not self.queries:
            return 0
        reach = self.lead.mean - self.lead.bound if self.lead.mean > 0 else self.lead.high - self.lead.mean
        needed = ceil(self.queries * (reach / self.lead.mean) ** 2) - self.queries
        return needed if 0 < needed <= WORTH_WAITING * self.queries else 0

    def words(self) -> str:
        """Better, worse, or too close to tell and what would tell; "" of too few queries."""
        if self.conclusion == "few":
            return ""
        if self.conclusion == "better":
            return _("This model is better.")
        if self.conclusion == "worse":
            return _("This model is worse.")
        if self.conclusion == "same":
            return _("No difference shows.")
        text = _("Too close to tell.")
        if self.more_needed:
            text += " " + _("About %(n)d more checked answers would.") % {"n": self.more_needed}
        return text

    def sentence(self) -> str:
        """Both on the same queries, and the conclusion."""
        if self.conclusion == "few":
            return scorecards.too_few(self.queries)
        text = _(
            "On %(queries)d queries that neither was trained on, %(ours)d of 100 exactly right; %(name)s: %(it)d."
        ) % {
            "queries": self.queries,
            "ours": of_100(self.ours)["n"],
            "name": self.name,
            "it": of_100(self.it)["n"],
        }
        return " ".join((text, *self.by_goal(), self.words()))

    def by_goal(self) -> tuple[str, ...]:
        """The figures of the goal, in a sentence, where it is another one than right answers."""
        return (self.goal.sentence(self.name),) if self.goal is not None and self.conclusion != "few" else ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is known of a model's answers.

    `right` is the share of queries whose whole set is right, None where fewer than LEAST_CHECKED were checked. `folds`: by
    cross-validation over all labeled queries, as the test split is small. `judge`: a sentence where an LLM judged, else "".
    `retired` counts labeled queries that were left out, as they need a retired agent. `alike`: a sentence where most of the checked
    queries are like ones that the model was trained on, else "". `spoken`: a sentence that names their languages, "" where these are
    not known.
    """

    queries: int
    folds: int
    right: Interval | None
    beside: Beside | None = None
    judge: str = ""
    is_in_use: bool = False
    retired: int = 0
    alike: str = ""
    spoken: str = ""

    @property
    def enough(self) -> bool:
        """Whether enough queries were checked to say anything."""
        return self.right is not None

    @property
    def missing(self) -> int:
        """How many more checked queries a verdict takes."""
        return max(0, scorecards.LEAST_CHECKED - self.queries)

    def share(self) -> str:
        """ "About 86 of 100 queries exactly right (81 to 90)", or that too few were checked."""
        if self.right is None:
            return scorecards.too_few(self.queries)
        return _("About %(n)d of 100 queries exactly right (%(low)d to %(high)d).") % of_100(self.right)

    def short(self) -> str:
        """For a cell of a table: "86 (81 to 90)", or "too few to say; check 36 more"."""
        if self.right is None:
            return scorecards.too_few_in_a_cell(self.queries)
        return _("%(n)d (%(low)d to %(high)d)") % of_100(self.right)

    def where(self) -> str:
        """Which queries were checked; "" where they were too few."""
        if self.right is None:
            return ""
        if self.folds:
            text = _("Measured on all %(n)d labeled queries, each by a router that was not trained on it.")
        else:
            text = _("Measured on %(n)d queries that it was not trained on.")
        text %= {"n": self.queries}
        if self.retired:
            text += " " + ngettext(
                "%(n)d more needs a retired agent and is left out.",
                "%(n)d more need a retired agent and are left out.",
                self.retired,
            ) % {"n": self.retired}
        return text

    def compared(self) -> str:
        """The model in use on the same queries, and the conclusion; "" where there is none or it was not compared."""
        beside = self.beside
        conclusion = self.conclusion() if beside and (beside.goal or beside.conclusion != "same") else ""
        return " ".join(part for part in (self.in_use(), conclusion) if part)

    def in_use(self) -> str:
        """The model in use on the same queries; "" where there is none or it was not compared."""
        if self.beside is None or self.right is None:
            return ""
        beside = self.beside
        if beside.conclusion == "few":
            return ngettext(
                "The model in use, %(name)s, can be compared on %(n)d query: too few to say which is better.",
                "The model in use, %(name)s, can be compared on %(n)d queries: too few to say which is better.",
                beside.queries,
            ) % {"name": beside.name, "n": beside.queries}
        if beside.conclusion == "same" and beside.goal is None:
            return _("The model in use, %(name)s, answers the same queries right.") % {"name": beside.name}
        text = _("The model in use, %(name)s: %(n)d (%(low)d to %(high)d)") % {"name": beside.name, **of_100(beside.it)}
        if self.folds or beside.queries != self.queries:
            text += " " + _("on %(n)d queries that neither was trained on, where this model has %(ours)d.") % {
                "n": beside.queries,
                "ours": of_100(beside.ours)["n"],
            }
        else:
            text += " " + _("on the same queries.")
        return " ".join((text, *beside.by_goal()))

    def conclusion(self) -> str:
        """Better, worse, or too close to tell and what would tell; "" without a comparison, or one of too few queries."""
        return "" if self.beside is None or self.right is None else self.beside.words()

    def sentence(self) -> str:
        """All of it."""
        parts = (self.share(), self.where(), self.alike, self.compared(), self.judge)
        return " ".join(part for part in parts if part)

    def plain(self) -> dict[str, Any]:
        """For the API: {"sentence", "queries", "right_of_100", "low", "high"}, numbers None where too few were checked."""
        numbers = of_100(self.right) if self.right else {"n": None, "low": None, "high": None}
        return {
            "sentence": self.sentence(),
            "queries": self.queries,
            "right_of_100": numbers["n"],
            "low": numbers["low"],
            "high": numbers["high"],
        }


def of_100(share: Interval) -> dict[str, int]:
    """A share and its range as whole numbers of 100."""
    return {name: scorecards.of_100(value) for name, value in (("n", share.mean), ("low", share.low))} | {
        "high": round(100 * share.high)
    }


def of(model: RouterModel) -> Verdict | None:
    """The verdict on a model; None where its kind answers no sets of agents, or it came without a scorecard."""
    card, standing = model.card, headlines.standing_of(model)
    judged = _alone(card, standing)
    if judged is None:
        return None
    return replace(judged, beside=_beside(model, card, standing), is_in_use=model.state == RouterModel.State.ACTIVE)


def _alone(card: Card, standing: Standing | None) -> Verdict | None:
    """The verdict without the model in use: on the queries that all models of the pool are measured on, else by the scorecard."""
    if "exact" not in card.figures:
        return None
    if standing is not None:
        right, retired = Interval.of(standing.figures["exact"]["ours"]), standing.figures.get("retired", {})
        left_out = retired.get("queries", 0)
        alike, spoken = scorecards.alike(card), scorecards.spoken(card)
        return Verdict(standing.queries, 0, right, retired=left_out, alike=alike, spoken=spoken)
    return Verdict(
        queries=card.checked,
        folds=card.folded.folds if card.folded else 0,
        right=card.figures["exact"] if scorecards.enough(card) else None,
        judge=scorecards.by_llm(card).strip(),
        alike=scorecards.alike(card) if scorecards.enough(card) else "",
        spoken=scorecards.spoken(card),
    )


def for_list(models: Sequence[RouterModel]) -> Sequence[RouterModel]:
    """The same models of a pool, which `headlines.with_headlines` has seen, each with its `verdict`, with the model in use where both
    were measured on the queries of all models, or cross-validated on enough of the same."""
    folded = [model for model in models if model.measured_with_all is None and model.shown.folded]  # type: ignore[attr-defined]
    active = registry.active(folded[0].pool) if folded else None
    its_card = active.card if active else None
    for model in models:
        card, standing = model.shown, model.measured_with_all  # type: ignore[attr-defined]
        judged, beside = _alone(card, standing), None
        if standing and standing.against:
            beside = _on_the_same(standing, standing.against, card.standard)
        elif active and model in folded and model != active:
            shared = comparisons.by_folds(model, active, card, its_card)
            beside = Beside.of(active.name, shared, card.standard) if shared else None
        model.verdict = replace(judged, beside=beside) if judged else None  # type: ignore[attr-defined]
    return models


def how_compared(models: Sequence[RouterModel], together: standings.Together | None) -> str:
    """On what the models that `for_list` has seen are compared with the one in use; "" where there are no two."""
    by_folds = any(model.verdict and model.verdict.beside and not model.measured_with_all for model in models)  # type: ignore[attr-defined]
    if by_folds and (together is None or together.few):
        return _(
            "Each model is compared with the one in use on the labeled queries that both were checked on, each query answered by a "
            "router that was not trained on it."
        )
    return together.sentence() if together else ""


def _beside(model: RouterModel, card: Card, standing: Standing | None) -> Beside | None:
    """The model in use, on the queries that both were measured on; None where this is it, and where that was not measured."""
    active = None if model.state == RouterModel.State.ACTIVE else registry.active(model.pool, model.kind)
    if active is None:
        return None
    standard = scorecards.standard_of(model)
    if standing is not None and standing.against_id == active.pk:
        return _on_the_same(standing, active, standard)
    measured = comparisons.by_folds(model, active, card)
    if measured is None:
        measured = Comparison.objects.filter(model=model, against=active).order_by("-snapshot").first()
    return Beside.of(active.name, measured, standard) if measured and "exact" in measured.figures else None


def _on_the_same(standing: Standing, active: RouterModel, standard: Standard) -> Beside:
    return Beside.of(active.name, Comparison(queries=standing.queries, figures=standing.figures), standard)


def no_better_than_keywords(model: RouterModel) -> bool:
    """Whether the rules by keywords, which learn nothing, do as well: such a model has learnt nothing worth having."""
    card, kind = model.card, kinds.of(model.kind)
    beside = card.beside.get("keyword")
    if beside is None or kind.measure not in card.figures or kind.measure not in beside.metrics:
        return False
    ours = card.figures[kind.measure].mean
    return ours <= beside.metrics[kind.measure].mean and ours < 1.0  # where both are perfect there is nothing to learn
