"""Runs side by side: what differs, the curves over each other, and differences measured on the same queries."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from agents_app import pools
from datasets_app.labels import snapshots
from datasets_app.models import Snapshot, SplitGroup
from tests.clients import signed_in
from tests.training_app.words import PERFECT, WEAK, WordRouter, card
from training_app.models import RouterModel, Run, RunEvent
from training_app.training import runs
from training_app.versions import comparisons, gate, headlines, scorecards, verdict

Trained = Callable[..., Run]


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch, snapshot: Snapshot) -> Trained:
    """A run that is done, with its curves and a model that answers by words."""
    monkeypatch.setattr("training_app.engine.routing.router.Router", WordRouter)

    def make(words: dict[str, int] | None, *, on: Snapshot = snapshot, **config: object) -> Run:
        run = runs.launch(on.pool, snapshot=on, config=config, queue=False)
        attempt = runs.claim(run.pk)
        assert attempt
        points = [RunEvent(run=run, step=step, metrics={"val_jaccard": step / 10, "loss": 0.1}) for step in (1, 2)]
        runs.report(run.pk, attempt, points, phase="policy", step=2, total=2, metrics={})
        if words is not None:
            best = {"best_validation": {"val_jaccard": 0.75}}
            runs.finish(run.pk, attempt, json.dumps(words).encode(), card(**best))
        return run

    return make


def compare(browser: Client, *found: Run | int | str):
    keys = [run.pk if isinstance(run, Run) else run for run in found]
    return browser.get(reverse("run_compare", args=["support"]), {"run": keys}, follow=True)


def test_of_too_few_queries_there_is_neither_a_figure_nor_a_difference(trained: Trained, browser: Client) -> None:
    answer = compare(browser, trained(WEAK), trained(PERFECT))
    assert answer.context["compared"][0]["figures"] is None
    page = answer.content.decode()
    assert "Too few answers to judge: 18 checked. Check 32 more." in page
    assert "This model is better" not in page


def test_differences_are_from_the_first_run(trained: Trained, browser: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scorecards, "LEAST_CHECKED", 18)
    weak, strong = trained(WEAK, gamma=0.5), trained(PERFECT, gamma=0.5, hidden_layers="8")
    answer = compare(browser, weak, strong)
    row = answer.context["compared"][0]
    assert row["run"] == strong
    assert row["figures"]["jaccard"]["difference"]["mean"] == pytest.approx(2 / 9)
    assert compare(browser, strong, weak).context["compared"][0]["figures"]["jaccard"]["difference"][
        "mean"
    ] == pytest.approx(-2 / 9)
    assert answer.context["settings"] == [("hidden_layers", [[32, 32], [8]])]
    page = answer.content.decode()
    assert "0.750" in page
    assert (
        "On 18 queries that neither was trained on, 100 of 100 exactly right; support-1: 67. This model is better."
        in page
    )


def test_curves_lie_over_each_other(trained: Trained, browser: Client) -> None:
    first, second = trained(WEAK), trained(None)
    charts = {chart["id"]: chart["content"] for chart in compare(browser, first, second).context["charts"]}
    assert set(charts) == {"overlay-val_jaccard", "overlay-loss"}
    drawn = charts["overlay-val_jaccard"]
    assert drawn["labels"] == [1, 2]
    assert [one["label"] for one in drawn["datasets"]] == [f"Run {first.pk}", f"Run {second.pk}"]
    assert drawn["datasets"][0]["data"] == [0.1, 0.2]


def test_a_run_without_a_model_says_why_there_is_no_difference(trained: Trained, browser: Client) -> None:
    answer = compare(browser, trained(WEAK), trained(None), trained(PERFECT))
    assert [row["why"][:7] for row in answer.context["compared"]] == ["One of ", "Too few"]
    assert "One of the two has made no model." in answer.content.decode()


def test_a_long_test_split_is_not_measured_on_a_page(
    trained: Trained, browser: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "PAGE_QUERIES", 17)
    assert "too many to measure on a page" in compare(browser, trained(WEAK), trained(PERFECT)).content.decode()


def test_different_snapshots_are_told(trained: Trained, snapshot: Snapshot, browser: Client) -> None:
    first = trained(WEAK)
    assert "do not compare" not in compare(browser, first, trained(WEAK)).content.decode()
    SplitGroup.objects.filter(split="val").update(split="test")
    # Two queries stay in validation, as a run needs some.
    group = SplitGroup.objects.filter(split="test").first()
    SplitGroup.objects.filter(pk=group.pk).update(split="val")
    other = snapshots.take(snapshot.pool)
    assert "do not compare" in compare(browser, first, trained(WEAK, on=other)).content.decode()


@pytest.mark.parametrize("count", [0, 1, 5])
def test_two_to_four_are_compared(trained: Trained, browser: Client, count: int) -> None:
    found = [trained(None) for _number in range(count)]
    assert "Choose two to four runs" in compare(browser, *found).content.decode()


def test_what_is_no_run_of_the_pool_is_left_out(trained: Trained, browser: Client) -> None:
    one, other = trained(WEAK), trained(PERFECT)
    answer = compare(browser, one, "x", 999, other, one, "9" * 30)
    assert [column["run"] for column in answer.context["columns"]] == [one, other]
    Run.objects.filter(pk=other.pk).update(pool=pools.create_pool("Sales", "sales", actor=None))
    assert "Choose two to four runs" in compare(browser, one, other).content.decode()


def test_only_ops_compare(trained: Trained, person: Callable[..., User]) -> None:
    client = signed_in(person("reviewer"))
    assert compare(client, trained(WEAK), trained(WEAK)).status_code == 403


def test_the_list_has_a_box_for_each_run(trained: Trained, browser: Client) -> None:
    run = trained(WEAK)
    page = browser.get(reverse("runs", args=["support"])).content.decode()
    assert f'type="checkbox" name="run" value="{run.pk}" aria-label="Compare run {run.pk}"' in page
    assert reverse("run_compare", args=["support"]) in page


def cross_validated(wrong: int, *, first: int = 0, queries: int = 80) -> dict[str, Any]:
    """A scorecard's part: of so many queries, from the `first` on, those below `wrong` got nothing, the others what they need."""
    needed = {f"{number:016x}": [number % 2] for number in range(first, first + queries)}
    answers = {key: [sets, [] if int(key, 16) < wrong else sets] for key, sets in needed.items()}
    right = 1 - sum(not chosen for _sets, chosen in answers.values()) / queries
    figures = {name: {"mean": right, "low": right - 0.05, "high": right + 0.05} for name in ("exact", "jaccard")}
    return {"queries": queries, "folds": 5, "metrics": figures, "baselines": {}, "answers": answers}


@pytest.mark.parametrize(
    ("first", "wrong", "conclusion", "right"),
    [(0, 0, "better", 100), (0, 24, "close", 70), (0, 23, "close", 71), (30, 0, "better", 100), (31, 0, None, None)],
)
def test_small_pools_compare_two_models_on_the_labels_that_both_were_cross_validated_on(
    make_model: Callable[..., RouterModel], first: int, wrong: int, conclusion: str | None, right: int | None
) -> None:
    active = make_model({**card(), "cross_validated": cross_validated(24 if first == 0 else 60)})
    gate.promote(active, actor=None, override="first")
    model = make_model({**card(), "cross_validated": cross_validated(wrong, first=first)})
    judged = verdict.of(model)
    assert judged is not None
    listed = verdict.for_list(headlines.with_headlines([model, active]))
    if conclusion is None:
        assert judged.beside is None
        assert listed[0].verdict.beside is None
        return
    assert judged.beside is not None
    assert (judged.beside.conclusion, verdict.of_100(judged.beside.ours)["n"]) == (conclusion, right)
    assert judged.beside.queries == 80 - first
    assert [each.verdict.beside for each in listed] == [judged.beside, None]
    assert "on the labeled queries that both were checked on" in verdict.how_compared(listed, None)
    (finding,) = (each for each in gate.judge(model).findings if each.check == "active")
    assert finding.passed or conclusion != "better"
    assert "few" not in finding.text


def test_two_models_that_were_judged_in_different_numbers_of_folds_are_not_compared_by_them(
    make_model: Callable[..., RouterModel],
) -> None:
    """In three folds a router learns from two thirds of the labels, in five from four fifths: it looks worse for that alone."""
    active = make_model({**card(), "cross_validated": cross_validated(16)})
    gate.promote(active, actor=None, override="first")
    model = make_model({**card(), "cross_validated": {**cross_validated(24), "folds": 3}})
    judged, (listed, _) = verdict.of(model), verdict.for_list(headlines.with_headlines([model, active]))
    assert comparisons.by_folds(model, active) is None
    assert judged is not None
    assert judged.beside is None
    assert listed.verdict.beside is None
