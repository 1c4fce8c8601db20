"""A crew of CrewAI's of those whom the router names: one task each, in its order, each with what was done before it.

    output = kickoff_by_router(client, {"billing": billing, "shipping": shipping}, "I was charged twice", otherwise=small_talk)

What became of it is reported by itself: a success if the crew finishes, a failure if it raises.
"""

from collections.abc import Mapping
from typing import Any, Unpack

from crewai import Agent, Crew, Task

from routerweb_client.adapters import chosen, conversation, reported
from routerweb_client.clients import Client, Query
from routerweb_client.options import RouteOptions

EXPECTED = "A complete answer to the part that you are in charge of, in the user's language."


def kickoff_by_router(
    client: Client,
    agents: Mapping[str, Agent],
    query: Query,
    *,
    otherwise: Agent | None = None,
    expected: str = EXPECTED,
    crew: Mapping[str, Any] | None = None,
    **options: Unpack[RouteOptions],
) -> Any:
    """The crew's output for a text, or a list of messages; None where it needs none of `agents`, which are by the keys of the pool's,
    and there is no `otherwise`. `expected` says what a task's output is, `crew` are further arguments of the Crew. Raises Refused,
    Unreachable, and what the crew raises."""
    turns = conversation(
        [("user", query)]
        if isinstance(query, str)
        else ((str(message["role"]), message["content"]) for message in query)
    )
    sent: RouteOptions = {"only": list(agents), **options}
    answer = client.route(turns, **sent)
    picked = chosen(answer, agents) or [agent for agent in (otherwise,) if agent is not None]
    # CrewAI fills in what stands in braces: what the user wrote is no template.
    dialogue = "\n".join(f"{turn['role']}: {turn['content']}" for turn in turns).replace("{", "(").replace("}", ")")
    tasks = [Task(description=dialogue, expected_output=expected, agent=agent) for agent in picked]
    with reported(client, answer):
        return Crew(agents=picked, tasks=tasks, **(crew or {})).kickoff() if tasks else None
