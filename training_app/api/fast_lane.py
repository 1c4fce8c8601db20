"""The fast lane: `/api/route/` and `/api/route/batch/` in front of Django, for requests that can be answered with 200.

Everything else it leaves, and Django answers: a wrong key, a text that is too long, a header that it does not know what to make of.
So it holds no error and no rule of its own, and with FAST_LANE=0 the same bytes come from the views. Sessions, cookies and
CSRF mean nothing to an application with a key, and Django's way through them takes longer than a route.
"""

import logging
from collections.abc import Sequence
from functools import cache
from typing import Any

from django.conf import settings
from django.core.signals import setting_changed

from routerweb.observing import tracing
from routerweb.serving import admission
from training_app.answering import serving, throttle
from training_app.answering.answer import NoModel
from training_app.answering.described import NO_VERSION
from training_app.api import bodies, route_requests
from training_app.api.errors import Refused
from training_app.api.keys import Access

logger = logging.getLogger(__name__)

ROUTE, BATCH = b"/api/route/", b"/api/route/batch/"
JSON_TYPES = (b"application/json", b"application/json; charset=utf-8")
#: What decides an answer; of these a request may have one each.
DECIDING = frozenset({b"authorization", b"content-type", b"content-length", b"host", b"accept", b"origin"})

Headers = Sequence[tuple[bytes, bytes]]


class _Site:
    """What the settings say about every request, read once: each setting takes a microsecond to read."""

    def __init__(self) -> None:
        self.paths = frozenset({ROUTE, BATCH} if settings.FAST_LANE else ())
        self.max_bytes = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        self.traces = bool(settings.TRACES)
        self.cors = bool(settings.CORS_ORIGINS)
        self.deciding = DECIDING | {admission.proxy_header()}
        self.headers = [
            (b"content-type", b"application/json"),
            (b"x-content-type-options", b"nosniff"),
            (b"cache-control", b"no-store"),
        ]
        if (strict_transport := admission.strict_transport()) != "":
            self.headers.append((b"strict-transport-security", strict_transport.encode()))


_site = cache(_Site)


def _changed(**_signal: Any) -> None:
    _site.cache_clear()


setting_changed.connect(_changed)


def takes(path: bytes) -> bool:
    """Whether requests to this address may be answered here."""
    return path in _site().paths


def answer(method: bytes, path: bytes, headers: Headers, body: bytes, scheme: str) -> bytes | None:
    """The body of the 200 that answers a request, in JSON; None for what is left to Django.

    `headers` have lower-case names. Nothing is kept of what is left to Django. Raises Abandoned once the client has left.
    """
    site = _site()
    if method != b"POST" or len(body) > site.max_bytes:
        return None
    if site.traces:
        return tracing.in_lane(lambda: _answer(path, headers, body, scheme), path.decode(), headers, scheme)
    return _answer(path, headers, body, scheme)


def _answer(path: bytes, headers: Headers, body: bytes, scheme: str) -> bytes | None:
    names = _site().deciding
    deciding = [header for header in headers if header[0] in names]
    header_values = dict(deciding)
    if len(header_values) != len(deciding) or not _plain(header_values, scheme):
        return None
    try:
        state = serving.served()
        caller = serving.caller_of(_key(header_values), state)
        if caller is None or "route" not in caller.scopes:
            return None
        access, sent = Access(caller, state), bodies.parsed(body)
        if isinstance(sent.get("previous"), str):
            return None  # a decision, which stands in the database
        call = route_requests.route_call(sent, access) if path == ROUTE else route_requests.batch_call(sent, access)
        if call.pool.model is not None and call.pool.model.pk == NO_VERSION:
            return None  # its first text loads the sentence encoder, for which nothing else may wait
        throttle.take(caller.pk, call.texts, caller.quota)
        if path == ROUTE:
            return bodies.written(route_requests.answer_one(call, access))
        return bodies.written_in_steps(route_requests.answer_many(call, access))
    except (Refused, NoModel, throttle.Exceeded):
        return None
    except Exception:  # the views say what a caller is told of it
        logger.exception("The fast lane failed; Django answers.")
        return None


# --- What a request says of itself --------------------------------------------------------------------------------


def is_live_key(authorization: str) -> bool:
    """Whether a request's Authorization header holds a live key."""
    kind, _space, secret = authorization.partition(" ")
    try:
        return kind.lower() == "bearer" and serving.caller_of(secret.strip(), serving.served()) is not None
    except Exception:  # nothing is loaded yet, and the database is away
        return False


def _plain(header_values: dict[bytes, bytes], scheme: str) -> bool:
    """Whether the request came to this site, securely where it has to, with JSON, for somebody who takes JSON."""
    return (
        header_values.get(b"content-type", JSON_TYPES[0]).lower() in JSON_TYPES
        and header_values.get(b"accept", b"*/*") in (b"*/*", b"application/json")
        and (b"origin" not in header_values or not _site().cors)
        and _admitted(header_values, scheme)
    )


def _admitted(header_values: dict[bytes, bytes], scheme: str) -> bool:
    forwarded = header_values.get(admission.proxy_header())
    claim = None if forwarded is None else forwarded.decode("latin-1")
    return admission.admitted(header_values.get(b"host", b"").decode("latin-1"), scheme, claim)


def _key(header_values: dict[bytes, bytes]) -> str:
    kind, _space, secret = header_values.get(b"authorization", b"").partition(b" ")
    return secret.strip().decode("latin-1") if kind.lower() == b"bearer" else ""


# --- What every answer carries ------------------------------------------------------------------------------------


def headers(length: int) -> list[tuple[bytes, bytes]]:
    """The headers of a 200, as the views send them."""
    return [*_site().headers, (b"content-length", str(length).encode())]
