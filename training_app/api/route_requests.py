"""The requests of /api/route/ and /api/route/batch/: their checks and their answers, for the views and for the fast lane."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from django.conf import settings

from routerweb import hooks
from routerweb.observing import tracing
from routerweb.serving import disconnect
from training_app.answering import answer, decisions, explanations, routable, throttle
from training_app.answering.answer import Answer
from training_app.answering.answered import answer_as_json, keep
from training_app.answering.loaded import LoadedPool
from training_app.api.bodies import kind
from training_app.api.errors import Refused, unknown_field
from training_app.api.keys import Access
from training_app.engine.data.conversations import BadConversation
from training_app.engine.routing import options
from training_app.engine.routing.options import BadOption, Carrier, Option, RequestOptions

#: Every option that a routing request may have.
OPTIONS: tuple[Option, ...] = (*options.OPTIONS, *(option for added in hooks.request_options() for option in added))
#: The fields that say what is to be routed. Most requests have no others.
ONE_QUERY = frozenset(("query", "messages", "pool"))
MANY_QUERIES = frozenset(("queries", "pool"))
ROUTE_OPTIONS = options.carried_by(Carrier.ROUTE, OPTIONS)
BATCH_OPTIONS = options.carried_by(Carrier.BATCH, OPTIONS)
MAX_WARNINGS = 5


class RouteCall(NamedTuple):
    """One query, a text or a turn of a conversation, or many of one pool, that can be routed; the options' values by name."""

    texts: list[str]
    pool: LoadedPool
    values: Mapping[str, Any]
    options: RequestOptions | None = None
    warnings: tuple[str, ...] = ()


def route_call(body: Mapping[str, Any], access: Access) -> RouteCall:
    """What a body of /api/route/ asks for. Raises Refused and NoModel."""
    text = query_of(body, access)
    pool = answer.ready(access.pool(body.get("pool")))
    if body.keys() <= ONE_QUERY:
        return RouteCall([text], pool, {})
    return _with_options([text], pool, body, ONE_QUERY, ROUTE_OPTIONS)


def batch_call(body: Mapping[str, Any], access: Access) -> RouteCall:
    """What a body of /api/route/batch/ asks for. Raises Refused and NoModel, and Abandoned once the client has left."""
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
    texts = [query_in(query, index, body, access) for index, query in enumerate(disconnect.checked(queries))]
    characters = sum(map(throttle.read_length, disconnect.checked(texts)))
    if characters > settings.MAX_BATCH_CHARACTERS:
        raise Refused(
            400, "too_long", f"The queries have {characters:,} characters together; at most "
            f"{settings.MAX_BATCH_CHARACTERS:,} are taken in one call.", field="queries", hint="Send them in several calls.",
        )  # fmt: skip
    pool = answer.ready(access.pool(body.get("pool")))
    if body.keys() <= MANY_QUERIES:
        return RouteCall(texts, pool, {})
    return _with_options(texts, pool, body, MANY_QUERIES, BATCH_OPTIONS)


def _with_options(
    texts: list[str], pool: LoadedPool, body: Mapping[str, Any], content: frozenset[str], table: tuple[Option, ...]
) -> RouteCall:
    """The call with the options of its body, and warnings about what of them has no effect. Raises Refused."""
    fields = content.union(option.name for option in table)
    for name in body:
        if name not in fields:
            raise unknown_field(name, fields)
    try:
        values = options.parsed(body, pool, table)
    except BadOption as bad:
        raise Refused(400, "invalid", str(bad), field=bad.field) from None
    ignored = options.ignored(body, pool, table)
    for name in sorted(ignored.keys() & options.NAMING_AGENTS):
        raise Refused(
            400, "invalid", ignored[name], field=name, hint="GET /api/agents/ lists the agents with their ids and keys."
        )
    warnings = list(ignored.values())
    if isinstance(decision := values.get("previous"), str):
        if (last := decisions.agents_of(pool.pk, decision)) is None:
            warnings.append(f"previous: the pool has no decision {decision}; the last turn was routed again.")
            del values["previous"]
        else:
            values["previous"] = last
    return RouteCall(texts, pool, values, RequestOptions.of(values, table), tuple(warnings[:MAX_WARNINGS]))


def answer_one(call: RouteCall, access: Access) -> dict[str, Any]:
    """The answer to a call of /api/route/, kept."""
    answered = answer.answer(
        call.pool,
        call.texts[0],
        sticky=call.values.get("sticky_key", ""),
        explain=call.values.get("explain", False),
        options=call.options,
    )
    shown, stored_extra = _shown(answered, call)
    keep(answered, access.caller.pk, stored_extra)
    tracing.routed(call.pool.slug, answered.model.name, call.texts, shown, answered.microseconds)
    if call.warnings:
        shown["warnings"] = list(call.warnings)
    if answered.explanation is not None:
        shown["explanation"] = explanations.as_json(answered.explanation, answered.pool.names)
    return shown


def answer_many(call: RouteCall, access: Access) -> dict[str, Any]:
    """The answers to a call of /api/route/batch/, kept. Raises Abandoned once the client has left; nothing is kept then."""
    model = answer.model_of(call.pool)
    answered = answer.answers(call.pool, call.texts, sticky=call.values.get("sticky_key", ""), options=call.options)
    tracing.routed(call.pool.slug, model.name, call.texts)
    warnings = {"warnings": list(call.warnings)} if call.warnings else {}
    results = [_shown(each, call) for each in disconnect.checked(answered)]
    for each, (_result, stored_extra) in zip(answered, results, strict=True):
        keep(each, access.caller.pk, stored_extra)
    return warnings | {
        "model": model.name,
        "results": [result for result, _kept in results],
        "not_covered": call.pool.not_covered,
    }


def _shown(answered: Answer, call: RouteCall) -> tuple[dict[str, Any], dict[str, Any]]:
    """The answer as JSON, with what packages add to it; and what they add to the decision that is kept of it."""
    extras = hooks.answer_made(answered.pool.pk, answered.text, answered.route.agents, call.values)
    shown = answer_as_json(answered)
    stored_extra: dict[str, Any] = {}
    for extra in extras:
        if extra is not None:
            shown |= extra.shown
            stored_extra |= extra.kept
    return shown, stored_extra


def _by_name(body: Mapping[str, Any], access: Access | None) -> Callable[[str], int | None] | None:
    """What finds the agent of the body's pool that a message names by its key or its name."""
    if access is None:
        return None

    def named(name: str) -> int | None:
        pool = access.pool(body.get("pool"))
        by_casefold = {each.casefold(): agent for names in (pool.names, pool.keys) for agent, each in names.items()}
        return by_casefold.get(name.casefold())

    return named


def query_of(body: Mapping[str, Any], access: Access | None = None) -> str:
    """The one query of a body: its `query`, or the last turn of its `messages`. With `access`, answers may name agents of the body's
    pool. Raises Refused."""
    if body.get("messages") is None:
        return check_text(body.get("query"), "query")
    if body.get("query") is not None:
        words = "Send either query, a text, or messages, whose last turn is routed."
        raise Refused(400, "invalid", words, field="messages")
    try:
        return routable.conversation(body["messages"], named=_by_name(body, access))
    except BadConversation as bad:
        raise Refused(400, bad.code, f"{bad}.", field=bad.path) from None


def query_in(value: Any, index: int, body: Mapping[str, Any] | None = None, access: Access | None = None) -> str:
    """A query of a batch: a text, or an object with `messages`, whose answers may name agents of the body's pool. Raises Refused."""
    if not isinstance(value, dict):
        return check_text(value, "queries", index)
    path = f"queries[{index}].messages"
    for name in value:
        if name != "messages":
            raise unknown_field(name, ("messages",), f"queries[{index}].")
    try:
        return routable.conversation(value.get("messages"), path, _by_name(body or {}, access))
    except BadConversation as bad:
        raise Refused(400, bad.code, f"{bad}.", field=bad.path, index=index) from None


def check_text(value: Any, field: str, index: int | None = None) -> str:
    """A query's text as it was sent; `index` is its place in a batch, from 0. Raises Refused for what cannot be routed."""
    if isinstance(value, str):
        try:
            routable.check_text(value)
        except routable.Unroutable as problem:
            code, wrong = problem.code, str(problem)
        else:
            return value
    elif value is None:
        code, wrong = "missing", "is missing"
    else:
        code, wrong = "invalid", f"must be a text, not {kind(value)}"
    if index is None:
        raise Refused(400, code, f"{field} {wrong}.", field=field)
    raise Refused(400, code, f"{field}[{index}] {wrong}.", field=f"{field}[{index}]", index=index)
