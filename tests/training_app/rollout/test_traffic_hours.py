"""Hours of traffic are counted once, when they are over; what came since is counted where it is shown."""

from datetime import timedelta

import pytest
from django.utils import timezone

from training_app.models import Decision, Outcome, TrafficHour
from training_app.pages.home import dashboard
from training_app.rollout import traffic_hours

pytestmark = pytest.mark.both_databases


def answer(pool, at, **more):
    fields = {"text": "hello", "agents": [1], "scores": {"1": 0.9}, "confidence": 0.9, "steps": 1, "microseconds": 500}
    return Decision.objects.create(pool=pool, at=at, stop_reason="stop", **fields | more)


def figures(pool):
    seen = dashboard.traffic(pool, 24)
    return seen.count, seen.before, seen.unsure, [column for column in seen.volume["datasets"][0]["data"] if column]


def test_hours_stored_and_not_are_those_of_a_count_of_all(pool):
    now = timezone.now()
    for ago, confidence in ((0, 0.9), (1, 0.2), (3, 0.9), (3, 0.9), (30, 0.9)):
        made = answer(pool, now - timedelta(hours=ago), confidence=confidence)
        Outcome.objects.create(decision_id=made.pk, pool=pool, success=ago != 3)
    Outcome.objects.update(at=now - timedelta(hours=2))
    live, reported = figures(pool), dashboard.success(pool)
    assert (live, reported) == ((4, 1, 1, [2, 1, 1]), (5, 0.6))
    assert traffic_hours.count_all() == TrafficHour.objects.count() >= 3
    assert (figures(pool), dashboard.success(pool)) == (live, reported)
    assert traffic_hours.count_all() == 0, "each hour is counted once"
    answer(pool, now)
    assert figures(pool)[0] == 5
    Decision.objects.filter(at__lt=now - timedelta(hours=2)).delete()
    assert figures(pool)[:2] == (5, 1), "what retention deletes stays counted"


def test_an_hour_is_counted_once_late_decisions_have_come(pool, monkeypatch):
    over = traffic_hours.beginning(timezone.now()) + traffic_hours.HOUR
    answer(pool, over - timedelta(minutes=1))
    monkeypatch.setattr(timezone, "now", lambda: over + timedelta(minutes=9))
    assert traffic_hours.count_all() == 0
    monkeypatch.setattr(timezone, "now", lambda: over + timedelta(minutes=11))
    assert traffic_hours.count_all() == 1
