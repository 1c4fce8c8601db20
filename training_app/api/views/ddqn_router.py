"""The addresses of ddqn-router's server, with its bodies, for the applications that call it: another address, and a key.

They answer for the pools that DDQN_ROUTER_POOLS names; to a key that opens one of these they are there, to others they are not.
"""

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from training_app.api import examples, route_requests
from training_app.api.ddqn_router import Unprocessable, pool_of
from training_app.api.errors import Refused
from training_app.api.keys import KeyThrottle
from training_app.api.route_requests import RouteCall
from training_app.api.schema import operation
from training_app.api.serializers.ddqn_router import (
    DdqnAgentsSerializer,
    DdqnAnswerSerializer,
    DdqnBatchRequest,
    DdqnHealthSerializer,
    DdqnRouteRequest,
)
from training_app.api.views.base import ApiView

OF = "As ddqn-router"
ERRORS = ("not_found", "no_model", "too_many_requests", "quota_exhausted", "unprocessable")


class _Routing(ApiView):
    scope = "route"
    throttle_classes = [KeyThrottle]
    asks: RouteCall

    def checked_call(self, read: Any) -> RouteCall:
        """What is asked, once it holds and the key may send it. Raises Refused and NoModel."""
        pool = pool_of(self.access)
        try:
            # Its server ignores fields that it does not have.
            body = {name: value for name, value in dict(self.request.data).items() if name in ("query", "queries")}
            self.asks = read(body | {"pool": pool.slug}, self.access)
        except Refused as refused:
            raise (Unprocessable(refused) if refused.status_code == 400 else refused) from None
        self.check_throttles(self.request)
        return self.asks


class DdqnRouteView(_Routing):
    """One query."""

    @operation(
        "ddqnRoute", "One query, as ddqn-router answers it", of=OF, body=DdqnRouteRequest, example={"query": "I was charged twice"},
        also_at="/route",
        answers={200: (DdqnAnswerSerializer, "The answer", examples.DDQN_ANSWER)}, errors=ERRORS,
    )  # fmt: skip
    def post(self, request: Request) -> Response:
        """The set, the names, how sure the router is of the whole set, and the steps of the walk. The answer is kept as a decision."""
        return Response(_as_there(route_requests.answer_one(self.checked_call(route_requests.route_call), self.access)))


class DdqnBatchView(_Routing):
    """Many queries."""

    @operation(
        "ddqnRouteBatch", "Many queries, as ddqn-router answers them", of=OF, body=DdqnBatchRequest, also_at="/route/batch",
        example={"queries": ["I was charged twice", "Where is my parcel?"]},
        answers={200: (DdqnAnswerSerializer(many=True), "An answer for each, in their order", examples.DDQN_ANSWER)}, errors=ERRORS,
    )  # fmt: skip
    def post(self, request: Request) -> Response:
        """The same for many at once: an answer for each, in the order of the queries."""
        answered = route_requests.answer_many(self.checked_call(route_requests.batch_call), self.access)
        return Response([_as_there(result) for result in answered["results"]])


class DdqnAgentsView(ApiView):
    """The agents."""

    scope = "route"

    @operation(
        "ddqnAgents", "The agents, as ddqn-router lists them", of=OF, also_at="/agents",
        answers={200: (DdqnAgentsSerializer, "Those that a route may name", {"agents": [examples.DDQN_AGENT]})}, errors=("not_found",),
    )  # fmt: skip
    def get(self, request: Request) -> Response:
        """Id, name and description of each active agent."""
        roster = pool_of(self.access).roster
        shown = [
            {"id": agent.id, "name": agent.name, "description": agent.description}
            for agent in roster
            if agent.state == "active"
        ]
        return Response({"agents": shown})


class DdqnHealthView(ApiView):
    """That the server answers."""

    authentication_classes = []
    permission_classes = []

    @operation(
        "ddqnHealth", "That the server answers, in ddqn-router's words", of=OF, public=True, any_pool=False, also_at="/health",
        answers={200: (DdqnHealthSerializer, "It does", {"status": "ok"})},
    )  # fmt: skip
    def get(self, request: Request) -> Response:
        """Nothing more is said without a key; `/api/health/` tells a key how things stand."""
        return Response({"status": "ok"})


def _as_there(answer: dict[str, Any]) -> dict[str, Any]:
    return {name: answer[name] for name in ("agents", "agent_names", "confidence", "steps")}
