"""A LangGraph node that routes: the agents that the conversation needs run next, side by side.

router = RouterNode(client, {"billing": "billing_node", "shipping": "shipping_node"}, otherwise="small_talk")
graph.add_node("router", router)
graph.add_conditional_edges("router", router.edge)

A run in a block of `outcomes` reports what became of the answer.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from routerweb_client.adapters import conversation, route
from routerweb_client.clients import Client
from routerweb_client.options import RouteOptions


class RouterNode:
    """`nodes` are the graph's nodes by the agents' keys; `otherwise` is the node for a message that needs none of them. The node
    writes the answer's keys into `into` of the state, and reads the conversation from `messages`."""

    def __init__(
        self,
        client: Client,
        nodes: Mapping[str, str],
        *,
        otherwise: str,
        messages: str = "messages",
        into: str = "agents",
        **options: Unpack[RouteOptions],
    ) -> None:
        self._client, self._nodes, self._otherwise = client, dict(nodes), otherwise
        self._messages, self._into = messages, into
        self._options: RouteOptions = {"only": list(nodes), **options}

    def __call__(self, state: Mapping[str, Any]) -> dict[str, list[str]]:
        """What the node changes of the state. Raises Refused and Unreachable."""
        turns = conversation(_pair(message) for message in state[self._messages])
        return {self._into: list(route(self._client, turns, self._options).agent_keys)}

    def edge(self, state: Mapping[str, Any]) -> Sequence[str]:
        """The nodes that run next, for `add_conditional_edges`."""
        return [self._nodes[key] for key in state[self._into] if key in self._nodes] or [self._otherwise]


def _pair(message: Any) -> tuple[str, Any]:
    """A message of LangChain's, or a dict."""
    if isinstance(message, Mapping):
        return str(message.get("role") or message.get("type")), message.get("content")
    return message.type, message.content
