"""Whether the agents of a conversation's last turn go on: what an application sends, and what it is answered."""

import pytest

from agents_app import allowed_sets
from tests.training_app.served import Application, ScriptedRouter
from training_app.answering import decisions, replays, serving
from training_app.engine.routing.allowed import Rules
from training_app.engine.routing.routes import Route
from training_app.models import Decision, RouterModel
from training_app.rollout import trials

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("model")]
TALK = [
    {"role": "user", "content": "my billing is wrong"},
    {"role": "assistant", "content": "Which invoice do you mean?"},
    {"role": "user", "content": "yes"},
]


def told(app: Application, messages: list[dict], **more: object) -> dict:
    answer = app.post("/api/route/", {"messages": messages, "pool": "support", **more})
    assert answer.status_code == 200, answer.content
    found: dict = answer.json()
    return found


def test_a_text_and_a_first_turn_continue_nothing(app: Application) -> None:
    for answer in (app.route("my billing is wrong").json(), told(app, TALK[:1])):
        assert (answer["continues"], answer["continues_confidence"]) == (None, None)


def test_a_reply_to_a_question_stays_with_the_agents_of_the_turn_before(app: Application) -> None:
    first = told(app, TALK[:1])
    assert first["agents"] == [0]
    for more in ({}, {"previous": [0]}, {"previous": ["billing"]}, {"previous": first["decision_id"]}):
        reply = told(app, TALK, **more)
        assert (reply["agents"], reply["continues"]) == ([0], True), more
        assert 0.5 <= reply["continues_confidence"] <= 1
        assert "warnings" not in reply
    assert told(app, TALK, sticky=0)["agents"] != [0]


def test_a_change_of_subject_leaves_them(app: Application) -> None:
    answer = told(app, [*TALK[:2], {"role": "user", "content": "now where is the shipping of my parcel"}])
    assert (answer["agents"], answer["continues"]) == ([1], False)


def test_an_answer_may_name_its_agent(app: Application) -> None:
    for name in ("shipping", "SHIPPING"):
        named = [TALK[0], {**TALK[1], "name": name}, TALK[2]]
        assert told(app, named, sticky=1)["agents"] == [1]
        batch = app.post("/api/route/batch/", {"queries": [{"messages": named}], "pool": "support", "sticky": 1}).json()
        assert batch["results"][0]["agents"] == [1]
        assert told(app, [TALK[0], {**TALK[1], "agents": [name]}, TALK[2]], sticky=1)["agents"] == [1]
    both = told(app, [TALK[0], {**TALK[1], "agents": [0, "shipping", "somebody else"]}, TALK[2]], sticky=1)
    assert both["agents"] == [0, 1]
    wrong = app.post("/api/route/", {"messages": [TALK[0], {**TALK[1], "agents": [1.5]}, TALK[2]], "pool": "support"})
    assert "messages[1].agents[0] must be the id, the key or the name of an agent" in wrong.content.decode()
    unknown = told(app, [TALK[0], {**TALK[1], "name": "nobody"}, TALK[2]], sticky=1)
    assert unknown["agents"] == [0]


def test_agents_that_cannot_be_chosen_do_not_go_on(app: Application) -> None:
    answer = told(app, TALK, previous=[0], sticky=1, exclude=[0])
    assert (answer["continues"], answer["continues_confidence"]) == (False, 1.0)
    assert 0 not in answer["agents"]


def test_a_decision_of_nobody_is_in_the_warnings(app: Application) -> None:
    for decision in ("none", "0198c0de-0000-7000-8000-000000000000"):
        answer = told(app, TALK, previous=decision)
        assert answer["agents"] == [0]
        assert decision in answer["warnings"][0]


def test_a_replay_stays_as_the_decision_did(app: Application) -> None:
    first = told(app, TALK[:1])
    decisions.buffer.write()  # the decision is now looked up in the database
    answer = told(app, TALK, previous=first["decision_id"])
    decisions.buffer.write()
    decision = Decision.objects.get(pk=answer["decision_id"])
    assert decision.detail["continued"] == {"last": [0], "held": True}
    again = replays.replay(decision, serving.router_of(decision.model))
    assert again.identical


def test_a_question_and_its_reply_keep_to_the_allowed_sets(
    app: Application, model: RouterModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    unsure = {0: 0.55, 1: 0.45, 2: 0.3}
    monkeypatch.setattr(
        ScriptedRouter, "route", lambda _self, _text, *_a, **_wishes: Route((0, 2), unsure, 0.3, 3, "stop")
    )
    trials.change_settings(model.pool, [("ask_cost", 0.1)], actor=None)
    allowed_sets.set_rules(model.pool, Rules(requires=((0, 2),), excludes=((1, 2),)), actor=None)
    serving.refresh()
    first = told(app, TALK[:1])
    assert first["ask"]["agents"] == [0, 1], "nobody can leave out the third alone"
    said = [TALK[0], {"role": "assistant", "content": first["ask"]["question"]}]
    assert told(app, [*said, {"role": "user", "content": "shipping"}])["agents"] == [1], (
        "the third may not be beside it"
    )
    answer = told(app, [*said, {"role": "user", "content": "billing"}])
    assert sorted(answer["agents"]) == [0, 2], "the third comes along"
    decisions.buffer.write()
    decision = Decision.objects.get(pk=answer["decision_id"])
    assert replays.replay(decision, serving.router_of(decision.model)).identical


def test_a_reply_keeps_the_agents_that_were_not_in_doubt(
    app: Application, model: RouterModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A router that learnt from single texts reads the reply alone."""
    first_turn = Route((2, 0), {0: 0.55, 1: 0.45, 2: 0.99}, 0.3, 3, "stop")
    alone = Route((1,), {0: 0.01, 1: 0.98, 2: 0.01}, 0.95, 2, "stop")
    monkeypatch.setattr(
        ScriptedRouter, "route", lambda _self, text, *_a, **_wishes: alone if "shipping" in text else first_turn
    )
    trials.change_settings(model.pool, [("ask_cost", 0.1)], actor=None)
    serving.refresh()
    first = told(app, TALK[:1])
    assert (sorted(first["agents"]), first["ask"]["agents"]) == ([0, 2], [0, 1])
    said = [TALK[0], {"role": "assistant", "content": first["ask"]["question"]}]
    reply = told(app, [*said, {"role": "user", "content": "shipping"}])
    assert sorted(reply["agents"]) == [1, 2]
    by_id = told(app, [*said, {"role": "user", "content": "shipping"}], previous=first["decision_id"])
    assert sorted(by_id["agents"]) == [1, 2]
    decisions.buffer.write()
    decision = Decision.objects.get(pk=reply["decision_id"])
    assert replays.replay(decision, serving.router_of(decision.model)).identical


def test_the_user_is_asked_where_that_is_worth_it(
    app: Application, model: RouterModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    unsure = {0: 0.55, 1: 0.45, 2: 0.01}
    monkeypatch.setattr(
        ScriptedRouter, "route", lambda _self, _text, *_a, **_wishes: Route((0,), unsure, 0.4, 2, "stop")
    )
    assert "ask" not in told(app, TALK[:1])
    trials.change_settings(model.pool, [("ask_cost", 0.3)], actor=None)
    serving.refresh()
    first = told(app, TALK[:1])
    assert first["ask"]["agents"] == [0, 1]
    assert first["ask"]["question"].startswith("Is this about Billing")
    decisions.buffer.write()
    assert Decision.objects.get(pk=first["decision_id"]).detail["ask"] == [0, 1]
    said = [
        TALK[0],
        {"role": "assistant", "content": first["ask"]["question"]},
        {"role": "user", "content": "shipping"},
    ]
    reply = told(app, said)
    assert reply["agents"] == [1]
    assert "ask" not in reply
    assert "ask" not in told(app, [*said[:2], {"role": "user", "content": "hm, I am not sure"}]), "twice in a row"
    decisions.buffer.write()
    decision = Decision.objects.get(pk=reply["decision_id"])
    assert replays.replay(decision, serving.router_of(decision.model)).identical
    trials.change_settings(model.pool, [("ask_cost", 0.7)], actor=None)
    serving.refresh()
    assert "ask" not in told(app, TALK[:1])
