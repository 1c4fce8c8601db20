"""The fast lane and the views beside each other: generated requests, good and bad, get the same status, headers and body from both."""

import io
import json
from collections import Counter
from itertools import chain
from typing import Any

import pytest
from django.core.signals import request_started
from django.db import close_old_connections
from hypothesis import HealthCheck, event, example, given, settings
from hypothesis import strategies as st

from agents_app import keys as api_keys
from agents_app import pools
from routerweb.serving import admission, threads
from routerweb.serving.bodies import Body
from tests.thorough import many
from tests.training_app.served import application
from training_app.answering import decisions, throttle
from training_app.api import fast_lane
from training_app.api.route_requests import OPTIONS
from training_app.engine.routing.options import NAMING_AGENTS, Carrier, carried_by

pytestmark = pytest.mark.django_db
EXAMPLES = many(2_000)
LIMIT = 60  # characters of a query

words = st.sampled_from(
    ["billing", "shipping", "perhaps technical", "счёт 🙂", "x" * LIMIT, "x" * (LIMIT + 1), " ", "", "ﷺ" * 4]
)
any_text = st.text(st.characters(exclude_categories=()), max_size=LIMIT + 5)
texts = words | words | any_text
leaves: Any = st.none() | st.booleans() | st.integers() | st.floats() | any_text | st.just(10**400)
values: Any = st.recursive(leaves, lambda inner: st.lists(inner, max_size=2), max_leaves=3)
slugs = st.sampled_from(["support", "support", "sales", "nowhere", ""])


def names_decision(raw: bytes) -> bool:
    """Whether a request names the decision of its last turn, which has to be looked up."""
    return isinstance(json.loads(raw).get("previous"), str)


def maybe(strategy: Any) -> Any:
    return strategy | strategy | strategy | values


def near(schema: Any, *, beyond: bool = True) -> Any:
    """Values that a schema takes, small ones; with `beyond` also some that it just does not take."""
    if "oneOf" in schema:
        return st.one_of(*(near(one, beyond=beyond) for one in schema["oneOf"]))
    if "enum" in schema:
        return st.sampled_from([*schema["enum"], *(["none of these"] if beyond else [])])
    low, high = schema.get("minimum", 0), min(schema.get("maximum", 3), 3)
    if schema["type"] == "boolean":
        return st.booleans()
    if schema["type"] == "integer":
        return st.integers(low - beyond, high + beyond)
    if schema["type"] == "number":
        return st.floats(low - beyond / 2, high + beyond / 2) | (st.just(10**400) if beyond else st.nothing())
    if schema["type"] == "array":
        return st.lists(near(schema["items"], beyond=beyond), max_size=3)
    if schema["type"] == "object":
        inner = {name: near(one, beyond=beyond) for name, one in schema["properties"].items()}
        return st.fixed_dictionaries({} if beyond else inner, optional={**inner, "other": values} if beyond else {})
    return texts if beyond else st.sampled_from(["ana", "billing"])


def objects(**required: Any) -> Any:
    optional = {
        "pool": maybe(slugs),
        **{option.name: maybe(near(option.value.schema)) for option in OPTIONS},
        "colour": values,
        "\ud800": values,
    }
    return st.fixed_dictionaries(required, optional=optional)


def talks(role: Any, content: Any) -> Any:
    """Conversations, most of them good."""
    message = st.fixed_dictionaries(
        {"role": role, "content": content}, optional={"agents": st.just([0, 1]) | st.just([]), "name": values}
    )
    last = st.fixed_dictionaries({"role": st.just("user"), "content": content})
    return st.tuples(st.lists(message, max_size=5), last).map(lambda parts: [*parts[0], parts[1]])


roles = st.sampled_from(["user", "assistant", "assistant", "system", "tool"])
any_talks = maybe(talks(maybe(roles), maybe(texts)))

bodies = {
    "/api/route/": objects(query=maybe(texts)) | objects(messages=any_talks) | values | st.just({}),
    "/api/route/batch/": objects(
        queries=maybe(st.lists(maybe(texts | st.fixed_dictionaries({"messages": any_talks})), max_size=4))
    )
    | values
    | st.just({}),
}


def holding(carrier: Carrier) -> Any:
    """Options that hold, each alone or with others that contradict it now and then; a set is limited to agents that the pool has."""
    options = {option.name: near(option.value.schema, beyond=False) for option in carried_by(carrier, OPTIONS)}
    agents = st.lists(st.sampled_from(["billing", "shipping"]), max_size=2)
    return options | {name: agents for name in NAMING_AGENTS if name in options}


#: Bodies that hold.
optional = {"pool": st.just("support"), **holding(Carrier.ROUTE)}
good_talks = talks(st.just("assistant"), words.filter(str.strip))
good = {
    "/api/route/": st.fixed_dictionaries({"query": words.filter(str.strip)}, optional=optional)
    | st.fixed_dictionaries({"messages": good_talks}, optional=optional),
    "/api/route/batch/": st.fixed_dictionaries(
        {"queries": st.lists(words.filter(str.strip) | st.fixed_dictionaries({"messages": good_talks}), max_size=3)},
        optional=holding(Carrier.BATCH),
    ),
}


@st.composite
def raw_bodies(draw: Any, path: str) -> bytes:
    value = draw(bodies[path])
    raw = json.dumps(value, ensure_ascii=draw(st.booleans())).encode("utf-8", "surrogatepass")
    damaged = {
        "cut": raw[: len(raw) // 2],
        "random": draw(st.binary(max_size=20)),
        "utf-16": raw.decode("utf-8", "replace").encode("utf-16"),
        "deep": b'{"query": ' + b"[" * 90_000,
        "digits": b'{"query": ' + b"9" * 5_009 + b"}",
        "infinite": b'{"query": "a", "n": 1e999}',
        "large": raw + b" " * 3_000,
    }
    return damaged.get(draw(st.sampled_from(["none"] * 8 + list(damaged))), raw)


def usually(value: bytes, *others: bytes | None) -> Any:
    return st.sampled_from([value] * 8 + list(others))


def several(name: bytes, values_: Any) -> Any:
    """A header once, mostly; or not at all, or twice."""

    def named(found: list[bytes | None]) -> list[tuple[bytes, bytes]]:
        return [(name, value) for value in found if value is not None]

    return st.lists(values_, min_size=1, max_size=1).map(named) | st.lists(values_, max_size=2).map(named)


@pytest.fixture
def ways(app, model, in_memory, settings, monkeypatch):
    """Sends a request both ways; each is (status, headers, body)."""
    from routerweb import wsgi

    settings.MAX_QUERY_CHARACTERS, settings.MAX_BATCH_QUERIES, settings.DATA_UPLOAD_MAX_MEMORY_SIZE = LIMIT, 3, 2_000
    settings.DECISION_BUFFER, settings.MAX_MESSAGES, settings.MAX_CONVERSATION_CHARACTERS = 0, 4, 3 * LIMIT
    sales = pools.create_pool("Sales", "sales")
    keys = {
        "good": app.secret,
        "both": application(model.pool, sales).secret,
        "ops": application(model.pool, scopes=("ops",)).secret,
    }
    keys |= {"sales": application(sales).secret}
    for name, quota in (("quota", 10**9), ("spent", 1)):
        limited = application(model.pool)
        api_keys.set_quota(limited.key, None, queries=quota, characters=None)
        throttle.take(limited.key.pk, ["billing"], (quota, None))
        keys[name] = limited.secret
    in_memory()
    monkeypatch.setattr(decisions, "new_id", lambda at: 7)
    request_started.disconnect(close_old_connections)

    def views(scope: dict[str, Any], raw: bytes) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
        found = threads.answer(wsgi.application, scope, Body(io.BytesIO(raw), len(raw), whole=True))
        with found.file:
            return found.status, found.headers, found.file.read()

    def lane(scope: dict[str, Any], raw: bytes) -> tuple[int, list[tuple[bytes, bytes]], bytes] | None:
        routed = fast_lane.answer(scope["method"].encode(), scope["raw_path"], scope["headers"], raw, scope["scheme"])
        return None if routed is None else (200, fast_lane.headers(len(routed)), routed)

    yield keys, views, lane
    request_started.connect(close_old_connections)


@pytest.mark.parametrize("path", bodies)
def test_the_lane_and_the_views_agree_to_the_byte(ways, path) -> None:
    keys, views, lane = ways
    seen: Counter[str] = Counter()

    bearer = f"Bearer {keys['good']}"
    others = [bearer.lower()[:6] + f"  {keys['good']} ", "Bearer rw_wrong", "Bearer", "Basic abc", "Bearer é"]
    others += [f"Bearer {keys[name]}" for name in ("both", "ops", "sales", "quota")]
    authorizations = several(
        b"authorization", usually(bearer.encode(), *(word.encode("latin-1") for word in others), None)
    )
    kinds = (b"Application/JSON; charset=UTF-8", b"application/json;charset=latin-1", b"text/plain", b"", None)
    types = several(b"content-type", usually(b"application/json", *kinds))
    hosts = several(b"host", usually(b"127.0.0.1:8000", b"localhost", b"evil.example", b"", None))
    accepts = several(b"accept", usually(b"*/*", b"application/json", b"text/html", None))

    plain = [
        (b"host", b"127.0.0.1:8000"), (b"authorization", bearer.encode()), (b"content-type", b"application/json"), (b"accept", b"*/*"),
    ]  # fmt: skip

    allowed = b'{"queries": ["refund"]}' if "batch" in path else b'{"query": "refund"}'
    spent = [(name, f"Bearer {keys['spent']}".encode() if name == b"authorization" else value) for name, value in plain]

    @settings(
        max_examples=EXAMPLES // len(bodies), deadline=None, suppress_health_check=list(HealthCheck), database=None
    )
    @given(
        good[path].map(lambda body: json.dumps(body).encode()) | raw_bodies(path),
        st.sampled_from([plain, plain, spent]) | st.tuples(hosts, authorizations, types, accepts).map(chain.from_iterable).map(list),
        st.just("POST") | st.sampled_from(["POST", "GET", "PUT", "HEAD", "OPTIONS"]), st.sampled_from(["http", "https"]),
    )  # fmt: skip
    @example(b" " * 3_000, plain, "POST", "http")  # too large, whatever is drawn besides
    @example(allowed, spent, "POST", "http")  # over its quota
    def check(raw, sent, method, scheme) -> None:
        headers = [*sent, (b"content-length", str(len(raw)).encode())]
        scope = {
            "method": method, "raw_path": path.encode(), "path": path, "query_string": b"", "http_version": "1.1", "scheme": scheme,
            "headers": headers, "server": ("127.0.0.1", 8000), "client": ("127.0.0.1", 5000),
        }  # fmt: skip
        fast, slow = lane(scope, raw), views(scope, raw)
        event(f"{slow[0]}")
        seen[f"{slow[0]}"] += 1
        seen["lane"] += fast is not None
        assert slow[0] < 500 or b"no_model" in slow[2], slow
        if slow[0] >= 400 and method != "HEAD":
            assert set(json.loads(slow[2])) == {"error"}
        if fast is not None:
            assert fast == slow
        elif slow[0] == 200 and not names_decision(raw):  # whoever sends what is usual is not left to the slower way
            assert sorted(sent) != sorted(plain)

    check()
    assert seen["lane"] > EXAMPLES // len(bodies) // 20, seen
    assert {"200", "400", "401", "405", "413", "429"} <= set(seen), seen


def test_the_lane_counts_against_the_same_minute(app, model, settings, in_memory):
    settings.ROUTE_RATE_PER_MINUTE = 2
    in_memory()
    headers = [
        (b"host", b"127.0.0.1"), (b"authorization", f"Bearer {app.secret}".encode()), (b"content-type", b"application/json"),
    ]  # fmt: skip
    body = b'{"query": "billing"}'
    assert fast_lane.answer(b"POST", fast_lane.ROUTE, headers, body, "http") is not None
    assert app.route().status_code == 200
    assert fast_lane.answer(b"POST", fast_lane.ROUTE, headers, body, "http") is None
    assert app.route().status_code == 429


def test_both_ways_count_against_one_quota_and_refuse_alike(app, model, in_memory, django_assert_num_queries):
    api_keys.set_quota(app.key, None, queries=2, characters=None)
    in_memory()
    headers = [
        (b"host", b"127.0.0.1"), (b"authorization", f"Bearer {app.secret}".encode()), (b"content-type", b"application/json"),
    ]  # fmt: skip
    body = b'{"query": "billing"}'
    with django_assert_num_queries(0):
        assert fast_lane.answer(b"POST", fast_lane.ROUTE, headers, body, "http") is not None
        assert app.route().status_code == 200
        assert fast_lane.answer(b"POST", fast_lane.ROUTE, headers, body, "http") is None
    refused = app.route()
    assert refused.status_code == 429
    assert refused.json()["error"]["code"] == "quota_exhausted"
    assert "2 queries a month" in refused.json()["error"]["message"]
    assert "new month begins at" in refused.json()["error"]["hint"]
    assert 0 < int(refused["Retry-After"]) <= 31 * 86_400


def test_a_host_that_cannot_be_one_is_refused_even_where_every_host_is_taken(settings):
    settings.ALLOWED_HOSTS = ["*"]
    assert admission.known_host("any.example")
    assert not admission.known_host("two words")
    assert not admission.known_host("")


def test_off_by_a_setting(settings):
    assert fast_lane.takes(fast_lane.ROUTE)
    settings.FAST_LANE = False
    assert not fast_lane.takes(fast_lane.ROUTE)
