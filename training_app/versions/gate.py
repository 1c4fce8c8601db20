"""The gate: what a model must show before it answers requests, and the one way to promote it.

A candidate must be measured on test queries, beat the best constant set, and be no worse than the strongest baseline and than the
active model. Training has chosen on validation among the rules over the candidate's own scores, and these are nearly level: one of
them speaks against the candidate only where it is surely better. Beating means that the lower bound of the paired difference lies
above 0; no worse means that it lies above -PROMOTION_MARGIN. What is compared is what the run's goal asks for
(`engine/judging/standard.py`), else the measure of the model's kind: Jaccard, for a set router. Where the goal has a limit, the model
must not miss it for sure, and who does miss it is no rival. The bound counts what the unseen may still cost, so that on few queries a
model which is truly worse by the margin passes in at most 25 of 1,000 (docs/certainty.md). It is `Interval.bound`, which may lie below
the 95 % interval that is shown: where it does, a finding names it. Where the test split is small, constant set and baseline are judged
by cross-validation over all labeled queries, and the active model on those that both models were cross-validated on, where these are
enough, else on test queries only. Of several models measured on the same test queries the best looks better than it is: "better" is
said at the level that their number leaves. The first model of a kind passes, recorded as the first, unless the
agents' descriptions are surely right more often. Whoever promotes another one that
fails says why.

Every model, the first one too, is held to the pool's must-pass cases. A roll-back is held to nothing else: it goes back to what
passed before.
"""

from dataclasses import asdict, dataclass, replace
from statistics import NormalDist

from django.conf import settings
from django.db import transaction
from django.utils import translation
from django.utils.translation import gettext as _

from agents_app import audit
from agents_app.audit import Who
from agents_app.models import Pool
from training_app.engine.data.shares import Z
from training_app.engine.judging.standard import Standard
from training_app.models import Interval, Judgement, Promotion, PromotionRequest, RouterModel
from training_app.models.kinds import SET_ROUTER
from training_app.versions import approvals, cases, comparisons, kinds, registry, scorecards
from training_app.versions.verdict import no_better_than_keywords

#: Test queries up to which a page measures the active model itself, storing nothing; with more, the run's job or the promotion does.
PAGE_QUERIES = 300
#: The check of the must-pass cases, as findings name it.
CASES = "cases"
#: The check of a first model against the agents' descriptions, which answer without one.
DESCRIPTIONS = "descriptions"


class GateRefused(registry.RegistryError):
    """The model may not be promoted without an override. `verdict` holds every finding."""

    def __init__(self, verdict: "Verdict") -> None:
        self.verdict = verdict
        failures = " ".join(finding.text for finding in verdict.findings if finding.passed is False)
        advice = _("To promote it anyway, give a reason, which is stored.")
        super().__init__(
            _("%(model)s does not pass the gate.") % {"model": verdict.model.name} + f" {failures} {advice}"
        )


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that the gate looks at. `passed` is None where it is measured only at the promotion. `text` says it without figures,
    which `detail` has, for engineers."""

    check: str
    passed: bool | None
    text: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the gate says of a model beside the `active` one, which a first model has none of.

    `ahead` says plainly that a plain classifier did better, where one did, and `winner` is its name among the
    baselines.
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
        """Whether the model may be promoted without an override: the first of its kind whatever is found, unless rules by keywords
        do as well, the agents' descriptions do better or a must-pass case is broken."""
        if any(finding.check in (CASES, DESCRIPTIONS) and finding.passed is False for finding in self.findings):
            return False
        return self.clean or (self.first and not no_better_than_keywords(self.model))


def judge(model: RouterModel, *, max_queries: int | None = None) -> Verdict:
    """Look at a model's scorecard and at its difference from the active model.

    Where that is not measured yet it is now, except on more than `max_queries` test queries. Raises RegistryError where one of
    the two artifacts cannot be used.
    """
    active = registry.active(model.pool, model.kind)
    findings = [
        _on_test(model),
        *_keeps_limit(model),
        _beats_constant(model),
        _holds_baseline(model),
        *_holds_rule(model),
    ]
    if active is None:
        findings += _holds_descriptions(model)
    elif active.pk != model.pk:
        findings.append(_holds_active(model, active, max_queries))
    findings += [*_flips(model, active), *_on_outcomes(model), *_passes_cases(model)]
    return Verdict(model, active, tuple(findings), ahead=classifier_ahead(model), winner=winning_classifier(model))


def judge_for_the_record(model: RouterModel) -> Verdict:
    """`judge` in the installation's language: what a promotion or canary keeps of it is read by others than whoever asked for it."""
    with translation.override(settings.LANGUAGE_CODE):
        return judge(model)


def promote(model: RouterModel, *, actor: Who, reason: str = "", override: str = "") -> Promotion | PromotionRequest:
    """Promote the model if it passes, or if `override` says why it answers all the same; what the gate found is kept.

    Where promotions need a second person this only asks for it, and a PromotionRequest comes back: `trials.approve` does the rest.

    Page, command, API, admin and runs call this. Raises GateRefused, and RegistryError as `registry.promote` does.
    """
    override = override.strip()
    verdict = judge_for_the_record(model)
    if verdict.active and verdict.active.pk == model.pk:
        return registry.promote(model, actor=actor)  # refuses, and says so
    if not verdict.passed and not override:
        raise GateRefused(judge(model))
    if approvals.needed(model.pool):
        return approvals.ask(model, actor=actor, reason=reason, override=override)
    return _let_through(verdict, actor, reason, override)


def rollback(pool: Pool, kind: str = SET_ROUTER, *, actor: Who, reason: str = "", override: str = "") -> Promotion:
    """Go back to the model that was active before, if it holds the must-pass cases or `override` says why it answers all the same.

    Page, command and API call this. Raises GateRefused, and RegistryError as `registry.rollback` does.
    """
    override = override.strip()
    target = registry.rollback_target(pool, kind)
    if target is None:
        return registry.rollback(pool, kind, actor=actor)  # refuses, and says so
    active = registry.active(pool, kind)
    with translation.override(settings.LANGUAGE_CODE):
        verdict = Verdict(target, active, tuple(_passes_cases(target)))
    if not verdict.passed and not override:
        raise GateRefused(Verdict(target, active, tuple(_passes_cases(target))))
    with transaction.atomic():
        promotion = registry.rollback(pool, kind, actor=actor, reason=reason or override)
        _note_override(verdict, override, actor, {"for": "rollback"})
    return promotion


def approve(promotion_request: PromotionRequest, *, actor: Who, note: str = "") -> Promotion:
    """Promote what somebody else asked for, through the gate as it stands now; `trials.approve` calls it, where it is no canary.

    Raises RegistryError where the same person asked, where nobody is known to approve, and where it was decided meanwhile; GateRefused
    where the model no longer passes and the request has no override.
    """
    if promotion_request.share is not None:
        raise ValueError("This asks for a canary: trials.approve starts it.")
    verdict = judge_for_the_record(promotion_request.model)
    if not verdict.passed and not promotion_request.override:
        raise GateRefused(judge(promotion_request.model))
    with transaction.atomic():
        approvals.approved(promotion_request, actor=actor, note=note)
        promotion = _let_through(verdict, actor, promotion_request.reason, promotion_request.override)
        approvals.carried_out(promotion_request, promotion)
    return promotion


def _on_outcomes(model: RouterModel) -> list[Finding]:
    """What judged traffic says of it, where its scorecard has that beside what labels say."""
    difference = model.card.content.get("outcomes", {}).get("difference")
    if not difference:
        return []
    figures = {name: f"{value:+.2f}" for name, value in difference.items()}
    text = _("By judged episodes it earns %(mean)s beside the one-shot set, %(low)s to %(high)s.") % figures
    return [Finding("outcomes", difference["high"] >= 0, scorecards.as_in_tables(text))]


def _let_through(verdict: Verdict, actor: Who, reason: str, override: str) -> Promotion:
    """The promotion itself, with what the gate found. Raises RegistryError where the active model changed since it was judged."""
    model = verdict.model
    with transaction.atomic():
        promotion = registry.promote(model, actor=actor, reason=reason or override)
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
        _note_override(verdict, override, actor, {})
    return promotion


def _note_override(verdict: Verdict, reason: str, actor: Who, more: dict[str, str]) -> None:
    if not verdict.passed:
        detail = {"reason": reason[:400], "failed": [f.text for f in verdict.findings if f.passed is False], **more}
        audit.record("gate.overridden", actor=actor, target=verdict.model.name, pool=verdict.model.pool, detail=detail)


def winning_classifier(model: RouterModel) -> str:
    """Of its kind's classifiers, which have no policy, the best by the model's goal where it is surely above the model; else ""."""
    card, kind, standard = model.card, kinds.of(model.kind), scorecards.standard_of(model)
    means = {name: mean for name, mean in card.means(card.beside).items() if name in kind.classifiers}
    best = standard.best(means)
    if standard.measure not in card.figures or not best or not scorecards.enough(card):
        return ""
    lead = _lead(model, best)
    return best if lead is not None and lead.high < 0 else ""


def _lead(model: RouterModel, baseline: str) -> Interval | None:
    """The model's lead over a baseline by its goal, above 0 where it is better; None where that was not measured."""
    standard = scorecards.standard_of(model)
    return scorecards.lead_of(standard, model.card.lead(baseline, standard.measure))


def classifier_ahead(model: RouterModel) -> str:
    """A plain sentence where a classifier without any policy does better, else ""."""
    best, card, kind = winning_classifier(model), model.card, kinds.of(model.kind)
    measure, measured = scorecards.measure_of(model)
    if not best:
        return ""
    text = _("A plain classifier wins here: %(name)s has %(measured)s %(theirs).3f, this router %(ours).3f.") % {
        "name": kind.baseline(best),
        "measured": measured,
        "theirs": card.beside[best].metrics[measure].mean,
        "ours": card.figures[measure].mean,
    }
    return scorecards.as_in_tables(text)


# ---------------------------------------------------------------------------------------------------- what it looks at


def _on_test(model: RouterModel) -> Finding:
    card = model.card
    queries = card.queries
    if not card.metrics or not queries:
        return Finding("test", False, _("It came without a scorecard, so nothing was measured."))
    if card.measured_on != "test":
        return Finding(
            "test", False, _("It was measured on validation queries, which flatter: there are no test queries.")
        )
    measured = _("Measured on %(queries)d test queries.") % {"queries": queries}
    return Finding("test", True, measured + scorecards.by_llm(card))


def _keeps_limit(model: RouterModel) -> list[Finding]:
    """Whether the model keeps the limit of its goal; nothing for a goal without one."""
    card, standard = model.card, scorecards.standard_of(model)
    if not standard.limited:
        return []
    figure = card.figures[standard.limited]
    shown = {**figure.words(), "limit": standard.limit, "what": scorecards.LABELS[standard.limited]}
    detail = _("%(what)s: %(mean).3f (%(low).3f to %(high).3f), and the limit of the goal is %(limit)g.") % shown
    detail = scorecards.as_in_tables(detail)
    if standard.misses(figure.low, figure.high):
        return [Finding("limit", False, _("It misses the limit of its goal."), detail)]
    text = _("It keeps the limit of its goal.")
    if not standard.keeps(figure.mean):
        text = _("It may keep the limit of its goal.")
    return [Finding("limit", True, text, detail)]


def _out_of_limit(standard: Standard, mean: float | None) -> bool:
    """Whether a rival with that mean of the limited figure is none, as it misses the limit of the goal."""
    return bool(standard.limited) and (mean is None or not standard.keeps(mean))


def _beats_constant(model: RouterModel) -> Finding:
    card, kind, standard = model.card, kinds.of(model.kind), scorecards.standard_of(model)
    _measure, measured = scorecards.measure_of(model)
    whom = _("the %(name)s") % {"name": kind.baseline(kind.constant)}
    difference = _lead(model, kind.constant)
    if difference is not None:
        limited = card.beside[kind.constant].metrics.get(standard.limited)
        if _out_of_limit(standard, limited.mean if limited else None):
            return Finding(
                "constant",
                True,
                _("The %(name)s misses the limit of the goal.") % {"name": kind.baseline(kind.constant)},
            )
    if difference is None:
        return Finding(
            "constant", False, _("%(whom)s was not measured beside it.") % {"whom": whom[:1].upper() + whom[1:]}
        )
    passed = difference.bound > 0
    shown = {**difference.words(), "whom": whom, "measured": measured}
    text = _("Better than %(whom)s by %(mean).3f (%(low).3f to %(high).3f) %(measured)s.") % shown
    plain = _("It beats %(whom)s.")
    if not passed:
        text = _("Not shown to beat %(whom)s: %(mean)+.3f (%(low).3f to %(high).3f) %(measured)s.") % shown
        text += scorecards.by_bound(difference) + scorecards.would_tell(difference, 0.0, card.checked)
        plain = _("Not shown to beat %(whom)s.")
    detail = scorecards.as_in_tables(text) + scorecards.by_folds(card)
    return Finding("constant", passed, _said(plain, whom, card.checked), detail)


def _holds_baseline(model: RouterModel) -> Finding:
    card, kind = model.card, kinds.of(model.kind)
    _measure, measured = scorecards.measure_of(model)
    name = scorecards.best_baseline(model, without=kind.rules)
    if not name and card.beside and scorecards.standard_of(model).limited:
        return Finding("baseline", True, _("No baseline keeps the limit of the goal."))
    difference = _lead(model, name)
    if difference is None:
        return Finding("baseline", False, _("No baseline was measured beside it."))
    whom = _("the strongest baseline, %(name)s") % {"name": kind.baseline(name)}
    finding = _no_worse("baseline", whom, measured, difference, card.checked, tried(model))
    return replace(finding, detail=finding.detail + scorecards.by_folds(card))


def _holds_rule(model: RouterModel) -> list[Finding]:
    """Whether no other rule over its own scores is surely better than the one that answers; nothing where none was measured."""
    kind, card = kinds.of(model.kind), model.card
    _measure, measured = scorecards.measure_of(model)
    name = scorecards.best_baseline(model, without=card.beside.keys() - set(kind.rules))
    difference = _lead(model, name) if name else None
    if difference is None:
        return []
    shown = {**difference.words(), "name": kind.baseline(name), "measured": measured}
    detail = _("Beside %(name)s: %(mean)+.3f (%(low).3f to %(high).3f) %(measured)s.") % shown
    detail = scorecards.as_in_tables(detail) + scorecards.by_folds(card)
    if difference.high < 0:
        return [Finding("rule", False, _("Another rule is surely better: %(name)s.") % shown, detail)]
    return [Finding("rule", True, _("No other rule over its own scores is surely better."), detail)]


def _said(plain: str, whom: str, queries: int) -> str:
    """A finding as it may be said, without figures, which stand in `detail`: the verdict alone has some. Of too few queries it says
    that they are."""
    if queries >= scorecards.LEAST_CHECKED:
        return plain % {"whom": whom}
    return _("Compared with %(whom)s: %(few)s") % {"whom": whom, "few": _lower(scorecards.too_few(queries))}


def _lower(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]


def _holds_active(model: RouterModel, active: RouterModel, max_queries: int | None) -> Finding:
    kind = kinds.of(model.kind)
    measure, measured = scorecards.measure_of(model)
    compared = comparisons.between(model, active, max_queries=max_queries)
    if compared is None:
        if not kind.beside:
            text = _("Its scorecard, or that of the active model, %(name)s, lacks %(measured)s.")
            return Finding("active", False, text % {"name": active.name, "measured": measured})
        if comparisons.snapshot_for(model) is None:
            return Finding(
                "active", False, _("There is no test query to compare it with %(name)s.") % {"name": active.name}
            )
        text = _("The comparison with the active model, %(name)s, is measured when it is promoted.")
        return Finding("active", None, text % {"name": active.name})
    whom = _("the active model, %(name)s") % {"name": active.name}
    standard = scorecards.standard_of(model)
    if standard.limited:
        theirs = compared.figures[standard.limited]["theirs"]["mean"]
        if _out_of_limit(standard, theirs):
            return Finding(
                "active", True, _("The active model, %(name)s, misses the limit of the goal.") % {"name": active.name}
            )
    difference = scorecards.lead_of(standard, Interval.of(compared.figures[measure]["difference"]))
    assert difference is not None
    return _no_worse("active", whom, measured, difference, compared.queries, tried(model))


def _holds_descriptions(model: RouterModel) -> list[Finding]:
    """Whether the agents' descriptions, which answer until a first model is promoted, are not surely right more often; nothing where
    that was not measured on enough queries."""
    sentence = scorecards.descriptions(model.card)
    if not sentence:
        return []
    if scorecards.descriptions_are_better(model.card):
        return [
            Finding(
                DESCRIPTIONS, False, _("Worse than the agents' descriptions, which answer without a model."), sentence
            )
        ]
    return [Finding(DESCRIPTIONS, True, _("Not shown to be worse than the agents' descriptions."), sentence)]


def _flips(model: RouterModel, active: RouterModel | None) -> list[Finding]:
    """Whether the model changes agents in a conversation, though the labels do not, more often than the active one; nothing where no
    conversation was measured."""
    ours = scorecards.flip_rate(model)
    if ours is None:
        return []
    theirs = None if active is None or active.pk == model.pk else scorecards.flip_rate(active)
    shown = {"share": 100 * ours.mean, "low": 100 * ours.low, "high": 100 * ours.high}
    detail = _("Agents change in %(share).1f %% (%(low).1f to %(high).1f) of turns whose labels do not.") % shown
    if theirs is not None:
        detail += " " + _("Of the active model: %(share).1f %%.") % {"share": 100 * theirs.mean}
    detail = scorecards.as_in_tables(detail)
    if theirs is not None and ours.low > theirs.high:
        return [Finding("flips", False, _("It changes agents in conversations more often for no reason."), detail)]
    return [Finding("flips", True, _("It does not change agents in conversations for no reason more often."), detail)]


def _passes_cases(model: RouterModel) -> list[Finding]:
    """What the model makes of the pool's must-pass cases; nothing where there are none."""
    checked = cases.check(model)
    if not checked:
        return []
    return [Finding(CASES, not cases.broken(checked), cases.summary(checked))]


def cases_broken_by(model: RouterModel) -> str:
    """The must-pass cases that a model breaks, in a sentence that names them; "" where it breaks none or cannot be used."""
    try:
        return " ".join(finding.text for finding in _passes_cases(model) if not finding.passed)
    except registry.RegistryError:
        return ""


def tried(model: RouterModel) -> int:
    """How many models of its kind were measured on mostly the same test queries as this one; at least 1.

    A query's split is permanent, so a pool's test split only grows: of two snapshots the smaller one's test queries stand in the
    larger one's too, but for what was deleted since. From half as many on, the better part of the larger is shared.
    """
    snapshot = comparisons.snapshot_for(model)
    if snapshot is None:
        return 1
    size = snapshot.split_sizes["test"]
    alike = model.pool.models.filter(
        kind=model.kind, run__snapshot__split_sizes__test__gte=size / 2, run__snapshot__split_sizes__test__lte=2 * size
    )
    return max(1, alike.count())


def _no_worse(check: str, whom: str, measured: str, difference: Interval, queries: int, models: int) -> Finding:
    margin = settings.PROMOTION_MARGIN
    passed = difference.bound > -margin
    shown = {**difference.words(), "whom": whom, "margin": margin, "models": models, "measured": measured}
    if _chosen_among(difference, models) > 0:
        text = _("Better than %(whom)s, by %(mean).3f (%(low).3f to %(high).3f) %(measured)s.") % shown
    elif difference.high < 0:
        text = _("Worse than %(whom)s: %(mean)+.3f (%(low).3f to %(high).3f) %(measured)s.") % shown
    elif difference.bound > 0:
        text = (
            _(
                "No worse than %(whom)s: %(mean)+.3f (%(low).3f to %(high).3f) %(measured)s. Alone that would count as better, but "
                "it is one of %(models)d models measured on these test queries: the best of so many equal ones often looks better."
            )
            % shown
        )
    elif passed:
        text = (
            _("No worse than %(whom)s by more than %(margin).3f: %(mean)+.3f (%(low).3f to %(high).3f) %(measured)s.")
            % shown
        )
    else:
        text = (
            _(
                "May be worse than %(whom)s by more than %(margin).3f: %(mean)+.3f (%(low).3f to %(high).3f) %(measured)s."
            )
            % shown
        )
    if difference.high >= 0:
        text += scorecards.by_bound(difference)
        if not passed:
            text += scorecards.would_tell(difference, -margin, queries)
    plain = _("No worse than %(whom)s.") if passed else _("Not shown to be as good as %(whom)s.")
    if not passed and difference.high < 0:
        plain = _("Worse than %(whom)s.")
    return Finding(check, passed, _said(plain, whom, queries), scorecards.as_in_tables(text))


def _chosen_among(difference: Interval, models: int) -> float:
    """The lower bound at the level that holds for the best of so many models (Šidák 1967), from the 95 % one by the
    normal quantiles."""
    quantile = NormalDist().inv_cdf((1 + 0.95 ** (1 / models)) / 2)
    return difference.mean - (difference.mean - difference.bound) * quantile / Z
