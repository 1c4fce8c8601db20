"""Agents whose chat client is scripted, alone and in a workflow."""

import asyncio
from typing import Any

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    Message,
    ResponseStream,
    WorkflowBuilder,
)

from routerweb_client.adapters.agent_framework import RouterAgent
from tests.client.adapters.answering import CLIENT, KEYS, REFUND, asked, away, outcomes, raises


def works() -> None:
    class Scripted(BaseChatClient):
        def __init__(self, name: str) -> None:
            super().__init__()
            self.named = name

        def _inner_get_response(self, *, messages: Any, stream: bool, options: Any, **_given: Any) -> Any:
            async def whole() -> ChatResponse:
                if "explode" in messages[-1].text:
                    raise RuntimeError("it broke")
                return ChatResponse(messages=[Message(role="assistant", contents=[f"{self.named} here"])])

            async def parts() -> Any:
                yield ChatResponseUpdate(role="assistant", contents=[Content.from_text(f"{self.named} here")])

            return ResponseStream(parts(), finalizer=ChatResponse.from_updates) if stream else whole()

    experts = {key: Agent(client=Scripted(key), name=key) for key in KEYS}
    talk = Agent(client=Scripted("talk"), name="talk")
    router = RouterAgent(CLIENT, experts, otherwise=talk)

    def said(query: Any, agent: Any = router) -> list[str]:
        return [message.text for message in asyncio.run(agent.run(query)).messages]

    assert said("billing and shipping") == ["billing here", "shipping here"]
    assert outcomes() == [True]
    assert said("hello") == ["talk here"]
    talked = [("user", "hello"), ("assistant", "Yes?"), ("user", "legal")]
    assert said([Message(role=role, contents=[text]) for role, text in talked]) == ["legal here"]
    assert [message["role"] for message in asked[-1]["messages"]] == ["user", "assistant", "user"]
    outcomes()

    async def streamed() -> str:
        return "".join([update.text async for update in router.run("shipping", stream=True)])

    assert asyncio.run(streamed()) == "shipping here"
    assert outcomes() == [True]
    workflow = WorkflowBuilder(start_executor=router).build()
    events = asyncio.run(workflow.run("legal matter"))
    assert "legal here" in str([str(output) for output in events.get_outputs()])
    assert outcomes() == [True]
    assert raises(said, "legal, explode", kind=Exception)
    assert outcomes() == [False]
    assert said(REFUND, RouterAgent(away(), experts)) == ["billing here"]
    assert outcomes() == []
