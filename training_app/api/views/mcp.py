"""The server of the Model Context Protocol: one tool, `route`. Streamable HTTP without a session; the key is the bearer's."""

from typing import Any

from django.conf import settings
from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from training_app.answering.answer import NoModel
from training_app.api import json_rpc, mcp, route_requests
from training_app.api.errors import Refused
from training_app.api.json_rpc import Call, Fault
from training_app.api.keys import KeyThrottle
from training_app.api.route_requests import RouteCall
from training_app.api.views.base import ApiView


class McpView(ApiView):
    """One message at a time. It describes itself (`tools/list`), so the schema has it not."""

    scope = "route"
    throttle_classes = [KeyThrottle]
    asks: RouteCall

    @extend_schema(exclude=True)
    def post(self, request: Request) -> HttpResponse:
        """The answer to a request; 202 without a body for a notification."""
        _check_origin(request)
        body: dict[str, Any] = {}
        stateless = True
        try:
            body = json_rpc.body_of(request)
            stateless = mcp.is_stateless(body, _Lowered(request))
            call = json_rpc.call_in(body)
            if call.notification:
                if stateless:
                    mcp.check_version(request.headers.get("MCP-Protocol-Version"))
                return HttpResponse(status=202)
            if stateless:
                mcp.check(call, _Lowered(request))
            return Response(json_rpc.result(call.id, self.done(call, stateless)))
        except Fault as fault:
            has_status = stateless or json_rpc.id_of(body) is None
            status = mcp.STATUS.get(fault.code, 200) if has_status else 200
            return Response(json_rpc.error(json_rpc.id_of(body), fault), status=status)

    def done(self, call: Call, stateless: bool) -> dict[str, Any]:
        """What the call's method gives. Raises Fault."""
        if call.method == "tools/call":
            return self.called(call)
        if call.method == "tools/list":
            return mcp.tools(self.access.caller.pools)
        if stateless and call.method == "server/discover":
            return mcp.discovered()
        if not stateless and call.method == "initialize":
            return mcp.welcome(call.params.get("protocolVersion"))
        if not stateless and call.method == "ping":
            return {}
        raise Fault(json_rpc.METHOD_NOT_FOUND, f"There is no method {call.method[:80]}.")

    def called(self, call: Call) -> dict[str, Any]:
        """What the tool answers. Arguments that do not hold are told to the model, which may mend them. Raises Fault."""
        name, arguments = call.params.get("name"), call.params.get("arguments")
        if name != mcp.TOOL:
            raise Fault(json_rpc.INVALID_PARAMS, f"There is no tool {str(name)[:80]}.")
        if arguments is not None and not isinstance(arguments, dict):
            raise Fault(json_rpc.INVALID_PARAMS, "arguments must be an object.")
        try:
            self.asks = route_requests.route_call(arguments or {}, self.access)
        except Refused as refused:
            return mcp.tool_error(" ".join(filter(None, (refused.error["message"], refused.error.get("hint")))))
        except NoModel as problem:
            return mcp.tool_error(f"{problem} {problem.hint}")
        self.check_throttles(self.request)
        return mcp.answered(route_requests.answer_one(self.asks, self.access))


class _Lowered(dict[str, str]):
    """A request's headers by lower-case name."""

    def __init__(self, request: Request) -> None:
        super().__init__((name.lower(), value) for name, value in request.headers.items())


def _check_origin(request: Request) -> None:
    """Raises Refused for a page of another site that CORS_ORIGINS does not name, as the protocol demands."""
    origin = request.headers.get("Origin")
    site_origin = f"{request.scheme}://{request.get_host()}"
    if origin is not None and origin != site_origin and not {origin, "*"} & set(settings.CORS_ORIGINS):
        raise Refused(
            403,
            "origin_refused",
            f"Pages of {origin[:80]!r} may not call this address.",
            hint="An administrator names origins in CORS_ORIGINS.",
        )
