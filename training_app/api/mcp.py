"""The Model Context Protocol, as far as a server of one tool speaks it: https://modelcontextprotocol.io/specification.

Both kinds of client are answered, and no session is kept for either: those that say all of themselves in each request (2026-07-28),
and those that shake hands first (`initialize`, up to 2025-11-25).
"""

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any

from training_app.api import json_rpc
from training_app.api.bodies import written
from training_app.api.json_rpc import Call, Fault
from training_app.api.route_requests import OPTIONS
from training_app.engine.routing.options import Carrier, carried_by

SHAKEN = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
STATELESS = ("2026-07-28",)
HEADER_MISMATCH, UNSUPPORTED_VERSION = -32020, -32022
#: What the HTTP status of an error is for stateless clients; others read it from the message.
STATUS = {
    json_rpc.PARSE_ERROR: 400,
    json_rpc.INVALID_REQUEST: 400,
    json_rpc.INVALID_PARAMS: 400,
    json_rpc.METHOD_NOT_FOUND: 404,
    HEADER_MISMATCH: 400,
    UNSUPPORTED_VERSION: 400,
}
META = "io.modelcontextprotocol/"
SERVER = {"name": "routerweb", "title": "Routerweb", "version": "0.1.0"}
INSTRUCTIONS = (
    "Call route with the user's words before you hand a task to agents: it says within milliseconds which agents of a pool the task "
    "needs, and how sure that is. It calls no agent. An empty set means that none is needed; abstained, that the router does not know."
)
TOOL = "route"

Headers = Mapping[str, str]


def is_stateless(body: Mapping[str, Any], headers: Headers) -> bool:
    """Whether this client says all of itself in each request."""
    version = headers.get("mcp-protocol-version")
    if version is not None and version not in SHAKEN:
        return True
    params = body.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    return isinstance(meta, dict) and f"{META}protocolVersion" in meta


def check(call: Call, headers: Headers) -> None:
    """What a stateless request says of itself, against its headers, by which a gateway may have let it in. Raises Fault."""
    sent_meta = call.params.get("_meta")
    meta: dict[str, Any] = sent_meta if isinstance(sent_meta, dict) else {}
    for name in ("protocolVersion", "clientCapabilities"):
        if META + name not in meta:
            raise Fault(json_rpc.INVALID_PARAMS, f"params._meta has no {META}{name}.")
    version = meta[f"{META}protocolVersion"]
    mirrored = {"mcp-protocol-version": version, "mcp-method": call.method}
    if call.method == "tools/call" and "name" in call.params:
        mirrored["mcp-name"] = call.params["name"]
    for header, value in mirrored.items():
        if _decoded(headers.get(header)) != value:
            raise Fault(HEADER_MISMATCH, f"The header {header} is not what the message says.")
    check_version(version)


def check_version(version: Any) -> None:
    """Raises Fault for a stateless version that is not spoken here."""
    if version not in STATELESS:
        detail = {"supported": list(STATELESS), "requested": str(version)[:40]}
        raise Fault(UNSUPPORTED_VERSION, "Unsupported protocol version", detail)


def _decoded(header: str | None) -> str | None:
    """What a header says; other letters than ASCII's come as =?base64?…?=."""
    if header is None or not (header.startswith("=?base64?") and header.endswith("?=")):
        return header
    try:
        return base64.b64decode(header[9:-2], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None


def welcome(version: Any) -> dict[str, Any]:
    """The answer to `initialize`: the version that was asked for, or the newest that begins so."""
    return {
        "protocolVersion": version if version in SHAKEN else SHAKEN[-1],
        "capabilities": {"tools": {}},
        "serverInfo": SERVER,
        "instructions": INSTRUCTIONS,
    }


def discovered() -> dict[str, Any]:
    """The answer to `server/discover`."""
    return {
        "supportedVersions": list(STATELESS),
        "capabilities": {"tools": {}},
        "instructions": INSTRUCTIONS,
        "_meta": {f"{META}serverInfo": SERVER},
        **cached(300),
    }


def cached(seconds: int) -> dict[str, Any]:
    """For how long a stateless client may keep an answer; that it is whole. Others ignore both."""
    return {"resultType": "complete", "ttlMs": seconds * 1000, "cacheScope": "private"}


def tools(pools: Sequence[str]) -> dict[str, Any]:
    """The answer to `tools/list`, for a key that opens those pools."""
    only_pool = len(pools) == 1
    text = {"type": "string"}
    numbers = {"type": "array", "items": {"type": "integer"}}
    message = {
        "type": "object",
        "properties": {"role": {"type": "string", "enum": ["system", "user", "assistant", "tool"]}, "content": text},
        "required": ["role", "content"],
    }
    properties = {
        "query": text | {"description": "The text to route, as the user wrote it. Or give messages."},
        "messages": {
            "type": "array",
            "items": message,
            "description": "The conversation so far, instead of query. Its last message, the user's, is routed.",
        },
        "pool": {
            "type": "string",
            "enum": list(pools),
            "description": "The pool whose agents are chosen from." + (" May be left out." if only_pool else ""),
        },
    }
    for option in carried_by(Carrier.MCP, OPTIONS):
        properties[option.name] = {**option.value.schema, "description": option.description}
    answer = {
        "agents": numbers | {"description": "Ids of the agents that are needed, in the order they were chosen."},
        "agent_names": {"type": "array", "items": text, "description": "Their names, in the same order."},
        "agent_keys": {"type": "array", "items": text, "description": "Their keys, in the same order."},
        "abstained": {"type": "boolean", "description": "The router does not know; agents is its best guess."},
        "confidence": {"type": "number", "description": "Probability that the whole set is right."},
        "scores": {"type": "object", "description": "By agent id, the probability that it is needed."},
        "stop_reason": {"type": "string", "enum": ["stop", "none", "max_agents", "abstained"]},
        "model": text,
        "decision_id": text,
    }
    tool = {
        "name": TOOL,
        "title": "Route a query",
        "description": "Says which agents of a pool a query needs. Calls none of them.",
        "inputSchema": {
            "type": "object",
            "properties": properties,
            "required": [] if only_pool else ["pool"],
            "additionalProperties": False,
        },
        "outputSchema": {"type": "object", "properties": answer, "required": list(answer)},
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    }
    return {"tools": [tool], **cached(60)}


def answered(answer: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to `tools/call`: the same as `/api/route/` answers, as an object and as a text."""
    text = written(answer).decode()
    return {
        "content": [{"type": "text", "text": text}],
        "structuredContent": answer,
        "isError": False,
        "resultType": "complete",
    }


def tool_error(message: str) -> dict[str, Any]:
    """The answer to a `tools/call` whose arguments do not hold: for the model to read, so that it can do better."""
    return {"content": [{"type": "text", "text": message}], "isError": True, "resultType": "complete"}
