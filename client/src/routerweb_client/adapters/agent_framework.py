"""An agent of Microsoft's Agent Framework that hands what it is sent to those whom the router names, one after another.

support = RouterAgent(client, {"billing": billing, "shipping": shipping}, otherwise=small_talk)
await support.run("I was charged twice")

It is an agent like any other: it streams, and stands in workflows. What became of an answer is reported by itself.
"""

import asyncio
from collections.abc import AsyncIterable, Mapping
from typing import Any, Unpack

from agent_framework import AgentResponse, BaseAgent, ResponseStream, SupportsAgentRun, normalize_messages

from routerweb_client.adapters import chosen, conversation, reported
from routerweb_client.answers import Answer
from routerweb_client.clients import Client
from routerweb_client.options import RouteOptions


class RouterAgent(BaseAgent):
    """`agents` are by the keys of the pool's; `otherwise` answers what needs none of them, else nobody does."""

    def __init__(
        self, client: Client, agents: Mapping[str, SupportsAgentRun], *, otherwise: SupportsAgentRun | None = None,
        name: str = "router", **options: Unpack[RouteOptions],
    ) -> None:  # fmt: skip
        super().__init__(name=name)
        self._client, self._agents, self._otherwise = client, dict(agents), otherwise
        self._options: RouteOptions = {"only": list(agents), **options}

    def run(self, messages: Any = None, *, stream: bool = False, **options: Any) -> Any:
        """As an agent's `run`. Raises Refused, Unreachable, and ValueError where the user said nothing."""
        if stream:
            return ResponseStream(self._streamed(messages, options), finalizer=AgentResponse.from_updates)
        return self._run(messages, options)

    async def _chosen(self, messages: Any) -> tuple[Answer, list[SupportsAgentRun]]:
        turns = conversation((str(message.role), message.text) for message in normalize_messages(messages))
        answer = await asyncio.to_thread(self._client.route, turns, **self._options)
        return answer, chosen(answer, self._agents) or ([self._otherwise] if self._otherwise else [])

    async def _run(self, messages: Any, options: Mapping[str, Any]) -> AgentResponse[Any]:
        answer, agents = await self._chosen(messages)
        async with reported(self._client, answer):
            responses = [await agent.run(messages, **options) for agent in agents]
        return AgentResponse(messages=[message for response in responses for message in response.messages])

    async def _streamed(self, messages: Any, options: Mapping[str, Any]) -> AsyncIterable[Any]:
        answer, agents = await self._chosen(messages)
        async with reported(self._client, answer):
            for agent in agents:
                async for update in agent.run(messages, stream=True, **options):
                    yield update
