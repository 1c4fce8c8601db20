"""The WSGI application that a server runs: `routerweb.wsgi:application`.

Calls of the API have a handler of their own. Sessions, cookies, CSRF and messages mean nothing to an application with a key, and the
way through them takes longer than the rest of an answer.

The pages, with all that they import, are loaded when the first is asked for: a process that only routes starts sooner and stays
smaller without them.
"""

import os
import threading
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

import django
from django.core.handlers.wsgi import WSGIHandler

from routerweb import installation
from routerweb.serving import memory

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "routerweb.settings")
# A command line; then what clients of tests and serializers of PostgreSQL's own fields need: 25 MB that no request asks for.
with memory.without("httpx._main"):
    django.setup(set_prefix=False)

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.urls import Resolver404, resolve

from agents_app.background_work import reaper
from training_app.answering import decisions, serving

with memory.without("requests", "django.contrib.postgres.fields"):
    from training_app.api.handler import ApiHandler
from training_app.watching import watch

# Settings let a command do its work with any key on this machine's own addresses; nobody is signed in by such a one.
if settings.SECRET_KEY_FLAW and not settings.DEBUG:
    raise ImproperlyConfigured(f"SECRET_KEY: {settings.SECRET_KEY_FLAW}")


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Answer one request: a call of the API with the API's own handler, any other with that of the pages."""
    return (calls if calls_api(environ.get("PATH_INFO", "")) else pages())(environ, start_response)


def calls_api(path: str) -> bool:
    """Whether the API answers at this address."""
    return path.startswith("/api/") and not path.startswith("/api/docs")


calls = ApiHandler()
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


def reads_file(path: str) -> bool:
    """Whether the page at this address reads a file; False until the first page has been asked for."""
    if _pages is None:
        return False
    try:
        return bool(getattr(resolve(path).func, "reads_file", False))
    except Resolver404:
        return False


def page_route_of(path: str) -> str:
    """The template of a page's address; `pages` until the first page has been asked for, and `none` where there is no page."""
    if path.startswith(settings.STATIC_URL):
        return settings.STATIC_URL
    if _pages is None:
        return "pages"
    try:
        return f"/{resolve(path).route}"
    except Resolver404:
        return "none"


# Whoever starts `up --migrate` is about to open a page.
installation.wait_for_migration(settings.DATA_DIR, meanwhile=pages)
serving.warm()
decisions.begin()
memory.settle()
if settings.BACKGROUND_THREADS:
    reaper.start_once()
    watch.start_once("web")
