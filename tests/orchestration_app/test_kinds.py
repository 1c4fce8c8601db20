"""Every kind of model is launched, by a rule, the API and the form, with its own settings."""

import pytest
from django.forms import Form
from django.test import Client
from django.utils import timezone

from agents_app.models import Pool
from tests.training_app.served import application
from training_app.models import LaunchRule, Run
from training_app.training import rules
from training_app.versions import kinds

pytestmark = pytest.mark.django_db

#: A setting that only runs of this kind have, and a value other than its default.
OWN = {
    "set_router": ("goal", "f1"),
    "orchestrator": ("learner", "evolution"),
    "backend_chooser": ("learner", "linucb"),
}


def filled(form: Form) -> dict[str, object]:
    """What a browser would send of the form as it is shown."""
    values = {bound.name: bound.value() for bound in form}
    return {name: value for name, value in values.items() if value is not None and value is not False}


def test_the_kinds_of_both_packages_are_there() -> None:
    assert list(kinds.every()) == list(OWN)


@pytest.mark.parametrize("kind", OWN)
def test_a_rule_launches_its_kind(kind: str, labeled: Pool) -> None:
    name, value = OWN[kind]
    rule = rules.save(LaunchRule(pool=labeled, name="r", model_kind=kind, config={name: value}), actor=None)
    run = rules.fire(rule, "now", timezone.now())
    assert run is not None, LaunchRule.objects.get().problem
    assert (run.kind, run.config[name]) == (kind, value)


@pytest.mark.parametrize("kind", OWN)
def test_the_form_of_a_kind_shows_its_settings_and_launches_it(kind: str, labeled: Pool, browser: Client) -> None:
    name, value = OWN[kind]
    page = f"/p/support/runs/new/?kind={kind}"
    shown = browser.get(page)
    form = shown.context["form"]
    assert {field.name for field in form} >= set(kinds.of(kind).config({}).to_mapping())
    assert {bound.name for bound in form.common()} == set(kinds.of(kind).open_settings)
    assert browser.post(page, filled(form) | {name: value}).status_code == 302
    run = Run.objects.get()
    assert (run.kind, run.config[name]) == (kind, value)


@pytest.mark.parametrize("kind", OWN)
def test_the_form_of_a_rule_keeps_the_kind(kind: str, labeled: Pool, browser: Client) -> None:
    name, value = OWN[kind]
    page = f"/p/support/runs/rules/new/?kind={kind}"
    form = browser.get(page).context["form"]
    assert browser.post(page, filled(form) | {name: value, "name": "nightly"}).status_code == 302
    rule = LaunchRule.objects.get()
    assert (rule.model_kind, rule.config[name]) == (kind, value)


@pytest.mark.parametrize("kind", OWN)
def test_the_api_launches_each_kind(kind: str, labeled: Pool, fresh_process: None) -> None:
    name, value = OWN[kind]
    ops = application(labeled, scopes=("ops",))
    told = ops.post("/api/runs/", {"pool": "support", "kind": kind, "config": {name: value}})
    assert told.status_code == 201, told.content
    assert (told.json()["kind"], told.json()["config"]) == (kind, {name: value})
    assert Run.objects.get().kind == kind
    rule = ops.post("/api/rules/", {"pool": "support", "name": "r", "kind": kind, "config": {name: value}})
    assert (rule.status_code, rule.json()["kind"]) == (201, kind)
