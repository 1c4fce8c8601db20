"""Every kind of model is started in every way: by a rule, the API, a page and a command, with its own settings."""

from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.forms import Form
from django.test import Client
from django.utils import timezone

from agents_app.models import Pool
from orchestration_app.models import Executor, ExecutorCheck
from tests import orchestration
from tests.training_app.served import application
from training_app.engine.settings import ConfigError
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


class Starts:
    """The ways to start a run of a kind with a setting: each says whether it was accepted, and leaves a run in the queue."""

    def __init__(self, pool: Pool, browser: Client) -> None:
        self.pool, self.browser = pool, browser
        self.ops = application(pool, scopes=("ops",))

    def rule(self, kind: str, config: dict[str, object]) -> bool:
        try:
            rule = rules.save(LaunchRule(pool=self.pool, name="r", model_kind=kind, config=config), actor=None)
        except ConfigError:
            return False
        return rules.fire(rule, "now", timezone.now()) is not None

    def rule_by_api(self, kind: str, config: dict[str, object]) -> bool:
        answer = self.ops.post("/api/rules/", {"pool": self.pool.slug, "name": "r", "kind": kind, "config": config})
        return self._fired(answer.status_code == 201)

    def rule_by_page(self, kind: str, config: dict[str, object]) -> bool:
        page = f"/p/{self.pool.slug}/runs/rules/new/?kind={kind}"
        form = self.browser.get(page).context["form"]
        return self._fired(self.browser.post(page, filled(form) | config | {"name": "nightly"}).status_code == 302)

    def api(self, kind: str, config: dict[str, object]) -> bool:
        answer = self.ops.post("/api/runs/", {"pool": self.pool.slug, "kind": kind, "config": config})
        return answer.status_code == 201

    def page(self, kind: str, config: dict[str, object]) -> bool:
        page = f"/p/{self.pool.slug}/runs/new/?kind={kind}"
        form = self.browser.get(page).context["form"]
        return self.browser.post(page, filled(form) | config).status_code == 302

    def command(self, kind: str, config: dict[str, object]) -> bool:
        pairs = [f"{name}={value}" for name, value in config.items()]
        try:
            call_command("train", pool=self.pool.slug, kind=kind, set=pairs, queue=True, stdout=StringIO())
        except CommandError:
            return False
        return True

    def _fired(self, accepted: bool) -> bool:
        if accepted:
            rules.fire(LaunchRule.objects.get(), "now", timezone.now())
        return accepted


WAYS = ("rule", "rule_by_api", "rule_by_page", "api", "page", "command")


@pytest.fixture
def starts(labeled: Pool, browser: Client, fresh_process: None) -> Starts:
    return Starts(labeled, browser)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", OWN)
def test_each_way_starts_each_kind_with_its_setting(kind: str, way: str, starts: Starts) -> None:
    name, value = OWN[kind]
    assert getattr(starts, way)(kind, {name: value})
    run = Run.objects.get()
    assert (run.kind, run.config[name], run.status) == (kind, value, "queued")
    assert kinds.of(run.kind).config(run.config).to_mapping()[name] == value


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", OWN)
def test_no_way_starts_a_kind_with_a_value_that_its_setting_does_not_have(kind: str, way: str, starts: Starts) -> None:
    name, _value = OWN[kind]
    assert not getattr(starts, way)(kind, {name: "no such value"})
    assert not Run.objects.exists()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", [kind for kind in OWN if kind != "set_router"])
def test_no_way_starts_what_calls_agents_in_a_pool_that_is_not_ready(kind: str, way: str, starts: Starts) -> None:
    orchestration.give_executors(starts.pool)
    executor = Executor.objects.filter(agent__pool=starts.pool).first()
    assert executor is not None
    ExecutorCheck.objects.create(executor=executor, failure="timeout", why="it did not answer")
    getattr(starts, way)(kind, dict([OWN[kind]]))
    assert not Run.objects.exists()


@pytest.mark.parametrize("kind", OWN)
def test_the_form_of_a_kind_shows_its_settings(kind: str, labeled: Pool, browser: Client) -> None:
    form = browser.get(f"/p/support/runs/new/?kind={kind}").context["form"]
    elsewhere = set(form.instead) | set(form.beside)
    assert {bound.name for bound in form.common()} == set(kinds.of(kind).open_settings) - elsewhere
    assert set(form.beside) == set(kinds.of(kind).choices)
    if kinds.of(kind).groups:
        assert {field.name for field in form} >= set(kinds.of(kind).config({}).to_mapping())
