"""Who answered until now beside a model on the same queries."""

import pytest

from agents_app import allowed_sets, pools
from datasets_app.labels import snapshots
from datasets_app.models import Query, TracedTurn
from tests.training_app.served import artifact
from training_app.engine.judging import folds
from training_app.engine.reading import sentences
from training_app.engine.reading.descriptions import Descriptions
from training_app.engine.routing.allowed import Rules
from training_app.engine.routing.router import Router
from training_app.models.scorecards import Card
from training_app.versions import gate, handoffs, registry, scorecards

pytestmark = pytest.mark.django_db


def test_the_figures_are_those_of_the_test_queries_that_traces_have(labeled, fresh_process) -> None:
    snapshot = snapshots.take(labeled)
    content = artifact((0, "Billing"), (1, "Shipping"), (2, "Technical"))
    assert handoffs.measure(content, snapshot) is None
    test = [one for one in snapshots.examples(snapshot) if one.split == "test"]
    for place, example in enumerate(test):
        query = Query.objects.get(dataset__pool=labeled, text=str(example.text))
        right = sorted(example.required)
        agents = right if place % 2 else sorted({0, 1, 2} - set(right))
        TracedTurn.objects.create(
            pool=labeled, query=query, trace=str(place), place="", source="x", agents=agents, at=query.created_at
        )
    answered = [one for place, one in enumerate(test) if (one.required if place % 2 else {0, 1, 2} - one.required)]
    figures = handoffs.measure(content, snapshot)
    assert figures is not None
    assert figures["queries"] == len(answered) > 0
    exact = sum(one.required == frozenset(TracedTurn.objects.get(query__text=str(one.text)).agents) for one in answered)
    assert figures["metrics"]["exact"]["mean"] == pytest.approx(exact / len(answered))


def test_few_test_queries_leave_it_to_all_that_were_cross_validated(labeled, fresh_process) -> None:
    snapshot = snapshots.take(labeled)
    examples = list(snapshots.examples(snapshot))
    answers = {}
    for place, example in enumerate(examples):
        query = Query.objects.get(dataset__pool=labeled, text=str(example.text))
        right, wrong = sorted(example.required), sorted({0, 1, 2} - example.required)
        answers[folds.key_of(example)] = [right, wrong if place % 5 == 0 else right]
        TracedTurn.objects.create(
            pool=labeled,
            query=query,
            trace=str(place),
            place="",
            source="x",
            agents=(wrong if place % 2 else right) or [2],
            at=query.created_at,
        )
    content = artifact((0, "Billing"), (1, "Shipping"), (2, "Technical"))
    figures = handoffs.measure(content, snapshot, {"answers": answers})
    assert figures is not None
    assert figures["queries"] == len(examples) > sum(one.split == "test" for one in examples)
    today = [set(TracedTurn.objects.get(query__text=str(one.text)).agents) == one.required for one in examples]
    assert figures["metrics"]["exact"]["mean"] == pytest.approx(sum(today) / len(today))
    right_share = sum(needed == chosen for needed, chosen in answers.values()) / len(answers)
    assert figures["ours"]["exact"]["mean"] == pytest.approx(right_share)
    shown = figures["difference"]["exact"]
    assert shown["low"] < right_share - sum(today) / len(today) < shown["high"]


def test_it_is_said_from_fifty_queries_on() -> None:
    better = {"exact": {"mean": 0.15, "low": 0.08, "high": 0.22}}
    figures = {"metrics": {"exact": {"mean": 0.71}}, "ours": {"exact": {"mean": 0.86}}}
    beside = {"queries": 212, **figures, "difference": better}
    said = scorecards.handoffs(Card(content={"handoffs": beside}))
    assert said == "Today's handoffs are right in 71 of 100, the router in 86, on the same 212 queries."
    assert scorecards.handoffs(Card(content={"handoffs": {**beside, "queries": 49}})) == ""
    assert scorecards.handoffs(Card()) == ""


def test_the_agents_descriptions_are_measured_until_a_model_answers(labeled, fresh_process) -> None:
    snapshot = snapshots.take(labeled)
    examples = list(snapshots.examples(snapshot))
    answers = {folds.key_of(one): [sorted(one.required), sorted(one.required)] for one in examples}
    content = artifact((0, "Billing"), (1, "Shipping"), (2, "Technical"))
    described = Router.of_descriptions(Descriptions(pools.roster(labeled), meaning=sentences.installed()))
    today = [set(described.route(one.text).agents) == one.required for one in examples]
    figures = handoffs.of_descriptions(content, snapshot, {"answers": answers})
    assert figures is not None
    assert figures["queries"] == len(examples)
    assert figures["metrics"]["exact"]["mean"] == pytest.approx(sum(today) / len(today))
    assert figures["ours"]["exact"]["mean"] == 1.0
    assert (alone := handoffs.of_descriptions(content, snapshot)) is not None  # by the test queries
    assert alone["queries"] == sum(one.split == "test" for one in examples)
    registry.promote(registry.register(None, labeled, content, {}), actor=None)
    assert handoffs.of_descriptions(content, snapshot, {"answers": answers}) is None


def test_descriptions_answer_by_the_pools_rules(labeled, fresh_process) -> None:
    content, snapshot = artifact((0, "Billing"), (1, "Shipping"), (2, "Technical")), snapshots.take(labeled)
    free = handoffs.of_descriptions(content, snapshot)
    allowed_sets.set_rules(labeled, Rules(excludes=((0, 1), (0, 2), (1, 2)), most=1), actor=None)
    ruled = handoffs.of_descriptions(content, snapshot)
    assert free is not None
    assert ruled is not None
    assert free["metrics"] != ruled["metrics"]


@pytest.mark.parametrize(
    ("low", "high", "worse", "end"),
    [
        (-0.6, -0.3, True, "more answers would be wrong than today: label more queries and train again."),
        (-0.1, 0.1, False, "That does not show which of them is better."),
        (0.1, 0.2, False, "on the same 80 queries."),
    ],
)
def test_it_says_which_of_them_is_better(low: float, high: float, worse: bool, end: str) -> None:
    figures = {"metrics": {"exact": {"mean": 0.9}}, "ours": {"exact": {"mean": 0.5}}}
    card = Card(content={"handoffs": {"queries": 80, **figures, "difference": {"exact": {"low": low, "high": high}}}})
    assert scorecards.handoffs_are_better(card) == worse
    assert scorecards.handoffs(card).endswith(end)


@pytest.mark.parametrize(("high", "better"), [(-0.3, True), (0.1, False)])
def test_a_first_model_that_is_worse_than_the_descriptions_needs_a_reason(
    labeled, fresh_process, high: float, better: bool
) -> None:
    figures = {"metrics": {"exact": {"mean": 0.57}}, "ours": {"exact": {"mean": 0.49}}}
    row = {"queries": 80, **figures, "difference": {"exact": {"mean": -0.4, "low": -0.6, "high": high}}}
    content = artifact((0, "Billing"), (1, "Shipping"), (2, "Technical"))
    model = registry.register(None, labeled, content, {"descriptions": row})
    said = scorecards.descriptions(model.card)
    assert said.startswith(
        "The agents' descriptions, without a model, are right in 57 of 100, this model in 49, on the same 80 queries."
    )
    assert ("more answers would be wrong than without one" in said) == better
    assert gate.judge(model).passed != better
    if better:
        with pytest.raises(gate.GateRefused, match="Worse than the agents' descriptions"):
            gate.promote(model, actor=None)
    gate.promote(model, actor=None, override="we want to see it" if better else "")
    assert registry.active(labeled) == model
