"""The HTTP API that applications route with: /api/route/, /api/route/batch/, /api/agents/, /api/health/, /api/schema/.

`answer` takes one call and gives one reply; it knows neither Django's requests nor its middleware, which an application with a key
has no use for. `view` lets Django serve it, `routerweb.wsgi` calls it directly. docs/api.md describes it for its users.
"""

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qs

from django.conf import settings
from django.db import Error as DatabaseFault
from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt

from training_app import (
    addresses,
    decisions,
    decisions_api,
    explanations,
    labeling_api,
    live_api,
    openapi,
    operations_api,
    rules_api,
    serving,
    sweeps_api,
    throttle,
)
from training_app.calls import Call, body_of, check_text, identify, pool_of
from training_app.engine.router import Explanation, Route
from training_app.replies import Refused, Reply, reply
from training_app.serving import Caller, LoadedModel, LoadedPool

logger = logging.getLogger(__name__)


def answer(call: Call) -> Reply:
    """The reply to a call, whatever goes wrong with it; nothing is raised."""
    try:
        endpoint = ENDPOINTS.get(call.path) or ENDPOINTS.get(call.path + "/")
        if endpoint is None:
            found = addresses.answer(call, BY_PATTERN)
            if found is not None:
                return found
            raise Refused(
                404,
                "not_found",
                f"There is nothing at {call.path}.",
                hint="/api/schema/ lists every address of the API.",
            )
        method, respond = endpoint
        if call.method != method and not (call.method == "HEAD" and method == "GET"):
            allow = "GET, HEAD" if method == "GET" else method
            raise Refused(
                405,
                "method_not_allowed",
                f"{call.path} does not take {call.method}; use {method}.",
                headers=(("Allow", allow),),
            )
        return respond(call)
    except Refused as refused:
        return refused.reply()
    except DatabaseFault as error:
        logger.warning("%s: the database cannot be reached and nothing is loaded yet: %s", call.path, error)
        return Refused(
            503, "database_away", "The database cannot be reached, and this process has not loaded a model yet.",
            hint="Try again in a few seconds; /api/health/ tells how things stand.", headers=(("Retry-After", "2"),),
        ).reply()  # fmt: skip
    except Exception:  # an application gets JSON, whatever went wrong
        logger.exception("%s failed.", call.path)
        return Refused(500, "internal_error", "This request failed; the server's log tells why.").reply()


# --- Addresses ----------------------------------------------------------------------------------------------------


def route(call: Call) -> Reply:
    """POST /api/route/: the set of agents that one query needs."""
    state = serving.served()
    caller = identify(call, state, "route")
    body = body_of(call)
    text = check_text(body.get("query"), "query")
    explain = body.get("explain", False)
    if not isinstance(explain, bool):
        raise Refused(400, "invalid", "explain must be true or false.", field="explain")
    pool = pool_of(body.get("pool"), caller, state)
    model = _model(pool)
    sticky = _sticky(body)
    throttle.take(caller)
    side = pool if pool.live is None else pool.live.side(pool, sticky or text)
    began = time.perf_counter_ns()
    try:
        taken, explanation = _take(side, text, explain)
    except Exception as error:  # what a canary may raise is not known
        if side is pool:
            raise
        # A canary must never cost an answer.
        pool.live.failed(side.model, error)  # type: ignore[union-attr, arg-type]
        side = pool
        taken, explanation = _take(side, text, explain)
    microseconds = (time.perf_counter_ns() - began) // 1000
    found = _answer(side, side.model or model, caller, text, taken, microseconds)
    if explanation:
        found["explanation"] = explanations.as_json(explanation)
    return reply(found)


def _take(pool: LoadedPool, text: str, explain: bool) -> tuple[Route, Explanation | None]:
    router = _model(pool).router
    if explain:
        explanation = router.explain(text, pool.available)
        return explanation.route, explanation
    return router.route(text, pool.available), None


def _sticky(body: Mapping[str, Any]) -> str:
    """What keeps the caller's user or conversation on one side of a canary; "" where the text itself does."""
    value = body.get("sticky_key")
    if value is None:
        return ""
    if not isinstance(value, str) or not 0 < len(value) <= 200:
        raise Refused(400, "invalid", "sticky_key must be a text of 1 to 200 characters.", field="sticky_key")
    return value


def route_batch(call: Call) -> Reply:
    """POST /api/route/batch/: many queries of one pool at once; the results stand in the queries' order."""
    state = serving.served()
    caller = identify(call, state, "route")
    body = body_of(call)
    queries = body.get("queries")
    if not isinstance(queries, list):
        raise Refused(
            400, "missing" if queries is None else "invalid", "queries must be a list of texts.", field="queries"
        )
    limit = settings.MAX_BATCH_QUERIES
    if len(queries) > limit:
        raise Refused(
            400, "too_many", f"{len(queries)} queries in one call; at most {limit} are taken.", field="queries",
            hint="Send them in several calls.",
        )  # fmt: skip
    texts = [check_text(query, "queries", index) for index, query in enumerate(queries)]
    pool = pool_of(body.get("pool"), caller, state)
    model = _model(pool)
    sticky = _sticky(body)
    throttle.take(caller, len(texts))
    began = time.perf_counter_ns()
    taken = _take_batch(pool, texts, sticky)
    microseconds = (time.perf_counter_ns() - began) // 1000 // max(len(texts), 1)
    results = [
        _answer(side, side.model or model, caller, text, route, microseconds)
        for text, (side, route) in zip(texts, taken, strict=True)
    ]
    return reply({"model": model.name, "results": results, "not_covered": pool.not_covered})


def _take_batch(pool: LoadedPool, texts: list[str], sticky: str) -> list[tuple[LoadedPool, Route]]:
    """Each text's route and the side that answered it: the pool, or the pool as its canary answers it."""
    if not texts:
        return []
    live = pool.live
    sides = [pool if live is None else live.side(pool, sticky or text) for text in texts]
    found: dict[int, tuple[LoadedPool, Route]] = {}
    canaried = [i for i, side in enumerate(sides) if side is not pool]
    if canaried and live is not None:
        side = sides[canaried[0]]
        try:
            routes = _model(side).router.route_batch([texts[i] for i in canaried], side.available)
        except Exception as error:  # a canary must never cost an answer
            live.failed(_model(side), error)
        else:
            found = {i: (side, route) for i, route in zip(canaried, routes, strict=True)}
    rest = [i for i in range(len(texts)) if i not in found]
    if rest:
        routes = _model(pool).router.route_batch([texts[i] for i in rest], pool.available)
        found |= {i: (pool, route) for i, route in zip(rest, routes, strict=True)}
    return [found[i] for i in range(len(texts))]


def list_agents(call: Call) -> Reply:
    """GET /api/agents/?pool=: the pool's agents, retired ones too, and whether the active model knows each."""
    state = serving.served()
    caller = identify(call, state)
    named = parse_qs(call.meta.get("QUERY_STRING", ""), keep_blank_values=True).get("pool", [None])
    pool = pool_of(named[-1], caller, state)
    cold = pool.live.cold.ids if pool.live is not None and pool.live.cold is not None else ()
    agents = [
        {
            "id": agent.id,
            "code": agent.code,
            "name": agent.name,
            "description": agent.description,
            "keywords": agent.keywords,
            "cost": agent.cost,
            "state": agent.state,
            "available": agent.available,
            "covered": agent.covered,
            "cold": agent.id in cold,
        }
        for agent in pool.roster
    ]
    return reply({"pool": pool.slug, "model": pool.model.name if pool.model else None, "agents": agents})


def health(call: Call) -> Reply:
    """GET /api/health/: whether this process can answer; needs no key. 503 until it has loaded what it answers from."""
    found = serving.health()
    loaded = found["stamp_age_seconds"] is not None
    fine = loaded and found["database"] == "ok" and not found["problems"] and not decisions.buffer.stuck
    found = {
        "status": "ok" if fine else "degraded" if loaded else "unavailable",
        **found,
        "decisions": {"waiting": len(decisions.buffer), "dropped": decisions.buffer.dropped},
    }
    return reply(found, 200 if loaded else 503)


def schema(call: Call) -> Reply:
    """GET /api/schema/: this API as an OpenAPI document; needs no key."""
    return Reply(200, openapi.document())


ENDPOINTS: dict[str, tuple[str, Callable[[Call], Reply]]] = {
    "/api/route/": ("POST", route),
    "/api/route/batch/": ("POST", route_batch),
    "/api/agents/": ("GET", list_agents),
    "/api/health/": ("GET", health),
    "/api/schema/": ("GET", schema),
}


BY_PATTERN = [
    *addresses.compiled(operations_api.ENDPOINTS | live_api.ENDPOINTS | sweeps_api.ENDPOINTS, "ops"),
    *addresses.compiled(rules_api.ENDPOINTS | decisions_api.ENDPOINTS, "ops"),
    *addresses.compiled(operations_api.OUTCOMES, "route"),
    *addresses.compiled(labeling_api.ENDPOINTS, "label"),
]


@csrf_exempt  # a request is known by the key in its header, which no other site can make a browser send
def view(request: HttpRequest) -> HttpResponse:
    """Any address under /api/ as a Django view: the same answer, behind Django's middleware."""
    found = answer(Call(request.method or "", request.path_info, request.META, request.read))
    response = HttpResponse(found.body, status=found.status, content_type="application/json")
    for name, value in found.headers:
        response[name] = value
    return response


# --- What an answer needs and holds -----------------------------------------------------------------------------------


def _model(pool: LoadedPool) -> LoadedModel:
    if pool.model is None:
        raise Refused(
            503, "no_model", pool.problem or f"The pool {pool.slug} has no active model yet.",
            hint=f"Train and promote one: python manage.py train --pool {pool.slug} --promote, or open Runs in the browser.",
        )  # fmt: skip
    return pool.model


def _answer(
    pool: LoadedPool, model: LoadedModel, caller: Caller, text: str, taken: Route, microseconds: int
) -> dict[str, Any]:
    at = time.time()
    number = decisions.new_id(at)
    if pool.live is None:
        found = route_json(pool, model, taken, decisions.id_text(number))
        pending = decisions.Pending(
            number, pool.pk, model.pk, caller.pk, text, taken, found["scores"], microseconds, at
        )
    else:
        given = pool.live.finish(model, number, text, taken, microseconds)
        found = route_json(pool, model, given.route, decisions.id_text(number)) | given.shown
        pending = decisions.Pending(
            number, pool.pk, model.pk, caller.pk, text, given.route, found["scores"], given.microseconds, at,
            given.propensity, given.detail,
        )  # fmt: skip
    decisions.record(pending)
    return found


def route_json(pool: LoadedPool, model: LoadedModel, taken: Route, decision_id: str | None) -> dict[str, Any]:
    """A route as an application sees it."""
    names = pool.names
    return {
        "agents": taken.agents,
        "agent_names": [names[agent] for agent in taken.agents],
        "abstained": taken.abstained,
        "confidence": round(taken.confidence, 4),
        "steps": taken.steps,
        "scores": {agent: round(score, 4) for agent, score in taken.scores.items()},
        "stop_reason": taken.stop_reason,
        "model": model.name,
        "decision_id": decision_id,
        "not_covered": pool.not_covered,
    }
