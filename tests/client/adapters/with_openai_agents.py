"""A run: the model of the first agent asks for the hand-off, and whoever the router names answers."""

import asyncio
import json
from typing import Any

from agents import Agent, ModelResponse, Runner, Usage, set_tracing_disabled
from agents.models.interface import Model
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from routerweb_client.adapters import outcomes as reporting
from routerweb_client.adapters.openai_agents import first_agent, handoff_by_router
from tests.client.adapters.answering import CLIENT, KEYS, REFUND, away, outcomes, raises


def works() -> None:
    set_tracing_disabled(True)

    class Scripted(Model):
        def __init__(self, item: Any) -> None:
            self.item = item

        async def get_response(self, *words: Any, **named: Any) -> ModelResponse:
            if self.item.type == "message" and "explode" in str((words, named)):
                raise RuntimeError("it broke")
            return ModelResponse(output=[self.item], usage=Usage(), response_id=None)

        def stream_response(self, *_words: Any, **_named: Any) -> Any:
            raise NotImplementedError

    def saying(text: str) -> Scripted:
        part = ResponseOutputText(text=text, type="output_text", annotations=[])
        return Scripted(
            ResponseOutputMessage(id="m", type="message", role="assistant", content=[part], status="completed")
        )

    def triage(query: str, **more: Any) -> Agent[Any]:
        call = ResponseFunctionToolCall(
            id="f", call_id="c", type="function_call", name="transfer_to_the_agent_in_charge", arguments=json.dumps({"query": query})
        )  # fmt: skip
        return Agent(name="Triage", model=Scripted(call), handoffs=[handoff_by_router(CLIENT, experts, **more)])

    experts = {key: Agent(name=key, model=saying(f"{key} here")) for key in KEYS}
    rest = Agent(name="rest", model=saying("anything else?"))
    ended = asyncio.run(Runner.run(triage("a shipping matter"), "where is it?"))
    assert (ended.last_agent.name, ended.final_output) == ("shipping", "shipping here")
    assert asyncio.run(Runner.run(triage("hello", otherwise=rest), "hello")).last_agent.name == "rest"
    assert first_agent(CLIENT, experts, "legal and billing") is experts["billing"]
    talk = [{"role": "user", "content": [{"type": "input_text", "text": "legal"}]}]
    assert first_agent(CLIENT, experts, talk) is experts["legal"]
    assert raises(first_agent, CLIENT, experts, "hello")
    assert outcomes() == []  # there was no block

    async def run(query: str, said: str) -> None:
        async with reporting():
            await Runner.run(triage(query), said)

    asyncio.run(run("a shipping matter", "where is it?"))
    assert outcomes() == [True]
    assert raises(lambda: asyncio.run(run("a shipping matter", "explode")), kind=RuntimeError)
    assert outcomes() == [False]
    assert first_agent(away(), experts, REFUND) is experts["billing"]
