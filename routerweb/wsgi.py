"""The WSGI application that a server runs: `routerweb.wsgi:application`.

Calls of the API go straight to it. Sessions, cookies, CSRF and messages mean nothing to an application with a key, and Django's own
way through them takes several times as long as the rest of an answer. What Django checks for every request is checked here too: the
host's name, and that the connection is secure where it has to be; a call that fails either is left to Django to refuse.

The pages, with all that they import, are loaded when the first is asked for: a process that only routes starts sooner and stays
smaller without them.
"""

import os
import threading
from collections.abc import Callable, Iterable
from functools import lru_cache
from http import HTTPStatus
from importlib import import_module
from typing import Any

import django
from django.core.handlers.wsgi import WSGIHandler

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "routerweb.settings")
django.setup(set_prefix=False)

from django.conf import settings  # noqa: E402  (the applications have to be loaded first)
from django.http.request import split_domain_port, validate_host  # noqa: E402

from routerweb import memory  # noqa: E402
from training_app import api, reaper, serving, watch  # noqa: E402

STATUS_LINES = {status.value: f"{status.value} {status.phrase}" for status in HTTPStatus}
EVERY_REPLY = (
    ("Content-Type", "application/json"),
    ("X-Content-Type-Options", "nosniff"),
    ("Cache-Control", "no-store"),
)


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Answer one request: a call of the API here, any other in Django."""
    path = environ.get("PATH_INFO", "")
    if not path.startswith("/api/") or not _known_host(environ.get("HTTP_HOST", "")) or not _secure_enough(environ):
        return pages()(environ, start_response)
    reply = api.answer(api.Call(environ["REQUEST_METHOD"], path, environ, environ["wsgi.input"].read))
    headers = [*EVERY_REPLY, *reply.headers, ("Content-Length", str(len(reply.body)))]
    if settings.SECURE_HSTS_SECONDS:
        headers.append(("Strict-Transport-Security", f"max-age={settings.SECURE_HSTS_SECONDS}; includeSubDomains"))
    start_response(STATUS_LINES[reply.status], headers)
    return [] if environ["REQUEST_METHOD"] == "HEAD" else [reply.body]


_pages: WSGIHandler | None = None
_loading_pages = threading.Lock()


def pages() -> WSGIHandler:
    """Django's own handler, for all that is not a call of the API."""
    global _pages
    if _pages is None:
        with _loading_pages:
            if _pages is None:
                handler = WSGIHandler()
                import_module(settings.ROOT_URLCONF)
                memory.settle()
                _pages = handler
    return _pages


@lru_cache(maxsize=256)
def _known_host(host: str) -> bool:
    return validate_host(split_domain_port(host)[0], settings.ALLOWED_HOSTS)


def _secure_enough(environ: dict[str, Any]) -> bool:
    if not settings.SECURE_SSL_REDIRECT:
        return True
    header, value = getattr(settings, "SECURE_PROXY_SSL_HEADER", None) or ("", "")
    claimed = environ.get(header) if header else None
    if claimed is not None:
        return bool(claimed.split(",")[0].strip() == value)
    return bool(environ["wsgi.url_scheme"] == "https")


serving.warm()
memory.settle()
if settings.BACKGROUND_THREADS:
    reaper.start_once()
    watch.start_once("web")
