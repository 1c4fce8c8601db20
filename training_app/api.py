"""The HTTP API that applications route with: /api/route/, /api/route/batch/, /api/agents/, /api/health/, /api/schema/.

`answer` takes one call and gives one reply; it knows neither Django's requests nor its middleware, which an application with a key
has no use for. `view` lets Django serve it, `routerweb.wsgi` calls it directly. docs/api.md describes it for its users.
"""

import json
import logging
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

from django.conf import settings
from django.db import Error as DatabaseFault
from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt

from training_app import decisions, openapi, serving, throttle
from training_app.engine.router import Explanation, Route
from training_app.replies import Refused, Reply, reply
from training_app.serving import Caller, LoadedModel, LoadedPool, Served

logger = logging.getLogger(__name__)

JSON_TYPES = ("application/json", "application/json; charset=utf-8", "application/json;charset=utf-8")


@dataclass(frozen=True, slots=True)
class Call:
    """One request. `meta` are its WSGI variables (HTTP_AUTHORIZATION, …); `read(n)` reads at most n bytes of the body."""

    method: str
    path: str
    meta: Mapping[str, Any]
    read: Callable[[int], bytes]


def answer(call: Call) -> Reply:
    """The reply to a call, whatever goes wrong with it; nothing is raised."""
    try:
        endpoint = ENDPOINTS.get(call.path) or ENDPOINTS.get(call.path + "/")
        if endpoint is None:
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
    except Exception:
        logger.exception("%s failed.", call.path)
        return Refused(500, "internal_error", "This request failed; the server's log tells why.").reply()


# --- Addresses ----------------------------------------------------------------------------------------------------


def route(call: Call) -> Reply:
    """POST /api/route/: the set of agents that one query needs."""
    state = serving.served()
    caller = _caller(call, state, "route")
    body = _body(call)
    text = check_text(body.get("query"), "query")
    explain = body.get("explain", False)
    if not isinstance(explain, bool):
        raise Refused(400, "invalid", "explain must be true or false.", field="explain")
    pool = _pool(body.get("pool"), caller, state)
    model = _model(pool)
    throttle.take(caller)
    began = time.perf_counter_ns()
    if explain:
        explanation = model.router.explain(text, pool.available)
        taken = explanation.route
    else:
        taken = model.router.route(text, pool.available)
    microseconds = (time.perf_counter_ns() - began) // 1000
    found = _answer(pool, model, caller, text, taken, microseconds)
    if explain:
        found["explanation"] = explanation_json(explanation)
    return reply(found)


def route_batch(call: Call) -> Reply:
    """POST /api/route/batch/: many queries of one pool at once; the results stand in the queries' order."""
    state = serving.served()
    caller = _caller(call, state, "route")
    body = _body(call)
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
    pool = _pool(body.get("pool"), caller, state)
    model = _model(pool)
    throttle.take(caller, len(texts))
    began = time.perf_counter_ns()
    routes = model.router.route_batch(texts, pool.available) if texts else []
    microseconds = (time.perf_counter_ns() - began) // 1000 // max(len(texts), 1)
    results = [
        _answer(pool, model, caller, text, taken, microseconds) for text, taken in zip(texts, routes, strict=True)
    ]
    return reply({"model": model.name, "results": results, "not_covered": pool.not_covered})


def list_agents(call: Call) -> Reply:
    """GET /api/agents/?pool=: the pool's agents, retired ones too, and whether the active model knows each."""
    state = serving.served()
    caller = _caller(call, state)
    named = parse_qs(call.meta.get("QUERY_STRING", ""), keep_blank_values=True).get("pool", [None])
    pool = _pool(named[-1], caller, state)
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
        }
        for agent in pool.roster
    ]
    return reply({"pool": pool.slug, "model": pool.model.name if pool.model else None, "agents": agents})


def health(call: Call) -> Reply:
    """GET /api/health/: whether this process can answer; needs no key. 503 until it has loaded what it answers from."""
    found = serving.health()
    loaded = found["stamp_age_seconds"] is not None
    fine = loaded and found["database"] == "ok" and not found["problems"]
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


@csrf_exempt
def view(request: HttpRequest) -> HttpResponse:
    """Any address under /api/ as a Django view: the same answer, behind Django's middleware."""
    found = answer(Call(request.method or "", request.path_info, request.META, request.read))
    response = HttpResponse(found.body, status=found.status, content_type="application/json")
    for name, value in found.headers:
        response[name] = value
    return response


# --- What a call holds --------------------------------------------------------------------------------------------


def _caller(call: Call, state: Served, scope: str = "") -> Caller:
    """Who calls; refused without a live key, or without the scope."""
    kind, _space, secret = call.meta.get("HTTP_AUTHORIZATION", "").partition(" ")
    secret = secret.strip()
    if kind.lower() != "bearer" or not secret:
        raise Refused(
            401, "key_missing", "This address needs an API key.", hint="Send the header Authorization: Bearer KEY.",
            headers=(("WWW-Authenticate", 'Bearer realm="Routerweb"'),),
        )  # fmt: skip
    caller = serving.caller_of(secret, state)
    if caller is None:
        raise Refused(
            401, "key_refused", "This API key is unknown, revoked or expired.",
            hint="An admin makes keys under Settings, or with manage.py create_api_key.",
            headers=(("WWW-Authenticate", 'Bearer realm="Routerweb", error="invalid_token"'),),
        )  # fmt: skip
    if scope and scope not in caller.scopes:
        raise Refused(403, "scope_missing", f"This API key does not have the scope {scope}.")
    return caller


def _body(call: Call) -> dict[str, Any]:
    """The JSON object that was sent."""
    media = call.meta.get("CONTENT_TYPE", "").lower()
    if media and media not in JSON_TYPES and media.partition(";")[0].strip() != "application/json":
        raise Refused(
            415, "not_json", f"The body is {media[:80]}; it must be application/json.",
            hint="Send the header Content-Type: application/json.",
        )  # fmt: skip
    limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    length = call.meta.get("CONTENT_LENGTH") or ""
    if length.isdecimal():
        size = int(length)
        raw = call.read(size) if size <= limit else b""
    elif call.meta.get("wsgi.input_terminated"):
        raw = call.read(limit + 1)
        size = len(raw)
    else:
        raise Refused(411, "length_missing", "The request has no Content-Length.", hint="Send the length of the body.")
    if size > limit:
        raise Refused(
            413, "too_large", f"The body is larger than {limit:,} bytes.", hint="Send fewer queries in one call."
        )
    try:
        # json.loads would guess at UTF-16 and UTF-32 when given bytes.
        body = json.loads(raw.decode())
    except UnicodeDecodeError as error:
        raise Refused(400, "malformed", f"The body is not UTF-8: byte {error.start + 1} cannot be read.") from None
    except (ValueError, RecursionError) as error:
        raise Refused(400, "malformed", f"The body is not JSON: {error}.") from None
    if not isinstance(body, dict):
        raise Refused(400, "malformed", f"The body must be a JSON object, not {_kind(body)}.")
    return body


def check_text(value: Any, field: str, index: int | None = None) -> str:
    """A query's text as it was sent; `index` is its place in a batch, from 0. Raises Refused for what cannot be routed."""
    if isinstance(value, str):
        limit = settings.MAX_QUERY_CHARACTERS
        if len(value) > limit:
            code, wrong = "too_long", f"has {len(value):,} characters; at most {limit:,} are taken"
        elif not value or value.isspace():
            code, wrong = "blank", "is blank"
        elif "\0" in value:
            code, wrong = "invalid", "holds a NUL character"
        elif not value.isascii() and _broken(value):
            code, wrong = "invalid", "holds half of a surrogate pair"
        else:
            return value
    elif value is None:
        code, wrong = "missing", "is missing"
    else:
        code, wrong = "invalid", f"must be a text, not {_kind(value)}"
    if index is None:
        raise Refused(400, code, f"{field} {wrong}.", field=field)
    raise Refused(400, code, f"{field}[{index}] {wrong}.", field=f"{field}[{index}]", index=index)


def _broken(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


def _pool(slug: Any, caller: Caller, state: Served) -> LoadedPool:
    """The pool that is meant: the one named, or the key's only one."""
    if slug is None:
        if len(caller.pools) == 1:
            return state.pools[caller.pools[0]]
        raise Refused(
            400, "missing", "pool is missing, and this API key opens several." if caller.pools else "This API key opens no pool.",
            field="pool", hint=_choices(caller), choices=list(caller.pools),
        )  # fmt: skip
    if not isinstance(slug, str):
        raise Refused(400, "invalid", f"pool must be a text, not {_kind(slug)}.", field="pool", hint=_choices(caller))
    if slug not in caller.pools:
        # The same answer whether the pool exists or not: a key learns nothing about pools it does not open.
        raise Refused(
            403,
            "pool_refused",
            f"This API key does not open a pool {slug[:80]!r}.",
            field="pool",
            hint=_choices(caller),
        )
    return state.pools[slug]


def _choices(caller: Caller) -> str:
    return f"It opens: {', '.join(caller.pools)}." if caller.pools else "Have an admin give it one."


def _model(pool: LoadedPool) -> LoadedModel:
    if pool.model is None:
        raise Refused(
            503, "no_model", pool.problem or f"The pool {pool.slug} has no active model yet.",
            hint=f"Train and promote one: python manage.py train --pool {pool.slug} --promote, or open Runs in the browser.",
        )  # fmt: skip
    return pool.model


# --- What an answer holds -----------------------------------------------------------------------------------------


def _answer(
    pool: LoadedPool, model: LoadedModel, caller: Caller, text: str, taken: Route, microseconds: int
) -> dict[str, Any]:
    at = time.time()
    number = decisions.new_id(at)
    found = route_json(pool, model, taken, decisions.id_text(number))
    decisions.record(
        decisions.Pending(number, pool.pk, model.pk, caller.pk, text, taken, found["scores"], microseconds, at)
    )
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


def explanation_json(explanation: Explanation) -> dict[str, Any]:
    """What led to a route: per step the value of every agent and of STOP, and the parts of the text that weighed most."""
    return {
        "steps": [
            {
                "q": {agent: _finite(value) for agent, value in step["q"].items()},
                "stop": _finite(step["stop"]),
                "masked": step["masked"],
                "chosen": step["chosen"],
            }
            for step in explanation.steps
        ],
        "features": {
            agent: [(part, round(weight, 4)) for part, weight in pairs] for agent, pairs in explanation.features.items()
        },
    }


def _finite(value: float) -> float | None:
    # JSON has no infinity, which is what an action that may not be taken is worth.
    return round(value, 4) if math.isfinite(value) else None
