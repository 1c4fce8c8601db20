"""The addresses of an OpenAI-compatible server, for clients that speak nothing else: what a conversation needs, as a tool call.

`POST /v1/chat/completions` with `model: "router/<pool>"` decides and calls nobody. `GET /v1/models` lists the pools of the key.
"""

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from django.http import HttpResponse
from rest_framework.request import Request
from rest_framework.response import Response

from routerweb import hooks
from training_app.api import examples, route_requests
from training_app.api.bodies import kind, written
from training_app.api.errors import Refused
from training_app.api.keys import KeyThrottle
from training_app.api.schema import operation
from training_app.api.serializers.chat import ChatRequest, ChatSerializer, ModelListSerializer
from training_app.api.views.base import ApiView

OF = "As OpenAI"
PREFIX = "router/"
#: OpenAI's roles → those of a conversation here.
ROLES = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}


class ChatView(ApiView):
    """A chat completion that is a decision."""

    scope = "route"
    throttle_classes = [KeyThrottle]
    asks: Any

    @operation(
        "chatCompletions", "Which agents a conversation needs, as a chat completion", of=OF, body=ChatRequest,
        also_at="/v1/chat/completions", headers=("X-Router-Decision", "X-Router-Model", "X-Router-Agents", "X-Router-Episode"),
        example={"model": "router/support", "messages": [{"role": "user", "content": "I was charged twice"}]},
        answers={200: (ChatSerializer, "The decision, as the call of a tool named route", examples.CHAT)},
        errors=("blank", "too_long", "no_model", "too_many_requests", "quota_exhausted", "not_found", "no_answer"),
    )  # fmt: skip
    def post(self, request: Request) -> HttpResponse:
        """With `agents/POOL` as the model, the agents of the pool that the conversation needs are called, and their answer is the
        message, streamed where `stream` asks for it. With `router/POOL` nobody is called: the last turn of the user is routed in its
        conversation, and the message calls the tool `route` with what `/api/route/` would
        answer. With `stream` the same comes as one event."""
        body: Mapping[str, Any] = request.data  # type: ignore[assignment]
        stream = body.get("stream") or False
        if not isinstance(stream, bool):
            raise Refused(400, "invalid", "stream must be true or false.", field="stream")
        if answered := next((answer for answer in hooks.chat_answered(self, body) if answer is not None), None):
            return answered
        self.asks = route_requests.route_call(
            {"messages": conversation(body), "pool": self.pool_named(body)}, self.access
        )
        self.check_throttles(request)
        completed = completion(route_requests.answer_one(self.asks, self.access), str(body["model"]))
        if stream:
            answer = HttpResponse(streamed(completed), content_type="text/event-stream")
        else:
            answer = HttpResponse(written(completed), content_type="application/json")
        decided = json.loads(completed["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"])
        answer["X-Router-Decision"] = decided["decision_id"]
        answer["X-Router-Model"] = decided["model"]
        answer["X-Router-Agents"] = ",".join(map(str, decided["agents"]))
        return answer

    def pool_named(self, body: Mapping[str, Any]) -> str:
        """The pool of `router/<pool>`. Raises Refused."""
        model = body.get("model")
        if isinstance(model, str) and model.startswith(PREFIX):
            return model.removeprefix(PREFIX)
        # In the message, which is all that OpenAI's clients show.
        choices = ", ".join(model_names(self.access.caller.pools)) or "no pool"
        raise Refused(404, "not_found", f"There is no such model; this key opens {choices}.", field="model")


class ModelListView(ApiView):
    """The models that a key may name."""

    scope = "route"

    @operation(
        "listModels", "The pools of the key, as models", of=OF, also_at="/v1/models",
        answers={200: (ModelListSerializer, "One for each pool", examples.MODEL_LIST)},
    )  # fmt: skip
    def get(self, request: Request) -> Response:
        """What may stand in `model` of a chat completion with this key."""
        names = model_names(self.access.caller.pools)
        data = [{"id": name, "object": "model", "created": 0, "owned_by": "routerweb"} for name in names]
        return Response({"object": "list", "data": data})


def model_names(pools: Sequence[str]) -> list[str]:
    """What may stand in `model`, for a key of these pools."""
    return [PREFIX + slug for slug in pools] + [name for names in hooks.chat_models(pools) for name in names]


def conversation(body: Mapping[str, Any]) -> list[dict[str, str]]:
    """OpenAI's messages as those of a conversation here: the text of each, pictures and sounds left out. Raises Refused."""
    messages = body.get("messages")
    if not isinstance(messages, list):
        raise Refused(400, "missing" if messages is None else "invalid", "messages must be a list.", field="messages")
    turns = []
    for number, message in enumerate(messages):
        field = f"messages[{number}]"
        if not isinstance(message, dict) or message.get("role") not in ROLES:
            raise Refused(400, "invalid", f"{field}.role must be one of {', '.join(ROLES)}.", field=f"{field}.role")
        content = message.get("content")
        if isinstance(content, list):
            parts = [part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text"]
            content = "\n".join(part for part in parts if isinstance(part, str))
        elif content is not None and not isinstance(content, str):
            raise Refused(
                400, "invalid", f"{field}.content must be a text, not {kind(content)}.", field=f"{field}.content"
            )
        if content or message["role"] == "user":  # a message that only calls tools says nothing
            turns.append({"role": ROLES[message["role"]], "content": content or ""})
    return turns


def completion(answer: Mapping[str, Any], model: str) -> dict[str, Any]:
    """An answer as a chat completion: one call of the tool `route`."""
    call = {
        "id": f"call_{answer['decision_id'].replace('-', '')}", "type": "function",
        "function": {"name": "route", "arguments": written(answer).decode()},
    }  # fmt: skip
    return {
        "id": f"chatcmpl-{answer['decision_id']}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": model,
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": None, "tool_calls": [call]},
                "finish_reason": "tool_calls",
            }
        ],
        "usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
    }


def streamed(answer: dict[str, Any]) -> bytes:
    """The same as the events of a stream: all of it at once, and the end."""
    (choice,) = answer["choices"]
    calls = [{"index": 0, **call} for call in choice["message"]["tool_calls"]]
    head = {name: answer[name] for name in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    deltas: tuple[tuple[dict[str, Any], str | None], ...] = (
        ({"role": "assistant", "content": None, "tool_calls": calls}, None),
        ({}, "tool_calls"),
    )
    chunks = [head | {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]} for delta, reason in deltas]
    return b"".join(b"data: " + written(chunk) + b"\n\n" for chunk in chunks) + b"data: [DONE]\n\n"
