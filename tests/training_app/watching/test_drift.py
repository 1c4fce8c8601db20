"""Drift of a pool: against held-out queries or the first decisions, told after two looks, launched upon, accepted as normal."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from agents_app.models import AuditEntry
from training_app.engine.data.examples import Agent
from training_app.engine.judging import drift as engine
from training_app.engine.routing.routes import Route
from training_app.models import Alarm, Decision, DriftPoint, DriftReference, RouterModel, Run
from training_app.training import rules
from training_app.versions import registry
from training_app.watching import drift


class SureRouter:
    """Takes agent 0 for every text, with confidence 0.9."""

    agents = (Agent(0, "Billing"), Agent(1, "Shipping"), Agent(2, "Technical"))

    @classmethod
    def load(cls, _content: bytes) -> "SureRouter":
        return cls()

    def route_batch(self, texts: list[str], available: Any = None, rules: Any = None) -> list[Route]:
        return [Route((0,), {0: 0.95, 1: 0.1}, 0.9, 2, "stop") for _text in texts]


@pytest.fixture(autouse=True)
def few(monkeypatch: Any) -> None:
    """A snapshot of 27 held-out queries is enough for these tests."""
    monkeypatch.setattr(engine, "FEWEST", 20)
    monkeypatch.setattr("training_app.engine.routing.router.Router", SureRouter)


@pytest.fixture
def model(run: Run) -> RouterModel:
    made = registry.register(run, run.pool, b"artifact", {})
    registry.promote(made, actor=None)
    return made


USUAL = ("what a nice day", "tell me a joke", "who won match", "about my refund number", "about my parcel number",
         "about my error number", "my refund and the parcel of order", "my crash and the invoice of order")  # fmt: skip


def decide(model: RouterModel, count: int, words: str = "", **more: Any) -> None:
    """So many decisions, each on a text of its own: the usual ones, or `words`."""
    given = {"agents": [0], "scores": {"0": 0.95, "1": 0.1}, "confidence": 0.9, "steps": 2, "stop_reason": "stop"}
    given |= {"microseconds": 90, **more}
    start, now = Decision.objects.count(), timezone.now()
    for i in range(count):
        text = f"{words or USUAL[i % len(USUAL)]} {start + i}"
        Decision.objects.create(pool=model.pool, model=model, text=text, at=now - timedelta(seconds=i), **given)


def test_traffic_like_the_held_out_queries_does_not_drift(model: RouterModel) -> None:
    decide(model, 150)
    point = drift.look(model)
    assert point is not None
    assert not point.drifts, point.measures
    reference = DriftReference.objects.get()
    assert (reference.source, reference.texts) == ("snapshot", 27)
    assert set(point.measures) == {"novelty", "confidence", "likeliest", "size", "abstained"}


def test_new_words_drift_and_are_named(model: RouterModel) -> None:
    decide(model, 150, words="my satellite dish wobbles")
    point = drift.look(model)
    assert point is not None
    assert [name for name, values in point.measures.items() if values["drifts"]] == ["novelty"]
    assert {"satellite", "dish", "wobbles"} <= {word for word, _count in point.words}
    assert "unknown words" in drift.in_words(model, point)


@pytest.mark.parametrize(
    ("measure", "change"),
    [
        ("confidence", {"confidence": 0.3}), ("likeliest", {"scores": {"0": 0.2}}), ("size", {"agents": [0, 1, 2]}),
        ("abstained", {"abstained": True}),
    ],
)  # fmt: skip
def test_each_measure_sees_its_own_change(model: RouterModel, measure: str, change: dict) -> None:
    decide(model, 150, **change)
    point = drift.look(model)
    assert point is not None
    assert [name for name, values in point.measures.items() if values["drifts"]] == [measure]


def test_a_turn_is_another_query_where_something_else_was_said_before(model: RouterModel) -> None:
    given = {
        "agents": [0],
        "scores": {"0": 0.95},
        "confidence": 0.9,
        "steps": 2,
        "stop_reason": "stop",
        "microseconds": 90,
    }
    for i in range(30):
        said = [{"role": "user", "content": f"about my parcel {i // 2}"}, {"role": "assistant", "content": "shall I?"}]
        Decision.objects.create(
            pool=model.pool, model=model, text="yes please", messages=said, at=timezone.now(), **given
        )
    point = drift.look(model)
    assert point is None, "fifteen conversations, each twice, are too few"
    for i in range(10):
        said = [{"role": "user", "content": f"about my refund {i}"}, {"role": "assistant", "content": "shall I?"}]
        Decision.objects.create(
            pool=model.pool, model=model, text="yes please", messages=said, at=timezone.now(), **given
        )
    point = drift.look(model)
    assert point is not None
    assert point.texts == 25


def test_too_few_different_queries_say_nothing(model: RouterModel) -> None:
    decide(model, 19, confidence=0.1)
    assert drift.look(model) is None
    same = {"text": Decision.objects.latest("at").text, "agents": [], "scores": {}, "confidence": 0, "steps": 1}
    for _ in range(50):
        Decision.objects.create(pool=model.pool, model=model, stop_reason="none", microseconds=1, **same)
    assert drift.look(model) is None, "one text that is asked over and over is one text"


def test_explored_decisions_and_those_of_other_models_and_weeks_are_left_out(model: RouterModel) -> None:
    decide(model, 100, detail={"explored": 1, "share": 0.1})
    assert drift.look(model) is None
    decide(model, 100)
    Decision.objects.filter(detail__isnull=True).update(at=timezone.now() - drift.WINDOW - timedelta(minutes=1))
    assert drift.look(model) is None


def came_since(model: RouterModel) -> None:
    """Thirty decisions more, newer than every look so far, as strange as those before."""
    before = set(Decision.objects.values_list("pk", flat=True))
    decide(model, 30, confidence=0.3)
    Decision.objects.exclude(pk__in=before).update(at=timezone.now())


def test_what_came_since_must_drift_as_well(model: RouterModel) -> None:
    decide(model, 150, confidence=0.3)
    Decision.objects.update(at=timezone.now() - timedelta(hours=1))
    drift.look_all()
    before = set(Decision.objects.values_list("pk", flat=True))
    decide(model, 12)
    Decision.objects.exclude(pk__in=before).update(at=timezone.now())
    assert drift.look_all() == 1  # most of the window is still the strange part
    assert not Alarm.objects.exists()


def test_an_alarm_opens_at_the_second_look_and_passes_with_it(model: RouterModel) -> None:
    decide(model, 150, confidence=0.3)
    assert drift.look_all() == 1
    drift.look_all()
    assert not Alarm.objects.exists(), "a second look at the same decisions is the same look"
    came_since(model)
    drift.look_all()
    alarm = Alarm.objects.get()
    assert (alarm.kind, alarm.pool) == ("drift", model.pool)
    assert any("0.900 → 0.300" in value for _name, value in alarm.evidence)
    Decision.objects.all().delete()
    decide(model, 150)
    assert drift.look_all() == 0
    alarm.refresh_from_db()
    assert alarm.resolved_at is not None


def test_another_measure_at_the_next_look_is_no_alarm_yet(model: RouterModel) -> None:
    decide(model, 150, confidence=0.3)
    drift.look_all()
    Decision.objects.all().delete()
    decide(model, 150, agents=[0, 1, 2])
    drift.look_all()
    assert not Alarm.objects.exists()


def test_a_new_alarm_asks_the_rules_once(model: RouterModel, monkeypatch: Any) -> None:
    asked = []
    monkeypatch.setattr(rules, "on_drift", lambda pool, reason: asked.append((pool, reason)))
    decide(model, 150, confidence=0.3)
    for _ in range(4):
        drift.look_all()
        came_since(model)
    assert [pool for pool, _reason in asked] == [model.pool]
    assert "confidence" in asked[0][1]


def test_a_model_without_a_snapshot_is_compared_with_its_first_decisions(model: RouterModel, monkeypatch: Any) -> None:
    monkeypatch.setattr(drift, "FIRST", 60)
    imported = registry.register(None, model.pool, b"artifact", {})
    registry.promote(imported, actor=None)
    decide(imported, 59)
    assert drift.look(imported) is None
    decide(imported, 41)
    point = drift.look(imported)
    assert point is not None
    assert not point.drifts
    assert imported.drift_reference.source == "decisions"
    decide(imported, 400, words="my satellite dish wobbles")
    point = drift.look(imported)
    assert point is not None
    assert point.measures["novelty"]["drifts"]


def test_a_model_of_a_young_pool_is_compared_with_its_first_decisions(model: RouterModel, monkeypatch: Any) -> None:
    monkeypatch.setattr(drift, "_by_snapshot", lambda _model: None)  # too few queries were held back
    decide(model, drift.FIRST_OF_A_RUN - 1)
    assert drift.look(model) is None
    decide(model, 60)
    point = drift.look(model)
    assert point is not None
    assert not point.drifts
    assert model.drift_reference.source == "decisions"


def test_what_is_accepted_is_the_new_normal(model: RouterModel, ops: Any) -> None:
    decide(model, 150, confidence=0.3)
    drift.look_all()
    drift.look_all()
    drift.accept(model, ops)
    assert not Alarm.objects.filter(resolved_at=None).exists()
    point = drift.look(model)
    assert point is not None
    assert not point.drifts
    assert AuditEntry.objects.filter(action="drift.accepted", actor=ops).exists()
    Decision.objects.all().delete()
    with pytest.raises(drift.DriftError, match="too few"):
        drift.accept(model, ops)


def test_old_points_are_forgotten_and_the_reference_is_made_once(
    model: RouterModel, django_assert_max_num_queries: Any
) -> None:
    decide(model, 150)
    drift.look(model)
    DriftPoint.objects.update(at=timezone.now() - drift.KEPT - timedelta(minutes=1))
    with django_assert_max_num_queries(25):
        drift.look_all()
    assert DriftPoint.objects.count() == 1
    assert DriftReference.objects.count() == 1


def test_points_hold_what_json_holds(model: RouterModel) -> None:
    decide(model, 150)
    point = drift.look(model)
    assert point is not None
    again = DriftPoint.objects.get()
    assert json.loads(json.dumps(point.measures)) == again.measures
