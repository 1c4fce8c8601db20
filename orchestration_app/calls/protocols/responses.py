"""OpenAI's Responses API: `POST {address}/responses`, https://platform.openai.com/docs/api-reference/responses."""

from collections.abc import Mapping, Sequence
from typing import Any

from orchestration_app.calls.parts import AgentCall, AttemptResult, CallFailed, Spec
from orchestration_app.calls.wire import Wire, check_status, parsed


async def ask(
    spec: Spec, call: AgentCall, messages: Sequence[Mapping[str, str]], worst: float, wire: Wire
) -> AttemptResult:
    """One response; it costs `worst` where nothing tells what it cost. Raises CallFailed."""
    body = request(spec, messages)
    headers = {"Idempotency-Key": call.attempt_key, **spec.bearer}
    answer = await wire.post(spec.address.rstrip("/") + "/responses", body, headers, spec.terms())
    check_status(answer, spec.secret)
    return _told(spec, parsed(answer), worst)


def request(spec: Spec, messages: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """The body of a request: system messages are the instructions, all others the input."""
    instructions = "\n\n".join(message["content"] for message in messages if message["role"] == "system")
    body: dict[str, Any] = {
        "model": spec.model,
        "input": [dict(message) for message in messages if message["role"] != "system"],
        "max_output_tokens": spec.most_tokens,
        "store": False,
    }
    if instructions:
        body["instructions"] = instructions
    if spec.tools:
        body["tools"] = list(spec.tools)
    return body


def _told(spec: Spec, reply: Mapping[str, Any], worst: float) -> AttemptResult:
    output = reply.get("output")
    if not isinstance(output, list):
        raise CallFailed("malformed", "the answer has no output that is a list")
    if reply.get("status") == "failed":
        error = reply.get("error") if isinstance(reply.get("error"), dict) else {}
        raise CallFailed("failed", f"the response failed: {error.get('message', '')}"[:300])  # type: ignore[union-attr]
    items = [item for item in output if isinstance(item, dict)]
    content = "".join(
        part["text"]
        for item in items
        if item.get("type") == "message" and isinstance(item.get("content"), list)
        for part in item["content"]
        if isinstance(part, dict) and part.get("type") == "output_text" and isinstance(part.get("text"), str)
    )
    calls = [item for item in items if str(item.get("type", "")).endswith("_call")]
    if not content and not calls:
        raise CallFailed("malformed", "the answer has no message with text")
    usage = reply.get("usage") if isinstance(reply.get("usage"), dict) else {}
    cost, tokens_in, tokens_out = spec.paid(usage, ("input_tokens", "output_tokens"), worst)
    metadata: dict[str, Any] = {
        "model": reply.get("model") or spec.model, "tokens_in": tokens_in, "tokens_out": tokens_out,
    }  # fmt: skip
    if calls:
        metadata["tool_calls"] = calls
    if reply.get("status") == "incomplete":
        metadata["finish_reason"] = "incomplete"
    return AttemptResult(content, cost, tokens_in + tokens_out, metadata)
