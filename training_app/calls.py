"""What a call of the API holds: who calls, the JSON body, a text to route, the pool that is meant; refused where it does not hold."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

from django.conf import settings

from training_app import serving
from training_app.replies import Refused
from training_app.serving import Caller, LoadedPool, Served

JSON_TYPES = ("application/json", "application/json; charset=utf-8", "application/json;charset=utf-8")


@dataclass(frozen=True, slots=True)
class Call:
    """One request. `meta` are its WSGI variables (HTTP_AUTHORIZATION, …); `read(n)` reads at most n bytes of the body."""

    method: str
    path: str
    meta: Mapping[str, Any]
    read: Callable[[int], bytes]


def identify(call: Call, state: Served, scope: str = "") -> Caller:
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


def body_of(call: Call) -> dict[str, Any]:
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


def asked_of(call: Call) -> Mapping[str, str]:
    """What stands behind the address's question mark; of a name that stands there twice, the last."""
    return {name: values[-1] for name, values in parse_qs(call.meta.get("QUERY_STRING", "")).items()}


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


def pool_of(slug: Any, caller: Caller, state: Served) -> LoadedPool:
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
