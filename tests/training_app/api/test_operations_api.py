"""The API of ops: runs, models, promotion and roll-back, each with its errors and its scope."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from agents_app import pools
from agents_app.models import AuditEntry, Pool
from datasets_app.models import Snapshot
from tests.training_app.api.errors import error
from tests.training_app.served import Application, application
from tests.training_app.words import PERFECT, WEAK, card
from training_app.api.schema import document
from training_app.models import RouterModel, Run
from training_app.training import runs
from training_app.versions import gate, registry

Make = Callable[..., RouterModel]


@pytest.fixture
def app(labeled: Pool) -> Application:
    return application(labeled, scopes=("ops",))


def keys_of(schema: str) -> set[str]:
    return set(json.loads(document())["components"]["schemas"][schema]["required"])


PATHS = [
    ("get", "/api/runs/"),
    ("post", "/api/runs/"),
    ("get", "/api/runs/1/"),
    ("post", "/api/runs/1/cancel/"),
    ("get", "/api/models/"),
    ("post", "/api/models/support-1/promote/"),
    ("post", "/api/rollback/"),
]


@pytest.mark.parametrize(("method", "path"), PATHS)
def test_each_needs_a_key_with_the_scope(labeled: Pool, method: str, path: str) -> None:
    arguments = (path, {}) if method == "post" else (path,)
    error(getattr(Client(), method)(path), 401, "key_missing")
    error(getattr(application(labeled, scopes=("route",)), method)(*arguments), 403, "scope_missing")


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("delete", "/api/runs/", "GET, HEAD, POST"),
        ("get", "/api/rollback/", "POST"),
        ("post", "/api/runs/1/", "GET, HEAD"),
    ],
)
def test_another_method(labeled: Pool, method: str, path: str, allow: str) -> None:
    answer = getattr(Client(), method)(path)
    error(answer, 405, "method_not_allowed")
    assert answer["Allow"] == allow


def test_the_audit_trail_says_which_key_it_was_and_who_made_it(labeled: Pool, person: Any) -> None:
    maker = person("ops")
    made = application(labeled, scopes=("ops",), created_by=maker)
    assert made.post("/api/runs/", {}).status_code == 201
    assert AuditEntry.objects.get(action="run.launched").actor_name == f"key test of {maker.get_username()}"


def test_a_run_is_launched_shown_and_cancelled(app: Application, labeled: Pool) -> None:
    answer = app.post("/api/runs/", {"config": {"total_steps": 500}, "promote": True})
    assert answer.status_code == 201
    launched = answer.json()
    assert set(launched) == keys_of("Run")
    run = Run.objects.get()
    assert (launched["id"], launched["status"], launched["config"]) == (run.pk, "queued", {"total_steps": 500})
    assert (run.promote, run.config["total_steps"], launched["snapshot"]) == (True, 500, run.snapshot.number)
    assert AuditEntry.objects.get(action="run.launched").actor_name == "key test"
    assert app.get(f"/api/runs/{run.pk}/").json() == launched
    assert app.get("/api/runs/").json()["runs"] == [launched]
    assert app.get("/api/runs/?status=done").json()["runs"] == []
    assert app.post(f"/api/runs/{run.pk}/cancel/", {}).json()["status"] == "cancelled"
    assert "ended already" in error(app.post(f"/api/runs/{run.pk}/cancel/", {}), 409, "ended")["message"]


@pytest.mark.parametrize(
    ("body", "code", "field"),
    [
        ({"config": {"total_steps": -1}}, "invalid", "config.total_steps"),
        ({"config": {"no_such": 1}}, "invalid", "config.no_such"),
        ({"config": []}, "invalid", "config"),
        ({"promote": "yes"}, "invalid", "promote"),
        ({"snapshot": 99}, "invalid", "snapshot"),
        ({"snapshot": True}, "invalid", "snapshot"),
        ({"snapshot": 10**30}, "invalid", "snapshot"),
        ({"pool": 3}, "invalid", "pool"),
    ],
)
def test_a_bad_launch_names_its_field(app: Application, snapshot: Snapshot, body: dict, code: str, field: str) -> None:
    assert error(app.post("/api/runs/", body), 400, code)["field"] == field
    assert not Run.objects.exists()


def test_nothing_to_train_on(pool: Pool) -> None:
    error(application(pool, scopes=("ops",)).post("/api/runs/", {}), 409, "cannot_launch")


@pytest.mark.parametrize("query", ["limit=0", "limit=101", "limit=x", "limit=²", "status=nonsense"])
def test_a_bad_list_is_refused(app: Application, query: str) -> None:
    error(app.get(f"/api/runs/?{query}"), 400, "invalid")


def test_a_key_sees_nothing_of_other_pools(app: Application, run: Run, word_model: Make) -> None:
    word_model(PERFECT)
    stranger = application(pools.create_pool("Other", "other", actor=None), scopes=("ops",))
    for answer in (
        stranger.get(f"/api/runs/{run.pk}/"),
        stranger.post(f"/api/runs/{run.pk}/cancel/", {}),
        stranger.post("/api/models/support-1/promote/", {}),
        app.get("/api/runs/999999999999999999999/"),
        app.post("/api/models/support-99/promote/", {}),
    ):
        error(answer, 404, "not_found")
    error(stranger.get("/api/models/?pool=support"), 403, "pool_refused")
    run.refresh_from_db()
    assert run.status == "queued"


def test_models_are_promoted_through_the_gate_and_rolled_back(app: Application, word_model: Make, pool: Pool) -> None:
    strong, weak = word_model(PERFECT), word_model(WEAK)
    first = app.post("/api/models/support-1/promote/", {"reason": "the first"}).json()
    assert set(first) == keys_of("Promotion")
    assert (first["model"], first["previous"], first["kind"], first["reason"]) == (
        "support-1",
        None,
        "first",
        "the first",
    )
    refused = error(app.post("/api/models/support-2/promote/", {}), 409, "gate_refused")
    assert [f["passed"] for f in refused["findings"]] == [True, True, True, False]
    assert registry.active(pool) == strong
    assert app.post("/api/models/support-2/promote/", {"override": "cheaper"}).json()["previous"] == "support-1"
    assert registry.active(pool) == weak
    assert weak.promotions.get().judgement.override == "cheaper"
    error(app.post("/api/models/support-2/promote/", {"override": "again"}), 409, "cannot_promote")
    listed = app.get("/api/models/").json()["models"]
    assert set(listed[0]) == keys_of("Model")
    assert [(m["name"], m["state"], m["jaccard"]) for m in listed] == [
        ("support-2", "active", 0.9),
        ("support-1", "retired", 0.9),
    ]
    assert app.post("/api/rollback/", {"reason": "slow"}).json()["model"] == "support-1"
    error(app.post("/api/rollback/", {}), 409, "cannot_roll_back")
    entry = AuditEntry.objects.filter(action="model.rolled_back").get()
    assert entry.actor_name == "key test"


def test_of_too_few_queries_there_is_no_figure(app: Application, word_model: Make) -> None:
    word_model(PERFECT, card(queries=49))
    word_model(PERFECT, card(queries=50))
    enough, few = app.get("/api/models/").json()["models"]
    assert (few["jaccard"], few["exact"], few["verdict"]["right_of_100"], few["verdict"]["queries"]) == (
        None, None, None, 49,
    )  # fmt: skip
    assert (enough["jaccard"], enough["verdict"]["right_of_100"]) == (0.9, 90)


@pytest.mark.parametrize(("override", "code"), [(3, "invalid"), ("x" * 401, "too_long"), ("a\0b", "invalid")])
def test_a_reason_is_a_short_text(app: Application, word_model: Make, override: object, code: str) -> None:
    word_model(PERFECT)
    found = error(app.post("/api/models/support-1/promote/", {"override": override}), 400, code)
    assert found["field"] == "override"


def test_a_list_costs_the_same_however_long(
    app: Application, snapshot: Snapshot, django_assert_num_queries: Callable
) -> None:
    for _ in range(3):
        runs.launch(snapshot.pool, snapshot=snapshot, queue=False)
    app.get("/api/runs/")
    with django_assert_num_queries(4):  # a look at the stamp, the pool, the runs, what their models are measured on
        assert len(app.get("/api/runs/").json()["runs"]) == 3


def test_a_promotion_without_a_scorecard_is_refused(app: Application, word_model: Make) -> None:
    gate.promote(word_model(WEAK), actor=None)
    word_model(PERFECT, {"metrics": {}})
    word_model(PERFECT, card())
    error(app.post("/api/models/support-2/promote/", {}), 409, "gate_refused")
    assert app.post("/api/models/support-3/promote/", {}).status_code == 200
