"""What a process answers from: its agents, how it is, and what its API looks like."""

import hashlib
from typing import Any

from django.conf import settings
from django.db import Error as DatabaseFault
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import parse_etags
from django.views.decorators.http import require_safe
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from agents_app import pools
from agents_app.models import Agent
from routerweb.serving import thread_pools
from training_app.answering import metrics, quotas, serving
from training_app.api import examples
from training_app.api.bodies import written
from training_app.api.errors import Refused
from training_app.api.keys import access, check_scope
from training_app.api.once import once
from training_app.api.schema import document, operation
from training_app.api.serializers.base import OfPool
from training_app.api.serializers.serving import (
    AgentAvailabilitySerializer,
    AgentsParameters,
    AgentsSerializer,
    HealthSerializer,
    PauseRequest,
    QuotaSerializer,
    ReadySerializer,
)
from training_app.api.views.base import ApiView
from training_app.watching import gauges, health

OF = "Agents"


class AgentsView(ApiView):
    """A pool's agents."""

    @operation(
        "agents", "The pool's agents, retired ones too", of=OF, query_string=AgentsParameters, headers=("ETag",),
        answers={
            200: (AgentsSerializer, "The agents by id", examples.AGENTS),
            304: (None, "Nothing has changed since the answer with that ETag", None),
        },
    )  # fmt: skip
    def get(self, request: Request) -> Response:
        """Every agent with its state, and whether the active model knows it. Any key that opens the pool may ask. The answer's ETag,
        sent back as If-None-Match, is answered with 304 and no body while nothing has changed."""
        pool = self.access.pool(self.query_string(AgentsParameters)["pool"])
        cold = pool.live.cold.ids if pool.live is not None and pool.live.cold is not None else ()
        listed = {"pool": pool.slug, "model": pool.model.name if pool.model else None, "agents": pool.roster}
        answer = AgentsSerializer(listed, context={"cold": cold}).data
        tag = f'"{hashlib.sha256(written(answer)).hexdigest()[:32]}"'
        etags = parse_etags(request.META.get("HTTP_IF_NONE_MATCH", ""))
        same = "*" in etags or tag in {etag.removeprefix("W/") for etag in etags}
        return Response(None if same else answer, status=304 if same else 200, headers={"ETag": tag})


class QuotaView(ApiView):
    """What is left of a key's month."""

    @operation(
        "quota", "What this key has sent this month, and what it may", of="Health",
        answers={200: (QuotaSerializer, "The month so far; null where the key has no quota", examples.QUOTA)},
    )  # fmt: skip
    def get(self, request: Request) -> Response:
        """The key's quota for a calendar month (UTC), what was used of it and what is left. Asking costs none of it."""
        caller = self.access.caller
        begins, ends, sent = quotas.used(caller)
        answer: dict[str, Any] = {"key": caller.name, "month": f"{begins:%Y-%m}", "resets_at": ends}
        for what, limit, used in zip(quotas.COUNTED, caller.quota or (None, None), sent, strict=True):
            answer[what] = None if limit is None else {"limit": limit, "used": used, "left": max(limit - used, 0)}
        return Response(QuotaSerializer(answer).data)


class AgentView(ApiView):
    """One agent of a pool."""

    scope = "ops"

    def agent(self, slug: str | None, number: int) -> Agent:
        """The agent of that number in the pool that is meant. Raises Refused."""
        pool = self.pool(slug)
        agent = pool.agents.filter(number=number).first() if number < 2**31 else None
        if agent is None:
            raise Refused(404, "not_found", f"There is no agent {number} in the pool {pool.slug}.")
        return agent


class PauseView(AgentView):
    """Pausing."""

    @operation(
        "pauseAgent", "Route to an agent no more, until it is brought back", of=OF, keyed=True, body=PauseRequest, parts=("number",),
        example={"pool": "support", "why": "its index is being rebuilt"},
        answers={200: (AgentAvailabilitySerializer, "No process names it in an answer after two seconds", examples.AGENT_STATE)},
        errors=("not_found", "too_long"),
    )  # fmt: skip
    @once
    def post(self, request: Request, number: int) -> Response:
        """Keep an agent out of every answer. What was paused so, no health check brings back."""
        body = self.body(PauseRequest)
        agent = self.agent(body["pool"], number)
        return _state(pools.set_available(agent, False, actor=self.access.actor, why=body["why"]))


class ResumeView(AgentView):
    """Bringing back."""

    @operation(
        "resumeAgent", "Route to an agent again", of=OF, keyed=True, body=OfPool, parts=("number",), example={"pool": "support"},
        answers={200: (AgentAvailabilitySerializer, "It may be named again within two seconds",
                       examples.AGENT_STATE | {"available": True, "unavailable_since": None, "why": ""})},
        errors=("not_found",),
    )  # fmt: skip
    @once
    def post(self, request: Request, number: int) -> Response:
        """Bring a paused agent back: it may be named again in every process within two seconds."""
        agent = self.agent(self.body(OfPool)["pool"], number)
        return _state(pools.set_available(agent, True, actor=self.access.actor))


def _state(agent: Agent) -> Response:
    return Response(AgentAvailabilitySerializer(agent).data)


class PublicView(ApiView):
    """Needs no key."""

    authentication_classes = []
    permission_classes = []


class HealthView(PublicView):
    """How the process is."""

    @operation(
        "health", "Whether this process can answer", of="Health", public=True,
        answers={
            200: (HealthSerializer, "It can; degraded where the database is away or a model was refused", examples.HEALTH),
            503: (HealthSerializer, "It cannot, because nothing is loaded yet", {"status": "unavailable"}),
        },
    )  # fmt: skip
    def get(self, request: Request) -> Response:
        """How this process is, for a balancer or a supervisor, which need no key. With a key of the scope `ops`: the rest
        too, with the models of the pools that it opens."""
        opened = _pools_of_ops(request)
        report = health.of_this_process(opened or ())
        answer: dict[str, Any] = {"status": report.status}
        if opened is not None:
            answer |= {
                "database": report.database,
                "stamp_age_seconds": report.stamp_age,
                "models": report.models,
                "problems": report.problems,
                "decisions": {"waiting": report.waiting, "dropped": report.dropped},
                "process": {
                    "name": report.name,
                    "memory_bytes": report.memory,
                    "threads": report.threads,
                    "running_seconds": report.running,
                },
            }
        return Response(answer, status=503 if report.status == "unavailable" else 200)


def _pools_of_ops(request: Request) -> tuple[str, ...] | None:
    """The pools that the request's key opens, None where it has none with the scope `ops`."""
    try:
        caller = access(request.META, serving.served())
        check_scope(caller, "ops")
    except (Refused, DatabaseFault):
        return None
    return caller.caller.pools


class SchemaView(PublicView):
    """The API's description."""

    @operation(
        "schema", "This document", of="Health", public=True,
        answers={200: (dict, "OpenAPI 3.1", {"openapi": "3.1.0"})},
    )  # fmt: skip
    def get(self, request: Request) -> HttpResponse:
        """The API as an OpenAPI document, for tools; `/api/docs/` shows it to people. No key is needed."""
        return HttpResponse(document(), content_type="application/json")


@require_safe
def docs(request: HttpRequest) -> HttpResponse:
    """The API's description to read and to try out."""
    return render(request, "training_app/api_docs.html", {"title": "Routerweb API", "schema": reverse("api_schema")})


@require_safe
def llms(request: HttpRequest) -> HttpResponse:
    """What a program that reads needs to know to use this server, in the form of llmstxt.org."""
    context = {"server": request.build_absolute_uri("/").rstrip("/")}
    return render(request, "training_app/llms.txt", context, content_type="text/plain; charset=utf-8")


class MetricsView(ApiView):
    """What Prometheus reads."""

    scope = "ops"

    @extend_schema(exclude=True)  # its answer is no JSON
    def get(self, request: Request) -> HttpResponse:
        """Everything that this machine's processes count, and how things stand in the database, in Prometheus' text form."""
        if not settings.METRICS:
            raise Refused(404, "not_found", "Metrics are off here.", hint="METRICS=1 turns them on.")
        from prometheus_client import CONTENT_TYPE_LATEST, generate_latest  # loaded where it is used

        counted = metrics.added_up()
        counted.register(gauges.Gauges())
        return HttpResponse(generate_latest(counted), content_type=CONTENT_TYPE_LATEST)


class ReadyView(ApiView):
    """Whether a balancer may send requests."""

    authentication_classes = []
    permission_classes = []

    @operation(
        "ready", "Whether this process can answer routes", of=OF, public=True, any_pool=False,
        answers={200: (ReadySerializer, "It has loaded what it answers from", {"status": "ready"})}, errors=("not_ready",),
    )  # fmt: skip
    def get(self, request: Request) -> Response:
        """For a balancer or an orchestrator of containers: 200 once the pools are loaded and the database was reached, and while no
        request has waited for a thread for five seconds; else 503."""
        try:
            serving.served()
        except DatabaseFault:
            raise Refused(503, "not_ready", "Nothing is loaded yet: the database cannot be reached.") from None
        if thread_pools.stalled():
            raise Refused(503, "not_ready", "Requests wait for a free thread of this process for seconds.")
        return Response({"status": "ready"})
