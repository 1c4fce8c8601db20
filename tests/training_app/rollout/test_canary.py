"""A canary over the API: who meets it, that the answer says so, and that it never costs an answer."""

import pytest

from tests.training_app.served import ScriptedRouter, application, promoted
from training_app.answering import decisions, serving, shadowing
from training_app.answering.loaded import lot
from training_app.models import Artifact, Decision, LiveTally
from training_app.rollout import trials
from training_app.versions import registry

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
KEYS = [f"user {number}" for number in range(24)]


def versions(app, keys=KEYS) -> dict[str, str]:
    return {key: app.route("technical", sticky_key=key).json()["model"] for key in keys}


def test_lots_are_even_and_depend_on_key_and_salt() -> None:
    drawn = [lot("a", str(number)) for number in range(4000)]
    assert all(0 <= one < 1 for one in drawn)
    for share in (0.05, 0.25, 0.5):
        assert sum(one < share for one in drawn) / 4000 == pytest.approx(share, abs=0.035)
    assert lot("a", "x") == lot("a", "x") != lot("b", "x")
    assert lot("a", "half \ud83d of a pair") < 1


def test_a_share_of_the_keys_meets_it_always_the_same(app, candidate, canary) -> None:
    canary(0.25)
    first = versions(app)
    assert set(first.values()) == {"support-1", "support-2"}
    assert versions(app) == first
    canary(0.5)
    more = versions(app)
    assert {key for key, name in first.items() if name == "support-2"} < {
        key for key, name in more.items() if name == "support-2"
    }
    trials.stop_canary(candidate.pool, actor=None)
    assert set(versions(app).values()) == {"support-1"}


def test_without_a_key_the_text_decides(app, canary) -> None:
    canary(0.5)
    texts = [f"technical question {number}" for number in range(30)]
    first = [app.route(text).json()["model"] for text in texts]
    assert set(first) == {"support-1", "support-2"}
    assert [app.route(text).json()["model"] for text in texts] == first


def test_the_answer_and_the_decision_name_the_version(app, model, candidate, canary) -> None:
    canary(0.5)
    by_name = {name: key for key, name in versions(app).items()}
    old = app.route("technical and billing", sticky_key=by_name["support-1"]).json()
    new = app.route("technical and billing", sticky_key=by_name["support-2"], explain=True).json()
    assert (old["agents"], old["not_covered"], "canary" in old) == ([0, 2], [], False)
    assert (new["agents"], new["not_covered"], new["canary"]) == ([0], [2], True)
    assert set(new["scores"]) == {"0", "1"}
    assert [step["chosen"] for step in new["explanation"]["steps"]] == [0, None]
    decisions.buffer.write()
    kept = Decision.objects.in_bulk([old["decision_id"], new["decision_id"]])
    by_model = {row.model.name: row.detail for row in kept.values()}
    assert by_model["support-1"].keys() == {"unit"}
    assert by_model["support-2"] == {"canary": True, "unit": by_model["support-2"]["unit"]}
    assert by_model["support-1"]["unit"] != by_model["support-2"]["unit"]
    app.route("billing", sticky_key=by_name["support-1"])
    decisions.buffer.write()
    again = Decision.objects.get(text="billing")
    assert again.detail == by_model["support-1"]  # the same user, whatever they ask


def test_a_batch_is_split_and_stays_in_order(app, canary) -> None:
    canary(0.5)
    texts = [f"technical question {number}" for number in range(30)]
    alone = [app.route(text).json()["model"] for text in texts]
    answer = app.batch(*texts).json()
    assert answer["model"] == "support-1"
    assert [one["model"] for one in answer["results"]] == alone
    assert [one["agents"] for one in answer["results"]] == [[2] if name == "support-1" else [] for name in alone]
    together = app.batch(*texts, sticky_key="user 1").json()
    assert len({one["model"] for one in together["results"]}) == 1


@pytest.mark.parametrize("key", ["", 7, "x" * 201, ["a"], True])
def test_a_bad_sticky_key_is_named(app, model, key) -> None:
    for answer in (app.route(sticky_key=key), app.batch("billing", sticky_key=key)):
        assert (answer.status_code, answer.json()["error"]["field"]) == (400, "sticky_key")


@pytest.mark.parametrize("ends", ["promote", "rollback", "stop"])
def test_it_is_gone_at_the_next_look_of_the_process(app, model, candidate, canary, in_memory, ends) -> None:
    if ends == "rollback":
        promoted(model.pool, (0, "Billing"))
    canary(0.5)
    in_memory()
    assert len(set(versions(app).values())) == 2
    if ends == "promote":
        registry.promote(candidate, actor=None)
    elif ends == "rollback":
        registry.rollback(model.pool, actor=None)
    else:
        trials.stop_canary(model.pool, actor=None)
    serving.watch_once()
    assert set(versions(app).values()) == {"support-2" if ends == "promote" else "support-1"}


def test_a_promoted_canary_is_not_loaded_again(app, candidate, canary, in_memory) -> None:
    canary(0.5)
    in_memory()
    before = serving.current("support").live.canary.pool.model.router
    registry.promote(candidate, actor=None)
    serving.watch_once()
    assert serving.current("support").model.router is before
    assert serving.current("support").live is None


def test_where_it_fails_the_active_model_answers_and_it_is_counted(
    app, candidate, canary, in_memory, monkeypatch, caplog
) -> None:
    canary(0.5)
    in_memory()
    met = next(key for key, name in versions(app).items() if name == "support-2")
    monkeypatch.setattr(ScriptedRouter, "route", broken(ScriptedRouter.route))
    monkeypatch.setattr(ScriptedRouter, "route_batch", broken(ScriptedRouter.route_batch))
    answer = app.route("technical", sticky_key=met).json()
    assert (answer["model"], answer["agents"]) == ("support-1", [2])
    batch = app.batch("technical", "billing", sticky_key=met).json()["results"]
    assert [one["model"] for one in batch] == ["support-1", "support-1"]
    assert "support-2 failed" in caplog.text
    shadowing.turn()
    tally = LiveTally.objects.get(model=candidate, kind="canary")
    assert (tally.errors, tally.last_error) == (2, "RuntimeError: no such tensor")


def broken(method):
    """The method, failing on the router that knows two agents."""

    def call(self, *arguments, **options):
        if len(self.agents) == 2:
            raise RuntimeError("no such tensor")
        return method(self, *arguments, **options)

    return call


def test_a_fault_of_the_active_model_is_still_a_fault(app, canary, monkeypatch) -> None:
    canary(0.5)
    monkeypatch.setattr(ScriptedRouter, "route", lambda *_: 1 / 0)
    assert {app.route("x", sticky_key=key).status_code for key in KEYS[:8]} == {500}


def test_a_canary_that_cannot_be_loaded_leaves_the_active_model_answering(app, candidate, canary) -> None:
    canary(0.5)
    Artifact.objects.filter(model=candidate).update(content=b"broken")
    assert set(versions(app).values()) == {"support-1"}
    assert (
        "The canary support-2 was refused"
        in application(candidate.pool, scopes=("ops",)).get("/api/health/").json()["problems"]["support"]
    )
    shadowing.turn()
    assert LiveTally.objects.get(model=candidate, kind="canary").errors > 0


def test_asks_the_database_nothing(
    app, candidate, canary, live, in_memory, django_assert_num_queries, settings
) -> None:
    settings.DECISION_BUFFER = 100
    live(exploration=0.1, cold=True)
    canary(0.5)
    trials.start_shadow(candidate, actor=None)
    in_memory()
    with django_assert_num_queries(0):
        versions(app)
        assert app.batch("billing", "technical").status_code == 200
    assert shadowing.waiting() > 0
