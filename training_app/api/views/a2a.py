"""A pool as an agent of the Agent2Agent protocol: its card, and the address that answers messages."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from training_app.answering.answer import NoModel
from training_app.api import a2a, json_rpc, route_requests
from training_app.api.errors import Refused
from training_app.api.json_rpc import Call, Fault
from training_app.api.keys import KeyThrottle
from training_app.api.route_requests import RouteCall
from training_app.api.views.base import ApiView


class CardView(ApiView):
    """The card of a pool, or without a slug of the key's only one. Keys alone see it: it names the pool's agents."""

    scope = "route"

    @extend_schema(exclude=True)
    def get(self, request: Request, slug: str | None = None) -> Response:
        """The card, in the words of both versions."""
        pool, served = self.pool(slug), self.access.pool(slug)
        agents = [(agent.name, agent.description) for agent in served.roster if agent.state == "active"]
        address = request.build_absolute_uri(f"/a2a/{pool.slug}")
        return Response(a2a.card(pool.name, pool.description, agents, address))


class A2aView(ApiView):
    """Messages to a pool's router, as JSON-RPC. Its card describes it, so the schema has it not."""

    scope = "route"
    throttle_classes = [KeyThrottle]
    asks: RouteCall

    @extend_schema(exclude=True)
    def post(self, request: Request, slug: str) -> Response:
        """The answer to a message. As the protocol wants it, errors of a message come with 200."""
        self.access.pool(slug)
        body: dict[str, Any] = {}
        try:
            body = json_rpc.body_of(request)
            call = json_rpc.call_in(body)
            a2a.check_version(request.headers.get("A2A-Version"))
            return Response(json_rpc.result(call.id, self.done(call, slug)))
        except Fault as fault:
            return Response(json_rpc.error(json_rpc.id_of(body), fault))

    def done(self, call: Call, slug: str) -> dict[str, Any]:
        """The message that answers. Raises Fault."""
        if call.method in a2a.OF_TASKS:
            raise Fault(a2a.TASK_NOT_FOUND, "There are no tasks here: every message is answered at once.")
        if call.method in a2a.OTHERS:
            raise Fault(a2a.NOT_SUPPORTED, f"{call.method} is not supported, as the card says.")
        version = a2a.SENDING.get(call.method)
        if version is None:
            raise Fault(json_rpc.METHOD_NOT_FOUND, f"There is no method {call.method[:80]}.")
        wanted, context = a2a.routed_message(call.params)
        try:
            self.asks = route_requests.route_call({**wanted, "pool": slug}, self.access)
        except Refused as refused:
            raise Fault(json_rpc.INVALID_PARAMS, refused.error["message"]) from None
        except NoModel as problem:
            raise Fault(a2a.NOT_SUPPORTED, f"{problem} {problem.hint}") from None
        self.check_throttles(self.request)
        return a2a.answered(route_requests.answer_one(self.asks, self.access), context, version)
