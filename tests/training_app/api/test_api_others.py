"""The API's other addresses: batch, agents, health, schema."""

import json
import os
import re
import threading

import pytest

from agents_app import pools
from agents_app.models import Agent
from routerweb.serving import disconnect
from tests.training_app.api.test_api_route import error
from tests.training_app.served import application, promoted
from training_app.answering import decisions, serving
from training_app.api import bodies, fast_lane
from training_app.models import Artifact, Decision

pytestmark = pytest.mark.django_db


def test_a_batch_answers_in_order(app, model):
    body = app.batch("billing", "hello", "shipping").json()
    assert [answer["agents"] for answer in body["results"]] == [[0], [], [1]]
    assert (body["model"], body["not_covered"]) == ("support-1", [])
    assert set(body["results"][0]) == set(app.route().json())
    decisions.buffer.write()
    assert {str(kept.id): kept.text for kept in Decision.objects.all()}[body["results"][2]["decision_id"]] == "shipping"


def test_a_batch_is_one_call_of_the_router(app, model, monkeypatch):
    calls = []
    monkeypatch.setattr(
        "tests.training_app.served.ScriptedRouter.route_batch",
        lambda self, texts, available, rules: calls.append(texts) or [self.route(text, available) for text in texts],
    )
    app.batch("a", "b")
    assert calls == [["a", "b"]]


def test_an_empty_batch(app, model):
    assert app.batch().json()["results"] == []


@pytest.mark.parametrize(
    ("query", "code"), [(" ", "blank"), (None, "missing"), (3, "invalid"), ("x" * 20_001, "too_long")]
)
def test_a_batch_names_the_bad_query_and_keeps_nothing(app, model, query, code):
    found = error(app.batch("fine", "fine", query), 400, code)
    assert (found["field"], found["index"]) == ("queries[2]", 2)
    assert len(decisions.buffer) == 0


@pytest.mark.parametrize(("queries", "code"), [(None, "missing"), ("text", "invalid"), ({"0": "text"}, "invalid")])
def test_queries_must_be_a_list(app, model, queries, code):
    assert error(app.post("/api/route/batch/", {"queries": queries}), 400, code)["field"] == "queries"


def test_too_many_queries(app, model, settings):
    settings.MAX_BATCH_QUERIES = 2
    assert "at most 2" in error(app.batch("a", "b", "c"), 400, "too_many")["message"]
    assert app.batch("a", "b").status_code == 200


def test_too_many_characters_in_all(app, model, settings):
    settings.MAX_BATCH_CHARACTERS = 20
    found = error(app.batch("a" * 11, "b" * 10), 400, "too_long")
    assert found["field"] == "queries"
    assert "21 characters together; at most 20" in found["message"]
    talk = {"messages": [{"role": "user", "content": "a" * 15}, {"role": "user", "content": "b" * 6}]}
    error(app.post("/api/route/batch/", {"queries": [talk]}), 400, "too_long")
    assert app.batch("a" * 10, "b" * 10).status_code == 200


@pytest.mark.parametrize("options", [{}, {"max_agents": 1}])
def test_the_work_of_a_batch_stops_when_its_client_leaves(app, model, monkeypatch, options):
    left, turns = threading.Event(), []
    check = disconnect.check

    def leave_at_the_third_turn():
        turns.append(None)
        if len(turns) == 3:
            left.set()
        check()

    monkeypatch.setattr(disconnect, "check", leave_at_the_third_turn)
    body = {"queries": ["billing " * 1_200] * 10, **options}
    headers = [
        (b"host", b"127.0.0.1"), (b"authorization", f"Bearer {app.secret}".encode()), (b"content-type", b"application/json"),
    ]  # fmt: skip
    with pytest.raises(disconnect.Abandoned):
        disconnect.run(left, fast_lane.answer, b"POST", fast_lane.BATCH, headers, json.dumps(body).encode(), "http")
    assert len(turns) == 3
    assert len(decisions.buffer) == 0


def test_a_batch_looks_for_its_client_at_every_query_of_every_step(app, model, monkeypatch):
    looks, leaves_at = [], 0

    def check():
        looks.append(None)
        if len(looks) == leaves_at:
            raise disconnect.Abandoned

    monkeypatch.setattr(disconnect, "check", check)
    body = json.dumps({"queries": ["billing " * 1_200] * 10}).encode()
    headers = [
        (b"host", b"127.0.0.1"), (b"authorization", f"Bearer {app.secret}".encode()), (b"content-type", b"application/json"),
    ]  # fmt: skip
    assert fast_lane.answer(b"POST", fast_lane.BATCH, headers, body, "http") is not None
    # Read as JSON, checked, counted, routed, completed, made JSON and written.
    steps = len(looks)
    assert steps == 7 * 10
    for leaves_at in range(1, steps + 1):
        looks.clear()
        decisions.buffer._pending.clear()
        with pytest.raises(disconnect.Abandoned):
            fast_lane.answer(b"POST", fast_lane.BATCH, headers, body, "http")
        assert len(looks) == leaves_at
        assert len(decisions.buffer) == (0 if leaves_at <= 6 * 10 else 10)  # it left while its answer was written


def test_a_batch_is_read_and_written_in_steps_as_it_is_at_once():
    for text in ('{"a": [1, [2], {"b": []}], "pool": null}', '{"a": [1e999]}', '{"a": []}', "[1, [2]]", "{}"):
        assert bodies.IN_STEPS.decode(text) == bodies.DECODER.decode(text)
    for text in ('{"a": [1,}', '{"a": [1 2]}', '{"a": [NaN]}', '{"a": [1]', '{"a"}', "[1,", "", '{"a": []} x'):
        with pytest.raises(json.JSONDecodeError) as whole:
            bodies.DECODER.decode(text)
        with pytest.raises(json.JSONDecodeError, match=re.escape(str(whole.value))):
            bodies.IN_STEPS.decode(text)
    value = {"model": "é\ud800", "results": [{"scores": {1: 0.5}}, None], "not_covered": []}
    assert bodies.written_in_steps(value) == bodies.written(value)


def test_work_that_is_abandoned_before_it_begins_does_not_begin():
    left = threading.Event()
    left.set()
    with pytest.raises(disconnect.Abandoned):
        disconnect.run(left, lambda: pytest.fail("it began"))


def test_each_query_of_a_batch_counts_for_the_limit(app, model, settings):
    settings.ROUTE_RATE_PER_MINUTE = 3
    assert app.batch("a", "b").status_code == 200
    error(app.batch("a", "b"), 429, "too_many_requests")
    assert app.route().status_code == 200


def test_a_batch_above_the_limit_costs_the_whole_minute(app, model, settings):
    settings.ROUTE_RATE_PER_MINUTE = 3
    assert app.batch(*"abcdef").status_code == 200
    error(app.route(), 429, "too_many_requests")


def test_agents(app, model):
    pools.retire(Agent.objects.get(name="Shipping"), actor=None)
    pools.add_agent(model.pool, "Legal", "contracts", ["law"], cost=2)
    body = app.get("/api/agents/").json()
    assert (body["pool"], body["model"]) == ("support", "support-1")
    assert [(agent["id"], agent["name"], agent["state"], agent["covered"]) for agent in body["agents"]] == [
        (0, "Billing", "active", True),
        (1, "Shipping", "retired", True),
        (2, "Technical", "active", True),
        (3, "Legal", "active", False),
    ]
    assert body["agents"][3] | {"code": "LE"} == {
        "id": 3, "key": "legal", "code": "LE", "name": "Legal", "description": "contracts", "keywords": ["law"], "cost": 2.0,
        "state": "active", "available": True, "covered": False, "cold": False,
    }  # fmt: skip


def test_agents_without_a_model_and_by_pool(pool, app):
    other = application(pool, pools.create_pool("Sales", "sales"), scopes=("ops",))
    assert other.get("/api/agents/?pool=support").json()["model"] is None
    error(other.get("/api/agents/"), 400, "missing")
    error(app.get("/api/agents/?pool=sales"), 403, "pool_refused")
    error(app.post("/api/agents/", {}), 405, "method_not_allowed")


def test_health_tells_nobody_but_ops_more_than_how_it_is(client, app, model):
    assert client.get("/api/health/").json() == {"status": "ok"}
    assert app.get("/api/health/").json() == {"status": "ok"}
    assert client.get("/api/health/", headers={"Authorization": "Bearer rw_made_up"}).json() == {"status": "ok"}
    other = pools.create_pool("Other", "other")
    assert application(other, scopes=("ops",)).get("/api/health/").json()["models"] == {"other": None}


def test_health_tells_ops_the_rest_and_no_secret(client, app, model):
    app.route()
    response = application(model.pool, scopes=("ops",)).get("/api/health/")
    assert response.status_code == 200
    body = response.json()
    assert body.pop("stamp_age_seconds") >= 0
    process = body.pop("process")
    assert process["memory_bytes"] > 10e6
    assert process["name"].endswith(f":{os.getpid()}")
    assert body == {
        "status": "ok",
        "database": "ok",
        "models": {"support": "support-1"},
        "problems": {},
        "decisions": {"waiting": 1, "dropped": 0},
    }
    assert app.key.digest not in response.text
    assert client.head("/api/health/").status_code == 200


def test_health_shows_a_refused_model(client, app, model):
    Artifact.objects.filter(model=promoted(model.pool, (0, "Billing"))).update(content=b"broken")
    serving.forget()
    body = application(model.pool, scopes=("ops",)).get("/api/health/").json()
    assert body["status"] == "degraded"
    assert "support-2 was refused" in body["problems"]["support"]


def test_schema_names_what_the_api_does(client, app, model):
    document = client.get("/api/schema/").json()
    schemas = document["components"]["schemas"]
    answer = app.route(explain=True).json()
    live = {"canary", "explored", "cold", "cold_scores", "assignments", "messages_left_out", "warnings", "ask"}
    assert set(answer) == set(schemas["Answer"]["properties"]) - live
    assert set(answer) - {"explanation"} == set(schemas["Answer"]["required"])
    assert set(answer["explanation"]["steps"][0]) == set(schemas["Step"]["required"])
    assert set(app.get("/api/agents/").json()["agents"][0]) == set(schemas["Agent"]["required"])
    assert set(client.get("/api/health/").json()) == set(schemas["Health"]["required"])
    ops = application(model.pool, scopes=("ops",))
    assert set(ops.get("/api/health/").json()) == set(schemas["Health"]["properties"])
    assert set(app.batch("", pool="support").json()["error"]) <= set(schemas["ErrorDetail"]["properties"])
