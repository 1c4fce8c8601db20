"""The gate: what a model must show before it answers requests, and the one way to promote it.

A candidate must be measured on test queries, beat the best constant set, and be no worse than the strongest baseline and than the
active model. Beating means that the paired 95 % interval of the difference in Jaccard lies above 0; no worse means that it lies
above -PROMOTION_MARGIN. The first model of a pool passes, recorded as the first. Whoever promotes another one that fails says why.
"""

from dataclasses import asdict, dataclass
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils.translation import gettext as _

from agents_app import audit
from training_app import comparisons, registry, scorecards
from training_app.models import Judgement, Promotion, RouterModel

#: Baselines that classify each agent by itself, without a policy.
CLASSIFIERS = ("logreg", "svm")
#: Test queries up to which a page measures the active model itself; with more, the run's job or the promotion does.
PAGE_QUERIES = 2_000


class GateRefused(registry.RegistryError):
    """The model may not be promoted without an override. `verdict` holds every finding."""

    def __init__(self, verdict: "Verdict") -> None:
        self.verdict = verdict
        found = " ".join(finding.text for finding in verdict.findings if finding.passed is False)
        advice = _("Give a reason to promote it all the same; it is kept.")
        super().__init__(_("%(model)s does not pass the gate.") % {"model": verdict.model.name} + f" {found} {advice}")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that the gate looks at. `passed` is None where it is measured only at the promotion."""

    check: str
    passed: bool | None
    text: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the gate says of a model beside the `active` one, which a first model has none of.

    `ahead` says plainly that a plain classifier did better, where one did, and `winner` is its name among the baselines.
    """

    model: RouterModel
    active: RouterModel | None
    findings: tuple[Finding, ...]
    ahead: str = ""
    winner: str = ""

    @property
    def first(self) -> bool:
        """Whether the model would be its pool's first."""
        return self.active is None

    @property
    def clean(self) -> bool:
        """Whether no finding speaks against the model."""
        return all(finding.passed is not False for finding in self.findings)

    @property
    def passed(self) -> bool:
        """Whether the model may be promoted without an override."""
        return self.first or self.clean


def judge(model: RouterModel, *, most: int | None = None) -> Verdict:
    """Look at a model's scorecard and at its difference from the active model.

    Where that is not measured yet it is now, except on more than `most` test queries. Raises RegistryError where one of the two
    artifacts cannot be used.
    """
    active = registry.active(model.pool)
    findings = [_on_test(model), _beats_constant(model), _holds_baseline(model)]
    if active is not None and active.pk != model.pk:
        findings.append(_holds_active(model, active, most))
    return Verdict(model, active, tuple(findings), ahead=classifier_ahead(model), winner=winning_classifier(model))


def promote(
    model: RouterModel, *, actor: registry.Actor, reason: str = "", override: str = "", actor_name: str = ""
) -> Promotion:
    """Promote the model if it passes, or if `override` says why it answers all the same; what the gate found is kept.

    Page, command, API, admin and runs call this. Raises GateRefused, and RegistryError as `registry.promote` does.
    """
    override = override.strip()
    verdict = judge(model)
    if verdict.active and verdict.active.pk == model.pk:
        return registry.promote(model, actor=actor)  # refuses, and says so
    if not verdict.passed and not override:
        raise GateRefused(verdict)
    with transaction.atomic():
        promotion = registry.promote(model, actor=actor, reason=reason or override, actor_name=actor_name)
        if (promotion.previous_id or None) != (verdict.active.pk if verdict.active else None):
            raise registry.RegistryError(
                _("The active model of %(pool)s has just changed. Look again.") % {"pool": model.pool.slug}
            )
        needed = override[:400] if not verdict.passed else ""
        Judgement.objects.create(
            promotion=promotion,
            passed=verdict.passed,
            findings=[asdict(finding) for finding in verdict.findings],
            override=needed,
        )
        if needed:
            audit.record(
                "gate.overridden",
                actor=actor,
                target=model.name,
                pool=model.pool,
                detail={"reason": needed, "failed": [f.text for f in verdict.findings if f.passed is False]},
                actor_name=actor_name,
            )
    return promotion


def winning_classifier(model: RouterModel) -> str:
    """The classifier without any policy that has the best mean Jaccard, where that is above the model's; else ""."""
    ours = model.scorecard.get("metrics", {}).get("jaccard", {}).get("mean")
    plain = {name: _jaccard(model, name) for name in model.scorecard.get("baselines", {}) if name in CLASSIFIERS}
    if ours is None or not plain:
        return ""
    best = max(plain, key=lambda name: plain[name])
    return best if plain[best] > ours else ""


def classifier_ahead(model: RouterModel) -> str:
    """A plain sentence where a classifier without any policy has the better mean Jaccard, else ""."""
    best = winning_classifier(model)
    if not best:
        return ""
    return _("A plain classifier wins here: %(name)s has Jaccard %(theirs).3f, this router %(ours).3f.") % {
        "name": scorecards.BASELINES[best],
        "theirs": _jaccard(model, best),
        "ours": model.scorecard["metrics"]["jaccard"]["mean"],
    }


def _jaccard(model: RouterModel, baseline: str) -> float:
    mean: float = model.scorecard["baselines"][baseline]["metrics"]["jaccard"]["mean"]
    return mean


# ---------------------------------------------------------------------------------------------------- what it looks at


def _on_test(model: RouterModel) -> Finding:
    card = model.scorecard
    queries = card.get("queries", 0)
    if not card.get("metrics") or not queries:
        return Finding("test", False, _("It came without a scorecard, so nothing was measured."))
    if card.get("measured_on", "test") != "test":
        return Finding(
            "test", False, _("It was measured on validation queries, which flatter: there are no test queries.")
        )
    return Finding("test", True, _("Measured on %(queries)d test queries.") % {"queries": queries})


def _beats_constant(model: RouterModel) -> Finding:
    difference = _difference(model, "constant")
    if difference is None:
        return Finding("constant", False, _("The best constant set was not measured beside it."))
    text = _("Better than the best constant set by %(mean).3f (%(low).3f to %(high).3f) Jaccard.")
    if difference["low"] <= 0:
        text = _("Not shown to beat the best constant set: %(mean)+.3f (%(low).3f to %(high).3f) Jaccard.")
    return Finding("constant", difference["low"] > 0, scorecards.minus(text % difference))


def _holds_baseline(model: RouterModel) -> Finding:
    name = model.scorecard.get("best_baseline", "")
    difference = _difference(model, name)
    if difference is None:
        return Finding("baseline", False, _("No baseline was measured beside it."))
    whom = _("the strongest baseline, %(name)s") % {"name": scorecards.BASELINES.get(name, name)}
    return _no_worse("baseline", whom, difference)


def _holds_active(model: RouterModel, active: RouterModel, most: int | None) -> Finding:
    compared = comparisons.between(model, active, most=most)
    if compared is None:
        if comparisons.snapshot_for(model) is None:
            return Finding(
                "active", False, _("There is no test query to compare it with %(name)s.") % {"name": active.name}
            )
        text = _("The comparison with the active model, %(name)s, is measured when it is promoted.")
        return Finding("active", None, text % {"name": active.name})
    whom = _("the active model, %(name)s") % {"name": active.name}
    return _no_worse("active", whom, compared.figures["jaccard"]["difference"])


def _no_worse(check: str, whom: str, difference: dict[str, float]) -> Finding:
    margin = settings.PROMOTION_MARGIN
    passed = difference["low"] > -margin
    if difference["low"] > 0:
        text = _("Better than %(whom)s, by %(mean).3f (%(low).3f to %(high).3f) Jaccard.")
    elif difference["high"] < 0:
        text = _("Worse than %(whom)s: %(mean)+.3f (%(low).3f to %(high).3f) Jaccard.")
    elif passed:
        text = _("As good as %(whom)s: %(mean)+.3f (%(low).3f to %(high).3f) Jaccard.")
    else:
        text = _(
            "Not shown to be as good as %(whom)s: %(mean)+.3f (%(low).3f to %(high).3f) Jaccard, and the lower end must lie "
            "above %(least).3f. More test queries would tell."
        )
    return Finding(check, passed, scorecards.minus(text % {**difference, "whom": whom, "least": -margin}))


def _difference(model: RouterModel, baseline: str) -> dict[str, Any] | None:
    found: dict[str, Any] | None = (
        model.scorecard.get("baselines", {}).get(baseline, {}).get("difference", {}).get("jaccard")
    )
    return found
