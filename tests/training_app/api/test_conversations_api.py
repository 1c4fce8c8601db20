"""Conversations over the API, and what becomes of them: decisions, replays, labeling, erasing, canaries, the playground."""

import json
from typing import Any

import pytest
from django.test import Client

from datasets_app.labels import erased_queries
from datasets_app.models import Query
from datasets_app.queries import adding
from tests.training_app.served import Application, ScriptedRouter
from training_app.answering import answer, decisions, replays, routable, serving
from training_app.engine.data.conversations import Message, Turn, before, transcript
from training_app.engine.routing import router as engine
from training_app.engine.routing.routes import Route
from training_app.models import Decision, RouterModel
from training_app.rollout import outcomes

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases, pytest.mark.commits_for_others]

TALK: list[dict[str, Any]] = [
    {"role": "user", "content": "my billing is wrong"},
    {"role": "assistant", "content": "Shall I look?", "agents": [0]},
    {"role": "user", "content": "yes please"},
]
TURN = Turn("yes please", [Message("user", "my billing is wrong"), Message("assistant", "Shall I look?", (0,))])


class ReadingRouter(ScriptedRouter):
    """Takes every agent whose name is said anywhere in the conversation."""

    def route(self, text: str, available: frozenset[int] | None = None, **wishes: Any) -> Route:
        return super().route(transcript(text), available, **wishes)


@pytest.fixture(autouse=True)
def reading(monkeypatch: pytest.MonkeyPatch, alone: None) -> None:
    monkeypatch.setattr(engine, "Router", ReadingRouter)


def ask(app: Application, messages: Any = TALK, **more: Any) -> Any:
    return app.post("/api/route/", {"messages": messages, **more})


class TestRouting:
    def test_the_last_turn_is_routed_in_its_conversation(self, app: Application, model: RouterModel) -> None:
        assert ask(app).json()["agents"] == [0]
        assert app.route("yes please").json()["agents"] == []

    def test_a_conversation_of_one_turn_is_a_text(self, app: Application, model: RouterModel) -> None:
        one, text = ask(app, TALK[:1]).json(), app.route("my billing is wrong").json()
        assert {k: v for k, v in one.items() if k != "decision_id"} == {
            k: v for k, v in text.items() if k != "decision_id"
        }

    def test_a_batch_holds_both(self, app: Application, model: RouterModel) -> None:
        found = app.batch({"messages": TALK}, "yes please", "technical").json()["results"]
        assert [one["agents"] for one in found] == [[0], [], [2]]

    def test_the_oldest_go_and_the_answer_says_so(self, app: Application, model: RouterModel, settings: Any) -> None:
        settings.MAX_MESSAGES = 2
        found = ask(app, sticky=0).json()
        assert (found["agents"], found["messages_left_out"]) == ([], 1)
        assert "messages_left_out" not in app.route("hello").json()

    @pytest.mark.parametrize(
        ("body", "field", "code"),
        [
            ({"messages": []}, "messages", "blank"),
            ({"messages": TALK[:2]}, "messages[1].role", "invalid"),
            ({"messages": TALK, "query": "x"}, "messages", "invalid"),
            ({"messages": [{"role": "user", "content": "x" * 101}]}, "messages[0].content", "too_long"),
            ({"messages": [{"role": "user", "content": "ﷺ" * 50}]}, "messages[0].content", "too_long"),
            ({"messages": [{"role": "system", "content": "x" * 200}, TALK[2]]}, "messages", "too_long"),
            ({"messages": [{"role": "tool", "content": "x\0"}, TALK[2]]}, "messages[0].content", "invalid"),
        ],
    )
    def test_what_cannot_be_routed_is_named(
        self, app: Application, model: RouterModel, settings: Any, body: dict[str, Any], field: str, code: str
    ) -> None:
        settings.MAX_QUERY_CHARACTERS, settings.MAX_CONVERSATION_CHARACTERS = 100, 150
        found = app.post("/api/route/", body)
        error = found.json()["error"]
        assert (found.status_code, error["field"], error["code"]) == (400, field, code)

    def test_of_a_batch_the_query_is_named_too(self, app: Application, model: RouterModel) -> None:
        error = app.batch("fine", {"messages": TALK[:2]}).json()["error"]
        assert (error["field"], error["index"]) == ("queries[1].messages[1].role", 1)

    def test_characters_of_all_messages_count_against_the_minute(
        self, app: Application, model: RouterModel, settings: Any
    ) -> None:
        settings.ROUTE_CHARACTERS_PER_MINUTE = 60
        assert app.route("yes please").status_code == 200
        assert ask(app, [{"role": "assistant", "content": "x" * 80}, TALK[2]]).status_code == 429


def kept() -> Decision:
    decisions.buffer.write()
    found = Decision.objects.order_by("-at").first()
    assert found is not None
    return found


class TestDecisions:
    def test_keep_the_messages_and_are_replayed_to_the_byte(self, app: Application, model: RouterModel) -> None:
        ask(app)
        decision = kept()
        assert (decision.text, decision.routed_text) == ("yes please", TURN)
        replay = replays.replay(decision, serving.router_of(decision.model))
        assert replay.identical
        assert list(replay.route.agents) == [0]

    def test_of_texts_keep_none(self, app: Application, model: RouterModel) -> None:
        app.route("hello")
        assert kept().messages is None

    def test_are_sent_to_labeling_with_their_conversation(self, app: Application, model: RouterModel) -> None:
        ask(app)
        decision = kept()
        outcomes.send_to_labeling(decision.pool, decision.routed_text, "decision")
        query = Query.objects.get()
        assert (query.routed_text, query.turn) == (TURN, 2)
        outcomes.send_to_labeling(decision.pool, decision.routed_text, "decision")
        outcomes.send_to_labeling(decision.pool, "yes please", "decision")
        assert Query.objects.count() == 2

    def test_of_an_erased_conversation_are_blank(self, app: Application, model: RouterModel) -> None:
        for messages in (TALK, TALK[:1], [*TALK, {"role": "assistant", "content": "Done."}, TALK[2]]):
            ask(app, messages)
        app.route("another thing altogether")
        ask(app, [{"role": "user", "content": "technical it is"}, TALK[2]])
        kept()
        dataset = adding.dataset_of(model.pool)
        key = adding.find_or_add(dataset, [adding.NewQuery(TURN)], "test")[0][0].pk
        erased_queries.erase(Query.objects.get(pk=key))
        assert Decision.objects.filter(text="", messages__isnull=True).count() == 3
        assert sorted(Decision.objects.exclude(text="").values_list("text", flat=True)) == [
            "another thing altogether",
            "yes please",
        ]


class TestStickiness:
    def test_turns_of_one_conversation_meet_one_side(
        self, app: Application, model: RouterModel, monkeypatch: pytest.MonkeyPatch, settings: Any
    ) -> None:
        settings.MAX_MESSAGES = 2
        asked: list[str] = []

        class Noting:
            exploration, cold, threshold, canary, shadows, is_canary, ask_cost = 0.0, None, 1.0, None, (), False, None

            def side(self, pool: Any, key: str) -> Any:
                asked.append(key)
                return pool

        pool = serving.current(model.pool.slug)
        assert pool is not None
        live = pool.__class__(**{f: getattr(pool, f) for f in pool.__slots__ if f != "live"}, live=Noting())
        for messages in (TALK[:1], TALK, [*TALK, {"role": "assistant", "content": "done"}, TALK[2]]):
            answer.answer(live, routable.conversation(messages))
        answer.answers(live, [routable.conversation(TALK)])
        answer.answer(live, routable.conversation(TALK), sticky="ana")
        assert asked == ["my billing is wrong"] * 4 + ["ana"]


class TestThePlayground:
    def test_is_a_chat_in_which_each_turn_shows_its_route(self, browser: Client, model: RouterModel) -> None:
        at = f"/p/{model.pool.slug}/playground/"
        first = browser.post(at, {"query": "my billing is wrong"})
        assert "Continue the conversation" in first.content.decode()
        after = browser.post(at, {"query": "my billing is wrong", "reply": "Shall I look?", "go_on": "1"})
        messages = json.loads(after.context["said_before"])
        assert messages == TALK[:2]
        assert [(one.role, [a.id for a in one.agents or ()]) for one in after.context["chat"]] == [
            ("user", [0]),
            ("assistant", []),
        ]
        routed = browser.post(at, {"query": "yes please", "messages": json.dumps(messages)})
        assert [agent.id for agent in routed.context["picture"].route_agents] == [0]
        assert '"messages"' in routed.context["curl"]

    @pytest.mark.parametrize("messages", ["{", "7", '[{"role": "x"}]', "[" * 9_000])
    def test_survives_what_a_form_should_not_hold(self, browser: Client, model: RouterModel, messages: str) -> None:
        found = browser.post(f"/p/{model.pool.slug}/playground/", {"query": "yes", "messages": messages})
        assert found.status_code == 200

    def test_a_decision_shows_its_conversation(self, app: Application, browser: Client, model: RouterModel) -> None:
        ask(app)
        decision = kept()
        page = browser.get(f"/p/{model.pool.slug}/decisions/{decision.pk}/").content.decode()
        assert "Shall I look?" in page
        assert page.index("Shall I look?") < page.index("yes please")
        listed = browser.get(f"/p/{model.pool.slug}/decisions/?format=jsonl")
        line = json.loads(b"".join(listed.streaming_content).decode())  # type: ignore[attr-defined]
        assert [*line["messages"], {"role": "user", "content": line["text"]}] == [
            {"role": said["role"], "content": said["content"]} for said in TALK
        ]
        assert before(decision.routed_text)[1].agents == (0,)
