"""What is done to the model's set before it is answered: exploration, agents that are routed cold; and its replay."""

from random import Random

import pytest

from agents_app import pools
from agents_app.models import Agent
from tests.training_app.served import NAMES, ScriptedRouter, artifact, promoted
from training_app.answering import decisions, replays, serving
from training_app.models import Decision
from training_app.versions import registry

pytestmark = pytest.mark.django_db
LEGAL = {"description": "Reads contracts and answers legal questions", "keywords": ["lawyer", "contract"]}
ASKS_LEGAL = "have a lawyer read the contract"


@pytest.fixture
def certain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every answer that may be explored is."""

    class Always(Random):
        def random(self) -> float:
            return 0.0

    monkeypatch.setattr("training_app.answering.loaded.chance", Always(4))


def kept(answer: dict) -> Decision:
    decisions.buffer.write()
    return Decision.objects.select_related("model__pool").get(pk=answer["decision_id"])


def replayed(decision: Decision) -> replays.Replay:
    loaded = serving.current("support")
    return replays.replay(decision, serving.router_of(decision.model), loaded.live.cold if loaded.live else None)


# --- Exploration --------------------------------------------------------------------------------------------------


def test_nothing_is_done_unless_it_is_turned_on(app, model) -> None:
    assert serving.current("support").live is None
    decision = kept(app.route("billing").json())
    assert (decision.propensity, decision.detail) == (None, None)


def test_an_explored_answer_says_so_and_keeps_how_likely_it_was(app, model, live, certain) -> None:
    live(exploration=0.1)
    answer = app.route("billing").json()
    assert answer["explored"] is True
    decision = kept(answer)
    flipped = decision.detail["explored"]
    assert set(answer["agents"]) == {0} ^ {flipped}
    assert decision.agents == answer["agents"]
    assert decision.detail["share"] == 0.1
    # Scripted scores are 0.9877 and twice 0.0123: all equally unsure, so each of three changes sides with 0.1 / 3.
    assert decision.propensity == pytest.approx(0.1 / 3, abs=1e-4)
    assert replayed(decision).identical
    assert answer["stop_reason"] == ("stop" if answer["agents"] else "none")


def test_an_answer_that_is_not_explored_keeps_its_share_too(app, model, live, monkeypatch) -> None:
    live(exploration=0.1)
    monkeypatch.setattr("training_app.answering.loaded.chance", Random(2))  # its first number is 0.956
    answer = app.route("billing").json()
    assert "explored" not in answer
    decision = kept(answer)
    assert (decision.propensity, decision.detail) == (0.9, {"share": 0.1})
    assert replayed(decision).identical


def test_the_models_limits_hold(app, model, live, certain, monkeypatch) -> None:
    live(exploration=0.1)
    monkeypatch.setattr(ScriptedRouter, "limits", (1, 1))
    answer = app.route("billing").json()
    assert (answer["agents"], "explored" in answer) == ([0], False)
    assert kept(answer).propensity == 1.0


def test_never_a_paused_agent(app, model, live, certain) -> None:
    live(exploration=0.1)
    pools.set_available(Agent.objects.get(name="Billing"), False, actor=None)
    for _ in range(20):
        assert 0 not in app.route("billing").json()["agents"]


# --- Cold agents --------------------------------------------------------------------------------------------------


def test_a_described_agent_is_routed_at_once_where_the_pool_says_so(app, model, live, in_memory) -> None:
    in_memory()
    new = pools.add_agent(model.pool, "Legal", **LEGAL)
    live(cold=True)
    serving.watch_once()
    answer = app.route(f"billing, and {ASKS_LEGAL}").json()
    assert (answer["agents"], answer["agent_names"], answer["cold"]) == ([0, 3], ["Billing", "Legal"], True)
    assert answer["cold_scores"]["3"] >= 0.1
    assert "3" not in answer["scores"]
    assert answer["not_covered"] == [new.number]
    other = app.route("billing").json()
    assert (other["agents"], other["cold"]) == ([0], False)
    assert other["cold_scores"]["3"] < 0.1
    assert [one["agents"] for one in app.batch(ASKS_LEGAL, "shipping").json()["results"]] == [[3], [1]]


def test_a_set_of_a_cold_agent_alone_is_not_none(app, model, live) -> None:
    pools.add_agent(model.pool, "Legal", **LEGAL)
    live(cold=True)
    answer = app.route(ASKS_LEGAL).json()
    assert (answer["agents"], answer["stop_reason"]) == ([3], "stop")


@pytest.mark.parametrize(
    ("pool_says", "agent_says", "routed"),
    [(False, "pool", False), (False, "always", True), (True, "never", False), (True, "pool", True)],
)
def test_an_agent_may_decide_for_itself(app, model, live, pool_says, agent_says, routed) -> None:
    agent = pools.add_agent(model.pool, "Legal", **LEGAL)
    pools.update_agent(agent, actor=None, cold=agent_says)
    if pool_says:
        live(cold=True)
    assert (app.route(ASKS_LEGAL).json()["agents"] == [3]) is routed
    rows = {row["id"]: row["cold"] for row in app.get("/api/agents/").json()["agents"]}
    assert rows == {0: False, 1: False, 2: False, 3: routed}


@pytest.mark.parametrize("how", ["paused", "retired", "learnt"])
def test_it_is_cold_no_more(app, model, live, in_memory, how) -> None:
    agent = pools.add_agent(model.pool, "Legal", **LEGAL)
    live(cold=True)
    in_memory()
    assert app.route(ASKS_LEGAL).json()["agents"] == [3]
    if how == "paused":
        pools.set_available(agent, False, actor=None)
    elif how == "retired":
        pools.retire(agent, actor=None)
    else:
        promoted(model.pool, *enumerate(NAMES), (3, "Legal"))
    serving.watch_once()
    answer = app.route(ASKS_LEGAL).json()
    assert (answer["agents"], "cold" in answer) == ([], False)


def test_the_models_largest_set_holds(app, model, live, monkeypatch) -> None:
    pools.add_agent(model.pool, "Legal", **LEGAL)
    live(cold=True)
    monkeypatch.setattr(ScriptedRouter, "limits", (0, 1))
    assert len(app.route(f"billing, and {ASKS_LEGAL}").json()["agents"]) == 1


def test_the_threshold_is_the_pools(app, model, live) -> None:
    pools.add_agent(model.pool, "Legal", **LEGAL)
    live(cold=True, cold_threshold=1.0)
    assert app.route(ASKS_LEGAL).json()["agents"] == []


# --- Replay -------------------------------------------------------------------------------------------------------


def test_a_cold_answer_is_replayed_after_its_description_and_model_changed(app, model, live) -> None:
    agent = pools.add_agent(model.pool, "Legal", **LEGAL)
    live(cold=True)
    decision = kept(app.route(f"billing, and {ASKS_LEGAL}").json())
    found = replayed(decision)
    assert (found.identical, found.cold_again, found.route.agents) == (True, True, (0, 3))
    pools.update_agent(agent, actor=None, description="Something else")
    found = replayed(decision)
    assert (found.identical, found.cold_again, found.route.agents) == (True, False, (0, 3))
    promoted(model.pool, (0, "Billing"), (3, "Legal"))
    found = replayed(decision)
    assert (found.identical, found.cold_again) == (True, False)


def test_all_of_it_at_once_is_replayed(app, model, live, canary, candidate, certain) -> None:
    pools.add_agent(model.pool, "Legal", **LEGAL)
    live(cold=True, exploration=0.05)
    canary(0.5)
    for number in range(12):
        answer = app.route(f"billing {number} and {ASKS_LEGAL}").json()
        assert answer["explored"]
        assert answer["cold"]
        decision = kept(answer)
        assert decision.model.name == answer["model"]
        assert replayed(decision).identical
    registry.promote(registry.register(None, model.pool, artifact((0, "Billing")), {}), actor=None)
    assert all(replayed(row).identical for row in Decision.objects.select_related("model__pool"))
    assert set(Decision.objects.values_list("model__version", flat=True)) == {1, 2}


def test_a_replay_that_differs_says_so(app, model, live, certain) -> None:
    live(exploration=0.1)
    decision = kept(app.route("billing").json())
    decision.agents = [1, 2]
    assert not replayed(decision).identical


def test_a_reply_goes_to_the_cold_agent_that_asked_and_can_be_replayed(app, model, live) -> None:
    new = pools.add_agent(model.pool, "Legal", **LEGAL)
    live(cold=True)
    question = {"role": "assistant", "content": "Which contract is it?"}
    talk = [{"role": "user", "content": ASKS_LEGAL}, question, {"role": "user", "content": "the one of my flat"}]
    for messages in (talk, [talk[0], {**question, "agents": [new.number]}, talk[2]]):
        answer = app.post("/api/route/", {"messages": messages}).json()
        assert (answer["agents"], answer["cold"], answer["continues"]) == ([new.number], True, True)
        assert 0.3 <= answer["continues_confidence"] <= 1
        decision = kept(answer)
        assert decision.detail["cold"]["turn"] == {"last": [new.number], "stays": True}
        assert replayed(decision).identical
    away = app.post(
        "/api/route/", {"messages": [*talk[:2], {"role": "user", "content": "forget it. billing please"}]}
    ).json()
    assert (away["agents"], away["cold"], away["continues"]) == ([0], False, False)
    assert app.post("/api/route/", {"messages": talk, "sticky": 0}).json()["agents"] != [new.number]


def test_whom_the_user_names_in_reply_to_a_question_is_meant_though_a_cold_agent_answered_before(
    app, model, live
) -> None:
    new = pools.add_agent(model.pool, "Legal", **LEGAL)
    Agent.objects.filter(name="Billing").update(description="Invoices and refunds")
    live(cold=True, ask_cost=0.1)
    talk = [
        {"role": "user", "content": ASKS_LEGAL},
        {
            "role": "assistant",
            "content": "Is this about Billing (Invoices and refunds) or Shipping?",
            "agents": [new.number],
        },
        {"role": "user", "content": "refunds"},
    ]
    answer = app.post("/api/route/", {"messages": talk}).json()
    assert (answer["agents"], answer["cold"]) == ([0], False)
