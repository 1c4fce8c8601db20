"""Agents that speak A2A, version 1.0 or 0.3, over JSON-RPC: a message out, a message or a task back.

A task that works on is asked for until it ends or the call's time is over. One that waits for input comes back as a question; the
answer goes to the same task. `options`: `version`, and `streaming` where the card says that the agent streams.
"""

import asyncio
import json
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from orchestration_app.calls.parts import AgentCall, AttemptResult, CallFailed, Spec
from orchestration_app.calls.wire import Wire, check_status, events

VERSIONS = ("1.0", "0.3")
#: Between two looks at a task that works on, in seconds: the first, and the longest; each is twice the one before.
FIRST_LOOK, LONGEST_LOOK = 0.25, 5.0


class Dialect(NamedTuple):
    """The words of one version."""

    send: str
    stream: str
    get: str
    role: str


DIALECTS = {
    "1.0": Dialect("SendMessage", "SendStreamingMessage", "GetTask", "ROLE_USER"),
    "0.3": Dialect("message/send", "message/stream", "tasks/get", "user"),
}


@dataclass(slots=True)
class _Heard:
    """What the agent has said so far, of whichever version."""

    message: str = ""
    task: str = ""
    context: str = ""
    state: str = ""
    status: str = ""
    artifacts: dict[str, str] = field(default_factory=dict)

    @property
    def content(self) -> str:
        """Its answer: what it made, else what it said."""
        return "\n\n".join(text for text in self.artifacts.values() if text) or self.status or self.message


async def ask(spec: Spec, call: AgentCall, wire: Wire) -> AttemptResult:
    """One message and what comes of it. Raises CallFailed."""
    until = time.monotonic() + spec.seconds
    talk = _Talk(spec, wire, until)
    heard = _Heard(task=str(call.resume.get("task", "")), context=str(call.resume.get("context", "")))
    await talk.send(call, heard)
    wait = FIRST_LOOK
    while heard.task and heard.state in ("submitted", "working"):
        await asyncio.sleep(min(wait, max(until - time.monotonic(), 0.0)))
        wait = min(2 * wait, LONGEST_LOOK)
        await talk.look(heard)
    return _told(heard)


def _told(heard: _Heard) -> AttemptResult:
    """Raises CallFailed for a task that came to nothing."""
    content = heard.content
    metadata = {name: value for name, value in (("task", heard.task), ("context", heard.context)) if value}
    if heard.state == "input-required":
        question = heard.status or heard.message or "The agent needs more information."
        return AttemptResult(question, 0.0, 0, metadata, asks=True, resume=metadata)
    if heard.state == "auth-required":
        raise CallFailed("refused", f"the agent wants somebody to sign in: {heard.status}"[:300])
    if heard.state == "failed":
        raise CallFailed("failed", f"the agent's task failed: {heard.status}"[:300])
    if heard.state in ("rejected", "canceled", "cancelled"):
        raise CallFailed("refused", f"the agent's task was {heard.state}: {heard.status}"[:300])
    if not content and not heard.state:
        raise CallFailed("malformed", "the answer is neither a message nor a task with a state")
    return AttemptResult(content, None, 0, metadata)


class _Talk:
    """Requests to one agent, within one deadline."""

    def __init__(self, spec: Spec, wire: Wire, until: float) -> None:
        self._spec, self._wire, self._until = spec, wire, until
        self._version = str(spec.options.get("version", VERSIONS[0]))
        self._words = DIALECTS[self._version]

    async def send(self, call: AgentCall, heard: _Heard) -> None:
        """Send the task, or the answer to the agent's question. Raises CallFailed."""
        text = call.latest if call.exchanges or not self._spec.reads_others else call.with_others
        message: dict[str, Any] = {
            # The same for a call that is made again, so that the agent can tell.
            "messageId": str(uuid.uuid5(uuid.NAMESPACE_OID, call.attempt_key)),
            "role": self._words.role,
            "parts": [{"text": text} if self._version == "1.0" else {"kind": "text", "text": text}],
        }
        if self._version != "1.0":
            message["kind"] = "message"
        message |= {name: value for name, value in (("taskId", heard.task), ("contextId", heard.context)) if value}
        accepted: dict[str, Any] = {"acceptedOutputModes": ["text/plain", "application/json"]}
        accepted["returnImmediately" if self._version == "1.0" else "blocking"] = self._version != "1.0"
        params = {"message": message, "configuration": accepted}
        streams = bool(self._spec.options.get("streaming"))
        method = self._words.stream if streams else self._words.send
        for event in await self._call(method, params, call.attempt_key):
            _hear(event, heard)

    async def look(self, heard: _Heard) -> None:
        """Ask for the task. Raises CallFailed."""
        for event in await self._call(self._words.get, {"id": heard.task}, f"{heard.task}-{time.monotonic_ns()}"):
            _hear(event, heard)

    async def _call(self, method: str, params: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
        seconds = self._until - time.monotonic()
        if seconds <= 0:
            raise CallFailed("timeout", f"the agent's task did not end within {self._spec.seconds:g} seconds")
        headers = {
            "A2A-Version": self._version,
            "Accept": "application/json, text/event-stream",
            "Idempotency-Key": key,
            **self._spec.bearer,
        }
        body = {"jsonrpc": "2.0", "id": key, "method": method, "params": params}
        answer = await self._wire.post(self._spec.address, body, headers, self._spec.terms(seconds))
        check_status(answer, self._spec.secret)
        received = []
        for event in events(answer):
            if not isinstance(event, dict):
                continue
            if isinstance(event.get("error"), dict):
                raise _fault(event["error"])
            if isinstance(event.get("result"), dict):
                received.append(event["result"])
        if not received:
            raise CallFailed("malformed", "the answer is no JSON-RPC answer with a result")
        return received


def _fault(error: Mapping[str, Any]) -> CallFailed:
    code = error.get("code")
    words = f"JSON-RPC error {code}: {error.get('message', '')}"[:300]
    return CallFailed("failed" if code == -32603 else "refused", words)


def _hear(event: Mapping[str, Any], heard: _Heard) -> None:
    """Take in one result or event of either version."""
    kind = event.get("kind")
    if kind is None:  # 1.0 names each by its key; GetTask answers the task itself
        for name in ("task", "message", "statusUpdate", "artifactUpdate"):
            if isinstance(event.get(name), dict):
                kind, event = name, event[name]
                break
        else:
            kind = "task"
    if kind == "message":
        heard.message, heard.context = _text(event), str(event.get("contextId") or heard.context)
    elif kind == "task":
        heard.task, heard.context = str(event.get("id", "")), str(event.get("contextId") or heard.context)
        _take_status(event.get("status"), heard)
        for artifact in event["artifacts"] if isinstance(event.get("artifacts"), list) else ():
            _take_artifact(artifact, heard, append=False)
    elif kind in ("statusUpdate", "status-update"):
        heard.task = str(event.get("taskId") or heard.task)
        heard.context = str(event.get("contextId") or heard.context)
        _take_status(event.get("status"), heard)
    elif kind in ("artifactUpdate", "artifact-update"):
        heard.task = str(event.get("taskId") or heard.task)
        _take_artifact(event.get("artifact"), heard, append=bool(event.get("append")))


def _take_status(status: Any, heard: _Heard) -> None:
    if not isinstance(status, dict):
        return
    heard.state = str(status.get("state", "")).removeprefix("TASK_STATE_").lower().replace("_", "-")
    heard.status = _text(status.get("message"))


def _take_artifact(artifact: Any, heard: _Heard, *, append: bool) -> None:
    if isinstance(artifact, dict):
        key = str(artifact.get("artifactId", len(heard.artifacts)))
        heard.artifacts[key] = (heard.artifacts.get(key, "") if append else "") + _text(artifact, between="")


def _text(message: Any, between: str = "\n") -> str:
    """The text of a message's or artifact's parts; an object among them as JSON."""
    parts = message.get("parts") if isinstance(message, dict) else None
    texts = []
    for part in parts if isinstance(parts, list) else ():
        if not isinstance(part, dict):
            continue
        if isinstance(part.get("text"), str):
            texts.append(part["text"])
        elif part.get("data") is not None:
            texts.append(json.dumps(part["data"], ensure_ascii=False))
    return between.join(texts)
