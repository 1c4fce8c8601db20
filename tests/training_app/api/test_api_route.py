"""POST /api/route/: one query to its set of agents."""

import json
import uuid
from dataclasses import replace

import pytest

from agents_app import pools
from agents_app.models import Agent
from tests.training_app.api import errors
from tests.training_app.served import Application, ScriptedRouter, application
from training_app.answering import decisions
from training_app.models import Decision

pytestmark = pytest.mark.django_db


def error(response, status: int, code: str) -> dict:
    """The error of a response, whose message is a sentence."""
    answer = errors.error(response, status, code)
    assert answer["message"].endswith(".")
    return answer


def test_works(app, model):
    response = app.route("Billing is wrong and shipping is late")
    assert response.status_code == 200
    assert response["Content-Type"] == "application/json"
    answer = response.json()
    assert uuid.UUID(answer.pop("decision_id")).version == 7
    assert answer == {
        "agents": [0, 1],
        "agent_names": ["Billing", "Shipping"],
        "agent_keys": ["billing", "shipping"],
        "abstained": False,
        "confidence": 0.9123,
        "steps": 3,
        "scores": {"0": 0.9877, "1": 0.9877, "2": 0.0123},
        "stop_reason": "stop",
        "continues": None,
        "continues_confidence": None,
        "model": "support-1",
        "not_covered": [],
    }


def test_none_of_these_and_do_not_know_differ(app, model):
    none = app.route("hello").json()
    assert (none["agents"], none["stop_reason"], none["abstained"]) == ([], "none", False)
    unsure = app.route("perhaps billing").json()
    assert (unsure["agents"], unsure["stop_reason"], unsure["abstained"]) == ([0], "abstained", True)


def test_asks_the_database_nothing(app, model, in_memory, django_assert_num_queries, settings):
    settings.DECISION_BUFFER = 10
    in_memory()
    app.route()
    with django_assert_num_queries(0):
        assert app.route().status_code == 200
        assert app.route(explain=True).status_code == 200
        assert app.batch("billing", "shipping").status_code == 200
        assert app.get("/api/agents/").status_code == 200
        assert app.get("/api/health/").status_code == 200
        assert Application("rw_wrong", app.key).route().status_code == 401


def test_any_script(app, model):
    assert app.route("счёт выставлен дважды 🙂 billing").json()["agents"] == [0]
    decisions.buffer.write()
    assert Decision.objects.get().text == "счёт выставлен дважды 🙂 billing"


def test_explains(app, model):
    answer = app.route("billing", explain=True).json()
    assert [step["chosen"] for step in answer["explanation"]["steps"]] == [0, None]
    assert answer["explanation"]["steps"][1] == {
        "q": {"0": -0.25, "1": -0.25, "2": -0.25}, "stop": 0.0, "masked": [0], "chosen": None,
    }  # fmt: skip
    assert answer["explanation"]["features"] == {"0": [["charged", 1.25], ["update", -0.5]]}
    assert answer["explanation"]["rule"] == "ddqn"
    assert "explanation" not in app.route("billing", explain=False).json()


@pytest.mark.parametrize("rule", ["bayes", "threshold"])
def test_only_the_network_has_action_values(app, model, monkeypatch, rule):
    explain = ScriptedRouter.explain
    monkeypatch.setattr(ScriptedRouter, "explain", lambda *a, **options: replace(explain(*a, **options), rule=rule))
    found = app.route("billing", explain=True).json()["explanation"]
    assert found["rule"] == rule
    assert [(step["q"], step["stop"], step["chosen"]) for step in found["steps"]] == [({}, None, 0), ({}, None, None)]


def test_keeps_a_decision(app, model):
    answer = app.route("Billing, please").json()
    decisions.buffer.write()
    kept = Decision.objects.get()
    assert str(kept.id) == answer["decision_id"]
    assert (kept.pool, kept.model, kept.api_key) == (model.pool, model, app.key)
    assert (kept.text, kept.agents, kept.scores) == ("Billing, please", [0], answer["scores"])
    assert (kept.confidence, kept.steps, kept.stop_reason, kept.abstained) == (0.912345, 2, "stop", False)
    assert kept.at.timestamp() == pytest.approx(kept.id.int >> 80 and (kept.id.int >> 80) / 1000, abs=0.002)


# --- Which pool ---------------------------------------------------------------------------------------------------


def test_names_its_pool(app, model):
    assert app.route(pool="support").json()["model"] == "support-1"


def test_a_key_of_several_pools_has_to_name_one(pool, model):
    other = pools.create_pool("Sales", "sales")
    both = application(pool, other)
    found = error(both.route(), 400, "missing")
    assert (found["field"], found["choices"]) == ("pool", ["sales", "support"])
    assert both.route(pool="support").status_code == 200


@pytest.mark.parametrize("slug", ["sales", "no-such-pool", ""])
def test_another_pool_looks_the_same_whether_it_exists_or_not(app, model, slug):
    pools.create_pool("Sales", "sales")
    found = error(app.route(pool=slug), 403, "pool_refused")
    assert found["hint"] == "It opens: support."
    assert repr(slug) in found["message"]


def test_pool_must_be_a_text(app, model):
    assert error(app.route(pool=7), 400, "invalid")["field"] == "pool"


def test_no_model_and_no_agents_says_how_to_get_one(app, pool):
    pool.agents.all().delete()
    found = error(app.route(), 503, "no_model")
    assert "train --pool support --promote" in found["hint"]


# --- Which agents -------------------------------------------------------------------------------------------------


def test_a_retired_agent_is_masked(app, model):
    pools.retire(Agent.objects.get(name="Billing"), actor=None)
    answer = app.route("billing and shipping").json()
    assert answer["agents"] == [1]
    assert "0" not in answer["scores"]


def test_an_unavailable_agent_is_masked_and_comes_back(app, model):
    agent = Agent.objects.get(name="Billing")
    pools.set_available(agent, False, actor=None)
    assert app.route("billing").json()["agents"] == []
    pools.set_available(agent, True, actor=None)
    assert app.route("billing").json()["agents"] == [0]


def test_all_agents_retired_still_answers(app, model):
    for agent in Agent.objects.all():
        pools.retire(agent, actor=None)
    answer = app.route("billing").json()
    assert (answer["agents"], answer["scores"], answer["stop_reason"]) == ([], {}, "none")


def test_a_new_agent_is_named_as_not_covered(app, model):
    new = pools.add_agent(model.pool, "Legal")
    answer = app.route("legal and billing").json()
    assert (answer["agents"], answer["not_covered"]) == ([0], [new.number])


def test_a_renamed_agent_answers_by_its_new_name(app, model):
    pools.rename(Agent.objects.get(name="Billing"), "Invoices", actor=None)
    assert app.route("billing").json()["agent_names"] == ["Invoices"]


# --- Bad bodies ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, "missing"),
        ({"query": None}, "missing"),
        ({"query": ""}, "blank"),
        ({"query": " \n\u00a0"}, "blank"),
        ({"query": 7}, "invalid"),
        ({"query": ["a"]}, "invalid"),
        ({"query": True}, "invalid"),
        ({"query": "a\0b"}, "invalid"),
        ({"query": "half \ud83d of a pair"}, "invalid"),
        ({"query": "x" * 20_001}, "too_long"),
    ],
)
def test_a_bad_query_is_named(app, model, body, code):
    assert error(app.post("/api/route/", body), 400, code)["field"] == "query"


def test_the_longest_query_is_taken(app, model):
    assert app.route("billing " + "x" * 19_992).status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        b" ",
        b"{",
        b"query=x",
        b"[1]",
        b'"text"',
        b"null",
        b"NaN",
        b'{"query": "\xff"}',
        '{"query": "x"}'.encode("utf-16"),
        b"[" * 90_000,
    ],
)
def test_a_malformed_body(app, model, body):
    error(app.post("/api/route/", body), 400, "malformed")


def test_explain_is_true_or_false(app, model):
    assert error(app.route(explain="yes"), 400, "invalid")["field"] == "explain"


def test_another_content_type(app, model):
    found = error(
        app.post("/api/route/", b"query=x", content_type="application/x-www-form-urlencoded"), 415, "not_json"
    )
    assert "Content-Type: application/json" in found["hint"]
    assert app.post("/api/route/", {"query": "x"}, content_type="application/json; charset=UTF-8").status_code == 200


def test_a_large_body(app, model, settings):
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 100
    assert "100 bytes" in error(app.route("x" * 100), 413, "too_large")["message"]
    assert app.route("x" * 50).status_code == 200


# --- Who may ------------------------------------------------------------------------------------------------------


def test_no_key(app, model):
    for headers in ({}, {"Authorization": "Basic abc"}, {"Authorization": "Bearer "}):
        response = app.post("/api/route/", {"query": "x"}, headers=headers)
        error(response, 401, "key_missing")
        assert response["WWW-Authenticate"] == 'Bearer realm="Routerweb"'


def test_a_wrong_key(app, model):
    response = Application("rw_wrong", app.key).route()
    error(response, 401, "key_refused")
    assert 'error="invalid_token"' in response["WWW-Authenticate"]


def test_a_key_without_the_scope(pool, model):
    error(application(pool, scopes=("ops",)).route(), 403, "scope_missing")


def test_bearer_in_any_case(app, model):
    headers = {"Authorization": f"bearer  {app.secret} "}
    assert app.post("/api/route/", {"query": "x"}, headers=headers).status_code == 200


def test_the_limit_a_minute(app, model, settings, monkeypatch):
    settings.ROUTE_RATE_PER_MINUTE = 3
    moment = 1000.0
    monkeypatch.setattr("training_app.answering.throttle.time.monotonic", lambda: moment)
    assert [app.route().status_code for _ in range(3)] == [200] * 3
    response = app.route()
    assert "3 queries a minute" in error(response, 429, "too_many_requests")["message"]
    assert response["Retry-After"] == "20"
    moment += 20
    assert app.route().status_code == 200
    assert app.route().status_code == 429
    assert application(model.pool).route().status_code == 200, "another key has a minute of its own"


# --- Which method and address -------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["get", "put", "delete", "patch", "options"])
def test_another_method(client, method):
    response = getattr(client, method)("/api/route/")
    error(response, 405, "method_not_allowed")
    assert response["Allow"] == "POST"


def test_an_unknown_address(client, db):
    error(client.get("/api/rout/"), 404, "not_found")
    error(client.post("/api/"), 404, "not_found")


def test_a_missing_slash_is_no_redirect(app, model):
    assert app.post("/api/route", {"query": "billing"}).json()["agents"] == [0]


def test_a_fault_of_the_router_is_no_page(app, model, monkeypatch, caplog):
    monkeypatch.setattr("tests.training_app.served.ScriptedRouter.route", lambda *_, **_named: 1 / 0)
    found = error(app.route("secret words"), 500, "internal_error")
    assert "secret words" not in json.dumps(found)
    assert "ZeroDivisionError" in caplog.text
