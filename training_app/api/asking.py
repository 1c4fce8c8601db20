"""What an application asks to be routed: the checks of /api/route/ and /api/route/batch/, for their views and for the fast lane."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from django.conf import settings

from routerweb.observing import tracing
from training_app.answering import answer, explanations
from training_app.answering.answer import Answer, Unroutable
from training_app.answering.loaded import LoadedPool
from training_app.answering.wishes import Wishes
from training_app.api.bodies import kind
from training_app.api.errors import Refused
from training_app.api.keys import Access
from training_app.backends import choosing
from training_app.engine.backends.choosing import PRESETS, Preference
from training_app.engine.data import storable
from training_app.engine.data.conversations import BadConversation

WEIGHTS = frozenset(("quality", "cost", "latency"))
#: The fields of a request that wishes for nothing: most have no others.
PLAIN = frozenset(("query", "messages", "pool", "explain", "sticky_key", "preference"))
PLAIN_BATCH = frozenset(("queries", "pool", "sticky_key", "preference"))
WISHES = frozenset(("only", "exclude", "min_agents", "max_agents", "threshold", "operating_point"))
MOST_IDS, MOST_WARNINGS = 1_000, 5


class Asked(NamedTuple):
    """One query, a text or a turn of a conversation, or many of one pool, that can be routed."""

    texts: list[str]
    pool: LoadedPool
    explain: bool
    sticky: str
    preference: Preference | None = None
    wishes: Wishes | None = None
    warnings: tuple[str, ...] = ()


def one(body: Mapping[str, Any], access: Access) -> Asked:
    """What a body asks of /api/route/. Raises Refused and NoModel."""
    text = query_of(body)
    explain = body.get("explain", False)
    if not isinstance(explain, bool):
        raise Refused(400, "invalid", "explain must be true or false.", field="explain")
    pool = access.pool(body.get("pool"))
    answer.model_of(pool)
    sticky, wanted = _sticky(body), preference(body.get("preference"))
    if body.keys() <= PLAIN:
        return Asked([text], pool, explain, sticky, wanted)
    return Asked([text], pool, explain, sticky, wanted, _wishes(body, pool), _warnings(body, pool, "queries"))


def many(body: Mapping[str, Any], access: Access) -> Asked:
    """What a body asks of /api/route/batch/. Raises Refused and NoModel."""
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
    texts = [query_in(query, index) for index, query in enumerate(queries)]
    pool = access.pool(body.get("pool"))
    answer.model_of(pool)
    sticky, wanted = _sticky(body), preference(body.get("preference"))
    if body.keys() <= PLAIN_BATCH:
        return Asked(texts, pool, False, sticky, wanted)
    wishes = _wishes(body, pool)
    return Asked(texts, pool, False, sticky, wanted, wishes, _warnings(body, pool, "query", "messages", "explain"))


def answer_one(asked: Asked, access: Access) -> dict[str, Any]:
    """The answer to what was asked of /api/route/, kept."""
    given = answer.answer(asked.pool, asked.texts[0], sticky=asked.sticky, explain=asked.explain, wishes=asked.wishes)
    shown = _kept(given, asked, access)
    tracing.routed(asked.pool.slug, given.model.name, asked.texts, shown, given.microseconds)
    if asked.warnings:
        shown["warnings"] = list(asked.warnings)
    if given.explanation is not None:
        shown["explanation"] = explanations.as_json(given.explanation)
    return shown


def answer_many(asked: Asked, access: Access) -> dict[str, Any]:
    """The answers to what was asked of /api/route/batch/, kept."""
    model = answer.model_of(asked.pool)
    given = answer.answers(asked.pool, asked.texts, sticky=asked.sticky, wishes=asked.wishes)
    tracing.routed(asked.pool.slug, model.name, asked.texts)
    warned = {"warnings": list(asked.warnings)} if asked.warnings else {}
    return warned | {
        "model": model.name,
        "results": [_kept(one_of_them, asked, access) for one_of_them in given],
        "not_covered": asked.pool.not_covered,
    }


def _kept(given: Answer, asked: Asked, access: Access) -> dict[str, Any]:
    """The answer as JSON, with who is to run each agent where the pool has backends; kept as a decision."""
    assigned = choosing.assign(given.pool.pk, given.text, given.route.agents, asked.preference)
    shown = answer.as_json(given)
    if assigned is None:
        answer.keep(given, access.caller.pk)
    else:
        shown["assignments"] = told = [one.as_json() for one in assigned]
        kept = [
            {**one, "propensity": made.propensity, "by": made.by, "direct": made.direct}
            for one, made in zip(told, assigned, strict=True)
        ]
        answer.keep(given, access.caller.pk, kept)
    return shown


def query_of(body: Mapping[str, Any]) -> str:
    """The one query of a body: its `query`, or the last turn of its `messages`. Raises Refused."""
    if body.get("messages") is None:
        return check_text(body.get("query"), "query")
    if body.get("query") is not None:
        words = "Send either query, a text, or messages, whose last turn is routed."
        raise Refused(400, "invalid", words, field="messages")
    try:
        return answer.conversation(body["messages"])
    except BadConversation as bad:
        raise Refused(400, bad.code, f"{bad}.", field=bad.path) from None


def query_in(value: Any, index: int) -> str:
    """A query of a batch: a text, or an object with `messages`. Raises Refused."""
    if not isinstance(value, dict):
        return check_text(value, "queries", index)
    path = f"queries[{index}].messages"
    try:
        return answer.conversation(value.get("messages"), path)
    except BadConversation as bad:
        raise Refused(400, bad.code, f"{bad}.", field=bad.path, index=index) from None


def check_text(value: Any, field: str, index: int | None = None) -> str:
    """A query's text as it was sent; `index` is its place in a batch, from 0. Raises Refused for what cannot be routed."""
    if isinstance(value, str):
        try:
            answer.check_text(value)
        except Unroutable as problem:
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


def _sticky(body: Mapping[str, Any]) -> str:
    """What keeps the caller's user or conversation on one side of a canary; "" where the text itself does."""
    value = body.get("sticky_key")
    if value is None:
        return ""
    if not isinstance(value, str) or not 0 < len(value) <= 200 or storable.text_fault(value):
        raise Refused(400, "invalid", "sticky_key must be a text of 1 to 200 characters.", field="sticky_key")
    return value


def preference(value: Any) -> Preference | None:
    """What the caller would have of backends: the name of a preset or weights; None where the pool's own counts. Raises Refused."""
    if value is None:
        return None
    if isinstance(value, str):
        if value in PRESETS:
            return PRESETS[value]
    elif (
        isinstance(value, dict)
        and value.keys() <= WEIGHTS
        and all(type(weight) in (int, float) and 0 <= weight < 1e9 for weight in value.values())
        and any(value.values())
    ):
        return Preference.of(**value)
    presets = ", ".join(PRESETS)
    raise Refused(
        400, "invalid", f"preference must be one of {presets}, or weights of quality, cost and latency, none negative, not all 0.",
        field="preference",
    )  # fmt: skip


# --- Wishes -------------------------------------------------------------------------------------------------------


def _wishes(body: Mapping[str, Any], pool: LoadedPool) -> Wishes | None:
    """What the request asks of its answer, None where nothing. Raises Refused."""
    if not any(body.get(name) is not None for name in WISHES):
        return None
    only, exclude = _agents(body, "only", pool), _agents(body, "exclude", pool)
    least, most = _count(body, "min_agents", 0), _count(body, "max_agents", 1)
    if least is not None and most is not None and least > most:
        raise Refused(400, "invalid", "min_agents must not be more than max_agents.", field="min_agents")
    threshold, margin = _number(body, "threshold", 0, 1), _number(body, "operating_point", -10, 10)
    if threshold is not None and margin is not None:
        raise Refused(400, "invalid", "Send either threshold or operating_point.", field="operating_point")
    return Wishes(only, exclude or frozenset(), least, most, threshold, margin)


def _agents(body: Mapping[str, Any], field: str, pool: LoadedPool) -> frozenset[int] | None:
    """The ids of agents that a list names by id or by key; what the pool does not have is left for `_warnings` to tell."""
    value = body.get(field)
    if value is None:
        return None
    if not isinstance(value, list) or len(value) > MOST_IDS or any(type(one) not in (int, str) for one in value):
        words = f"{field} must be a list of agents' ids or keys, at most {MOST_IDS:,}."
        raise Refused(400, "invalid", words, field=field)
    if all(type(one) is int for one in value):
        return frozenset(value)
    ids = {key: number for number, key in pool.keys.items()}
    return frozenset(ids.get(one, -1) if type(one) is str else one for one in value)


def _number(body: Mapping[str, Any], field: str, low: int, high: int) -> float | None:
    value = body.get(field)
    if value is None:
        return None
    if type(value) not in (int, float) or not low <= value <= high:
        raise Refused(400, "invalid", f"{field} must be a number from {low} to {high}.", field=field)
    return float(value)


def _count(body: Mapping[str, Any], field: str, low: int) -> int | None:
    value = body.get(field)
    if value is not None and (type(value) is not int or not low <= value <= MOST_IDS):
        raise Refused(400, "invalid", f"{field} must be a whole number from {low} to {MOST_IDS:,}.", field=field)
    return value


def _warnings(body: Mapping[str, Any], pool: LoadedPool, *elsewhere: str) -> tuple[str, ...]:
    """What of a request was not heeded, in sentences; fields that only another address knows are among it."""
    ours = (PLAIN | PLAIN_BATCH | WISHES) - frozenset(elsewhere)
    found = [f"{name[:40]!r} is no field of this address." for name in body if name not in ours]
    for field in ("only", "exclude"):
        keys = set(pool.keys.values())
        strange = [one for one in body.get(field) or () if one not in pool.names and one not in keys]
        if strange:
            found.append(f"{field}: the pool has no agent {', '.join(str(one)[:20] for one in strange[:5])}.")
    return tuple(found[:MOST_WARNINGS])
