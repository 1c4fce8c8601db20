"""Shadows: they score what was answered, change no answer, hold up no request, and their errors are counted."""

import threading
import time
from datetime import timedelta

import pytest
from django.db import OperationalError, connection
from django.utils import timezone

from tests.training_app.served import ScriptedRouter
from training_app.answering import serving, shadowing
from training_app.models import LiveTally, ShadowScore
from training_app.rollout import trials

pytestmark = pytest.mark.django_db


@pytest.fixture
def shadow(candidate):
    trials.start_shadow(candidate, actor=None)
    return candidate


def tally(model) -> LiveTally:
    return LiveTally.objects.get(model=model, kind="shadow")


def test_it_scores_and_answers_nothing(app, model, shadow) -> None:
    answer = app.route("technical and billing").json()
    assert (answer["agents"], answer["model"], "shadow" in answer) == ([0, 2], "support-1", False)
    assert shadowing.turn(rest=0) == 1
    score = ShadowScore.objects.get()
    assert (score.model, score.against, str(score.decision_id)) == (shadow, model, answer["decision_id"])
    assert (score.agents, score.answered) == ([0], [0, 2])
    assert score.microseconds >= 0
    assert abs((score.at - timezone.now()).total_seconds()) < 60
    assert (tally(shadow).done, tally(shadow).errors, tally(shadow).skipped) == (1, 0, 0)


def test_batches_are_scored_too_and_what_a_canary_answers_is_not(app, shadow, canary) -> None:
    canary(0.5)
    names = [one["model"] for one in app.batch(*(f"billing {n}" for n in range(20))).json()["results"]]
    assert shadowing.turn(rest=0) == names.count("support-1") > 0


def test_an_error_is_counted_and_the_next_text_is_scored(app, shadow, monkeypatch) -> None:
    method = ScriptedRouter.route

    def route(self, text, available=None, **wishes):
        if "boom" in text and len(self.agents) == 2:
            raise RuntimeError("no such tensor")
        return method(self, text, available, **wishes)

    monkeypatch.setattr(ScriptedRouter, "route", route)
    assert app.route("boom").status_code == 200
    assert app.route("billing").status_code == 200
    assert shadowing.turn(rest=0) == 1
    assert (tally(shadow).done, tally(shadow).errors) == (1, 1)
    assert tally(shadow).last_error == "RuntimeError: no such tensor"


def test_a_full_queue_leaves_texts_out_and_counts_them(app, shadow, monkeypatch) -> None:
    monkeypatch.setattr(shadowing, "QUEUE", 3)
    for _ in range(5):
        assert app.route("billing").status_code == 200
    assert shadowing.waiting() == 3
    shadowing.turn(rest=0)
    assert (tally(shadow).done, tally(shadow).skipped) == (3, 2)


def test_without_a_database_scores_are_counted_as_left_out(app, shadow, monkeypatch) -> None:
    app.route("billing")

    def away(*_arguments: object) -> None:
        raise OperationalError("connection refused")

    with monkeypatch.context() as patch:
        patch.setattr(shadowing, "_write", away)
        with pytest.raises(OperationalError):
            shadowing.turn(rest=0)
    shadowing.turn(rest=0)
    assert (tally(shadow).done, tally(shadow).skipped) == (0, 1)


def test_a_stopped_shadow_scores_no_more(app, shadow, in_memory) -> None:
    in_memory()
    trials.stop_shadow(shadow, actor=None)
    serving.watch_once()
    app.route("billing")
    assert shadowing.waiting() == 0
    assert serving.current("support").live is None


@pytest.mark.both_databases
@pytest.mark.django_db(transaction=True)
def test_scores_of_a_deleted_model_do_not_hold_up_the_others(app, model, shadow) -> None:
    app.route("billing")
    task = shadowing._queue[0]
    gone = shadowing.Shadow(shadow.pk + 1000, "gone", task.shadow.router, None)
    shadowing.offer(task._replace(shadow=gone))
    shadowing.turn(rest=0)
    assert ShadowScore.objects.get().model == shadow
    assert (LiveTally.objects.count(), tally(shadow).done) == (1, 1)


@pytest.mark.both_databases
@pytest.mark.django_db(transaction=True)
def test_a_shadow_that_hangs_holds_up_no_request(app, model, shadow, in_memory, monkeypatch, settings) -> None:
    """A real thread stands still in the shadow; requests are answered all the while, and it goes on afterwards."""
    settings.BACKGROUND_THREADS = True
    reached, free, ended = threading.Event(), threading.Event(), threading.Event()
    method, work = ScriptedRouter.route, shadowing.turn

    def route(self, text, available=None, **wishes):
        if len(self.agents) == 2:
            reached.set()
            assert free.wait(30)
        return method(self, text, available, **wishes)

    def once() -> float:
        while not shadowing.waiting():
            time.sleep(0.01)
        work()
        while ShadowScore.objects.count() < 4:
            work()
        connection.close()
        ended.set()
        return 600

    monkeypatch.setattr(ScriptedRouter, "route", route)
    monkeypatch.setattr(shadowing, "_work", once)
    monkeypatch.setattr(shadowing, "TURN_SECONDS", 0.01)
    monkeypatch.setattr(shadowing, "REST", 0.0)
    settings.DECISION_SHARE = 0.0
    in_memory()
    assert app.route("billing").status_code == 200
    assert reached.wait(30)
    assert [app.route("billing").json()["agents"] for _ in range(3)] == [[0]] * 3
    assert not ShadowScore.objects.exists()
    free.set()
    assert ended.wait(30)
    shadowing._scorer.stop()
    assert ShadowScore.objects.count() == 4


def test_old_scores_are_pruned(app, shadow, settings) -> None:
    settings.DECISION_DAYS = 30
    for text in ("a", "b", "c"):
        app.route(text)
    shadowing.turn(rest=0)
    first = ShadowScore.objects.order_by("pk").first()
    ShadowScore.objects.exclude(pk=first.pk).update(at=timezone.now() - timedelta(days=31))
    assert shadowing.prune(rows_at_once=1) == 2
    assert ShadowScore.objects.get() == first
