"""Home for ops and managers: figures that are right for the hours asked, in words and pictures, and when there is nothing."""

from datetime import timedelta
from html import unescape
from typing import Any

import numpy as np
import pytest
from django.test import Client
from django.utils import timezone
from django.utils.html import strip_tags

from agents_app import pools
from tests.clients import signed_in
from training_app.models import Alarm, Decision, Outcome, RouterModel
from training_app.pages.home import dashboard
from training_app.versions import registry
from training_app.watching import alarms

pytestmark = pytest.mark.both_databases


@pytest.fixture
def model(make_model: Any) -> RouterModel:
    made = make_model()
    registry.promote(made, actor=None)
    return made


def answer(model: RouterModel, *, hours: float = 0.0, ms: float = 0.2, agents: Any = (0,), **more: Any) -> Decision:
    made = Decision.objects.create(
        pool=model.pool, model=model, text="x", agents=list(agents), scores={}, confidence=0.9, steps=2, stop_reason="stop",
        microseconds=int(1000 * ms), at=timezone.now() - timedelta(hours=hours), **more,
    )  # fmt: skip
    assert isinstance(made, Decision)
    return made


def test_only_the_hours_that_were_asked_for_count(model: RouterModel) -> None:
    for hours in (0, 1, 22, 30, 40, 150):
        answer(model, hours=hours)
    assert (dashboard.traffic(model.pool).count, dashboard.traffic(model.pool).before) == (3, 2)
    week = dashboard.traffic(model.pool, 168)
    assert week.count == 6
    assert week.volume is not None
    assert sum(week.volume["datasets"][0]["data"]) == 6
    assert len(week.volume["labels"]) == 28


def test_another_pools_answers_do_not_count(model: RouterModel) -> None:
    from agents_app import pools

    assert dashboard.traffic(pools.create_pool("Other", "other", actor=None)).count == 0


def test_times_and_agents_are_those_of_the_answers(model: RouterModel) -> None:
    for number in range(100):
        answer(model, ms=10 if number >= 90 else 0.2, agents=(0, 1) if number < 25 else (0,))
    seen = dashboard.traffic(model.pool)
    assert (seen.p50, seen.p95) == (0.2, 10)
    assert [(agent.number, share) for agent, share in seen.agents] == [(0, 1.0), (1, 0.25)]
    assert seen.per_answer == 1.25


def test_an_hour_that_is_sampled_weighs_as_much_as_it_had(model: RouterModel, monkeypatch: Any) -> None:
    monkeypatch.setattr(dashboard, "SAMPLED", 5)
    monkeypatch.setattr(dashboard, "FEW", 99)
    for number in range(90):
        answer(model, hours=0, agents=(0,), ms=number % 2)
    for _ in range(10):
        answer(model, hours=5, agents=(1,))
    seen = dashboard.traffic(model.pool)
    assert seen.count == 100
    assert {agent.number: round(share, 6) for agent, share in seen.agents} == {0: 0.9, 1: 0.1}


@pytest.mark.parametrize("hours", [24, 168])
def test_few_answers_are_read_at_once_and_give_the_same_picture(
    model: RouterModel, monkeypatch: Any, hours: int, django_assert_num_queries: Any
) -> None:
    for number in range(12):
        answer(model, hours=number * hours / 12, ms=number, agents=(number % 3,))
    # The hours stored, answers and outcomes since, whether it asks, the few answers, the agents.
    with django_assert_num_queries(6):
        few = dashboard.traffic(model.pool, hours)
    monkeypatch.setattr(dashboard, "FEW", 0)
    with django_assert_num_queries(6):
        assert dashboard.traffic(model.pool, hours) == few
    assert few.count == 12


def test_the_page_counts_the_labeling_queue_once(model: RouterModel, person: Any, monkeypatch: Any) -> None:
    from datasets_app.figures import progress

    asked = []
    monkeypatch.setattr(progress, "left", lambda pool, person=None: asked.append(pool) or progress.Left(4, 3))
    browser = signed_in(person("admin"))
    page = browser.get(f"/p/{model.pool.slug}/")
    assert page.context["work"]["labeling"] == 7
    assert len(asked) == 1


def test_quantiles_follow_the_weights() -> None:
    values, weights = np.array([1.0, 2.0, 3.0]), np.array([1.0, 1.0, 98.0])
    assert dashboard.quantile(values, weights, 0.5) == 3
    assert dashboard.quantile(values, weights, 0.01) == 1
    assert dashboard.quantile(np.array([]), np.array([]), 0.5) is None


def test_the_change_is_told_where_there_was_something_before(model: RouterModel) -> None:
    for _ in range(30):
        answer(model, hours=40)
    assert dashboard.traffic(model.pool).change == -1
    for _ in range(15):
        answer(model)
    assert dashboard.traffic(model.pool).change == -0.5


@pytest.mark.parametrize(("success", "word"), [(True, "success"), (False, "failure")])
def test_one_outcome_is_no_percentage(model: RouterModel, browser: Client, success: bool, word: str) -> None:
    Outcome.objects.create(decision_id=answer(model).pk, pool=model.pool, success=success)
    assert f"The one outcome that applications reported in a week was a {word}." in browser.get("/").text


def test_it_is_said_in_words(model: RouterModel, browser: Client) -> None:
    assert "got no requests in the last 24 hours" in browser.get("/").text
    for number in range(20):
        made = answer(model, abstained=number < 4)
        if number < 10:
            Outcome.objects.create(decision_id=made.pk, pool=model.pool, success=number < 8)
    page = browser.get("/").text
    assert "Support answered 20 queries in the last 24 hours, now by support-1." in page
    assert "95 in 100 took less than 0.20 ms." in page
    assert "It abstained on 20 in 100." in page
    assert "Of 10 outcomes that applications reported in a week, 80 in 100 were a success." in page
    assert page.count("data-rw-chart=") == 3
    assert "Not routed to now" not in page
    assert "the last seven days" in browser.get("/?hours=168").text
    assert browser.get("/?hours=no").status_code == 200


def test_an_open_alarm_stands_on_top_and_a_muted_one_does_not(model: RouterModel, browser: Client, ops: Any) -> None:
    alarm = alarms.hold(Alarm.Kind.WORKERS, "No worker is running.", [])[0]
    assert "No worker is running." in browser.get("/").text
    alarms.mute(alarm, 8, ops)
    assert "No worker is running." not in browser.get("/").text


def test_a_pool_without_a_model_says_what_to_do(pool: Any, browser: Client) -> None:
    page = browser.get("/").text
    assert "Support has no model yet. Its agents' descriptions answer meanwhile." in unescape(page)
    assert "From here to a router that answers" in page


def test_the_shares_that_want_a_look_and_who_is_away(model: RouterModel, browser: Client) -> None:
    for number in range(20):
        made = answer(model)
        Decision.objects.filter(pk=made.pk).update(
            confidence=0.2 if number < 3 else 0.9, stop_reason="none" if number < 5 else "stop"
        )
    seen = dashboard.traffic(model.pool)
    assert (seen.naming_none, seen.doubting) == (0.25, 0.15)
    pools.set_available(model.pool.agents.get(number=1), False, actor=None, why="maintenance")
    page = " ".join(strip_tags(browser.get("/").text.replace("<", " <")).split())
    assert "With no agent 25" in page
    assert "More likely wrong than right 15" in page
    assert "Not routed to now:" in page
    assert "maintenance" in page


@pytest.mark.parametrize(
    ("language", "words"),
    [
        (
            "de",
            (
                "In Kürze",
                "Ist es gut?",
                "Support hat in den letzten 24 Stunden 1.002 Anfragen beantwortet, jetzt mit support-1.",
                "95 von 100 dauerten weniger als 0,20 ms.",
            ),
        ),
        (
            "ru",
            (
                "Вкратце",
                "Хорошо ли работает?",
                "За последние 24 часа Support ответил на 1\xa0002 запроса, сейчас отвечает support-1.",
                "95 из 100 заняли меньше 0,20 мс.",
            ),
        ),
    ],
)
def test_home_of_ops_speaks_one_language_and_writes_its_numbers(
    model: RouterModel, browser: Client, language: str, words: tuple[str, ...]
) -> None:
    now = timezone.now()
    Decision.objects.bulk_create(
        Decision(
            pool=model.pool, model=model, text="x", agents=[0], scores={}, confidence=0.9, steps=2, stop_reason="stop",
            microseconds=198 if number % 2 else 199, at=now - timedelta(milliseconds=number),
        )
        for number in range(1_002)
    )  # fmt: skip
    page = browser.get("/", headers={"Accept-Language": language}).text
    assert [word for word in words if word not in page] == []
    english = (
        "In short",
        "Is it good",
        "At a glance",
        "Half are quicker",
        "Agents chosen",
        "Quality",
        "Wants attention",
    )
    assert [word for word in english if word in page] == []
