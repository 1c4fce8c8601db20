"""Scripted executors that play the engine's simulated agents."""

import asyncio

import pytest

from orchestration_app.calls import scripted
from orchestration_app.calls.parts import AgentCall, CallFailed, EarlierOutput, Spec
from orchestration_app.engine.orchestrating.support import CHECKER, TRIAGE, support_pool

pytestmark = pytest.mark.any_database
POOL = support_pool()


def call(task: str, *history: EarlierOutput) -> AgentCall:
    return AgentCall("key", task, history=history)


def spec(agent: object, pool: str = "support") -> Spec:
    return Spec(0, "Any", "", "scripted", script={"do": "simulated", "pool": pool, "agent": agent}, most_cost=9.0)


def test_a_simulated_agent_says_what_the_pool_says_after_the_calls_so_far() -> None:
    played = 0
    for task in POOL.tasks(20, 1):
        history = [
            EarlierOutput("Triage", "This is a billing matter."),
            EarlierOutput("Billing desk", "Here is what we did."),
        ]
        expected = POOL.respond(task, [0, 1], CHECKER)
        if expected.failed:
            with pytest.raises(CallFailed):
                asyncio.run(scripted.play(spec(CHECKER), call(task, *history)))
            continue
        told = asyncio.run(scripted.play(spec(CHECKER), call(task, *history)))
        assert (told.content, told.cost, told.tokens) == (expected.output, expected.cost, expected.tokens)
        assert told.metadata == {"answer": None}
        played += 1
    assert played > 10


@pytest.mark.parametrize(("agent", "pool"), [(99, "support"), ("who", "support"), (TRIAGE, "nowhere"), (None, "")])
def test_a_script_that_names_nobody_fails_in_words(agent: object, pool: str) -> None:
    with pytest.raises(CallFailed, match="simulated agent"):
        asyncio.run(scripted.play(spec(agent, pool), call("help")))
