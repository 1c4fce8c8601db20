"""POST /api/route/ says who is to run each agent, and POST /api/outcomes/ who did."""

import json
import uuid
from types import SimpleNamespace
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from agents_app import health as agents_health
from agents_app.models import Pool
from orchestration_app import health, providers
from orchestration_app.backends import choosing, measured, state
from orchestration_app.engine.backends.choosing import PRESETS
from orchestration_app.models import Backend, BackendCall
from tests.training_app.served import Application
from training_app.answering import answer, decisions, serving
from training_app.models import Decision, Outcome

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


def routed(app: Application, text: str = "billing", **more: Any) -> dict[str, Any]:
    answered = app.post("/api/route/", {"query": text, **more})
    assert answered.status_code == 200, answered.content
    return answered.json()


def taken(app: Application, **more: Any) -> str:
    return routed(app, **more)["assignments"][0]["backend"]["name"].split("/")[1]


def told(app: Application, decision: str, *parts: dict[str, Any], success: bool = True) -> Any:
    return app.post("/api/outcomes/", {"decision_id": decision, "success": success, "served": list(parts)})


def test_a_pool_without_backends_answers_as_it_did(app: Application, model: object) -> None:
    answered = routed(app, preference="best")
    assert "assignments" not in answered
    decisions.buffer.write()
    assert Decision.objects.get().detail is None


@pytest.mark.parametrize(
    ("preference", "expected"),
    [
        ("best", "large"),
        ("cheapest", "small"),
        ("fastest", "quick"),
        ({"quality": 3}, "large"),
        ({"cost": 1, "quality": 0}, "small"),
    ],
)
def test_a_preference_decides(app: Application, rows: SimpleNamespace, preference: Any, expected: str) -> None:
    assert taken(app, preference=preference) == expected


def test_the_answer_says_what_is_expected_and_the_decision_keeps_it(app: Application, rows: SimpleNamespace) -> None:
    answered = routed(app, "billing and shipping and technical", preference="best")
    first, second = answered["assignments"]
    assert first["agent"] == 0
    assert first["backend"] == {"id": rows.large.pk, "name": "acme/large"}
    assert first["expected"] == {"success": 0.95, "cost": pytest.approx(0.014), "latency_ms": 2000.0}
    assert second["agent"] == 1
    assert second["why"] == "the agent's only backend"
    decisions.buffer.write()
    kept = Decision.objects.get().detail["assignments"]
    assert [one["backend"]["id"] for one in kept] == [rows.large.pk, rows.ships.pk]
    assert kept[0]["propensity"] == 1.0


def test_a_batch_assigns_each_query(app: Application, rows: SimpleNamespace) -> None:
    found = app.post("/api/route/batch/", {"queries": ["billing", "technical"], "preference": "cheapest"}).json()[
        "results"
    ]
    assert [one["assignments"] for one in found][1] == []
    assert found[0]["assignments"][0]["backend"]["id"] == rows.small.pk


def test_a_replay_holds_what_was_assigned(app: Application, rows: SimpleNamespace, ops_key: Application) -> None:
    decision = routed(app, preference="fastest")["decision_id"]
    decisions.buffer.write()
    found = ops_key.get(f"/api/decisions/{decision}/replay/")
    assert found["identical"] is True
    assert found["detail"]["assignments"][0]["backend"]["id"] == rows.quick.pk


@pytest.fixture
def ops_key(pool: Pool) -> Any:
    from tests.training_app.served import application

    secret = application(pool, scopes=("ops",)).secret
    return SimpleNamespace(get=lambda path: Client().get(path, headers={"Authorization": f"Bearer {secret}"}).json())


@pytest.mark.parametrize(
    "value", ["dearest", 1, [], {}, {"speed": 1}, {"cost": -1}, {"cost": 0}, {"cost": True}, {"cost": 10**400}]
)
def test_a_preference_that_means_nothing_is_refused(app: Application, model: object, value: Any) -> None:
    answered = app.post("/api/route/", {"query": "billing", "preference": value})
    assert answered.status_code == 400
    assert answered.json()["error"]["field"] == "preference"


def test_the_pools_own_preference_counts_where_a_request_brings_none(
    pool: Pool, app: Application, rows: SimpleNamespace
) -> None:
    providers.save_settings(pool, {"quality": 0, "cost": 0, "latency": 1}, actor=None)
    assert taken(app) == "quick"
    assert taken(app, preference="best") == "large"


def test_what_was_served_is_billed(app: Application, rows: SimpleNamespace) -> None:
    """`large` was assigned and `small` served: its price counts, and its figures."""
    decision = routed(app, preference="best")["decision_id"]
    decisions.buffer.write()
    part = {"agent": 0, "backend": rows.small.pk, "tokens_in": 1_000_000, "tokens_out": 500_000, "latency_ms": 640}
    assert told(app, decision, part | {"tool": False, "complexity": 0.25}).status_code == 201
    call = BackendCall.objects.get()
    assert (call.tool, call.complexity) == (False, 0.25)
    assert call.cost == pytest.approx(0.2 + 0.3)
    assert call.assigned == rows.large.pk
    assert call.propensity == 1.0
    assert call.success is True
    assert told(app, decision, part | {"cost": 0.25, "success": False}).status_code == 200
    call.refresh_from_db()
    assert (call.cost, call.tool, call.complexity) == (0.25, None, None), "the last report counts, whole"
    assert measured.of_pool(call.pool_id)[rows.small.pk].success == 0.0


@pytest.mark.parametrize(
    ("part", "field"),
    [
        ({"agent": 0}, "served[0].backend"),
        ({"agent": 0, "backend": 1, "cost": -1}, "served[0].cost"),
        ({"agent": 0, "backend": 1, "complexity": 1.1}, "served[0].complexity"),
        ({"agent": 0, "backend": 1, "complexity": "hard"}, "served[0].complexity"),
        ({"agent": 0, "backend": 1, "tool": "yes"}, "served[0].tool"),
        ({"agent": 0, "backend": 10**6}, "served"),
        ("x", "served"),
    ],
)
def test_a_bad_part_is_named_and_nothing_is_kept(
    app: Application, rows: SimpleNamespace, part: Any, field: str
) -> None:
    answered = told(app, "019a9f3e-5d0a-7c31-9f0e-4a1b6c2d8e7f", part)
    assert answered.status_code == 400
    assert answered.json()["error"]["field"] == field
    assert not BackendCall.objects.exists()
    assert not Outcome.objects.exists()


def test_another_agents_backend_is_refused(app: Application, rows: SimpleNamespace) -> None:
    answered = told(app, "019a9f3e-5d0a-7c31-9f0e-4a1b6c2d8e7f", {"agent": 1, "backend": rows.small.pk})
    assert answered.status_code == 400
    assert not Outcome.objects.exists()


@pytest.mark.at_length
def test_reported_successes_move_the_choice(app: Application, rows: SimpleNamespace) -> None:
    for _ in range(40):
        decision = routed(app, preference="best")["decision_id"]
        told(app, decision, {"agent": 0, "backend": rows.large.pk}, success=False)
    assert taken(app, preference="best") == "small"


def test_a_backend_cools_down_after_failures_and_comes_back(app: Application, rows: SimpleNamespace) -> None:
    for _ in range(3):
        told(app, routed(app)["decision_id"], {"agent": 0, "backend": rows.large.pk, "failed": True})
    rows.large.refresh_from_db()
    assert rows.large.cooling_until > timezone.now()
    assert taken(app, preference="best") != "large"
    Backend.objects.filter(pk=rows.large.pk).update(cooling_until=timezone.now())
    assert routed(app, preference={"quality": 1})["assignments"][0]["why"] == "the best for the preference"


def test_nobody_is_named_where_nobody_may_be_taken(app: Application, rows: SimpleNamespace) -> None:
    Backend.objects.update(healthy=False)
    found = routed(app)["assignments"][0]
    assert found == {
        "agent": 0,
        "backend": None,
        "expected": None,
        "why": "every backend cools down after failures, or is not healthy",
    }


def test_a_budget_degrades_to_the_cheapest_before_it_refuses(
    pool: Pool, app: Application, rows: SimpleNamespace
) -> None:
    providers.save_settings(pool, {"budget": 1.0}, actor=None)
    assert taken(app, preference="best") == "large"
    told(app, routed(app)["decision_id"], {"agent": 0, "backend": rows.large.pk, "cost": 0.85})
    found = routed(app, preference="best")["assignments"][0]
    assert found["backend"]["id"] == rows.small.pk
    assert "nearly spent" in found["why"]
    told(app, routed(app)["decision_id"], {"agent": 0, "backend": rows.large.pk, "cost": 0.15})
    assert routed(app)["assignments"][0]["why"] == "the budget of the day is spent"


def test_a_limit_is_kept_and_another_backend_takes_over(app: Application, rows: SimpleNamespace) -> None:
    Backend.objects.filter(pk=rows.large.pk).update(requests_per_minute=3)
    serving.forget()
    assert [taken(app, preference="best") for _ in range(5)] == ["large"] * 3 + ["small"] * 2


def test_a_call_that_ended_makes_place_for_the_next(app: Application, rows: SimpleNamespace) -> None:
    Backend.objects.filter(pk=rows.large.pk).update(at_once=2)
    serving.forget()
    first = routed(app, preference="best")["decision_id"]
    assert [taken(app, preference="best") for _ in range(2)] == ["large", "small"]
    told(app, first, {"agent": 0, "backend": rows.large.pk, "latency_ms": 5})
    assert taken(app, preference="best") == "large"


def test_equals_share_the_work(pool: Pool, app: Application, rows: SimpleNamespace) -> None:
    same = {name: getattr(rows.large, name) for name in ("quality", "price_in", "price_out", "latency")}
    providers.save(rows.large.agent, rows.provider, {"model": "twin", **same}, actor=None)
    found = [taken(app, preference="best") for _ in range(20)]
    assert found.count("large") == found.count("twin") == 10


def test_a_hot_backend_is_left_and_taken_again(pool: Pool, app: Application, rows: SimpleNamespace) -> None:
    providers.save_settings(pool, {"quality": 1, "cost": 0, "latency": 0, "spread": True}, actor=None)
    found = [taken(app) for _ in range(16)]
    assert found[:2] == ["large", "small"], "after its first the whole window is its own"
    assert found.count("large") > 5
    assert "large" in found[-4:]


def test_what_is_explored_says_how_likely_it_was(
    pool: Pool, app: Application, rows: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    providers.save_settings(pool, {"exploration": 0.1}, actor=None)
    serving.served()
    monkeypatch.setattr(
        "training_app.answering.loaded.chance", SimpleNamespace(random=lambda: 0.0, randrange=lambda n: n - 1)
    )
    assert taken(app, preference="best") == "quick"
    decisions.buffer.write()
    kept = Decision.objects.get().detail["assignments"][0]
    assert kept["propensity"] == pytest.approx(0.1 / 3, abs=1e-6)
    assert kept["why"] == "taken by lot, to be measured"


def test_no_secret_is_shown_or_kept_in_the_open(app: Application, rows: SimpleNamespace) -> None:
    rows.provider.refresh_from_db()
    assert "sk-never-shown" not in rows.provider.secret
    assert "sk-never-shown" not in json.dumps(routed(app))


def test_one_look_costs_a_pool_without_backends_no_query(
    app: Application, model: object, in_memory: Any, django_assert_num_queries: Any
) -> None:
    in_memory()
    with django_assert_num_queries(0):
        assert state.of(serving.served().pools["support"].pk) is None
        answer.answer(serving.served().pools["support"], "billing")


def test_a_health_check_takes_a_backend_out_and_brings_it_back(
    app: Application, rows: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    Backend.objects.filter(pk=rows.large.pk).update(health_url="https://status.example/large")
    said = {"ok": False}
    monkeypatch.setattr(agents_health, "probe", lambda url: agents_health.Probe(said["ok"], "HTTP 503"))
    assert health.check_all() == 1
    assert taken(app, preference="best") == "small"
    said["ok"] = None
    assert health.check_all() == 0
    said["ok"] = True
    assert health.check_all() == 1
    assert taken(app, preference="best") == "large"


def test_what_is_kept_between_settlements_follows_rank_limits_and_settlements(
    pool: Pool, rows: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    twin = providers.save(
        rows.large.agent, rows.provider,
        {"model": "twin", "quality": 0.95, "price_in": 10.0, "price_out": 30.0, "latency": 2000.0}, actor=None,
    )  # fmt: skip
    serving.served()
    found = state.of(pool.pk)
    assert found is not None
    settle = state.settle_now
    monkeypatch.setattr(state, "settle_now", lambda _pool: None)  # nobody settles but this test

    def one(**more: Any) -> int:
        (given,) = choosing.assign(pool.pk, "", [0], PRESETS["best"], **more) or []
        assert given.backend is not None
        return given.backend.pk

    assert {one(), one()} == {rows.large.pk, twin.pk}, "equals take turns"
    found.by_key[rows.large.pk].open = False
    assert [one(), one()] == [twin.pk] * 2
    assert one(only={rows.small.pk, rows.quick.pk}) == rows.small.pk
    assert one() == twin.pk
    found.by_key[twin.pk].candidate.success = 0.1
    assert one() == twin.pk, "figures are read once between two settlements"
    settle(found)
    assert one() == rows.large.pk, "a settlement measures anew and looks who is healthy; it had less work than its twin"
    for _ in range(5):
        BackendCall.objects.create(decision_id=uuid.uuid4(), pool=pool, agent=0, backend=rows.large, success=False)
    settle(found)
    assert [one(), one()] == [twin.pk] * 2, "what was measured since counts"
