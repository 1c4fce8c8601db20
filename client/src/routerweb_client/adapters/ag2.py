"""Who speaks next in a group chat of AG2 (before 1.0: `autogen.GroupChat`): those whom the router names, in its order.

GroupChat(agents=[user, billing, shipping], messages=[], speaker_selection_method=speakers_by_router(client, keys))

A chat in a block of `outcomes` reports what became of each answer.
"""

from collections.abc import Callable, Mapping
from typing import Any, Unpack

from autogen import Agent, GroupChat

from routerweb_client.adapters import conversation, route
from routerweb_client.clients import Client
from routerweb_client.options import RouteOptions


def speakers_by_router(
    client: Client, keys: Mapping[str, str], **options: Unpack[RouteOptions]
) -> Callable[[Agent, GroupChat], Agent | None]:
    """`keys` has the names of the chat's agents by the keys of the pool's. Whoever else speaks is taken for the user: after what they
    said, each agent that it needs speaks once; then, or where none is needed, the chat ends. Raises Refused and Unreachable."""
    sent: RouteOptions = {"only": list(keys), **options}
    routed: dict[str, Any] = {}

    def next_speaker(_last: Agent, chat: GroupChat) -> Agent | None:
        experts = set(keys.values())
        messages = [(message, message.get("name") in experts) for message in chat.messages]
        turn = max((place for place, (_message, expert) in enumerate(messages) if not expert), default=-1)
        talk = conversation(
            ("assistant" if expert else "user", message.get("content") or "")
            for message, expert in messages[: turn + 1]
        )
        if routed.get("talk") != talk:
            routed.update(talk=talk, names=[keys[key] for key in route(client, talk, sent).agent_keys if key in keys])
        spoken = {message.get("name") for message, _expert in messages[turn + 1 :]}
        name = next((name for name in routed["names"] if name not in spoken), None)
        return None if name is None else chat.agent_by_name(name)

    return next_speaker
