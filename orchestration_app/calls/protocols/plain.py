"""Any HTTP endpoint: a request whose body is a template, an answer of which one value counts.

`options`: `method`; `headers`, in whose values `{{ secret }}` stands for the key; `body`, a Jinja template over task, messages,
history, exchanges, agent, key and step; `query`, the parameter of a GET that holds the task; `answer`, where in the JSON the text
is, such as `choices.0.text`, "" for all of what comes back.
"""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from datasets_app.prelabeling import templates
from orchestration_app.calls.parts import AgentCall, AttemptResult, CallFailed, Spec
from orchestration_app.calls.wire import Wire, check_status

SECRET = "{{ secret }}"  # noqa: S105 - a placeholder
#: What a request without a template of its own sends.
BODY = '{"task": {{ task|tojson }}}'


async def ask(spec: Spec, call: AgentCall, body: str, wire: Wire) -> AttemptResult:
    """One request with the drawn body. Raises CallFailed."""
    method, address = str(spec.options.get("method", "POST")), spec.address
    headers = {str(name): str(value).replace(SECRET, spec.secret) for name, value in _headers(spec).items()}
    if spec.secret and not any(SECRET in str(value) for value in _headers(spec).values()):
        headers.setdefault("Authorization", f"Bearer {spec.secret}")
    headers["Idempotency-Key"] = call.attempt_key
    if method == "GET":
        address += ("&" if "?" in address else "?") + urlencode({str(spec.options.get("query") or "q"): call.latest})
        body = ""
    answer = await wire.post(address, body.encode(), headers, spec.terms(), method=method)
    check_status(answer, spec.secret)
    return AttemptResult(text_at(answer.body, str(spec.options.get("answer", ""))))


def _headers(spec: Spec) -> Mapping[str, Any]:
    headers = spec.options.get("headers") or {}
    return headers if isinstance(headers, Mapping) else {}


def drawn(spec: Spec, call: AgentCall) -> str:
    """The body of a request. Raises CallFailed."""
    if spec.options.get("method") == "GET":
        return ""
    values = {
        "task": call.latest, "messages": [dict(message) for message in call.messages],
        "history": [earlier.as_json() for earlier in call.history], "exchanges": [exchange.as_json() for exchange in call.exchanges],
        "agent": {"name": spec.name, "description": spec.description}, "key": call.attempt_key, "step": call.step,
    }  # fmt: skip
    try:
        return templates.draw(str(spec.options.get("body") or BODY), values)
    except templates.TemplateProblem as problem:
        raise CallFailed("instruction", str(problem)) from None


def text_at(body: bytes, place: str) -> str:
    """The text at that place of an answer. Raises CallFailed."""
    text = body.decode("utf-8", "replace")
    if not place:
        return text.strip()
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        raise CallFailed("malformed", "the answer is no JSON") from None
    for name in place.split("."):
        if isinstance(value, dict) and name in value:
            value = value[name]
        elif isinstance(value, list) and name.isdecimal() and int(name) < len(value):
            value = value[int(name)]
        else:
            raise CallFailed("malformed", f"the answer has nothing at {place}")
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
