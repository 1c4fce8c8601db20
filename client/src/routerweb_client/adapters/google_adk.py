"""An agent of Google's ADK that hands each turn to those of its sub-agents whom the router names, one after another.

root_agent = RouterAgent(name="router", client=client, sub_agents=[billing, shipping, small_talk], otherwise="small_talk")

A sub-agent is in charge by its name, or by the key that `keys` gives it. What became of the turn is reported by itself.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from google.adk.agents import BaseAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events import Event

from routerweb_client.adapters import chosen, conversation, reported


class RouterAgent(BaseAgent):
    """`client` asks the server; `keys` are the pool's keys by sub-agents' names, where these differ; `otherwise` names the sub-agent
    for a turn that needs none, and `options` are those of a request. Raises Refused and Unreachable."""

    client: Any
    keys: Mapping[str, str] = {}
    otherwise: str = ""
    options: Mapping[str, Any] = {}

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        targets = {
            self.keys.get(agent.name, agent.name): agent for agent in self.sub_agents if agent.name != self.otherwise
        }
        sent = {"only": list(targets), **self.options}
        answer = await asyncio.to_thread(self.client.route, conversation(map(_pair, ctx.session.events)), **sent)
        agents = chosen(answer, targets)
        if not agents and self.otherwise:
            agents = [agent for agent in self.sub_agents if agent.name == self.otherwise]
        async with reported(self.client, answer):
            for agent in agents:
                async for event in agent.run_async(ctx):
                    yield event


def _pair(event: Event) -> tuple[str, Any]:
    parts = event.content.parts or [] if event.content else []
    return "user" if event.author == "user" else "assistant", [part.text for part in parts if part.text]
