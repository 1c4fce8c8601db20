"""Promised against delivered: what traffic differs in, answers that people check, and when a promise is broken."""

import uuid
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from agents_app.models import Pool
from datasets_app.models import Label
from tests.clients import signed_in
from tests.training_app.words import PERFECT, card, interval
from training_app.models import Alarm, CheckedAnswer, Decision, Outcome, RouterModel
from training_app.rollout import checks, promises
from training_app.versions import gate
from training_app.watching import promise_alarms

pytestmark = [pytest.mark.django_db]
Make = Callable[..., RouterModel]
STRANGE = "the refund of my neighbour came late again this month, and moreover his parcel went astray in the mail {}"


@pytest.fixture
def active(word_model: Make, monkeypatch: pytest.MonkeyPatch) -> RouterModel:
    """A model that promises 80 of 100 (76 to 84)."""
    content = card(queries=400)
    content["metrics"] = dict.fromkeys(content["metrics"], interval(0.76, 0.84))
    model = word_model(PERFECT, content)
    gate.promote(model, actor=None, override="for the test")
    model.refresh_from_db()
    return model


def decide(
    model: RouterModel, count: int, text: str = "my refund number {}", agents: tuple[int, ...] = (0,)
) -> list[Decision]:
    return Decision.objects.bulk_create(
        Decision(
            id=uuid.uuid4(), pool=model.pool, model=model, text=text.format(i), agents=list(agents), scores={}, confidence=0.9,
            steps=1, stop_reason="stop", microseconds=300, at=timezone.now() - timedelta(minutes=i),
        )
        for i in range(count)
    )  # fmt: skip


def report(model: RouterModel, good: int, count: int) -> None:
    """So many outcomes are good, spread evenly over all."""
    made = decide(model, count)
    Outcome.objects.bulk_create(
        Outcome(decision_id=one.pk, pool=model.pool, success=(i + 1) * good // count > i * good // count)
        for i, one in enumerate(made)
    )


def check(model: RouterModel, person: User, right: int) -> None:
    """Check a round: so many answers are right."""
    for place, one in enumerate(checks.waiting(model.pool)):
        checks.answer(one, {0} if place < right else {1}, person)


# ------------------------------------------------------------------------------------------------------- the comparison


def test_traffic_of_another_kind_widens_it_and_the_sentence_says_why(active: RouterModel) -> None:
    decide(active, 60, STRANGE, (0, 1))
    promises.look(active)
    found = promises.promise(active)
    assert found is not None
    assert found.warned
    assert found.expected.low < found.labeled.low
    assert "Your traffic has more queries for several agents (100 % against 33 %)" in found.sentence
    assert found.sentence.endswith("So the true share may be lower or higher: check 30 answers.")


def test_where_no_label_needs_several_agents_that_is_said() -> None:
    figures = promises.Figures(True, 60, 40, {"mean": 0.52, "low": 0.45, "high": 0.59}, (30.0, 31.0), 0, 0, 0.1, 0.0)
    assert figures.shift.lacking
    assert not figures.shift.differs
    said = promises._sentence(figures, promises.Interval(0.7, 0.6, 0.8, 0.6))
    assert said == (
        "None of your 60 labels needs several agents and none needs no agent, so nothing is known of such queries. "
        "Expect 60 to 80 of 100 right."
    )


def test_few_texts_say_nothing(active: RouterModel) -> None:
    decide(active, 10)
    assert promises.look(active) is None


# ------------------------------------------------------------------------------------------------------- checked answers


def test_a_round_is_drawn_of_the_live_answers_and_no_answer_twice(active: RouterModel, ops: User) -> None:
    decide(active, 50)
    assert checks.draw(active.pool, actor=ops) == 30
    with pytest.raises(checks.CheckError, match="being checked"):
        checks.draw(active.pool, actor=ops)
    check(active, ops, 24)
    assert checks.draw(active.pool, actor=ops) == 20
    assert CheckedAnswer.objects.values("decision_id").distinct().count() == 50
    found = promises.checked(active)
    assert (found.good, found.count) == (24, 30)
    assert found.words() == "24 of 30: about 80 of 100 (63 to 90)"


def test_a_check_is_a_label_too_and_is_kept_once(active: RouterModel, ops: User, django_user_model: type[User]) -> None:
    decide(active, 5)
    checks.draw(active.pool, actor=ops)
    one = checks.waiting(active.pool)[0]
    checks.answer(one, {0, 2}, ops)
    with pytest.raises(checks.CheckError, match="meanwhile"):
        checks.answer(one, {1}, django_user_model.objects.create_user("other"))
    one.refresh_from_db()
    assert (one.required, one.author, one.right) == ([0, 2], ops, False)
    assert Label.objects.get(author=ops).required == [0, 2]


def test_what_is_pruned_meanwhile_is_left_out_of_the_next_round(active: RouterModel, ops: User) -> None:
    decide(active, 6)
    checks.draw(active.pool, actor=ops)
    Decision.objects.all().delete()
    decide(active, 7)
    assert checks.draw(active.pool, actor=ops) == 7
    assert CheckedAnswer.objects.count() == 7


# ------------------------------------------------------------------------------------------------------- broken promises


@pytest.mark.parametrize(
    ("good", "count", "told"), [(48, 60, False), (33, 60, True), (360, 480, False), (300, 480, True)]
)
def test_outcomes_far_below_the_promise_are_an_alarm(active: RouterModel, good: int, count: int, told: bool) -> None:
    report(active, good, count)
    assert promise_alarms.tell(active) is told
    assert Alarm.objects.filter(kind="promise", resolved_at=None).exists() is told


def test_a_fall_that_comes_late_in_a_month_of_many_outcomes_shows_within_a_day(active: RouterModel) -> None:
    report(active, 800, 1000)
    Outcome.objects.update(at=timezone.now() - timedelta(days=2))
    report(active, 192, 240)
    assert promises.broken(active) is None
    Outcome.objects.filter(at__gte=timezone.now() - timedelta(hours=1)).delete()
    report(active, 120, 240)
    found = promises.broken(active)
    assert found is not None
    assert "Of 240 outcomes that applications reported, about 50 of 100 were a success (44 to 56)." in found.sentence


def test_one_round_of_checks_is_enough_and_the_alarm_ends_with_the_model(active: RouterModel, ops: User) -> None:
    decide(active, 40)
    checks.draw(active.pool, actor=ops)
    check(active, ops, 17)
    assert promise_alarms.look_all() == 1
    said = Alarm.objects.get(kind="promise").sentence
    assert said == (
        f"{active.name} promises about 80 of 100 right (76 to 84). "
        "Of 30 answers that people checked, about 57 of 100 were right (39 to 73)."
    )
    CheckedAnswer.objects.all().delete()
    assert promise_alarms.look_all() == 0
    assert not Alarm.objects.filter(kind="promise", resolved_at=None).exists()


def test_a_round_that_is_not_finished_tells_nothing(active: RouterModel, ops: User) -> None:
    decide(active, 40)
    checks.draw(active.pool, actor=ops)
    for one in checks.waiting(active.pool)[:29]:
        checks.answer(one, {1}, ops)
    assert promises.broken(active) is None


def test_weeks_hold_what_was_promised_checked_and_reported(active: RouterModel, ops: User) -> None:
    report(active, 30, 40)
    checks.draw(active.pool, actor=ops)
    check(active, ops, 15)
    (week,) = [one for one in promises.weeks(active.pool) if one.checked][-1:]
    assert (week.promised, week.checked, week.reported) == (80, promises.Delivered(15, 30), promises.Delivered(30, 40))
    drawn = promises.chart(promises.weeks(active.pool))
    assert drawn is not None
    assert [one["data"][-1] for one in drawn["datasets"]] == [80, 50, 75]


def test_without_anything_delivered_there_is_no_chart(active: RouterModel) -> None:
    assert promises.chart(promises.weeks(active.pool)) is None


# ------------------------------------------------------------------------------------------------------- the page


@pytest.fixture
def checker(active: RouterModel, ops: User) -> Client:
    """A browser of somebody who labels."""
    ops.groups.add(Group.objects.get_or_create(name="labeler")[0])
    return signed_in(ops)


def test_the_page_shows_the_query_and_not_what_was_answered(active: RouterModel, checker: Client) -> None:
    decide(active, 5, "a strange query {}", (2,))
    address = reverse("check_answers", args=[active.pool.slug])
    assert "Check 30 answers" in checker.get(address).content.decode()
    assert not CheckedAnswer.objects.exists()
    checker.post(address, {"do": "draw"})
    page = checker.get(address).content.decode()
    assert "a strange query" in page
    assert "checked" in page
    assert 'value="2" checked' not in page
    one = checks.waiting(active.pool)[0]
    refused = checker.post(address, {"do": "answer", "check": one.pk}, follow=True).content.decode()
    assert "Choose the agents that it needs, or none of these." in refused
    checker.post(address, {"do": "answer", "check": one.pk, "agent": ["2"]})
    one.refresh_from_db()
    assert one.right is True
    for rest in checks.waiting(active.pool):
        checker.post(address, {"do": "skip", "check": rest.pk})
    page = checker.get(address).content.decode()
    assert "1 of 1: about 100 of 100" in page


def test_the_last_answer_can_be_taken_back(active: RouterModel, checker: Client) -> None:
    decide(active, 5)
    address = reverse("check_answers", args=[active.pool.slug])
    checker.post(address, {"do": "draw"})
    one, two, *_ = checks.waiting(active.pool)
    assert 'value="undo"' not in checker.get(address).content.decode()
    for answered in (one, two):
        checker.post(address, {"do": "answer", "check": answered.pk, "none": "1"})
    assert f'name="check" value="{two.pk}"' in checker.get(address).content.decode(), "what Undo takes back"
    for said in ("", "This was undone already."):
        assert said in checker.post(address, {"do": "undo", "check": two.pk}, follow=True).content.decode()
    assert {row.pk for row in checks.waiting(active.pool)} >= {two.pk}
    assert [label.provenance["seen_at"] for label in Label.objects.current().filter(source="human")] == ["check"], (
        "that of the first answer"
    )


def test_nobody_takes_back_what_another_person_said(
    active: RouterModel, checker: Client, ops: User, django_user_model: type[User]
) -> None:
    decide(active, 5)
    checks.draw(active.pool, actor=ops)
    one = checks.waiting(active.pool)[0]
    checks.answer(one, {1}, django_user_model.objects.create_user("other"))
    address = reverse("check_answers", args=[active.pool.slug])
    said = checker.post(address, {"do": "undo", "check": one.pk}, follow=True).content.decode()
    assert "This was undone already." in said
    assert Label.objects.current().filter(source="human").count() == CheckedAnswer.objects.done().count() == 1


def test_a_round_of_a_model_that_was_replaced_meanwhile_says_what_it_found(
    active: RouterModel, word_model: Make, checker: Client, ops: User
) -> None:
    decide(active, 5)
    checks.draw(active.pool, actor=ops)
    newer = word_model(PERFECT, card(queries=400))
    gate.promote(newer, actor=None, override="for the test")
    address = reverse("check_answers", args=[active.pool.slug])
    replaced = f"These were answers of {active.name}, which {newer.name} has replaced."
    assert replaced in checker.get(address).content.decode()
    check(active, ops, 5)
    page = checker.get(address).content.decode()
    assert replaced in page
    assert "5 of 5: about 100 of 100" in page


def test_the_end_of_a_round_lists_what_was_wrong(active: RouterModel, checker: Client, ops: User) -> None:
    decide(active, 5)
    checks.draw(active.pool, actor=ops)
    check(active, ops, 4)
    (wrong,) = checks.mistakes(active)
    assert (wrong.answered, wrong.required) == ([0], [1])
    page = checker.get(reverse("check_answers", args=[active.pool.slug])).content.decode()
    assert "What was wrong in the last round" in page
    assert wrong.text in page
    Decision.objects.all().delete()
    assert checks.mistakes(active) == [], "an answer whose query is gone"


def test_guidelines_are_shown_as_they_are_read(active: RouterModel, checker: Client, ops: User) -> None:
    Pool.objects.filter(pk=active.pool_id).update(guidelines="Mark **every** agent.")
    decide(active, 5)
    checks.draw(active.pool, actor=ops)
    assert (
        "Mark <strong>every</strong> agent." in checker.get(reverse("check_answers", args=["support"])).content.decode()
    )


def test_a_verdict_of_too_few_answers_leads_to_a_round_of_the_model_in_use(word_model: Make, checker: Client) -> None:
    few = word_model(PERFECT, card(queries=12))
    gate.promote(few, actor=None, override="for the test")
    few.refresh_from_db()
    page, address = (
        reverse(name, args=args) for name, args in (("model", ["support", few.version]), ("check_answers", ["support"]))
    )
    assert address not in checker.get(page).content.decode(), "nothing was answered"
    decide(few, 5)
    assert f'action="{address}"' in checker.get(page).content.decode()
    for _click in range(2):
        assert "What does this query need?" in checker.post(address, {"do": "draw"}, follow=True).content.decode()
    assert CheckedAnswer.objects.count() == 5


def test_another_pools_answer_is_not_found(active: RouterModel, checker: Client) -> None:
    decide(active, 5)
    checker.post(reverse("check_answers", args=[active.pool.slug]), {"do": "draw"})
    other = Pool.objects.create(slug="other", name="Other")
    one = checks.waiting(active.pool)[0]
    answer = checker.post(reverse("check_answers", args=[other.slug]), {"do": "answer", "check": one.pk, "none": "1"})
    assert answer.status_code == 404


def test_home_says_what_to_expect_and_plots_the_weeks(active: RouterModel, checker: Client, ops: User) -> None:
    decide(active, 60, STRANGE, (0, 1))
    promises.look(active)
    report(active, 20, 40)
    page = checker.get(reverse("pool_home", args=[active.pool.slug])).content.decode()
    assert "than your labels" in page
    assert "Right answers of 100, by week" in page
