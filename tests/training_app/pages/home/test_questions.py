"""Home answers seven questions of an empty, a young, a live and a broken pool, and its links lead to pages that say more."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client
from django.utils import timezone

from agents_app import pools
from agents_app.models import LlmConnection, Pool
from tests.clients import signed_in
from tests.training_app.pages.home.test_first_steps import add
from tests.training_app.served import promoted
from training_app.models import Alarm, Decision, TrafficHour
from training_app.pages.home import questions
from training_app.rollout import traffic_hours

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("fresh_process")]
QUESTIONS = (
    "Is it good?",
    "Is there a better one?",
    "What should I do?",
    "Why this answer?",
    "What did it cost?",
    "What broke?",
    "Whom to ask?",
)


def empty(pool: Pool) -> None:
    """Nothing is in it."""


def young(pool: Pool) -> None:
    pools.add_agent(pool, "Booking", description="book a room")
    pools.add_agent(pool, "Refund", description="money back")
    add(pool, 25, required=[0])


def live(pool: Pool) -> None:
    young(pool)
    model = promoted(pool, (0, "Booking"), (1, "Refund"))
    LlmConnection.objects.create(base_url="http://127.0.0.1:1/v1", model="gpt-x", price_in=2.0, price_out=8.0)
    for n in range(3):
        Decision.objects.create(
            pool=pool, model=model, text=f"book {n}", agents=[0], scores={}, confidence=0.9, steps=1,
            stop_reason="stop", microseconds=900,
        )  # fmt: skip


def broken(pool: Pool) -> None:
    live(pool)
    Alarm.objects.create(pool=pool, kind=Alarm.Kind.REFUSED, sentence="travel-1 cannot be loaded.")


#: State → question → words that its answer must have.
SAYS = {
    empty: ("Nothing answers yet", "No model was trained", "not described", "Nothing was asked", "No route", "Nothing."),
    young: (
        "None of these queries needs Refund.", "No model was trained", "25 of 50 labels are there, enough for a first",
        "Nothing was asked", "No route", "Nothing.",
    ),
    live: ("It was never judged", "No newer model", "Nothing waits", "Booking", "gpt-x would have cost about", "Nothing."),
    broken: ("It was never judged", "No newer model", "cannot be loaded", "Booking", "gpt-x would have cost", "cannot be loaded"),
}  # fmt: skip


def member(role: str) -> User:
    user = User.objects.create_user(role, f"{role}@example.com", is_staff=True)
    user.groups.add(Group.objects.get_or_create(name=role)[0])
    return user


@pytest.mark.at_length
@pytest.mark.parametrize("role", ["ops", "reviewer"])
@pytest.mark.parametrize("state", SAYS, ids=lambda state: state.__name__)
def test_seven_questions_are_answered(role: str, state: Callable[[Pool], None]) -> None:
    pool = pools.create_pool("Travel", "travel", actor=None)
    state(pool)
    person = member(role)
    boss = member("ops") if role != "ops" else person
    client = signed_in(person)
    answer = client.get("/p/travel/")
    asked = answer.context["questions"]
    assert tuple(one.question for one in asked) == QUESTIONS
    for one, words in zip(asked, (*SAYS[state], boss.username), strict=True):
        if role == "ops" or one.question != "What should I do?":
            assert words in one.answer, one
        assert one.question in answer.content.decode()
        if one.address and not one.address.startswith("mailto:"):
            assert client.get(one.address).status_code == 200, one
    if role == "ops":
        assert all(one.address for one in asked), "ops may read on everywhere"


def test_a_labeler_is_told_whom_to_ask(client: Client) -> None:
    pools.create_pool("Travel", "travel", actor=None)
    ops = member("ops")
    client.force_login(member("labeler"))
    page = client.get("/p/travel/")
    assert "questions" not in page.context
    assert ops.username in page.content.decode()


def test_what_waits_for_somebody_is_not_broken(pool: Pool) -> None:
    empty_queue = Alarm.objects.create(pool=pool, kind=Alarm.Kind.LABELING, sentence="The labeling queue is empty.")
    assert questions._broken(pool, [empty_queue]).answer == "Nothing."
    refused = Alarm.objects.create(pool=pool, kind=Alarm.Kind.REFUSED, sentence="travel-1 cannot be loaded.")
    assert questions._broken(pool, [empty_queue, refused]).answer == refused.sentence


def test_the_months_routes_are_those_of_its_hours(pool: Pool) -> None:
    """Hours that are over are counted once, by a worker: no page reads a month of decisions."""
    live(pool)
    hour = traffic_hours.beginning(timezone.now())
    TrafficHour.objects.create(pool=pool, hour=hour - timedelta(days=2), answers=1231)
    TrafficHour.objects.create(pool=pool, hour=hour - timedelta(days=40), answers=5000)
    assert "1,234 routes in 30 days" in questions._cost(pool).answer
