"""Hand-offs of the OpenAI Agents SDK whose target the router chooses, not the model.

    triage = Agent(name="Triage", handoffs=[handoff_by_router(client, {"billing": billing, "shipping": shipping})])

`first_agent` goes without the model: it says who begins. A run in a block of `outcomes` reports what became of each answer.
"""

import asyncio
import json
from collections.abc import Mapping
from typing import Any, Unpack

from agents import Agent, Handoff, RunContextWrapper

from routerweb_client.adapters import chosen, conversation, route
from routerweb_client.clients import Client, Query
from routerweb_client.options import RouteOptions

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"query": {"type": "string", "description": "What the user wants, in the user's own words."}},
    "required": ["query"],
    "additionalProperties": False,
}


def handoff_by_router(
    client: Client, agents: Mapping[str, Agent[Any]], *, otherwise: Agent[Any] | None = None,
    tool_name: str = "transfer_to_the_agent_in_charge", **options: Unpack[RouteOptions],
) -> Handoff[Any, Agent[Any]]:  # fmt: skip
    """One hand-off for all of `agents`, which are by their keys; `otherwise` takes what needs none of them, else that is a ValueError,
    which the SDK tells the caller of the run."""

    async def invoked(_context: RunContextWrapper[Any], arguments: str) -> Agent[Any]:
        query = json.loads(arguments)["query"]
        return await asyncio.to_thread(first_agent, client, agents, query, otherwise=otherwise, **options)

    return Handoff(
        tool_name=tool_name,
        tool_description="Hands the conversation over to the agent that is in charge of what the user wants.",
        input_json_schema=SCHEMA,
        on_invoke_handoff=invoked,
        agent_name="the agent in charge",
    )


def first_agent(
    client: Client, agents: Mapping[str, Agent[Any]], query: Query, *, otherwise: Agent[Any] | None = None,
    **options: Unpack[RouteOptions],
) -> Agent[Any]:  # fmt: skip
    """Whom the router names first for a text, or a list of the SDK's input items. Raises ValueError, Refused and Unreachable."""
    if not isinstance(query, str):
        query = conversation((str(item.get("role", "tool")), item.get("content")) for item in query)
    sent: RouteOptions = {"only": list(agents), **options}
    picked = chosen(route(client, query, sent), agents)
    if picked or otherwise:
        return picked[0] if picked else otherwise
    raise ValueError("The query needs none of these agents, and there is none for the rest.")
