"""The ways to ask an agent. Each makes one attempt and returns a Reply, or raises CallFailed.

- chat: `POST {address}/chat/completions` as OpenAI has it; the instruction is the system message, a template over task and history.
- webhook: a signed POST of JSON; the answer is JSON with `content`, and `cost`, `tokens` and `metadata` where it wants to tell.
- function: a Python function that ops allow by EXECUTOR_FUNCTIONS, called in a thread with the webhook's JSON as a dict.
- a2a, mcp, responses, http: protocols of their own modules (`protocols`).
- scripted: for tests and demonstrations, without a network.
"""

import asyncio
import inspect
import json
import math
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from django.conf import settings
from django.utils.module_loading import import_string

from agents_app.outbound import signing
from datasets_app.prelabeling import templates
from orchestration_app.calls import scripted
from orchestration_app.calls.parts import AgentCall, AttemptResult, CallFailed, Reply, Spec
from orchestration_app.calls.protocols import a2a, mcp, mcp_arguments, plain, responses
from orchestration_app.calls.wire import Wire, check_status, parsed, written
from orchestration_app.models import Executor
from routerweb.observing import tracing
from training_app.engine.data import storable

#: Tokens that a provider may add to each message, and to a call.
AROUND_A_MESSAGE, AROUND_A_CALL = 16, 64
FUNCTION_THREADS = 16

_threads = ThreadPoolExecutor(FUNCTION_THREADS, thread_name_prefix="agent")
_drawing = ThreadPoolExecutor(2, thread_name_prefix="instruction")


@dataclass(frozen=True, slots=True)
class Prepared:
    """What every attempt of a call has in common: what a chat is sent, and the most that one attempt can cost. `body` is the drawn
    body of an HTTP request, `tool` the call of an MCP server."""

    messages: list[dict[str, str]]
    worst: float
    most_in: int = 0  # tokens of a chat's prompt
    body: str = ""
    tool: mcp_arguments.ToolCall | None = None

    def at_prices_of(self, spec: Spec) -> "Prepared":
        """The same for another backend of the same agent."""
        return replace(self, worst=_worst(spec, self.most_in))


async def prepare(spec: Spec, call: AgentCall, wire: Wire) -> Prepared:
    """Draw what a chat is sent and find the worst case: what the budget has to hold before an attempt is made. Raises CallFailed.

    A token is a byte or more, so a chat's prompt has no more tokens than bytes; its answer has no more than `most_tokens`.
    """
    if spec.kind == Executor.Kind.HTTP:
        body = await asyncio.get_running_loop().run_in_executor(_drawing, plain.drawn, spec, call)
        return Prepared([], spec.most_cost, body=body)
    if spec.kind == Executor.Kind.MCP:
        return Prepared([], spec.most_cost, tool=await mcp_arguments.prepared(spec, call, wire))
    if not spec.is_language_model:
        return Prepared([], spec.most_cost)
    if spec.instruction:
        # Somebody's own template may take a second, which is for no event loop.
        sent = await asyncio.get_running_loop().run_in_executor(_drawing, messages, spec, call)
    else:
        sent = messages(spec, call)
    most_in = sum(len(turn["role"].encode()) + len(turn["content"].encode("utf-8", "replace")) for turn in sent)
    most_in += AROUND_A_MESSAGE * len(sent) + AROUND_A_CALL + (len(written(list(spec.tools))) if spec.tools else 0)
    return Prepared(sent, _worst(spec, most_in), most_in)


def _worst(spec: Spec, most_in: int) -> float:
    if not (spec.price_in or spec.price_out):
        return spec.most_cost
    return (most_in * spec.price_in + spec.most_tokens * spec.price_out) / 1e6


async def ask(spec: Spec, call: AgentCall, prepared: Prepared, wire: Wire) -> Reply:
    """One attempt. Raises CallFailed."""
    started = time.monotonic()
    reply = await _asked(spec, call, prepared, wire)
    if len(reply.content.encode("utf-8", "replace")) > spec.most_bytes:
        raise CallFailed("too_large", f"the answer is larger than {spec.most_bytes // 1024:,} KiB")
    # What is stored has to be storable in either database.
    clean, _changed = storable.mended(dict(reply.metadata))
    resume, _changed = storable.mended(dict(reply.resume))
    cost = spec.most_cost if reply.cost is None else reply.cost
    latency = time.monotonic() - started
    return Reply(
        storable.mended_text(reply.content), cost, reply.tokens, latency, clean, asks=reply.asks, resume=resume
    )


async def _asked(spec: Spec, call: AgentCall, prepared: Prepared, wire: Wire) -> AttemptResult:
    if spec.is_language_model:
        return await _language_model(spec, call, prepared, wire)
    if spec.kind == Executor.Kind.WEBHOOK:
        return await _webhook(spec, call, wire)
    if spec.kind == Executor.Kind.A2A:
        return await a2a.ask(spec, call, wire)
    if spec.kind == Executor.Kind.MCP:
        assert prepared.tool is not None
        with tracing.tool(prepared.tool.tool, call.key):
            return await mcp.ask(spec, call, prepared.tool, wire)
    if spec.kind == Executor.Kind.HTTP:
        return await plain.ask(spec, call, prepared.body, wire)
    if spec.kind == Executor.Kind.CALLABLE:
        with tracing.tool(spec.function, call.key):
            return await _function(spec, call)
    return await scripted.play(spec, call)


async def _language_model(spec: Spec, call: AgentCall, prepared: Prepared, wire: Wire) -> AttemptResult:
    with tracing.completion(spec.address, spec.model, prepared.messages) as traced:
        if spec.kind == Executor.Kind.RESPONSES:
            reply = await responses.ask(spec, call, prepared.messages, prepared.worst, wire)
        else:
            reply = await _chat(spec, call, prepared, wire)
        traced.completed(reply.content, reply.metadata["tokens_in"], reply.metadata["tokens_out"])
        traced.set(gen_ai__response__model=str(reply.metadata["model"]))
        return reply


def messages(spec: Spec, call: AgentCall) -> list[dict[str, str]]:
    """What a chat is sent: the instruction, then the conversation or the task. Raises CallFailed."""
    instruction = (_drawn(spec, call) if spec.instruction else plain_instruction(spec, call)).strip()
    turns = [{"role": str(turn["role"]), "content": str(turn["content"])} for turn in call.messages]
    first = [{"role": "system", "content": instruction}] if instruction else []
    turns = turns or [{"role": "user", "content": call.task}]
    for exchange in call.exchanges:
        turns += [{"role": "assistant", "content": exchange.question}, {"role": "user", "content": exchange.answer}]
    return [*first, *turns]


def plain_instruction(spec: Spec, call: AgentCall) -> str:
    """What a chat is told where the executor has no instruction of its own. No template: drawing one takes longer than the rest of a
    call."""
    lines = [f"You are {spec.name}.{' ' if spec.description else ''}{spec.description}"]
    if call.history:
        lines += ["", "Others have worked on this before you:"]
        lines += [
            f"- {earlier.agent}: {'(failed)' if earlier.failed else earlier.content}\n" for earlier in call.history
        ]
    return "\n".join(lines)


def _drawn(spec: Spec, call: AgentCall) -> str:
    values = {
        "task": call.task,
        "messages": [dict(message) for message in call.messages],
        "history": [earlier.as_json() for earlier in call.history],
        "agent": {"name": spec.name, "description": spec.description},
        "step": call.step,
    }
    try:
        return templates.draw(spec.instruction, values)
    except templates.TemplateProblem as problem:
        raise CallFailed("instruction", str(problem)) from None


def as_json(spec: Spec, call: AgentCall) -> dict[str, Any]:
    """What a webhook or a function is given."""
    more = {"exchanges": [exchange.as_json() for exchange in call.exchanges], "resume": dict(call.resume)}
    return {
        "key": call.attempt_key,
        "episode": call.episode,
        "step": call.step,
        "agent": {"id": spec.agent, "name": spec.name},
        "task": call.task,
        "messages": [dict(message) for message in call.messages],
        "history": [earlier.as_json() for earlier in call.history],
        **(more if call.exchanges else {}),
    }


async def _chat(spec: Spec, call: AgentCall, prepared: Prepared, wire: Wire) -> AttemptResult:
    body: dict[str, Any] = {"model": spec.model, "messages": prepared.messages, "max_tokens": spec.most_tokens}
    if spec.tools:
        body["tools"] = list(spec.tools)
    headers = {"Idempotency-Key": call.attempt_key, **spec.bearer}
    answer = await wire.post(spec.address.rstrip("/") + "/chat/completions", body, headers, spec.terms())
    check_status(answer, spec.secret)
    reply = parsed(answer)
    try:
        message = reply["choices"][0]["message"]
        content = message.get("content") or ""
        calls = message.get("tool_calls") or []
        if not isinstance(content, str) or not isinstance(calls, list):
            raise TypeError
    except (KeyError, IndexError, TypeError, AttributeError):
        raise CallFailed("malformed", "the answer has no choices[0].message.content") from None
    usage = reply.get("usage") if isinstance(reply.get("usage"), dict) else {}
    cost, tokens_in, tokens_out = spec.paid(usage, ("prompt_tokens", "completion_tokens"), prepared.worst)
    metadata: dict[str, Any] = {
        "model": reply.get("model") or spec.model,
        "tokens_in": tokens_in,
        "tokens_out": tokens_out,
    }
    if calls:
        metadata["tool_calls"] = calls
    if finish := reply["choices"][0].get("finish_reason"):
        metadata["finish_reason"] = finish
    return AttemptResult(content, cost, tokens_in + tokens_out, metadata)


async def _webhook(spec: Spec, call: AgentCall, wire: Wire) -> AttemptResult:
    body = written(as_json(spec, call))
    headers = {"Idempotency-Key": call.attempt_key, **signing.headers(spec.secret, int(time.time()), body)}
    answer = await wire.post(spec.address, body, headers, spec.terms())
    check_status(answer, spec.secret)
    return _told(spec, parsed(answer))


def _told(spec: Spec, reply: Mapping[str, Any]) -> AttemptResult:
    """What a webhook or a function said. Raises CallFailed where it is not what was agreed."""
    asks = reply.get("input_required") is True
    content, cost = reply.get("content"), reply.get("cost", 0.0 if asks else spec.most_cost)
    tokens, metadata = reply.get("tokens", 0), reply.get("metadata") or {}
    if not isinstance(content, str):
        raise CallFailed("malformed", "the answer has no content that is a text")
    if isinstance(cost, bool) or not isinstance(cost, int | float) or not math.isfinite(cost) or cost < 0:
        raise CallFailed("malformed", "the answer's cost is no number from 0")
    if isinstance(tokens, bool) or not isinstance(tokens, int) or not 0 <= tokens < 2**31:
        raise CallFailed("malformed", "the answer's tokens are no whole number from 0")
    if not isinstance(metadata, dict):
        raise CallFailed("malformed", "the answer's metadata is no object")
    return AttemptResult(content, float(cost), tokens, metadata, asks=asks, resume=metadata if asks else {})


async def _function(spec: Spec, call: AgentCall) -> AttemptResult:
    function = allowed(spec.function)
    loop = asyncio.get_running_loop()
    arguments = as_json(spec, call)
    try:
        async with asyncio.timeout(spec.seconds):
            if inspect.iscoroutinefunction(function):
                reply = await function(arguments)
            else:
                # A thread cannot be ended: one that is late holds its place until it returns.
                reply = await loop.run_in_executor(_threads, tracing.going_on(function), arguments)
    except TimeoutError:
        raise CallFailed("timeout", f"no answer within {spec.seconds:g} seconds") from None
    except Exception as error:  # whatever an agent's own code raises is that agent's failure
        raise CallFailed("failed", f"{type(error).__name__}: {error}"[:300]) from None
    if isinstance(reply, str):
        reply = {"content": reply}
    if not isinstance(reply, Mapping):
        raise CallFailed("malformed", f"the function returned {type(reply).__name__}, neither a text nor a dict")
    try:
        reply = json.loads(json.dumps(dict(reply)))
    except (TypeError, ValueError, RecursionError):
        raise CallFailed("malformed", "the function returned what JSON cannot hold") from None
    return _told(spec, reply)


def allowed(path: str) -> Any:
    """The function of that dotted path, where EXECUTOR_FUNCTIONS names it or, with `.*` at its end, its module. Raises CallFailed."""
    module = path.rpartition(".")[0]
    if path not in settings.EXECUTOR_FUNCTIONS and f"{module}.*" not in settings.EXECUTOR_FUNCTIONS:
        raise CallFailed("not_allowed", f"The setting EXECUTOR_FUNCTIONS does not name {path or 'it'}.")
    return _imported(path)


@lru_cache(maxsize=256)
def _imported(path: str) -> Any:
    try:
        function = import_string(path)
    except ImportError as error:
        raise CallFailed("not_allowed", f"{path} cannot be imported: {error}") from None
    if not callable(function):
        raise CallFailed("not_allowed", f"{path} is no function.")
    return function
