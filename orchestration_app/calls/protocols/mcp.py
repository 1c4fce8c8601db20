"""Tools of an MCP server: `tools/call` over streamable HTTP, or over the standard streams of a program that admins allow.

Servers of 2026-07-28 are called without a session; those before shake hands first. Which one an address speaks is kept for the next
call. An agent is one tool (`options["tool"]`) or all tools of a server together, of which one is chosen for each call.
`options`: `tool`; `arguments`, a Jinja template of a JSON object; `command`, the program and its arguments; `secret_name`, the
variable of its environment that holds the key.
"""

import base64
import time
from collections.abc import Mapping
from typing import Any

from agents_app.sources.tools import CLIENT, META, SHAKEN, STATELESS
from orchestration_app.calls.parts import AgentCall, AttemptResult, CallFailed, Spec
from orchestration_app.calls.protocols import mcp_stdio
from orchestration_app.calls.protocols.mcp_arguments import ToolCall, answered
from orchestration_app.calls.wire import HttpReply, Wire, check_status, events
from routerweb import state

#: Addresses that are known to want a handshake; so many are remembered.
MOST_KNOWN = 1_000
_shaken: dict[str, None] = {}
state.keep(__name__, "_shaken", "MCP servers that shake hands", MOST_KNOWN)
UNSUPPORTED_VERSION = -32022


async def ask(spec: Spec, call: AgentCall, tool_call: ToolCall, wire: Wire) -> AttemptResult:
    """Call the tool. Raises CallFailed."""
    params = tool_call.params(call)
    if spec.options.get("command"):
        result = await mcp_stdio.call(spec, params, wire)
    else:
        result = await Http(spec, wire, call.attempt_key).call("tools/call", params)
    return answered(result, tool_call)


class Http:
    """Requests to one server over streamable HTTP, within one deadline."""

    def __init__(self, spec: Spec, wire: Wire, key: str) -> None:
        self._spec, self._wire, self._until = spec, wire, time.monotonic() + spec.seconds
        self._key = key
        self._number = 0
        self._headers = {"Accept": "application/json, text/event-stream", **spec.bearer}

    async def call(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """The result of a method, in whichever way the server speaks. Raises CallFailed."""
        if self._spec.address not in _shaken:
            answer = await self._sent(method, self._stateless(params), self._head(method, params))
            message = self._message(answer)
            if isinstance(message.get("result"), dict):
                result: dict[str, Any] = message["result"]
                return result
            # A server of before does not know the version, or wants its session's id: it has worked on nothing.
            if not _wants_handshake(answer, message):
                check_status(answer, self._spec.secret)
                raise _fault(message.get("error"))
            while len(_shaken) >= MOST_KNOWN:
                del _shaken[next(iter(_shaken))]
            _shaken[self._spec.address] = None
        await self._shake_hands()
        return self._result(await self._sent(method, params, {}))

    def _stateless(self, params: Mapping[str, Any]) -> dict[str, Any]:
        about = {
            "protocolVersion": STATELESS,
            "clientCapabilities": {"elicitation": {"form": {}}},
            "clientInfo": CLIENT,
        }
        return {**params, "_meta": {META + name: value for name, value in about.items()}}

    def _head(self, method: str, params: Mapping[str, Any]) -> dict[str, str]:
        head = {"MCP-Protocol-Version": STATELESS, "Mcp-Method": method}
        name = str(params.get("name", ""))
        if name and not name.isascii():
            name = f"=?base64?{base64.b64encode(name.encode()).decode()}?="
        return head | ({"Mcp-Name": name} if name else {})

    async def _shake_hands(self) -> None:
        params = {"protocolVersion": SHAKEN, "capabilities": {}, "clientInfo": CLIENT}
        answer = await self._sent("initialize", params, {})
        result = self._result(answer)
        if session := answer.headers.get("mcp-session-id"):
            self._headers["Mcp-Session-Id"] = session
        version = result.get("protocolVersion")
        self._headers["MCP-Protocol-Version"] = version if isinstance(version, str) and version.isascii() else SHAKEN
        await self._sent("notifications/initialized", None, {})

    async def _sent(self, method: str, params: Mapping[str, Any] | None, head: Mapping[str, str]) -> HttpReply:
        seconds = self._until - time.monotonic()
        if seconds <= 0:
            raise CallFailed("timeout", f"no answer within {self._spec.seconds:g} seconds")
        if method == "tools/call":  # for servers and proxies that know a call that is made again
            head = {**head, "Idempotency-Key": self._key}
        body: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            self._number += 1
            body |= {"id": self._number, "params": params}
        return await self._wire.post(self._spec.address, body, {**self._headers, **head}, self._spec.terms(seconds))

    def _message(self, answer: HttpReply) -> dict[str, Any]:
        """The answer to the last request; {} where there is none."""
        for event in events(answer):
            answers = isinstance(event, dict) and ("result" in event or "error" in event)
            if answers and event.get("id") in (self._number, None):
                message: dict[str, Any] = event
                return message
        return {}

    def _result(self, answer: HttpReply) -> dict[str, Any]:
        check_status(answer, self._spec.secret)
        message = self._message(answer)
        if not isinstance(message.get("result"), dict):
            raise _fault(message.get("error"))
        result: dict[str, Any] = message["result"]
        return result


def _wants_handshake(answer: HttpReply, message: Mapping[str, Any]) -> bool:
    """Whether a server refused a request for the way it came, before any work."""
    if answer.status in (400, 404, 405, 406, 415, 422):
        return True
    error = message.get("error")
    code = error.get("code") if isinstance(error, Mapping) else None
    return 200 <= answer.status < 300 and code in (-32600, UNSUPPORTED_VERSION, -32000)


def _fault(error: Any) -> CallFailed:
    if not isinstance(error, Mapping):
        return CallFailed("malformed", "the answer is no JSON-RPC answer with a result")
    words = f"JSON-RPC error {error.get('code')}: {error.get('message', '')}"[:300]
    return CallFailed("failed" if error.get("code") == -32603 else "refused", words)
