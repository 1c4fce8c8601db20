"""Training rules: when they fire, that they fire once, and what they say of themselves."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from agents_app.models import AuditEntry, Pool
from datasets_app.models import Gold
from tests import orchestration
from tests.at_once import at_once
from training_app.models import LaunchRule, Run
from training_app.training import rules, runs

MADE = datetime(2026, 3, 10, 12, tzinfo=UTC)
NIGHT = datetime(2026, 3, 11, 2, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
Make = Callable[..., LaunchRule]


@pytest.fixture
def rule(labeled: Pool, ops: User) -> Make:
    """Makes a rule at noon of the tenth of March; all gold labels are older."""
    Gold.objects.update(composed_at=MADE - DAY)

    def make(**fields: object) -> LaunchRule:
        made = LaunchRule(pool=labeled, name=f"rule {LaunchRule.objects.count()}", **fields)
        rules.save(made, actor=ops)
        LaunchRule.objects.filter(pk=made.pk).update(created_at=MADE)
        made.refresh_from_db()
        return made

    return make


def relabel(count: int, at: datetime) -> None:
    keys = Gold.objects.order_by("pk").values_list("pk", flat=True)[:count]
    Gold.objects.filter(pk__in=list(keys)).update(composed_at=at)


def end_runs() -> None:
    Run.objects.update(status="cancelled")


# ---------------------------------------------------------------------------------------------------- every night


def test_it_launches_at_its_hour_and_once(rule: Make, ops: User) -> None:
    made = rule(hour=2, config={"total_steps": 50}, promote=True)
    relabel(3, MADE + HOUR)
    assert rules.evaluate(NIGHT - timedelta(minutes=1)) == 0
    assert rules.evaluate(NIGHT) == 1
    run = Run.objects.get()
    assert (run.rule, run.promote, run.author, run.config["total_steps"]) == (made, True, ops, 50)
    made.refresh_from_db()
    assert (made.last_fired_at, made.last_reason, made.problem) == (NIGHT, "Nightly run: 3 new gold labels", "")
    end_runs()
    assert rules.evaluate(NIGHT + HOUR) == 0


def test_it_does_not_promote_unless_asked() -> None:
    assert LaunchRule().promote is False


def test_a_night_without_new_labels_is_passed_over_until_the_next(rule: Make) -> None:
    made = rule(hour=2)
    assert rules.evaluate(NIGHT) == 0
    relabel(1, NIGHT + 2 * HOUR)
    assert rules.evaluate(NIGHT + 3 * HOUR) == 0
    assert rules.evaluate(NIGHT + DAY) == 1
    made.refresh_from_db()
    assert made.passed_at == NIGHT


def test_it_launches_without_new_labels_where_told_to(rule: Make) -> None:
    rule(hour=2, only_new=False)
    assert rules.evaluate(NIGHT) == 1


@orchestration.needed
def test_a_kind_that_learns_from_no_labels_waits_for_none(rule: Make) -> None:
    made = rule(hour=2, model_kind="backend_chooser")
    assert rules.outlook(made).text == ""
    assert rules.evaluate(NIGHT) == 1
    assert Run.objects.get().kind == "backend_chooser"


def test_the_hour_is_that_of_the_installation(rule: Make, settings: object) -> None:
    settings.TIME_ZONE = "Asia/Tokyo"  # type: ignore[attr-defined]
    with timezone.override("Asia/Tokyo"):
        made = rule(hour=2)
        assert rules.next_night(made) == datetime(2026, 3, 10, 17, tzinfo=UTC)


def test_the_hour_stays_when_clocks_change(rule: Make) -> None:
    with timezone.override("Europe/Berlin"):
        made = rule(hour=5)
        LaunchRule.objects.filter(pk=made.pk).update(last_fired_at=datetime(2026, 3, 28, 4, tzinfo=UTC))
        made.refresh_from_db()
        assert rules.next_night(made) == datetime(2026, 3, 29, 3, tzinfo=UTC)


# ---------------------------------------------------------------------------------------------------- new labels, drift


def test_it_launches_after_enough_labels_and_counts_anew(rule: Make) -> None:
    rule(trigger="labels", labels=5, rest_hours=1)
    relabel(4, MADE + HOUR)
    assert rules.evaluate(MADE + 2 * HOUR) == 0
    relabel(5, MADE + HOUR)
    assert rules.evaluate(MADE + 2 * HOUR) == 1
    end_runs()
    assert rules.evaluate(MADE + 2 * DAY) == 0


def test_it_rests_between_two_launches(rule: Make) -> None:
    rule(trigger="labels", labels=1, rest_hours=12)
    relabel(1, MADE + HOUR)
    assert rules.evaluate(MADE + 2 * HOUR) == 1
    end_runs()
    relabel(1, MADE + 3 * HOUR)
    assert rules.evaluate(MADE + 13 * HOUR) == 0
    assert rules.evaluate(MADE + 14 * HOUR) == 1


def test_drift_launches_the_rules_that_wait_for_it(rule: Make, labeled: Pool) -> None:
    made, nightly = rule(trigger="drift"), rule()
    assert rules.on_drift(labeled, "vocabulary novelty 0.31") == 1
    assert Run.objects.get().rule == made
    made.refresh_from_db()
    assert made.last_reason == "vocabulary novelty 0.31"
    end_runs()
    assert rules.on_drift(labeled) == 0  # it rests
    assert rules.evaluate(MADE) == 0
    nightly.refresh_from_db()
    assert nightly.last_fired_at is None


# ---------------------------------------------------------------------------------------------------- once, and never beside itself


def test_it_never_launches_while_its_run_is_not_over(rule: Make) -> None:
    rule(hour=2, only_new=False)
    assert rules.evaluate(NIGHT) == 1
    assert rules.evaluate(NIGHT + DAY) == 0
    end_runs()
    assert rules.evaluate(NIGHT + DAY) == 1


def test_a_run_that_was_put_back_into_the_queue_meanwhile_counts(rule: Make) -> None:
    made = rule(hour=2, only_new=False)
    assert rules.evaluate(NIGHT) == 1
    made.refresh_from_db()
    assert rules.fire(made, "its hour", NIGHT + DAY) is None
    assert Run.objects.count() == 1


def test_another_ended_run_of_the_rule_hides_none_that_is_going(rule: Make, labeled: Pool) -> None:
    made = rule(hour=2, only_new=False)
    for status in ("cancelled", "queued"):
        Run.objects.filter(pk=runs.launch(labeled, rule=made, queue=False).pk).update(status=status)
    assert rules.evaluate(NIGHT) == 0


@pytest.mark.both_databases
def test_many_that_look_at_once_launch_one(transactional_db: None, rule: Make) -> None:
    made = rule(hour=2, only_new=False)
    found = at_once(4, lambda _number: rules.fire(made, "its hour", NIGHT))
    assert [type(run) for run in found].count(Run) == 1
    assert Run.objects.count() == 1


def test_a_paused_rule_does_nothing(rule: Make, ops: User, labeled: Pool) -> None:
    nightly, drifting = rule(only_new=False), rule(trigger="drift")
    for made in (nightly, drifting):
        rules.switch(made, False, actor=ops)
    assert (rules.evaluate(NIGHT), rules.on_drift(labeled)) == (0, 0)
    assert rules.fire(drifting, "found before it was paused", NIGHT) is None
    rules.switch(nightly, True, actor=ops)
    assert rules.evaluate(NIGHT) == 1


def test_one_that_cannot_launch_says_why_and_hinders_no_other(rule: Make) -> None:
    bad, good = rule(only_new=False, config={"folds": 1}), rule(only_new=False)
    assert rules.evaluate(NIGHT) == 1
    bad.refresh_from_db()
    good.refresh_from_db()
    assert bad.problem.startswith("folds: 1 fold leaves nothing")
    assert (good.problem, good.runs.count()) == ("", 1)


def test_what_people_do_is_kept(rule: Make, ops: User) -> None:
    made = rule()
    made.hour = 3
    rules.save(made, actor=ops)
    rules.switch(made, False, actor=ops)
    rules.switch(made, False, actor=ops)
    rules.delete(made, actor=ops)
    actions = AuditEntry.objects.filter(action__startswith="rule.").order_by("pk").values_list("action", "actor")
    assert list(actions) == [(f"rule.{verb}", ops.pk) for verb in ("created", "edited", "paused", "deleted")]


# ---------------------------------------------------------------------------------------------------- what it waits for


def test_it_says_what_it_waits_for(rule: Make) -> None:
    nightly, labels, drift = rule(hour=2), rule(trigger="labels", labels=5), rule(trigger="drift")
    relabel(2, MADE + HOUR)
    assert rules.outlook(nightly, MADE) == ("If gold has changed by then", NIGHT)
    assert rules.outlook(labels, MADE) == ("2 of 5 new gold labels", None)
    assert rules.outlook(drift, MADE).text == "It waits for drift"
    rules.fire(drift, "drift", MADE)
    drift.refresh_from_db()
    assert rules.outlook(drift, MADE).text == "Its run is not over yet"
    end_runs()
    assert rules.outlook(drift, MADE + HOUR) == ("It rests", MADE + 12 * HOUR)
    drift.active = False
    assert rules.outlook(drift, MADE).text == "Paused"
