"""A routing plugin of LiteLLM's Router: a model group's deployments are the pool's agents, and the one that the query needs answers.

plugin = RouterPlugin(client, {"billing": "openai/billing-agent", "shipping": "openai/shipping-agent"})
litellm.callbacks.append(plugin)
router = litellm.Router(model_list=[...], plugins=[plugin])

As a callback it reports what became of each answer: a success if the deployment answered, a failure if it did not.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Unpack

from litellm.integrations.custom_logger import CustomLogger
from litellm.types.router import RoutingContext

from routerweb_client.adapters import chosen, conversation, report
from routerweb_client.answers import Answer
from routerweb_client.clients import Client
from routerweb_client.options import RouteOptions

DECISION = "routerweb_decision"


class RouterPlugin(CustomLogger):
    """`models` are the deployments' `litellm_params.model` by the agents' keys. A request that needs none of them, or in which no user
    speaks, keeps all candidates; one that needs several goes to the first that is a candidate."""

    def __init__(self, client: Client, models: Mapping[str, str], **options: Unpack[RouteOptions]) -> None:
        super().__init__()
        self._client, self._models = client, dict(models)
        self._options: RouteOptions = {"only": list(models), **options}
        self._waiting: dict[str, Answer] = {}

    async def run(self, context: RoutingContext) -> RoutingContext:
        """Narrow the candidates. Raises Refused and Unreachable."""
        messages = context.structured_messages or context.raw_messages
        if not any(message.get("role") == "user" for message in messages):
            return context
        turns = conversation((str(message.get("role")), message.get("content")) for message in messages)
        answer = await asyncio.to_thread(self._client.route, turns, **self._options)
        models = [model for model in chosen(answer, self._models) if model in context.candidate_models]
        if models and answer.decision_id:
            self._waiting[answer.decision_id] = answer
            context.signals[DECISION] = answer.decision_id
        return context.model_copy(update={"candidate_models": models[:1]}) if models else context

    async def async_log_success_event(self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any) -> None:
        """A deployment has answered."""
        await self._report(kwargs, success=True)

    async def async_log_failure_event(self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any) -> None:
        """A deployment has failed."""
        await self._report(kwargs, success=False)

    async def _report(self, kwargs: Mapping[str, Any], *, success: bool) -> None:
        signals = ((kwargs.get("litellm_params") or {}).get("metadata") or {}).get("routing_plugin_signals") or {}
        answer = self._waiting.pop(signals.get(DECISION, ""), None)
        if answer is not None:
            await asyncio.to_thread(report, self._client, answer, success)
