"""JSON-RPC 2.0, which MCP and A2A are made of: one message in, one message out.

A library for either loads 40 to 55 MB into every web process; what is needed of it stands on this page.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from rest_framework.request import Request

from training_app.api.errors import Refused

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS = -32700, -32600, -32601, -32602

Id = str | int | float | None


class Fault(Exception):
    """A call that is not done. `data` tells programs more."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code, self.data = code, data


class Call(NamedTuple):
    """A request, or without `id` a notification, which nobody answers."""

    id: Id
    method: str
    params: dict[str, Any]
    notification: bool


def body_of(request: Request) -> dict[str, Any]:
    """The object that a request holds. Raises Fault for what is none, and Refused where HTTP itself was at fault."""
    try:
        return request.data  # type: ignore[return-value]
    except Refused as refused:
        if refused.error["code"] == "malformed":
            raise Fault(PARSE_ERROR, refused.error["message"]) from None
        raise


def id_of(body: Mapping[str, Any]) -> Id:
    """The id that an answer to this message has: null where it has none that could be one."""
    id_ = body.get("id")
    return id_ if isinstance(id_, str | int | float) and not isinstance(id_, bool) else None


def call_in(body: Mapping[str, Any]) -> Call:
    """The call that a message is. Raises Fault."""
    method, params = body.get("method"), body.get("params")
    if body.get("jsonrpc") != "2.0" or not isinstance(method, str):
        raise Fault(INVALID_REQUEST, 'A message has "jsonrpc": "2.0" and a method.')
    if "id" in body and id_of(body) is None:
        raise Fault(INVALID_REQUEST, "id must be a text or a number.")
    if params is not None and not isinstance(params, dict):
        raise Fault(INVALID_PARAMS, "params must be an object.")
    return Call(id_of(body), method, params or {}, "id" not in body)


def result(call: Id, value: Any) -> dict[str, Any]:
    """The answer to a call."""
    return {"jsonrpc": "2.0", "id": call, "result": value}


def error(call: Id, fault: Fault) -> dict[str, Any]:
    """The answer to a call that is not done."""
    body: dict[str, Any] = {"code": fault.code, "message": str(fault)}
    return {"jsonrpc": "2.0", "id": call, "error": body if fault.data is None else body | {"data": fault.data}}
