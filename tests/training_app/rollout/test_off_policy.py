"""A candidate judged by explored decisions with outcomes: what is estimated, and when it says that it cannot be."""

from random import Random

import numpy as np
import pytest

from tests.training_app import trained
from tests.training_app.served import ScriptedRouter, artifact
from training_app.answering import decisions, loaded
from training_app.engine.routing.router import Router
from training_app.models import Decision, Outcome, RouterModel
from training_app.rollout import off_policy_figures
from training_app.versions import registry

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def confident(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        ScriptedRouter, "confidences", lambda self, texts, sets, available: np.full(len(texts), 0.7), raising=False
    )
    monkeypatch.setattr("training_app.answering.loaded.chance", Random(7))


def traffic(app, count: int, chance_of_success) -> None:
    """Routed texts and their outcomes; `chance_of_success` takes the set that was answered."""
    random = Random(5)
    for at in range(0, count, 500):
        app.batch(*(f"billing {number}" for number in range(at, min(at + 500, count))))
    decisions.buffer.write()
    Outcome.objects.bulk_create(
        Outcome(decision_id=row.pk, pool=row.pool, success=random.random() < chance_of_success(set(row.agents)))
        for row in Decision.objects.select_related("pool").order_by("text")
    )


@pytest.fixture
def eager(model, monkeypatch) -> RouterModel:
    """Always takes shipping too: one agent away from the active model on texts of billing."""
    method = ScriptedRouter.route

    def route(self, text, available=None, **wishes):
        taken = method(self, text, available, **wishes)
        if len(self.agents) == 2:
            return loaded.with_agents(taken, (*taken.agents, 1))
        return taken

    monkeypatch.setattr(ScriptedRouter, "route", route)
    return registry.register(None, model.pool, artifact((0, "Billing"), (1, "Shipping")), {})


def test_a_difference_is_found_and_its_support_told(app, model, eager, live) -> None:
    live(exploration=0.1)
    traffic(app, 1400, lambda chosen: 0.9 if 1 in chosen else 0.3)
    found = off_policy_figures.evaluate(eager)
    assert (found.outcomes, found.with_propensity, found.same, found.near, found.far) == (1400, 1400, 0, 1400, 0)
    assert found.explored == Decision.objects.filter(detail__has_key="explored").count()
    assert found.answered >= off_policy_figures.FEWEST_DIFFERING
    assert found.estimates.snips.low <= 0.9 <= found.estimates.snips.high
    assert found.estimates.answering.low <= 0.3 <= found.estimates.answering.high
    assert found.estimates.difference.low > 0
    assert found.why == ""


def test_without_exploration_it_says_not_estimable_and_why(app, model, eager) -> None:
    traffic(app, 12, lambda chosen: 0.5)
    found = off_policy_figures.evaluate(eager)
    assert (found.outcomes, found.with_propensity, found.estimates) == (12, 0, None)
    assert "has not explored" in found.why
    assert "newest 12 of 12" in found.why
    assert "would have answered 12 otherwise" in found.why


def test_without_outcomes_it_says_so(app, model, eager, live) -> None:
    live(exploration=0.1)
    app.route("billing")
    decisions.buffer.write()
    assert "no application has reported" in off_policy_figures.evaluate(eager).why


def test_too_few_answers_with_its_set_estimate_nothing(app, model, eager, live) -> None:
    live(exploration=0.02)
    traffic(app, 40, lambda chosen: 0.5)
    found = off_policy_figures.evaluate(eager)
    assert found.estimates is None
    assert found.expected < off_policy_figures.FEWEST_DIFFERING
    assert found.why.startswith("Not estimable: in 40 of 40 decisions")


def test_lucky_draws_release_nothing(app, model, eager, live, monkeypatch) -> None:
    """However often exploration happened to answer the candidate's set: what counts is how often it was to."""
    live(exploration=0.02)
    monkeypatch.setattr("training_app.answering.loaded.chance", Random(7))
    traffic(app, 40, lambda chosen: 0.5)
    lucky = [one for one in Decision.objects.all() if "explored" not in (one.detail or {})][:20]
    for decision in lucky:
        decision.agents, decision.detail = [*decision.agents, 1], {**(decision.detail or {}), "explored": 1}
        decision.save()
    found = off_policy_figures.evaluate(eager)
    assert found.answered >= 20 > off_policy_figures.FEWEST_DIFFERING > found.expected
    assert found.estimates is None


def test_what_could_have_been_answered_sums_to_one_and_knows_who_takes_whose_room() -> None:
    decision = Decision(
        text="billing", agents=[0, 7], scores={"0": 0.9, "1": 0.4}, propensity=0.9,
        detail={"share": 0.1, "cold": {"scores": {"7": 0.8, "8": 0.7}, "trained": {"0": 0.9}, "threshold": 0.5, "walked": [0]}},
    )  # fmt: skip
    row = off_policy_figures._row(decision, True, (0, 2))
    assert row.own == {0, 7}
    assert set(row.reach) == {frozenset({0, 7}), frozenset({0, 1}), frozenset({7})}
    assert sum(row.reach.values()) == pytest.approx(1)
    nobody_may = Decision(text="x", agents=[0], scores={"0": 0.9}, propensity=1.0, detail={"share": 0.1})
    assert off_policy_figures._row(nobody_may, True, (1, 1)).reach == {frozenset({0}): 1.0}


def test_sets_further_away_are_left_out_and_counted(app, model, live, monkeypatch) -> None:
    live(exploration=0.1)
    traffic(app, 60, lambda chosen: 0.5)
    other = registry.register(
        None, model.pool, artifact((1, "b"), (2, "i")), {}
    )  # both in every text of billing, not 0
    found = off_policy_figures.evaluate(other)
    assert (found.near, found.far) == (0, 60)
    assert "60 more are further away" in found.why


def test_a_candidate_that_answers_alike_has_nothing_to_estimate(app, model, live) -> None:
    live(exploration=0.1)
    traffic(app, 30, lambda chosen: 0.5)
    twin = registry.register(None, model.pool, artifact((0, "Billing"), (1, "Shipping"), (2, "Technical")), {})
    found = off_policy_figures.evaluate(twin)
    assert (found.same, found.estimates) == (30, None)
    assert "there is no difference" in found.why


def test_a_real_routers_confidence_in_a_set_is_the_one_that_it_answers_with() -> None:
    router = Router.load(trained.result().artifact)
    texts = ["refund the invoice", "the parcel is late and the app crashes", "tell me a joke"]
    for available in (None, frozenset({0, 2})):
        routes = router.route_batch(texts, available)
        found = router.confidences(texts, [route.agents for route in routes], available)
        assert found == pytest.approx([route.confidence for route in routes], abs=1e-5)
    others = router.confidences(texts, [(1,), (), (0, 1, 2, 99)])
    assert all(others < router.confidences(texts, [route.agents for route in router.route_batch(texts)]))
