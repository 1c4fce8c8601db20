"""Routing, and what became of it."""

from typing import Any

from django.db import transaction
from django.http import HttpResponse
from rest_framework.request import Request
from rest_framework.response import Response

from routerweb import hooks
from training_app.api import examples, route_requests
from training_app.api.bodies import written, written_in_steps
from training_app.api.errors import Refused
from training_app.api.keys import KeyThrottle
from training_app.api.once import once
from training_app.api.route_requests import RouteCall
from training_app.api.schema import operation
from training_app.api.serializers.models import OutcomeRequest, OutcomeSerializer
from training_app.api.serializers.routing import (
    AnswerSerializer,
    BatchRequest,
    BatchSerializer,
    RouteRequest,
)
from training_app.api.views.base import ApiView
from training_app.models import Decision
from training_app.rollout import outcomes

OF = "Routing"
OF_A_ROUTE = ("blank", "too_long", "no_model", "too_many_requests", "quota_exhausted")


def answered(value: bytes) -> HttpResponse:
    """The answer in its bytes at once: what a Response waits for before it is rendered, nobody here would change."""
    return HttpResponse(value, content_type="application/json")


class RoutingView(ApiView):
    """Answers queries, within what the key may send a minute."""

    scope = "route"
    throttle_classes = [KeyThrottle]
    asks: RouteCall

    def checked_call(self, serializer: Any) -> RouteCall:
        """What is asked, once it holds and the key may send it. Raises Refused and NoModel."""
        # What it costs is known only now, so the throttle comes after the checks; a request that does not hold costs nothing.
        self.asks = self.body(serializer)  # type: ignore[assignment]
        self.check_throttles(self.request)
        return self.asks


class RouteView(RoutingView):
    """One query."""

    @operation(
        "route", "The set of agents that one query needs", of=OF, body=RouteRequest,
        example={"query": "I was charged twice and cannot log in", "pool": "support"},
        answers={200: (AnswerSerializer, "The answer", examples.ANSWER)}, errors=OF_A_ROUTE,
    )  # fmt: skip
    def post(self, request: Request) -> HttpResponse:
        """The agents that the query needs, with what the router thinks of each, in about a millisecond and without an LLM. The
        answer is kept as a decision under its id."""
        return answered(written(route_requests.answer_one(self.checked_call(RouteRequest), self.access)))


class BatchView(RoutingView):
    """Many queries."""

    @operation(
        "routeBatch", "Many queries of one pool at once", of=OF, body=BatchRequest,
        example={"queries": ["I was charged twice", "Where is my parcel?"], "pool": "support"},
        answers={200: (BatchSerializer, "An answer for each, in the queries' order", examples.BATCH)},
        errors=(*OF_A_ROUTE, "too_many"),
    )  # fmt: skip
    def post(self, request: Request) -> HttpResponse:
        """The same as one query each, together. If one query is bad, none is routed and the error names it."""
        return answered(written_in_steps(route_requests.answer_many(self.checked_call(BatchRequest), self.access)))


class OutcomeView(ApiView):
    """What became of a decision."""

    scope = "route"

    @operation(
        "outcome", "What became of a decision", of=OF, keyed=True, body=OutcomeRequest,
        example={"decision_id": examples.DECISION, "success": False, "agents_used": [0], "comment": "billing was enough"},
        answers={
            201: (OutcomeSerializer, "It is the decision's first", examples.OUTCOME),
            200: (OutcomeSerializer, "It replaced an earlier report", examples.OUTCOME | {"new": False}),
        },
        errors=("not_found", "blank", "too_long", "too_many"),
    )  # fmt: skip
    @once
    def post(self, request: Request) -> Response:
        """Report how an answer worked out. It may come before the decision is written; a second report replaces the first. `pool`
        may be left out where the key opens one pool, or the decision is written."""
        body = self.body(OutcomeRequest)
        pool = self.pool(self._pool_of(body))
        used = body["agents_used"]
        if strange := set(used or ()) - set(pool.agents.values_list("number", flat=True)):
            words = f"agents_used names {min(strange)}, which is no agent of {pool.slug}."
            raise Refused(400, "invalid", words, field="agents_used")
        report = outcomes.Report(
            decision=body["decision_id"], success=body["success"], agents_used=None if used is None else sorted(set(used)),
            rating=body["rating"], comment=body["comment"],
        )  # fmt: skip
        try:
            with transaction.atomic():
                outcome, new = outcomes.record(pool, self.access.caller.pk, report)
                hooks.outcome_reported(pool, report.decision, body)
        except outcomes.OtherPool:
            raise Refused(
                404,
                "not_found",
                f"There is no decision {report.decision} in the pool {pool.slug}.",
                field="decision_id",
            ) from None
        shown = {"decision_id": outcome.decision_id, "pool": pool.slug, "new": new}
        return Response(OutcomeSerializer(shown).data, status=201 if new else 200)

    def _pool_of(self, body: dict[str, Any]) -> str | None:
        """The pool that is named, or that of the decision where it is written already."""
        pools = self.access.caller.pools
        if body["pool"] is not None or len(pools) == 1:
            return body["pool"]
        decisions = Decision.objects.filter(pk=body["decision_id"], pool__slug__in=pools)
        return decisions.values_list("pool__slug", flat=True).first()
