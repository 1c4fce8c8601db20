"""Whether a request came to this site, and over a secure connection where it has to: Django's own answer, kept for each host.

The fast lane and the API's middleware both ask here, so ALLOWED_HOSTS, SECURE_SSL_REDIRECT, SECURE_PROXY_SSL_HEADER and the settings
of HSTS mean the same to both as they do to the pages.
"""

from functools import cache, lru_cache
from typing import Any

from django.conf import settings
from django.core.exceptions import DisallowedHost
from django.core.signals import setting_changed
from django.http import HttpRequest, HttpResponse
from django.middleware.security import SecurityMiddleware


class _AnyRequest(HttpRequest):
    """A request of which only the host and the connection are known."""

    def __init__(self, host: str, scheme: str, forwarded: str | None) -> None:
        super().__init__()
        self._connection = scheme
        self.META["HTTP_HOST"] = host
        if forwarded is not None and settings.SECURE_PROXY_SSL_HEADER:
            self.META[settings.SECURE_PROXY_SSL_HEADER[0]] = forwarded

    def _get_scheme(self) -> str:
        return self._connection


@lru_cache(maxsize=256)
def known_host(host: str) -> bool:
    """Whether a Host header names this site."""
    try:
        _AnyRequest(host, "http", None).get_host()
    except DisallowedHost:
        return False
    return True


@lru_cache(maxsize=256)
def admitted(host: str, scheme: str, forwarded: str | None) -> bool:
    """Whether Django would answer a request to this host, neither refusing it nor redirecting it to https. `forwarded` is the value
    of `proxy_header`, None where the request has none."""
    if not known_host(host):
        return False
    return not settings.SECURE_SSL_REDIRECT or _AnyRequest(host, scheme, forwarded).is_secure()


@cache
def proxy_header() -> bytes:
    """The header in which a proxy says that it was called over https, in lower case; b"" where the settings name none."""
    if not settings.SECURE_PROXY_SSL_HEADER:
        return b""
    name: str = settings.SECURE_PROXY_SSL_HEADER[0]
    return name.removeprefix("HTTP_").replace("_", "-").lower().encode()


@cache
def strict_transport() -> str:
    """The value of Strict-Transport-Security that Django sends over secure connections, "" where the settings want none."""
    middleware = SecurityMiddleware(lambda _request: HttpResponse())
    answer: Any = middleware.process_response(_AnyRequest("", "https", None), HttpResponse())
    return answer.headers.get("Strict-Transport-Security", "")


def _forget(**_signal: Any) -> None:
    for cached in (known_host, admitted, proxy_header, strict_transport):
        cached.cache_clear()


setting_changed.connect(_forget)
