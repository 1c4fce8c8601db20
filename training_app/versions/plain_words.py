"""A set router's scorecard as one would tell it to a colleague: so many of 100 queries right, and how many more than a simple rule."""

from collections.abc import Mapping
from dataclasses import dataclass

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from training_app.models import Baseline, Card, Interval, RouterModel
from training_app.versions import kinds

#: Baselines that one would write by hand or take from a textbook; the others use the model's own scores.
SIMPLE = ("constant", "keyword", "neighbours", "logreg", "svm")


@dataclass(frozen=True, slots=True)
class Plain:
    """Of 100 queries: exactly right, with every needed agent, with none of those needed (None where that was not kept). `more`: how
    many more are exactly right than by `rule`, the best simple rule, "" without any. `queries`: what that was measured on."""

    exact: int
    covered: int
    missed: int | None
    more: int
    rule: str
    queries: int
    folds: int

    def sentence(self) -> str:
        """All of it in a sentence, numbers first."""
        parts = [_("%(n)d exactly right") % {"n": self.exact}, _("%(n)d with every needed agent") % {"n": self.covered}]
        if self.missed is not None:
            parts.append(_("%(n)d with none of them") % {"n": self.missed})
        text = _("Of 100 queries: %(parts)s.") % {"parts": ", ".join(parts)}
        return f"{text} {self.beside()}".strip()

    def beside(self) -> str:
        """How that compares with the best simple rule; "" without one."""
        if not self.rule:
            return ""
        if self.more == 0:
            return _("That is as many exactly right as by the best simple rule, %(rule)s.") % {"rule": self.rule}
        if self.more > 0:
            return ngettext(
                "%(n)d of 100 more is exactly right than by the best simple rule, %(rule)s.",
                "%(n)d of 100 more are exactly right than by the best simple rule, %(rule)s.",
                self.more,
            ) % {"n": self.more, "rule": self.rule}
        return ngettext(
            "%(n)d of 100 fewer is exactly right than by the best simple rule, %(rule)s.",
            "%(n)d of 100 fewer are exactly right than by the best simple rule, %(rule)s.",
            -self.more,
        ) % {"n": -self.more, "rule": self.rule}


def of(model: RouterModel) -> Plain | None:
    """A model's figures in plain words, by cross-validation where its test split is small; None where it has none of this sort."""
    card, kind = model.card, kinds.of(model.kind)
    figures: Mapping[str, Interval] = card.folded.metrics if card.folded else card.metrics
    if not {"exact", "success"} <= set(figures):
        return None
    beside: Mapping[str, Baseline] = card.folded.baselines if card.folded else card.baselines
    simple = {name: beside[name].metrics["exact"].mean for name in SIMPLE if name in beside}
    best = max(simple, key=lambda name: simple[name], default="")
    exact = figures["exact"].mean
    return Plain(
        exact=round(100 * exact),
        covered=round(100 * figures["success"].mean),
        missed=None if card.folded else _missed(card),
        more=round(100 * exact) - round(100 * simple[best]) if best else 0,
        rule=kind.baseline(best) if best else "",
        queries=card.folded.queries if card.folded else card.queries,
        folds=card.folded.folds if card.folded else 0,
    )


def _missed(card: Card) -> int | None:
    """Of 100 queries those whose every needed agent was missed, from the listed errors, the worst of which stand first."""
    errors, queries = card.errors, card.queries
    if not queries or (not errors and card.content.get("error_count")):
        return None
    missed = sum(bool(error["required"]) and not set(error["required"]) & set(error["selected"]) for error in errors)
    whole = len(errors) >= (card.content.get("error_count") or 0)
    if not whole and errors and not set(errors[-1]["required"]) & set(errors[-1]["selected"]):
        return None  # the list was cut among these
    return round(100 * missed / queries)


def no_better_than_keywords(model: RouterModel) -> bool:
    """Whether the rules by keywords, which learn nothing, do as well: such a model has learnt nothing worth having."""
    card, kind = model.card, kinds.of(model.kind)
    figures = card.folded.metrics if card.folded else card.metrics
    beside = (card.folded.baselines if card.folded else card.baselines).get("keyword")
    if beside is None or kind.measure not in figures or kind.measure not in beside.metrics:
        return False
    ours = figures[kind.measure].mean
    return ours <= beside.metrics[kind.measure].mean and ours < 1.0  # where both are perfect there is nothing to learn
