"""A runner whose root agent routes: each sub-agent that is needed speaks, one after another."""

import asyncio
from typing import Any

from google.adk.agents import BaseAgent
from google.adk.events import Event
from google.adk.runners import InMemoryRunner
from google.genai import types

from routerweb_client import Client
from routerweb_client.adapters.google_adk import RouterAgent
from tests.client.adapters.answering import CLIENT, REFUND, asked, away, outcomes, raises


def works() -> None:
    class Expert(BaseAgent):
        async def _run_async_impl(self, ctx: Any) -> Any:
            if "explode" in (ctx.user_content.parts[0].text or ""):
                raise RuntimeError("it broke")
            part = types.Part(text=f"{self.name} here")
            yield Event(
                author=self.name, invocation_id=ctx.invocation_id, content=types.Content(role="model", parts=[part])
            )

    async def said(*texts: str, client: Client = CLIENT, otherwise: str = "talk") -> list[str]:
        experts = [Expert(name=name) for name in ("billing_desk", "shipping", "legal", "talk")]
        root = RouterAgent(
            name="router", client=client, keys={"billing_desk": "billing"}, otherwise=otherwise, sub_agents=experts
        )
        runner = InMemoryRunner(agent=root, app_name="app")
        session = await runner.session_service.create_session(app_name="app", user_id="u")
        answers: list[str] = []
        for text in texts:
            content = types.Content(role="user", parts=[types.Part(text=text)])
            async for event in runner.run_async(user_id="u", session_id=session.id, new_message=content):
                answers += [part.text for part in (event.content.parts if event.content else [])]
        return answers

    assert asyncio.run(said("billing and shipping")) == ["billing_desk here", "shipping here"]
    assert outcomes() == [True]
    assert asyncio.run(said("hello", "legal")) == ["talk here", "legal here"]
    assert [message["role"] for message in asked[-1]["messages"]] == ["user", "assistant", "user"]
    assert set(asked[-1]["only"]) == {"billing", "shipping", "legal"}
    assert outcomes() == [True, True]
    assert raises(lambda: asyncio.run(said("legal, explode")), kind=RuntimeError)
    assert outcomes() == [False]
    assert asyncio.run(said(REFUND, client=away())) == ["billing_desk here"]
    assert outcomes() == []
