"""The gate: what passes, what is refused and why, what an override keeps, and that every door leads through it."""

import json
import re
from collections.abc import Callable
from io import StringIO
from types import SimpleNamespace

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse

from agents_app.models import AuditEntry
from datasets_app.models import Snapshot
from tests.at_once import at_once
from tests.clients import signed_in
from tests.training_app.told import artifact
from tests.training_app.words import PERFECT, WEAK, card, interval
from training_app.engine.judging.standard import standard_of
from training_app.models import Comparison, Judgement, Promotion, RouterModel
from training_app.training import runs
from training_app.versions import comparisons, gate, registry, scorecards

Make = Callable[..., RouterModel]
MODEL = "support-2"


@pytest.fixture
def weak_active(word_model: Make) -> RouterModel:
    model = word_model(WEAK)
    gate.promote(model, actor=None)
    return model


@pytest.fixture
def strong_active(word_model: Make) -> RouterModel:
    model = word_model(PERFECT)
    gate.promote(model, actor=None)
    return model


def failed(model: RouterModel) -> list[str]:
    return [finding.check for finding in gate.judge(model).findings if finding.passed is False]


# ---------------------------------------------------------------------------------------------------- what it finds


@pytest.mark.parametrize(
    ("scorecard", "checks"),
    [
        (card(), []),
        (card(constant=0.0), ["constant"]),
        (card(constant=0.001), []),
        (card(baseline=-0.019), []),
        (card(baseline=-0.02), ["baseline"]),
        (card(measured_on="val"), ["test"]),
        (card(queries=0), ["test"]),
        ({}, ["test", "constant", "baseline"]),
        ({**card(), "baselines": {}, "best_baseline": None}, ["constant", "baseline"]),
    ],
)
def test_a_scorecard_must_show_it(weak_active: RouterModel, word_model: Make, scorecard: dict, checks: list) -> None:
    assert failed(word_model(PERFECT, scorecard)) == checks


def test_the_gate_goes_by_its_bound_and_names_it(weak_active: RouterModel, word_model: Make) -> None:
    """What is shown as a 95 % interval may lie above the margin where the bound does not."""
    scorecard = card(baseline=-0.01)
    scorecard["baselines"][scorecard["best_baseline"]]["difference"]["jaccard"]["bound"] = -0.021
    model = word_model(PERFECT, scorecard)
    assert failed(model) == ["baseline"]
    text = next(finding.detail for finding in gate.judge(model).findings if finding.check == "baseline")
    assert text.startswith("May be worse than")
    assert "(−0.010 to" in text
    said = "The gate goes by −0.021 at worst, as it counts what these queries have not shown."
    assert said in text
    assert said in scorecards.verdict(model)
    assert said not in " ".join(finding.detail for finding in gate.judge(word_model(PERFECT, card())).findings)


@pytest.mark.parametrize(
    ("low", "high", "checks"), [(-0.034, 0.032, []), (-0.034, 0.0, []), (-0.034, -0.001, ["rule"])]
)
def test_another_rule_over_its_own_scores_speaks_against_a_model_only_where_it_is_surely_better(
    weak_active: RouterModel, word_model: Make, low: float, high: float, checks: list
) -> None:
    scorecard = card()
    best = interval(0.98, 1.0)
    scorecard["baselines"]["threshold"] = {
        "metrics": scorecard["baselines"]["svm"]["metrics"] | {"jaccard": best},
        "difference": {"jaccard": interval(low, high)},
    }
    model = word_model(PERFECT, scorecard)
    assert scorecards.best_baseline(model) == "threshold"
    assert failed(model) == checks
    findings = {finding.check: finding for finding in gate.judge(model).findings}
    assert "linear SVM" in findings["baseline"].detail, "the strongest that is no rule of its own"
    assert "its own scores, one threshold" in findings["rule"].detail


def test_the_margin_is_a_setting(weak_active: RouterModel, word_model: Make, settings) -> None:
    model = word_model(PERFECT, card(baseline=-0.05))
    assert failed(model) == ["baseline"]
    settings.PROMOTION_MARGIN = 0.06
    assert failed(model) == []


def test_a_weaker_model_does_not_replace_a_better_one(strong_active: RouterModel, word_model: Make) -> None:
    model = word_model(WEAK)
    assert failed(model) == ["active"]
    with pytest.raises(
        gate.GateRefused,
        match=r"not pass the gate\. Compared with the active model, support-1: too few answers to judge",
    ):
        gate.promote(model, actor=None)
    assert registry.active(model.pool) == strong_active
    assert not Judgement.objects.filter(promotion__model=model).exists()


def test_a_better_model_replaces_a_weaker_one(weak_active: RouterModel, word_model: Make) -> None:
    model = word_model(PERFECT)
    promotion = gate.promote(model, actor=None, reason="better")
    assert (promotion.kind, promotion.reason, promotion.judgement.passed) == ("promotion", "better", True)
    last = promotion.judgement.findings[-1]
    assert (
        last["text"]
        == "Compared with the active model, support-1: too few answers to judge: 18 checked. Check 32 more."
    )
    assert last["detail"].startswith("Better than the active model, support-1, by ")


def test_the_first_model_passes_and_is_recorded_as_the_first(word_model: Make) -> None:
    promotion = gate.promote(word_model(WEAK, {}), actor=None)
    assert (promotion.kind, promotion.judgement.passed, promotion.judgement.override) == ("first", True, "")
    assert [finding["passed"] for finding in promotion.judgement.findings] == [False, False, False]


def test_a_plain_classifier_that_wins_is_named(weak_active: RouterModel, word_model: Make) -> None:
    behind, level = word_model(PERFECT, card(svm=0.95, baseline=-0.07)), word_model(PERFECT, card(svm=0.91))
    assert gate.judge(behind).ahead == "A plain classifier wins here: linear SVM has Jaccard 0.950, this router 0.900."
    assert gate.judge(level).ahead == "", "a lead that may be chance is none"


def test_the_page_leads_to_the_classifier_as_a_model(snapshot: Snapshot, word_model: Make, browser: Client) -> None:
    run = runs.launch(
        snapshot.pool, snapshot=snapshot, config={"total_steps": 60, "svm_c": 2}, promote=True, queue=False
    )
    attempt = runs.claim(run.pk)
    assert attempt
    version = runs.finish(run.pk, attempt, json.dumps(PERFECT).encode(), card(svm=0.95, baseline=-0.07)).version
    registry.promote(word_model(WEAK), actor=None)
    page = browser.get(reverse("model", args=["support", version])).content.decode()
    address = f"{reverse('run_new', args=['support'])}?from={run.pk}&amp;snapshot={snapshot.pk}&amp;classifier=svm"
    assert address in page
    form = browser.get(address.replace("&amp;", "&")).context["form"]
    shown = {name: form[name].value() for name in ("recipe", "promote", "snapshot", "svm_c")}
    assert shown == {"recipe": "classifier", "promote": False, "snapshot": snapshot.pk, "svm_c": 2.0}
    assert "classifier" not in form.fields, "which is an SVM unless the address says another"
    other = browser.get(address.replace("&amp;", "&").replace("=svm", "=logreg")).context["form"]
    assert other["classifier"].value() == "logreg"


def by_folds(low: float) -> dict:
    """What cross-validation says: the lead over an SVM begins at `low`, that over the rule which answers lies below."""
    figures = card(baseline=low)
    beside = {**figures["baselines"], "bayes": card(svm=0.95, baseline=-0.5)["baselines"]["svm"]}
    return {"queries": 140, "folds": 5, "metrics": figures["metrics"], "baselines": beside}


@pytest.mark.parametrize(("low", "checks"), [(0.01, []), (-0.03, ["baseline"])])
def test_a_small_test_split_gives_way_to_cross_validation(
    weak_active: RouterModel, word_model: Make, low: float, checks: list
) -> None:
    few = {"decision": {"rule": "bayes", "why": "few", "goal": "jaccard"}, "cross_validated": by_folds(low)}
    model = word_model(PERFECT, card(constant=-0.1, baseline=-0.01 if checks else -0.3, **few))
    assert failed(model) == checks
    said = {finding.check: finding.detail for finding in gate.judge(model).findings}
    assert said["baseline"].endswith(
        " By cross-validation in 5 folds of the 140 labeled queries, as 60 test queries are few."
    )
    assert "linear SVM" in said["baseline"]
    assert "By cross-validation" not in said["active"]


def test_the_page_shows_cross_validation(word_model: Make, browser: Client) -> None:
    model = word_model(
        PERFECT, card(cross_validated=by_folds(0.01), decision={"rule": "bayes", "why": "few", "goal": "jaccard"})
    )
    page = browser.get(reverse("model", args=["support", model.version])).content.decode()
    assert "By cross-validation in 5 folds of all 140 labeled queries: Jaccard 0.900 (0.850 to 0.950)" in page
    assert "lead over the best baseline, linear SVM: +0.030 (+0.010 to +0.050)" in page


def test_the_model_and_home_say_what_more_labels_should_bring(word_model: Make, browser: Client) -> None:
    points = [{"labels": 20, "jaccard": 0.5}, {"labels": 80, "jaccard": 0.7}]
    coming = {"labels": 100, "points": points, "more": 100, "gain": {"mean": 0.042, "low": 0.01, "high": 0.08}}
    coming["right"] = {"more": 60, "gain": {"mean": 0.09, "low": 0.04, "high": 0.14}}
    model = word_model(PERFECT, card(next_labels=coming))
    registry.promote(model, actor=None)
    said = "60 more labels: about 9 more of 100 right (4 to 14)."
    page = browser.get(reverse("model", args=["support", model.version]))
    assert said in page.content.decode()
    assert page.context["learning"]["datasets"][0]["data"] == [0.5, 0.7]
    assert said in browser.get(reverse("home")).content.decode()


# ---------------------------------------------------------------------------------------------------- measured on the same queries


def test_both_are_measured_on_the_same_test_queries(weak_active: RouterModel, word_model: Make) -> None:
    compared = comparisons.between(word_model(PERFECT), weak_active)
    assert compared
    figures = compared.figures["jaccard"]
    # Of nine queries a variant: three need nothing; Technical is missed alone once and beside another agent twice.
    assert compared.queries == 18
    assert figures["ours"]["mean"] == 1
    assert figures["theirs"]["mean"] == pytest.approx((6 + 0 + 2 * 0.5) / 9)
    assert figures["difference"]["mean"] == pytest.approx(2 / 9)
    assert figures["difference"]["low"] > 0


def test_it_is_measured_once(weak_active: RouterModel, word_model: Make, django_assert_num_queries: Callable) -> None:
    model = word_model(PERFECT)
    first = comparisons.between(model, weak_active)
    with django_assert_num_queries(3):
        assert comparisons.between(model, weak_active) == first


@pytest.mark.both_databases
def test_two_that_measure_at_once_keep_one(transactional_db: None, word_model: Make) -> None:
    one, other = word_model(PERFECT), word_model(WEAK)
    found = at_once(4, lambda _number: comparisons.between(one, other))
    assert {type(row) for row in found} == {Comparison}
    assert Comparison.objects.count() == 1


def test_a_page_leaves_a_long_measurement_to_the_promotion(weak_active: RouterModel, word_model: Make) -> None:
    model = word_model(PERFECT)
    verdict = gate.judge(model, max_queries=17)
    assert [finding.passed for finding in verdict.findings] == [True, True, True, None]
    assert verdict.passed
    assert not Comparison.objects.exists()
    assert gate.judge(model, max_queries=18).findings[-1].passed is True
    assert not Comparison.objects.exists(), "a page that measures writes nothing"


def test_without_a_test_query_it_is_not_promoted(weak_active: RouterModel, word_model: Make) -> None:
    Snapshot.objects.update(split_sizes={"train": 1, "val": 1})
    assert failed(word_model(PERFECT)) == ["active"]


def test_a_run_measures_at_its_end(weak_active: RouterModel, snapshot: Snapshot, training: SimpleNamespace) -> None:
    """The job measures before it registers, so that no transaction stays open meanwhile."""
    run = runs.launch(snapshot.pool, snapshot=snapshot, queue=False, promote=True)
    attempt = runs.claim(run.pk)
    assert attempt
    measured = comparisons.Measured(
        weak_active.pk, 18, {"jaccard": {"difference": {"mean": -0.2, "low": -0.3, "high": -0.1}}}
    )

    model = runs.finish(run.pk, attempt, artifact(), card(), measured)
    run.refresh_from_db()
    last = run.events.order_by("pk").last()
    assert last
    assert (run.status, model.state) == ("done", "candidate")
    assert last.message.startswith(
        "Done: support-2, not promoted. support-2 does not pass the gate. Compared with the active"
    )
    assert registry.active(run.pool) == weak_active


@pytest.mark.parametrize(("queries", "counted"), [(18, 2), (30, 2), (36, 2), (9, 2), (37, 1), (8, 1)])
def test_models_measured_on_mostly_the_same_queries_are_counted(
    snapshot: Snapshot, training: SimpleNamespace, queries: int, counted: int
) -> None:
    """A test split only grows, so 18 queries of an earlier snapshot stand among the 30 of a later one."""

    made = []
    for number, size in enumerate((18, queries), start=50):
        copy = Snapshot(pool=snapshot.pool, number=number, digest=f"{number}", roster=snapshot.roster, rows=40)
        copy.split_sizes = {"train": 10, "val": 10, "test": size}
        copy.save()
        run = runs.launch(snapshot.pool, snapshot=copy, queue=False)
        attempt = runs.claim(run.pk)
        assert attempt
        made.append(runs.finish(run.pk, attempt, artifact(), card(), None))
    assert [gate.tried(model) for model in made] == [counted, counted]


# ---------------------------------------------------------------------------------------------------- overriding it


def test_an_override_is_kept_with_what_it_overrode(strong_active: RouterModel, word_model: Make, ops: User) -> None:
    model = word_model(WEAK)
    promotion = gate.promote(model, actor=ops, override="  the strong one is too slow  ")
    assert registry.active(model.pool) == model
    assert (promotion.judgement.passed, promotion.judgement.override) == (False, "the strong one is too slow")
    entry = AuditEntry.objects.get(action="gate.overridden")
    assert (entry.actor, entry.target, entry.detail["reason"]) == (ops, MODEL, "the strong one is too slow")
    assert entry.detail["failed"][0].startswith("Compared with the active model")


def test_blanks_are_no_reason(strong_active: RouterModel, word_model: Make) -> None:
    with pytest.raises(gate.GateRefused):
        gate.promote(word_model(WEAK), actor=None, override="  ")


def test_an_override_that_was_not_needed_is_none(weak_active: RouterModel, word_model: Make) -> None:
    promotion = gate.promote(word_model(PERFECT), actor=None, override="just in case")
    assert (promotion.judgement.passed, promotion.judgement.override) == (True, "")
    assert not AuditEntry.objects.filter(action="gate.overridden").exists()


def test_a_verdict_on_a_model_that_is_not_active_any_more_does_not_count(
    weak_active: RouterModel, word_model: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, rival = word_model(PERFECT), word_model(PERFECT)
    judged = gate.judge(model)
    registry.promote(rival, actor=None)
    monkeypatch.setattr(gate, "judge", lambda model: judged)
    with pytest.raises(registry.RegistryError, match="just changed"):
        gate.promote(model, actor=None)
    assert registry.active(model.pool) == rival
    assert Promotion.objects.count() == 2


# ---------------------------------------------------------------------------------------------------- every door


def test_the_page_shows_the_findings_and_asks_for_the_reason(
    strong_active: RouterModel, word_model: Make, browser: Client
) -> None:
    word_model(WEAK, card(svm=0.95, baseline=-0.07))
    path = reverse("model", args=["support", 2])
    page = browser.get(path).content.decode()
    assert "Worse than the active model, support-1" in page
    assert "A plain classifier wins here" in page
    assert 'name="override"' in page
    page = browser.post(reverse("model_promote", args=["support", 2]), follow=True).content.decode()
    assert "does not pass the gate" in page
    browser.post(reverse("model_promote", args=["support", 2]), {"override": "cheaper to run"})
    assert registry.active(strong_active.pool) != strong_active
    page = browser.get(path).content.decode()
    assert "cheaper to run" in page
    assert "The gate was overridden" in page


def test_the_page_speaks_german_and_what_is_kept_is_in_the_installations_language(
    strong_active: RouterModel, word_model: Make, browser: Client
) -> None:
    model = word_model(WEAK, card(svm=0.95, baseline=-0.07))
    german = {"Accept-Language": "de"}
    page = browser.get(reverse("model", args=["support", 2]), headers=german).text
    assert "Ohne Begründung lässt die Freigabeprüfung es nicht durch." in page
    assert re.search(r"Schlechter als das aktive Modell, support-1: −\d,\d{3} \(−\d,\d{3} bis −\d,\d{3}\)", page)
    path = reverse("model_promote", args=["support", 2])
    assert "support-2 besteht die Freigabeprüfung nicht." in browser.post(path, headers=german, follow=True).text
    browser.post(path, {"override": "billiger"}, headers=german)
    kept = Judgement.objects.get(promotion__model=model)
    assert any("Worse than the active model" in finding["detail"] for finding in kept.findings)
    assert "aktive" not in str(AuditEntry.objects.get(action="gate.overridden").detail["failed"])


def test_the_page_of_a_model_that_passes_asks_for_no_reason(
    weak_active: RouterModel, word_model: Make, browser: Client
) -> None:
    word_model(PERFECT)
    page = browser.get(reverse("model", args=["support", 2])).content.decode()
    assert "It may be promoted." in page
    assert 'name="override"' not in page


def test_the_command_refuses_and_takes_an_override(strong_active: RouterModel, word_model: Make) -> None:
    word_model(WEAK)
    with pytest.raises(CommandError, match=r"does not pass the gate.*--override"):
        call_command("promote", MODEL, stdout=StringIO())
    out = StringIO()
    call_command("promote", MODEL, "--override", "an experiment", stdout=out)
    assert "support-2 answers now instead of support-1" in out.getvalue()


def test_the_admin_refuses_too(strong_active: RouterModel, word_model: Make, django_user_model: type[User]) -> None:
    root = signed_in(django_user_model.objects.create_superuser("root"))
    model = word_model(WEAK)
    path = reverse("admin:training_app_routermodel_changelist")
    answer = root.post(path, {"action": "make_active", "_selected_action": [model.pk]}, follow=True)
    assert "does not pass the gate" in " ".join(str(message) for message in answer.context["messages"])
    assert registry.active(model.pool) == strong_active


def test_findings_are_said_without_figures_which_engineers_find_in_the_detail(
    weak_active: RouterModel, word_model: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scorecards, "LEAST_CHECKED", 18)
    found = gate.judge(word_model(PERFECT, card(constant=-0.1))).findings
    assert [finding.text for finding in found[1:]] == [
        "Not shown to beat the best constant set.",
        "No worse than the strongest baseline, linear SVM.",
        "No worse than the active model, support-1.",
    ]
    assert found[1].detail.startswith("Not shown to beat the best constant set: −0.080 (−0.100 to −0.060) Jaccard.")


@pytest.mark.parametrize(("goal", "checks", "against"), [("jaccard", ["baseline"], "svm"), ("f1", [], "logreg")])
def test_a_model_is_judged_by_the_goal_of_its_run(word_model: Make, goal: str, checks: list, against: str) -> None:
    """Its lead in Jaccard fails and its lead in F1 passes; by F1 another baseline is the strongest."""
    content = card(decision={"rule": "bayes", "why": "asked", "goal": goal})
    leads = {"jaccard": interval(-0.09, -0.05), "f1": interval(0.01, 0.05)}
    strong = {**content["baselines"]["svm"]["metrics"], "f1": interval(0.87, 0.89)}
    content["baselines"] |= {
        "constant": {**content["baselines"]["constant"], "difference": dict.fromkeys(leads, interval(0.3, 0.4))},
        "svm": {**content["baselines"]["svm"], "difference": leads},
        "logreg": {"metrics": strong | {"f1": interval(0.88, 0.92)}, "difference": leads},
    }
    model = word_model(PERFECT, content)
    assert failed(model) == checks
    assert scorecards.best_baseline(model) == against
    detail = gate.judge(model).findings[2].detail
    assert ("F1" in detail, "Jaccard" in detail) == (goal == "f1", goal == "jaccard")


def by_recall(recall: float, size: float, svm_recall: float, svm_size: float) -> dict:
    """The card of a model with goal recall, floor 0.95, beside a linear SVM; the lead in size is known to a tenth of an agent."""

    def around(mean: float) -> dict:
        return interval(mean - 0.02, mean + 0.02)

    content = card(decision={"rule": "bayes", "why": "asked", "goal": "recall"})
    content["standard"] = standard_of({"goal": "recall", "recall_floor": 0.95}).plain()
    content["metrics"] |= {"needed_recall": around(recall), "set_size": around(size)}
    for name, other_recall, other_size in (("svm", svm_recall, svm_size), ("constant", 0.97, 3.0)):
        beside = content["baselines"][name]
        beside["metrics"] |= {"needed_recall": around(other_recall), "set_size": around(other_size)}
        beside["difference"] |= {"set_size": interval(size - other_size - 0.1, size - other_size + 0.1)}
    return content


@pytest.mark.parametrize(
    ("figures", "checks"),
    [
        ((0.95, 1.4, 0.97, 1.6), []),  # keeps the floor with fewer agents
        ((0.95, 1.6, 0.97, 1.4), ["baseline"]),  # keeps it with more
        ((0.95, 1.6, 0.90, 1.4), []),  # the SVM takes fewer and misses the floor: no rival
        ((0.92, 1.2, 0.97, 1.6), ["limit"]),  # misses it for sure
        ((0.94, 1.2, 0.97, 1.6), []),  # may keep it
    ],
)
def test_recall_keeps_its_floor_first_and_then_takes_few_agents(word_model: Make, figures: tuple, checks: list) -> None:
    assert failed(word_model(PERFECT, by_recall(*figures))) == checks


def test_value_is_judged_by_value(word_model: Make) -> None:
    content = card(-0.1, -0.1, standard=standard_of({"goal": "value"}).plain())
    content["metrics"] |= {"value": interval(0.4, 0.5)}
    for beside in content["baselines"].values():
        beside["metrics"] |= {"value": interval(0.3, 0.4)}
        beside["difference"] |= {"value": interval(0.05, 0.15)}
    model = word_model(PERFECT, content)
    assert failed(model) == []
    assert "Value" in gate.judge(model).findings[1].detail
