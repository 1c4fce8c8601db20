"""Training rules by HTTP: made, changed, paused, deleted; what is refused and who may."""

import json

import pytest
from django.test import Client

from agents_app import pools
from agents_app.models import AuditEntry, Pool
from tests.training_app.served import Application, application
from training_app.api.schema import document
from training_app.models import LaunchRule, Run
from training_app.training import runs


@pytest.fixture
def app(labeled: Pool) -> Application:
    return application(labeled, scopes=("ops",))


@pytest.fixture
def rule(app: Application) -> LaunchRule:
    made = app.post("/api/rules/", {"name": "nightly", "hour": 4, "config": {"total_steps": 77}})
    assert made.status_code == 201, made.content
    return LaunchRule.objects.get(pk=made.json()["id"])


def test_a_rule_is_made_shown_and_listed(app: Application, rule: LaunchRule) -> None:
    found = app.get(f"/api/rules/{rule.pk}/").json()
    assert set(found) == set(json.loads(document())["components"]["schemas"]["Rule"]["required"])
    assert (found["name"], found["trigger"], found["hour"], found["only_new"]) == ("nightly", "nightly", 4, True)
    assert (found["config"], found["active"], found["waits_for"]) == (
        {"total_steps": 77},
        True,
        "If gold has changed by then",
    )
    assert found["next_at"]
    assert app.get("/api/rules/?pool=support").json() == {"pool": "support", "rules": [found]}
    assert AuditEntry.objects.get(action="rule.created").actor_name == "key test"


def test_a_change_names_only_what_changes(app: Application, rule: LaunchRule) -> None:
    found = app.post(f"/api/rules/{rule.pk}/", {"trigger": "labels", "labels": 250, "promote": True}).json()
    assert (found["trigger"], found["labels"], found["promote"], found["hour"]) == ("labels", 250, True, 4)
    assert found["config"] == {"total_steps": 77}
    assert found["waits_for"] == "0 of 250 new gold labels"


def test_pausing_and_going_on(app: Application, rule: LaunchRule) -> None:
    assert app.post(f"/api/rules/{rule.pk}/", {"active": False}).json()["waits_for"] == "Paused"
    rule.refresh_from_db()
    assert not rule.active
    assert app.post(f"/api/rules/{rule.pk}/", {"active": True}).json()["active"] is True
    actions = AuditEntry.objects.filter(action__startswith="rule.").order_by("pk").values_list("action", flat=True)
    assert list(actions) == ["rule.created", "rule.paused", "rule.resumed"]


def test_deleting_leaves_its_runs(app: Application, rule: LaunchRule) -> None:
    run = runs.launch(rule.pool, rule=rule)
    assert app.post(f"/api/rules/{rule.pk}/delete/", {}).status_code == 200
    assert not LaunchRule.objects.exists()
    assert Run.objects.get().pk == run.pk
    assert app.get(f"/api/rules/{rule.pk}/").json()["error"]["code"] == "not_found"


@pytest.mark.parametrize(
    ("body", "code", "field"),
    [
        ({}, "missing", "name"),
        ({"name": ""}, "invalid", "name"),
        ({"name": "x" * 81}, "invalid", "name"),
        ({"name": "nightly"}, "invalid", "name"),
        ({"name": "n", "hour": 24}, "invalid", "hour"),
        ({"name": "n", "hour": True}, "invalid", "hour"),
        ({"name": "n", "trigger": "weekly"}, "invalid", "trigger"),
        ({"name": "n", "labels": 0}, "invalid", "labels"),
        ({"name": "n", "only_new": "yes"}, "invalid", "only_new"),
        ({"name": "n", "active": 1}, "invalid", "active"),
        ({"name": "n", "config": {"total_steps": -1}}, "invalid", "config.total_steps"),
        ({"name": "n", "config": []}, "invalid", "config"),
    ],
)
def test_a_bad_rule_names_its_field_and_keeps_nothing(
    app: Application, rule: LaunchRule, body: dict, code: str, field: str
) -> None:
    answer = app.post("/api/rules/", body)
    assert (answer.status_code, answer.json()["error"]["code"], answer.json()["error"]["field"]) == (400, code, field)
    assert LaunchRule.objects.count() == 1
    if body:
        changed = app.post(f"/api/rules/{rule.pk}/", {**body, "name": "nightly"} if field != "name" else body)
        assert changed.status_code == (200 if body == {"name": "nightly"} else 400)
        rule.refresh_from_db()
        assert (rule.name, rule.hour, rule.active) == ("nightly", 4, True)


PATHS = [
    ("get", "/api/rules/"),
    ("post", "/api/rules/"),
    ("get", "/api/rules/1/"),
    ("post", "/api/rules/1/"),
    ("post", "/api/rules/1/delete/"),
]


@pytest.mark.parametrize(("method", "path"), PATHS)
def test_each_needs_a_key_with_the_scope(labeled: Pool, method: str, path: str) -> None:
    arguments = (path, {}) if method == "post" else (path,)
    assert getattr(Client(), method)(path).json()["error"]["code"] == "key_missing"
    refused = getattr(application(labeled, scopes=("route",)), method)(*arguments)
    assert refused.json()["error"]["code"] == "scope_missing"


def test_a_rule_of_another_pool_is_not_found(rule: LaunchRule) -> None:
    other = application(pools.create_pool("Sales", "sales", actor=None), scopes=("ops",))
    for method, path in PATHS[2:]:
        arguments = ({},) if method == "post" else ()
        found = getattr(other, method)(path.replace("/1/", f"/{rule.pk}/"), *arguments)
        assert found.json()["error"]["code"] == "not_found"
    assert LaunchRule.objects.count() == 1
