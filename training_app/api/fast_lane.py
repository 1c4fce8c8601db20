"""The fast lane: `/api/route/` and `/api/route/batch/` in front of Django, for requests that can be answered with 200.

Everything else it leaves, and Django answers: a wrong key, a text that is too long, a header that it does not know what to make of.
So it holds no error and no rule of its own, and with FAST_LANE=0 the same bytes come from the views. Sessions, cookies and
CSRF mean nothing to an application with a key, and Django's way through them takes longer than a route.
"""

import logging
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

from django.conf import settings
from django.core.signals import setting_changed
from django.http.request import split_domain_port, validate_host

from routerweb.observing import tracing
from training_app.answering import serving, throttle
from training_app.answering.answer import NoModel
from training_app.api import asking, bodies
from training_app.api.errors import Refused
from training_app.api.keys import Access

logger = logging.getLogger(__name__)

ROUTE, BATCH = b"/api/route/", b"/api/route/batch/"
JSON_TYPES = (b"application/json", b"application/json; charset=utf-8")
#: What decides an answer; of these a request may have one each.
DECIDING = frozenset(
    {b"authorization", b"content-type", b"content-length", b"host", b"x-forwarded-proto", b"accept", b"origin"}
)

Headers = Sequence[tuple[bytes, bytes]]


class _Site:
    """What the settings say of every request: asked for once, as each of them takes a microsecond to ask for."""

    def __init__(self) -> None:
        self.paths = frozenset({ROUTE, BATCH} if settings.FAST_LANE else ())
        self.most = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        self.tls = bool(settings.SECURE_SSL_REDIRECT)
        self.traces = bool(settings.TRACES)
        self.cors = bool(settings.CORS_ORIGINS)
        self.proxied = getattr(settings, "SECURE_PROXY_SSL_HEADER", None) is not None


_site = cache(_Site)


def _changed(**_signal: Any) -> None:
    _site.cache_clear()
    known_host.cache_clear()


setting_changed.connect(_changed)


def takes(path: bytes) -> bool:
    """Whether requests to this address may be answered here."""
    return path in _site().paths


def answer(method: bytes, path: bytes, headers: Headers, body: bytes, scheme: str) -> bytes | None:
    """The body of the 200 that answers a request, in JSON; None for what is left to Django.

    `headers` have lower-case names. Nothing is raised, and nothing is kept of what is left to Django.
    """
    site = _site()
    if method != b"POST" or len(body) > site.most:
        return None
    if site.traces:
        return tracing.in_lane(lambda: _answer(path, headers, body, scheme), path.decode(), headers, scheme)
    return _answer(path, headers, body, scheme)


def _answer(path: bytes, headers: Headers, body: bytes, scheme: str) -> bytes | None:
    deciding = [header for header in headers if header[0] in DECIDING]
    given = dict(deciding)
    if len(given) != len(deciding) or not _plain(given, scheme):
        return None
    try:
        state = serving.served()
        caller = serving.caller_of(_key(given), state)
        if caller is None or "route" not in caller.scopes:
            return None
        access, sent = Access(caller, state), bodies.parsed(body)
        asked = asking.one(sent, access) if path == ROUTE else asking.many(sent, access)
        throttle.take(caller.pk, asked.texts, caller.quota)
        return bodies.written(asking.answer_one(asked, access) if path == ROUTE else asking.answer_many(asked, access))
    except (Refused, NoModel, throttle.Exceeded):
        return None
    except Exception:  # the views say what a caller is told of it
        logger.exception("The fast lane failed; Django answers.")
        return None


# --- What a request says of itself --------------------------------------------------------------------------------


def known(authorization: str) -> bool:
    """Whether a request's Authorization header holds a live key."""
    kind, _space, secret = authorization.partition(" ")
    try:
        return kind.lower() == "bearer" and serving.caller_of(secret.strip(), serving.served()) is not None
    except Exception:  # nothing is loaded yet, and the database is away
        return False


@lru_cache(maxsize=256)
def known_host(host: bytes) -> bool:
    """Whether a Host header names this site."""
    name, _port = split_domain_port(host.decode("latin-1"))
    return name != "" and validate_host(name, settings.ALLOWED_HOSTS)


def _plain(given: dict[bytes, bytes], scheme: str) -> bool:
    """Whether the request came to this site, securely where it has to, with JSON, for somebody who takes JSON."""
    return (
        known_host(given.get(b"host", b""))
        and given.get(b"content-type", JSON_TYPES[0]).lower() in JSON_TYPES
        and given.get(b"accept", b"*/*") in (b"*/*", b"application/json")
        and (b"origin" not in given or not _site().cors)
        and (not _site().tls or _secure(given, scheme))
    )


def _secure(given: dict[bytes, bytes], scheme: str) -> bool:
    claimed = given.get(b"x-forwarded-proto") if _site().proxied else None
    return scheme == "https" if claimed is None else claimed.split(b",")[0].strip() == b"https"


def _key(given: dict[bytes, bytes]) -> str:
    kind, _space, secret = given.get(b"authorization", b"").partition(b" ")
    return secret.strip().decode("latin-1") if kind.lower() == b"bearer" else ""


# --- What every answer carries ------------------------------------------------------------------------------------


def headers(length: int) -> list[tuple[bytes, bytes]]:
    """The headers of a 200, as the views send them."""
    found = [
        (b"content-type", b"application/json"),
        (b"x-content-type-options", b"nosniff"),
        (b"cache-control", b"no-store"),
        (b"content-length", str(length).encode()),
    ]
    if settings.SECURE_HSTS_SECONDS:
        age = f"max-age={settings.SECURE_HSTS_SECONDS}; includeSubDomains"
        found.append((b"strict-transport-security", age.encode()))
    return found
