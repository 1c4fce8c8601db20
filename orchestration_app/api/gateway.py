"""The agents of a pool behind OpenAI's addresses: `POST /v1/chat/completions` and `/v1/responses` with the model `agents/POOL`.

The agents that the conversation needs are called, on the backends that are chosen, and their answer is the message. `router/POOL`
stays what it is: the decision as a tool call, and nobody called.
"""

import asyncio
import json
import time
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.http import HttpResponse
from rest_framework import serializers
from rest_framework.request import Request

from orchestration_app.episodes import asides, composing, direct, following, policies, runner
from orchestration_app.episodes.asides import AsideError
from orchestration_app.episodes.direct import Direct
from orchestration_app.episodes.episodes import Wanted
from orchestration_app.models import Episode
from routerweb.serving import later
from training_app.api.bodies import written
from training_app.api.errors import Refused
from training_app.api.keys import KeyThrottle
from training_app.api.schema import operation
from training_app.api.views.base import ApiView
from training_app.api.views.chat import OF, conversation

PREFIX = "agents/"
STREAM = "text/event-stream"
FAILED, COMPLETED, INCOMPLETE = "failed", "completed", "incomplete"
#: An episode that ended like this has no answer.
NO_ANSWER = (Episode.Status.FAILED, Episode.Status.CANCELLED)
Json = dict[str, Any]


class _Texts:
    """What the throttle counts."""

    def __init__(self, messages: Sequence[Mapping[str, str]]) -> None:
        self.texts = [message["content"] for message in messages if message["content"]]


@dataclass(slots=True)
class Answering:
    """One answer under way: called here, or an episode that is followed. `ended` is how it ended, once the pieces are out, and
    `http_status` what is answered with, once the first part of the body is made."""

    model: str
    here: Direct | None = None
    episode: Episode | None = None
    ended: Json | None = None
    http_status: int = 200

    @property
    def key(self) -> uuid.UUID:
        """The episode's id."""
        assert self.here is not None or self.episode is not None
        return self.here.key if self.here is not None else self.episode.pk  # type: ignore[union-attr]

    async def pieces(self) -> AsyncIterator[str]:
        """The answer's text, as it comes."""
        if self.here is not None:
            async for piece in direct.pieces(self.here):
                yield piece
            self.ended = self.here.ended()
            return
        if self.ended is None:
            self.ended = await following.end(self.key, following.counted)
        questions = [_question(question) for question in self.ended["questions"]]
        yield self.ended["answer"] or "\n\n".join(questions) or f"There is no answer. {self.ended['error']}"

    def about(self) -> Json:
        """What a client may want to know beyond OpenAI's fields."""
        ended = self.ended or {}
        missing = [
            {name: failure[name] for name in ("agent", "name", "reason")} for failure in ended.get("missing", ())
        ]
        return {"episode_id": str(self.key), "status": str(ended.get("status", "")), "missing": missing}

    @property
    def finish_reason(self) -> str:
        """`length` where an agent's answer was cut, as OpenAI says it."""
        missing = (self.ended or {}).get("missing", ())
        return "length" if any(part["reason"] == composing.LENGTH for part in missing) else "stop"

    @property
    def failure(self) -> str:
        """Why there is no answer; "" where there is one, or a question, or nobody was needed."""
        ended = self.ended or {}
        if ended.get("status") not in NO_ANSWER or not ended.get("steps"):
            return ""
        return str(ended.get("error") or "The episode was cancelled.")

    @property
    def tokens(self) -> tuple[int, int]:
        """Tokens in and out; those of servers that do not tell the two apart count as out."""
        ended = self.ended or {}
        tokens_in = int(ended.get("tokens_in", 0))
        return tokens_in, int(ended.get("tokens", 0)) - tokens_in


def _question(waits: Mapping[str, Any]) -> str:
    """What a call waits for, as a client's user reads it: a call to approve is no question to them."""
    if waits["kind"] == asides.APPROVAL:
        return f"{waits['name']} is called once a person has approved it."
    return str(waits["question"])


def models(pools: Sequence[str]) -> Sequence[str]:
    """The models that answer, for a key of these pools: those whose agents can be called."""
    from agents_app.models import Pool

    called = Pool.objects.filter(slug__in=pools, agents__executor__active=True).distinct()
    callable_slugs = set(called.values_list("slug", flat=True))
    return [PREFIX + slug for slug in pools if slug in callable_slugs]


def chat(view: ApiView, body: Mapping[str, Any]) -> HttpResponse | None:
    """A chat completion by a pool's agents; None for another model. Raises Refused, NoPolicy and NobodyToCall."""
    model = body.get("model")
    if not isinstance(model, str) or not model.startswith(PREFIX):
        return None
    options = body.get("stream_options") or {}
    if not isinstance(options, dict):
        raise Refused(400, "invalid", "stream_options must be an object.", field="stream_options")
    answering = _begun(view, model, conversation(body), streams=bool(body.get("stream")))
    usage = bool(options.get("include_usage"))
    if body.get("stream"):
        return _given(view, answering, _chat_events(answering, usage), STREAM)
    return _given(view, answering, _chat_whole(answering), "application/json")


def _begun(view: ApiView, model: str, messages: list[dict[str, str]], *, streams: bool) -> Answering:
    if not messages or messages[-1]["role"] != "user":
        raise Refused(400, "invalid", "messages must end with one of the user.", field="messages")
    if not messages[-1]["content"].strip():
        raise Refused(400, "blank", "The last message has no text. Pictures and sounds are not read.", field="messages")
    pool = view.access.pool(model.removeprefix(PREFIX))
    orchestra = policies.orchestra(pool, view.access.state.stamp)
    decider = orchestra.deciding(messages[-1]["content"])
    orchestra.can_call()
    view.asks = _Texts(messages)  # type: ignore[attr-defined]
    view.check_throttles(view.request)
    messages = [message for message in messages if message["role"] in ("system", "user", "assistant")]
    here = direct.prepared(orchestra, decider, messages, view.access.caller.pk, streams=streams)
    if here is not None:
        return Answering(model, here)
    wanted = Wanted(messages=messages)
    episode, _new = runner.launch(pool.pk, wanted, orchestra, api_key=view.access.caller.pk)
    return Answering(model, episode=episode)


def _given(view: ApiView, answering: Answering, parts: AsyncIterator[bytes], media: str) -> HttpResponse:
    """The answer: the event loop sends its parts, or this thread collects them where there is none."""
    promise: later.Later | None = view.request.META.get(later.NAME)
    episode = answering.episode
    if promise is None and episode is not None and episode.status not in following.GOES_ON:
        answering.ended = following.counted(episode)  # it ran in this thread
    if promise is None:

        async def collected() -> bytes:
            return b"".join([part async for part in parts])

        answer = HttpResponse(asyncio.run(collected()), content_type=media, status=answering.http_status)
    else:

        async def sent() -> AsyncIterator[bytes]:
            async for part in parts:
                promise.status = answering.http_status
                yield part

        promise.pieces = sent
        answer = HttpResponse(content_type=media)
    answer["X-Router-Episode"] = str(answering.key)
    if answering.here is not None:
        answer["X-Router-Agents"] = ",".join(map(str, answering.here.agents))
    return answer


# --- Chat completions -------------------------------------------------------------------------------------------------


def _usage(answering: Answering) -> Json:
    tokens_in, tokens_out = answering.tokens
    return {
        "prompt_tokens": tokens_in,
        "completion_tokens": tokens_out,
        "total_tokens": tokens_in + tokens_out,
    }


def _chat_error(answering: Answering) -> Json:
    """What says that no agent answered, so that a client may ask again or elsewhere."""
    error = {"code": "no_answer", "type": "server_error", "message": f"No agent answered. {answering.failure}"}
    return {"error": error, "router": answering.about()}


async def _chat_whole(answering: Answering) -> AsyncIterator[bytes]:
    text = "".join([piece async for piece in answering.pieces()])
    if answering.failure:
        answering.http_status = 502
        yield written(_chat_error(answering))
        return
    message = {"role": "assistant", "content": text}
    yield written({
        "id": f"chatcmpl-{answering.key}", "object": "chat.completion", "created": int(time.time()), "model": answering.model,
        "choices": [{"index": 0, "message": message, "finish_reason": answering.finish_reason}], "usage": _usage(answering),
        "router": answering.about(),
    })  # fmt: skip


async def _chat_events(answering: Answering, usage: bool) -> AsyncIterator[bytes]:
    head = {
        "id": f"chatcmpl-{answering.key}", "object": "chat.completion.chunk", "created": int(time.time()),
        "model": answering.model,
    }  # fmt: skip

    def chunk(delta: Json, reason: str | None = None, **more: Any) -> bytes:
        body = {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}], **more}
        return b"data: " + written(body) + b"\n\n"

    yield chunk({"role": "assistant", "content": ""})
    async for piece in answering.pieces():
        yield chunk({"content": piece})
    if answering.failure:
        yield b"data: " + written(_chat_error(answering)) + b"\n\n"
    else:
        yield chunk({}, answering.finish_reason, router=answering.about())
    if usage:
        yield b"data: " + written({**head, "choices": [], "usage": _usage(answering)}) + b"\n\n"
    yield b"data: [DONE]\n\n"


# --- Responses --------------------------------------------------------------------------------------------------------


class ResponsesRequest(serializers.Serializer[Any]):
    """A response of OpenAI's kind; other fields of OpenAI's are taken and mean nothing here."""

    model = serializers.CharField(help_text="`agents/` and the slug of a pool.")
    input = serializers.JSONField(help_text="A text, or a list of messages; the last one of the user.")
    instructions = serializers.CharField(required=False, help_text="A system message before the input.")
    previous_response_id = serializers.CharField(
        required=False,
        help_text="The response that this goes on from: its conversation, or the question that its agent asked.",
    )
    stream = serializers.BooleanField(required=False, default=False, help_text="Whether the answer comes as events.")


class ResponseSerializer(serializers.Serializer[Any]):
    """A response."""

    id = serializers.CharField(help_text="`resp_` and the episode's id.")
    object = serializers.CharField(help_text="`response`.")
    created_at = serializers.IntegerField(help_text="Seconds since 1970.")
    status = serializers.CharField(
        help_text="`completed`, `incomplete` where an agent's answer was cut, or `failed` where there is no answer."
    )
    incomplete_details = serializers.DictField(
        child=serializers.JSONField(),
        allow_null=True,
        required=False,
        help_text='Of a cut answer, `{"reason": "max_output_tokens"}`.',
    )
    model = serializers.CharField(help_text="As it was asked for.")
    output = serializers.ListField(child=serializers.JSONField(), help_text="One message with the answer.")
    usage = serializers.DictField(child=serializers.JSONField(), help_text="Tokens of all calls.")


EXAMPLE = {
    "id": "resp_0190f5a2-7c00-7000-8000-000000000001", "object": "response", "created_at": 1767225600, "status": "completed",
    "model": "agents/support", "output": [{"type": "message", "role": "assistant", "content": []}], "usage": {"total_tokens": 30},
}  # fmt: skip


class ResponsesView(ApiView):
    """A response by a pool's agents."""

    scope = "route"
    throttle_classes = [KeyThrottle]
    asks: Any

    @operation(
        "responses", "The answer of a pool's agents, as a response", of=OF, body=ResponsesRequest, also_at="/v1/responses",
        headers=("X-Router-Episode", "X-Router-Agents"), example={"model": "agents/support", "input": "I was charged twice"},
        answers={200: (ResponseSerializer, "The answer", EXAMPLE)},
        errors=("blank", "too_long", "no_model", "no_executor", "too_many_requests", "quota_exhausted", "not_found"),
    )  # fmt: skip
    def post(self, request: Request) -> HttpResponse:
        """The agents that the input needs are called, and their answer is the output, as events with `stream`. With
        `previous_response_id` the conversation goes on, and an agent that asked something gets its answer."""
        body: Mapping[str, Any] = request.data  # type: ignore[assignment]
        model = body.get("model")
        if not isinstance(model, str) or not model.startswith(PREFIX):
            raise Refused(404, "not_found", "model must be agents/ and a pool's slug.", field="model")
        messages = self._messages(body)
        before = self._before(body, model)
        if before is not None and before.status == Episode.Status.WAITING:
            answering = self._went_on(before, messages, model)
        else:
            if before is not None:
                messages = [*before.messages, {"role": "assistant", "content": before.answer}, *messages]
            answering = _begun(self, model, messages, streams=bool(body.get("stream")))
        if body.get("stream"):
            return _given(self, answering, _response_events(answering), STREAM)
        return _given(self, answering, _response_whole(answering), "application/json")

    def _messages(self, body: Mapping[str, Any]) -> list[dict[str, str]]:
        user_input = body.get("input")
        items = [{"role": "user", "content": user_input}] if isinstance(user_input, str) else user_input
        if not isinstance(items, list) or not items:
            raise Refused(
                400, "missing" if user_input is None else "invalid", "input must be a text or messages.", field="input"
            )
        turns = []
        for item in items:
            if not isinstance(item, dict) or item.get("type", "message") != "message":
                continue
            content = item.get("content")
            if isinstance(content, list):
                texts = [part.get("text") for part in content if isinstance(part, dict)]
                content = "\n".join(text for text in texts if isinstance(text, str))
            turns.append({"role": item.get("role"), "content": content})
        if isinstance(body.get("instructions"), str):
            turns.insert(0, {"role": "system", "content": body["instructions"]})
        return conversation({"messages": turns})

    def _before(self, body: Mapping[str, Any], model: str) -> Episode | None:
        named = body.get("previous_response_id")
        if named is None:
            return None
        try:
            key = uuid.UUID(str(named).removeprefix("resp_"))
        except ValueError:
            key = uuid.UUID(int=0)
        pool = self.access.pool(model.removeprefix(PREFIX))
        earlier = (
            Episode.objects.select_related("pool")
            .filter(pk=key, pool_id=pool.pk, api_key=self.access.caller.pk)
            .first()
        )
        if earlier is None:
            raise Refused(404, "not_found", "There is no such response.", field="previous_response_id")
        return earlier

    def _went_on(self, episode: Episode, messages: list[dict[str, str]], model: str) -> Answering:
        try:
            asides.answer(episode, messages[-1]["content"])
        except AsideError as error:
            raise Refused(409 if error.code == "not_waiting" else 400, error.code, str(error), field="input") from None
        if self.request.META.get(later.NAME) is None:
            runner.go_on_here(episode)
        return Answering(model, episode=episode)


def _response(answering: Answering, status: str, text: str | None) -> Json:
    tokens_in, tokens_out = answering.tokens
    output = [] if text is None else [_message(answering, text, INCOMPLETE if status == INCOMPLETE else COMPLETED)]
    cut = {"reason": "max_output_tokens"} if status == INCOMPLETE else None
    error = None
    if status == FAILED:
        error = {"code": "server_error", "message": str((answering.ended or {}).get("error") or text)}
    return {
        "id": f"resp_{answering.key}", "object": "response", "created_at": int(time.time()), "status": status,
        "model": answering.model, "output": output, "error": error, "incomplete_details": cut, "instructions": None,
        "metadata": {}, "parallel_tool_calls": True, "temperature": None, "tool_choice": "auto", "tools": [], "top_p": None,
        "usage": {
            "input_tokens": tokens_in, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": tokens_out,
            "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": tokens_in + tokens_out,
        },
    }  # fmt: skip


def _message(answering: Answering, text: str, status: str = COMPLETED) -> Json:
    content = [{"type": "output_text", "text": text, "annotations": []}] if status != "in_progress" else []
    return {
        "id": f"msg_{answering.key.hex}",
        "type": "message",
        "role": "assistant",
        "status": status,
        "content": content,
    }


async def _response_whole(answering: Answering) -> AsyncIterator[bytes]:
    text = "".join([piece async for piece in answering.pieces()])
    yield written(_response(answering, _status(answering), text) | {"router": answering.about()})


def _status(answering: Answering) -> str:
    """How a response ended: there is an answer, or what is waited for, as whole as a model's request to approve a tool is; the answer
    was cut; or there is none."""
    if (answering.ended or {}).get("status") in NO_ANSWER:
        return FAILED
    return INCOMPLETE if answering.finish_reason == "length" else COMPLETED


async def _response_events(answering: Answering) -> AsyncIterator[bytes]:
    number = 0

    def event(kind: str, **value: Any) -> bytes:
        nonlocal number
        body = json.dumps({"type": kind, "sequence_number": number, **value}, ensure_ascii=False)
        number += 1
        return f"event: {kind}\ndata: {body}\n\n".encode("utf-8", "replace")

    place = {"item_id": f"msg_{answering.key.hex}", "output_index": 0, "content_index": 0}
    yield event("response.created", response=_response(answering, "in_progress", None))
    yield event("response.in_progress", response=_response(answering, "in_progress", None))
    yield event("response.output_item.added", output_index=0, item=_message(answering, "", "in_progress"))
    yield event("response.content_part.added", **place, part={"type": "output_text", "text": "", "annotations": []})
    pieces = []
    async for piece in answering.pieces():
        pieces.append(piece)
        yield event("response.output_text.delta", **place, delta=piece, logprobs=[])
    text = "".join(pieces)
    yield event("response.output_text.done", **place, text=text, logprobs=[])
    yield event("response.content_part.done", **place, part={"type": "output_text", "text": text, "annotations": []})
    status = _status(answering)
    item = _message(answering, text, INCOMPLETE if status == INCOMPLETE else COMPLETED)
    yield event("response.output_item.done", output_index=0, item=item)
    yield event(f"response.{status}", response=_response(answering, status, text) | {"router": answering.about()})
