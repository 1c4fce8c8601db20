"""Pages of training rules: who may open them, what they keep and refuse, and what the list says."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from agents_app import pools
from agents_app.models import Pool
from tests.clients import signed_in
from training_app.models import LaunchRule, Run
from training_app.pages.training.launch_form import RuleForm
from training_app.training import previews, rules, runs


def form(**changes: str | None) -> dict[str, str]:
    """The form of a new rule as a browser sends it, with changes; None leaves a field out."""
    empty = RuleForm(LaunchRule())
    sent = {}
    for name, field in empty.fields.items():
        value = empty.get_initial_for_field(field, name)
        if value is not None and value is not False:
            sent[name] = "on" if value is True else str(value)
    return {name: value for name, value in {**sent, "name": "nightly", **changes}.items() if value is not None}


@pytest.fixture
def rule(labeled: Pool, ops: User) -> LaunchRule:
    return rules.save(LaunchRule(pool=labeled, name="nightly", config={"total_steps": 77}), actor=ops)


def address(name: str, *more: int) -> str:
    return reverse(name, args=["support", *more])


@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("run_rules", "get"),
        ("run_rule_new", "post"),
        ("run_rule", "get"),
        ("run_rule_switch", "post"),
        ("run_rule_delete", "post"),
    ],
)
def test_only_ops_open_them(rule: LaunchRule, person: Callable[..., User], name: str, method: str) -> None:
    client = signed_in(person("reviewer"))
    path = address(name, *([rule.pk] if name not in ("run_rules", "run_rule_new") else []))
    assert getattr(client, method)(path).status_code == 403
    assert LaunchRule.objects.filter(active=True).count() == 1


@pytest.mark.parametrize("name", ["run_rule_switch", "run_rule_delete"])
def test_a_get_changes_nothing(rule: LaunchRule, browser: Client, name: str) -> None:
    assert browser.get(address(name, rule.pk)).status_code == 405


def test_a_rule_of_another_pool_is_not_found(rule: LaunchRule, browser: Client) -> None:
    pools.create_pool("Sales", "sales", actor=None)
    assert browser.get(reverse("run_rule", args=["sales", rule.pk])).status_code == 404


def test_the_form_makes_a_rule(labeled: Pool, browser: Client, ops: User) -> None:
    sent = form(name=" every night ", hour="4", total_steps="50", only_new=None, include_llm="on")
    assert browser.post(address("run_rule_new"), sent).status_code == 302
    made = LaunchRule.objects.get()
    assert (made.name, made.trigger, made.hour, made.only_new, made.include_llm) == (
        "every night",
        "nightly",
        4,
        False,
        True,
    )
    assert (made.config, made.promote, made.active, made.author) == ({"total_steps": 50}, False, True, ops)


@pytest.mark.parametrize(
    ("field", "value"),
    [("hour", "24"), ("labels", "0"), ("rest_hours", "0"), ("name", " "), ("folds", "1"), ("trigger", "x")],
)
def test_a_bad_field_is_marked_and_nothing_is_kept(labeled: Pool, browser: Client, field: str, value: str) -> None:
    answer = browser.post(address("run_rule_new"), form(**{field: value}))
    assert answer.status_code == 422
    assert field in answer.context["form"].errors
    assert not LaunchRule.objects.exists()


def test_editing_begins_with_what_is_kept(rule: LaunchRule, browser: Client) -> None:
    shown = browser.get(address("run_rule", rule.pk)).context["form"]
    assert (shown["name"].value(), shown["total_steps"].value()) == ("nightly", 77)
    assert browser.post(address("run_rule", rule.pk), form(hour="5")).status_code == 302
    rule.refresh_from_db()
    assert (rule.hour, rule.config) == (5, {})


def test_two_rules_of_a_pool_do_not_share_a_name(rule: LaunchRule, browser: Client) -> None:
    answer = browser.post(address("run_rule_new"), form())
    assert "has that name" in str(answer.context["form"].errors["name"])


def test_the_list_says_when_and_why(rule: LaunchRule, browser: Client) -> None:
    rules.fire(rule, "its <hour>", rule.created_at)
    page = browser.get(address("run_rules")).content.decode()
    assert "Its run is not over yet" in page
    assert "its &lt;hour&gt;" in page
    assert f"Run {Run.objects.get().pk}" in page
    LaunchRule.objects.update(problem="Snapshot has no queries in: Validation.")
    assert "Snapshot has no queries in" in browser.get(address("run_rules")).content.decode()


def test_pausing_and_deleting(rule: LaunchRule, browser: Client) -> None:
    page = browser.post(address("run_rule_switch", rule.pk), {"on": "0"}, follow=True).content.decode()
    assert "is paused" in page
    assert '<span class="rw-state">Paused</span>' in page
    assert "Resume" in page
    browser.post(address("run_rule_switch", rule.pk), {"on": "1"})
    rule.refresh_from_db()
    assert rule.active
    run = runs.launch(rule.pool, rule=rule)
    assert "its runs stay" in browser.post(address("run_rule_delete", rule.pk), follow=True).content.decode()
    run.refresh_from_db()
    assert (run.rule, LaunchRule.objects.count()) == (None, 0)


def test_without_rules_the_page_teaches_the_first(labeled: Pool, browser: Client) -> None:
    assert "Make the first rule" in browser.get(address("run_rules")).content.decode()


def test_the_form_shows_what_a_run_would_train_on(labeled: Pool, browser: Client) -> None:
    answer = browser.get(address("run_rule_new"))
    assert answer.context["preview"] == previews.preview(labeled)
    page = answer.content.decode()
    assert "What it would train on now" in page
    assert reverse("run_near", args=["support"]) in page


def test_the_preview_follows_the_form(rule: LaunchRule, browser: Client) -> None:
    sent = form(promote="on", baselines=None)
    answer = browser.get(address("run_rule", rule.pk), sent, headers={"HX-Request": "true"})
    assert "training_app/rule.html" not in [template.name for template in answer.templates]
    assert "the gate cannot compare" in answer.content.decode()
    wrong = browser.get(address("run_rule_new"), form(folds="1", name=""), headers={"HX-Request": "true"})
    page = wrong.content.decode()
    assert "Folds:" in page
    assert "Name:" not in page, "a form that is not filled in yet is not scolded"
    assert LaunchRule.objects.get().promote is False
