"""A LlamaIndex selector: which of the tools, query engines or indices a query needs.

    RouterQueryEngine(selector=RouterSelector(client), query_engine_tools=tools)

A choice is an agent by the key that is its tool's name. A query in a block of `outcomes` reports what became of it.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Unpack

from llama_index.core.base.base_selector import BaseSelector, SelectorResult, SingleSelection
from llama_index.core.schema import QueryBundle
from llama_index.core.tools.types import ToolMetadata

from routerweb_client.adapters import route
from routerweb_client.clients import Client
from routerweb_client.options import RouteOptions


class RouterSelector(BaseSelector):
    """Selects as the router does, one choice or several; `otherwise` names the choice for a query that needs none of them, else
    that is a ValueError."""

    def __init__(self, client: Client, *, otherwise: str | None = None, **options: Unpack[RouteOptions]) -> None:
        self._client, self._otherwise, self._options = client, otherwise, options

    def _select(self, choices: Sequence[ToolMetadata], query: QueryBundle) -> SelectorResult:
        places = {choice.name: place for place, choice in enumerate(choices) if choice.name}
        sent: RouteOptions = {"only": list(places), **self._options}
        answer = route(self._client, query.query_str, sent)
        scores = dict(zip(answer.agent_keys, (answer.scores.get(agent) for agent in answer.agents), strict=True))
        named = [key for key in answer.agent_keys if key in places]
        if not named and self._otherwise is not None:
            named, scores = [self._otherwise], {}
        if not named:
            raise ValueError("The query needs none of these choices, and there is none for the rest.")
        selections = [
            SingleSelection(
                index=places[key], reason=f"{answer.model} gives it {scores[key]:.2f}." if scores.get(key) else ""
            )
            for key in named
        ]
        return SelectorResult(selections=selections)

    async def _aselect(self, choices: Sequence[ToolMetadata], query: QueryBundle) -> SelectorResult:
        return await asyncio.to_thread(self._select, choices, query)

    def _get_prompts(self) -> dict[str, Any]:
        return {}

    def _update_prompts(self, prompts: dict[str, Any]) -> None:
        """There are none."""
