"""Shadows and canaries by HTTP and by command."""

import json
import math
from io import StringIO
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from agents_app import pools
from agents_app.models import AuditEntry
from tests.training_app.served import Application, application
from training_app.answering import decisions, serving, shadowing
from training_app.api.schema import document
from training_app.engine.judging import sequential
from training_app.models import Artifact, Canary, Decision, RouterModel
from training_app.rollout import live_figures, trials
from training_app.versions import registry

pytestmark = pytest.mark.django_db


@pytest.fixture
def operator(candidate) -> Application:
    return application(candidate.pool, scopes=("ops",))


def act(operator: Application, what: str, **body: object):
    return operator.post(f"/api/models/support-2/{what}/", body)


def figures(operator: Application) -> dict:
    answer = operator.get("/api/models/support-2/live/")
    assert answer.status_code == 200
    found: dict = json.loads(answer.content, parse_constant=lambda name: pytest.fail(name))
    return found


def test_a_shadow_starts_shows_its_figures_and_stops(operator, app) -> None:
    assert act(operator, "shadow").json() == {"model": "support-2", "state": "shadow"}
    assert act(operator, "shadow").json()["error"]["code"] == "cannot_shadow"
    assert figures(operator)["shadow"]["queries"] == 0
    for text in ("billing", "technical", "billing and technical"):
        app.route(text)
    shadowing.turn(rest=0)
    found = figures(operator)["shadow"]
    assert (found["scored"], found["errors"], found["queries"], found["against"]) == (3, 0, 3, "support-1")
    # Jaccard: 1; 0, as one set is empty; 1 of 2.
    assert found["jaccard"]["mean"] == pytest.approx(0.5)
    assert found["exact"]["mean"] == pytest.approx(1 / 3)
    assert found["set_size"]["difference"]["mean"] == pytest.approx(-2 / 3)
    assert found["by_agent"] == [
        {"id": 2, "both": 0, "only_active": 2, "only_shadow": 0},
        {"id": 0, "both": 2, "only_active": 0, "only_shadow": 0},
    ]
    assert act(operator, "shadow/stop").json() == {"model": "support-2", "state": "candidate"}
    assert figures(operator)["shadow"] is None
    assert AuditEntry.objects.filter(actor_name="key test", action__startswith="shadow").count() == 2


def test_a_canary_starts_through_the_gate_compares_and_stops(operator, app) -> None:
    refused = act(operator, "canary", share=0.5)
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "gate_refused")
    assert refused.json()["error"]["findings"]
    started = act(operator, "canary", share=0.5, override="measured elsewhere", reason="try").json()
    assert (started["share"], started["passed"], started["override"]) == (0.5, False, "measured elsewhere")
    empty = figures(operator)["canary"]
    assert (empty["enough"], empty["difference"]["set_size"]["mean"]) == (False, None)
    met = {"support-1": 0, "support-2": 0}
    for number in range(40):
        answer = app.route("technical", sticky_key=f"user {number}").json()
        decisions.buffer.write()
        met[answer["model"]] += 1
        success = answer["model"] == "support-2" or number % 2 == 0
        app.post("/api/outcomes/", {"decision_id": answer["decision_id"], "success": success})
    found = figures(operator)["canary"]
    assert (found["active"]["outcomes"], found["canary"]["outcomes"]) == (met["support-1"], met["support-2"])
    assert found["canary"]["success"]["mean"] == 1.0
    assert found["difference"]["set_size"]["mean"] == -1.0
    assert found["difference"]["success"]["mean"] > 0.2
    assert not found["enough"]
    assert "at least 100 each are needed" in found["verdict"]
    wrong = operator.post("/api/models/support-1/canary/stop/", {})
    assert (wrong.status_code, trials.canary_of(operator.key.pools.get()) is None) == (409, False)
    assert act(operator, "canary/stop").json()["ended_at"]
    assert act(operator, "canary/stop").json()["error"]["code"] == "cannot_canary"
    assert figures(operator)["canary"] is None


def arm(name: str, outcomes: int, successes: int) -> Any:
    return SimpleNamespace(model=SimpleNamespace(name=name), outcomes=outcomes, successes=successes)


@pytest.mark.parametrize(
    ("ours", "theirs", "users", "enough", "said"),
    [
        ((60, 60), (60, 60), 60, False, "Not enough to tell: new has 60 outcomes, old 60"),
        ((400, 400), (400, 300), 400, True, "new succeeds more often than old, by 1"),
        ((400, 400), (400, 300), 10, False, "at least 20 on each side"),
        ((400, 300), (400, 400), 400, True, "new succeeds less often than old, by 1"),
        ((900, 450), (900, 450), 900, False, "No difference in success shows so far"),
        ((0, 0), (500, 400), 500, False, "new has 0, old 500."),
    ],
)
def test_what_is_said_of_success(ours, theirs, users, enough, said) -> None:
    new = np.arange(ours[0] + theirs[0]) < ours[0]
    success = np.concatenate([np.arange(ours[0]) < ours[1], np.arange(theirs[0]) < theirs[1]])
    unit = np.concatenate([np.arange(ours[0]) % users, users + np.arange(theirs[0]) % users])
    difference = sequential.difference(success, new, unit, np.zeros(len(new), int))
    found, verdict = live_figures._verdict(arm("new", *ours), arm("old", *theirs), difference, "")
    assert found is enough
    assert said in verdict
    assert live_figures._verdict(arm("new", *ours), arm("old", *theirs), difference, "split") == (False, "split")


def test_a_split_that_is_not_as_set_stops_the_verdict(operator, app) -> None:
    act(operator, "canary", share=0.5, override="measured elsewhere")
    for number in range(60):
        app.route(f"technical {number}")
    decisions.buffer.write()
    assert "does not split as set" not in figures(operator)["canary"]["verdict"]
    canary = trials.canary_of(operator.key.pools.get())
    Decision.objects.filter(model=canary.model).update(model=canary.against)  # as if the canary had failed each time
    found = figures(operator)["canary"]
    assert (
        "does not split as set: 0 of 60 users and texts met support-2, which is 0.0 % and not 50.0 %"
        in found["verdict"]
    )
    assert not found["enough"]


def test_each_change_of_the_share_begins_a_period(operator) -> None:
    for share in (0.05, 0.05, 0.5):
        act(operator, "canary", share=share, override="measured elsewhere")
    canary = trials.canary_of(operator.key.pools.get())
    assert [share for _since, share in canary.shares] == [0.05, 0.5]
    assert canary.shares[0][0] < canary.shares[1][0]


@pytest.mark.parametrize("share", [None, "0.1", True, [0.1]])
def test_a_bad_share_is_named(operator, share) -> None:
    error = act(operator, "canary", share=share).json()["error"]
    assert (error["code"], error["field"]) == ("missing" if share is None else "invalid", "share")


def test_a_share_out_of_range_says_what_would_do(operator) -> None:
    answer = act(operator, "canary", share=0.7, override="x")
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "cannot_canary")
    assert "at most 50 %" in answer.json()["error"]["message"]
    assert act(operator, "canary", share=math.nan).status_code == 400
    assert not Canary.objects.exists()


@pytest.mark.parametrize("what", ["shadow", "shadow/stop", "canary", "canary/stop"])
def test_it_takes_the_scope_ops_and_a_key_of_the_pool(candidate, what) -> None:
    assert act(application(candidate.pool), what, share=0.1).status_code == 403
    stranger = application(pools.create_pool("Other", "other"), scopes=("ops",))
    assert act(stranger, what, share=0.1, override="x").status_code == 404
    assert stranger.get("/api/models/support-2/live/").status_code == 404


# --- Commands -----------------------------------------------------------------------------------------------------


def said(*words: object, **options: object) -> str:
    out = StringIO()
    call_command(*words, stdout=out, **options)
    return out.getvalue().strip()


def test_the_commands_do_the_same(candidate) -> None:
    assert said("shadow", "support-2") == "support-2 is a shadow: it scores what support-1 answers."
    assert said("shadow", "support-2", "--stop") == "support-2 is a candidate again."
    with pytest.raises(CommandError, match="is not a shadow"):
        said("shadow", "support-2", "--stop")
    with pytest.raises(CommandError, match="does not pass the gate"):
        said("canary", "support-2")
    assert said("canary", "support-2", "--share", "0.2", "--override", "known") == (
        "support-2 answers 20% now, support-1 the rest."
    )
    with pytest.raises(CommandError, match="support-1 is not the canary"):
        said("canary", "support-1", "--stop")
    assert said("canary", "support-2", "--stop") == "support-1 answers everything again."
    assert trials.canary_of(candidate.pool) is None
    with pytest.raises(CommandError, match="no model support-9"):
        said("canary", "support-9")


# ---------------------------------------------------------------------------------------------------- agents


def test_an_agent_is_paused_and_brought_back(operator, app) -> None:
    answer = operator.post("/api/agents/0/pause/", {"pool": "support", "why": "its index is rebuilt"})
    assert answer.status_code == 200
    told = answer.json()
    assert set(told) == required("AgentAvailability")
    assert (told["id"], told["available"], told["why"]) == (0, False, "its index is rebuilt")
    assert app.route("billing and shipping").json()["agents"] == [1]
    entry = AuditEntry.objects.get(action="agent.unavailable")
    assert (entry.actor_name, entry.detail) == ("key test", {"why": "its index is rebuilt"})
    back = operator.post("/api/agents/0/resume/", {}).json()
    assert (back["available"], back["unavailable_since"], back["why"]) == (True, None, "")
    assert app.route("billing and shipping").json()["agents"] == [0, 1]


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("/api/agents/99/pause/", {}, 404, "not_found"),
        ("/api/agents/99999999999999999999/pause/", {}, 404, "not_found"),
        ("/api/agents/0/pause/", {"pool": "sales"}, 403, "pool_refused"),
        ("/api/agents/0/pause/", {"why": 3}, 400, "invalid"),
        ("/api/agents/0/pause/", {"why": "x" * 201}, 400, "too_long"),
    ],
)
def test_a_pause_that_cannot_be_says_why(operator, path: str, body: dict, status: int, code: str) -> None:
    pools.create_pool("Sales", "sales", actor=None)
    answer = operator.post(path, body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert not AuditEntry.objects.filter(action="agent.unavailable").exists()


@pytest.mark.parametrize(
    "path",
    ["/api/agents/0/pause/", "/api/agents/0/resume/", "/api/models/support-1/pin/", "/api/models/support-1/unpin/"],
)
def test_an_application_may_not_change_anything(app, path: str) -> None:
    assert app.post(path, {}).json()["error"]["code"] == "scope_missing"


# ---------------------------------------------------------------------------------------------------- replay


def test_a_decision_is_replayed(operator, app) -> None:
    answered = app.route("billing and technical").json()
    decisions.buffer.write()
    address = f"/api/decisions/{answered['decision_id']}/replay/"
    found = operator.get(address).json()
    assert set(found) == required("Replay")
    assert set(found["kept"]) == required("Replayed")
    assert (found["model"], found["text"], found["identical"]) == ("support-1", "billing and technical", True)
    assert found["kept"] == found["replayed"]
    assert (found["kept"]["agents"], found["kept"]["scores"]) == (answered["agents"], answered["scores"])
    assert [step["chosen"] for step in found["explanation"]["steps"]] == [0, 2, None]
    assert app.get(address).json()["error"]["code"] == "scope_missing"


def test_a_decision_that_cannot_be_replayed_says_why(operator, app, candidate) -> None:
    unknown = operator.get("/api/decisions/019a9f3e-5d0a-7c31-9f0e-4a1b6c2d8e7f/replay/")
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "not_found")
    assert operator.get("/api/decisions/7/replay/").json()["error"]["code"] == "not_found"
    number = app.route("billing").json()["decision_id"]
    decisions.buffer.write()
    other = application(pools.create_pool("Sales", "sales", actor=None), scopes=("ops",))
    assert other.get(f"/api/decisions/{number}/replay/").json()["error"]["code"] == "not_found"
    registry.promote(candidate, actor=None)
    serving._earlier_router.cache_clear()
    Artifact.objects.exclude(model=candidate).delete()
    assert operator.get(f"/api/decisions/{number}/replay/").json()["error"]["code"] == "cannot_replay"
    Decision.objects.update(text="", model=candidate)
    assert "was erased" in operator.get(f"/api/decisions/{number}/replay/").json()["error"]["message"]


# ---------------------------------------------------------------------------------------------------- pins


def test_a_model_is_pinned_and_let_go(operator, candidate) -> None:
    pinned = operator.post("/api/models/support-2/pin/", {}).json()
    assert (pinned["name"], pinned["pinned"]) == ("support-2", True)
    assert set(pinned) == required("Model")
    assert {row["name"]: row["pinned"] for row in operator.get("/api/models/").json()["models"]} == {
        "support-2": True, "support-1": False,
    }  # fmt: skip
    assert operator.post("/api/models/support-2/unpin/", {}).json()["pinned"] is False
    assert AuditEntry.objects.filter(actor_name="key test", action__in=("model.pinned", "model.unpinned")).count() == 2
    RouterModel.objects.filter(pk=candidate.pk).update(pruned_at=timezone.now())
    Artifact.objects.filter(model=candidate).delete()
    assert operator.post("/api/models/support-2/pin/", {}).json()["error"]["code"] == "cannot_pin"


def required(schema: str) -> set[str]:
    return set(json.loads(document())["components"]["schemas"][schema]["required"])
