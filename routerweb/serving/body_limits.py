"""How many bytes the sender of a request may send: more than ANONYMOUS_BODY_KB only with an API key, a SCIM token or a session."""

import asyncio
from concurrent.futures import Executor
from http.cookies import CookieError
from importlib import import_module

from django.conf import settings
from django.contrib.auth import get_user
from django.db import Error as DatabaseFault
from django.db import close_old_connections
from django.http import HttpRequest
from django.http.cookie import parse_cookie
from django.urls import Resolver404, resolve

from routerweb.serving.bodies import header
from routerweb.serving.client_limits import Scope
from training_app.api import fast_lane


async def limit_of(scope: Scope, threads: Executor) -> int:
    """The bytes that the sender of this request may send to its address; `threads` ask the database."""
    path = str(scope["path"])
    loop = asyncio.get_running_loop()
    if path.startswith("/api/"):
        is_known = fast_lane.is_live_key(header(scope, b"authorization"))
        return settings.DATA_UPLOAD_MAX_MEMORY_SIZE if is_known else _anonymous()
    if path.startswith("/scim/"):
        return await loop.run_in_executor(threads, _of_scim, header(scope, b"authorization"))
    cookies = header(scope, b"cookie")
    if settings.SESSION_COOKIE_NAME not in cookies:
        return _anonymous()
    return await loop.run_in_executor(threads, _of_page, path, cookies)


def _anonymous() -> int:
    return settings.ANONYMOUS_BODY_KB * 1024


def _of_page(path: str, cookies: str) -> int:
    """A signed-in person may send MAX_UPLOAD_MB to a page whose form has a file, and what Django accepts of a form to any other."""
    if not _signed_in(cookies):
        return _anonymous()
    try:
        takes_file = getattr(resolve(path).func, "takes_file", False)
    except Resolver404:
        takes_file = False
    form = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    return settings.MAX_UPLOAD_MB * 1024 * 1024 + form if takes_file else form


def _of_scim(authorization: str) -> int:
    """All members of a group come in one body."""
    from agents_app.scim import tokens  # brings REST framework: loaded with the first body that needs it

    close_old_connections()
    try:
        is_known = settings.SCIM and tokens.of(authorization) is not None
    except DatabaseFault:
        is_known = False
    finally:
        close_old_connections()
    return settings.DATA_UPLOAD_MAX_MEMORY_SIZE if is_known else _anonymous()


def _signed_in(cookies: str) -> bool:
    request = HttpRequest()
    try:
        key = parse_cookie(cookies).get(settings.SESSION_COOKIE_NAME)
    except CookieError:
        return False
    request.session = import_module(settings.SESSION_ENGINE).SessionStore(key)
    close_old_connections()
    try:
        return bool(get_user(request).is_authenticated)
    except DatabaseFault:
        return False
    finally:
        close_old_connections()
