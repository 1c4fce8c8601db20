"""The body of a request, read on the event loop before any thread is taken for it, and never more of it than its sender may send.

Who is not known may send ANONYMOUS_BODY_KB, which is enough for every form that is open to all. Only where a body is larger is it
asked who sends it: an API key, a SCIM token or a session's cookie, and for a file whether the page takes one.
"""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from http.cookies import CookieError
from importlib import import_module
from typing import IO, Any, NamedTuple

from django.conf import settings
from django.contrib.auth import get_user
from django.db import Error as DatabaseFault
from django.db import close_old_connections
from django.http import HttpRequest
from django.http.cookie import parse_cookie
from django.urls import Resolver404, resolve

from training_app.api import fast_lane

#: What is larger is kept in the temporary folder while its request lasts.
IN_MEMORY = 256 * 1024
#: Of a body that is refused so much is still read and thrown away, so that the client gets to the answer.
THROWN_AWAY = 1024 * 1024

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]


class Body(NamedTuple):
    """A body that was read whole, or not at all: `length` is then what its sender announced, or more than is taken."""

    file: IO[bytes]
    length: int
    whole: bool


class Disconnected(Exception):
    """The client went away, or was too slow, before its request was whole."""


async def read(scope: Scope, receive: Receive, threads: Executor) -> Body:
    """The request's body. Raises Disconnected."""
    announced = int(header(scope, b"content-length") or 0)
    limit = settings.ANONYMOUS_BODY_KB * 1024
    known = False
    file = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115 - the request's end closes it
    try:
        length, more = 0, True
        while more:
            if max(announced, length) > limit and not known:
                known, limit = True, await most(scope, threads)
            if max(announced, length) > limit:
                file.seek(0)
                file.truncate()
                return Body(file, max(announced, length), whole=False)
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Disconnected
            piece, more = message.get("body", b""), message.get("more_body", False)
            length += len(piece)
            if length <= limit or not known:
                file.write(piece)
        file.seek(0)
        return Body(file, length, whole=True)
    except BaseException:
        file.close()
        raise


async def throw_away(receive: Receive) -> None:
    """Read on for a moment without keeping anything: a client that is still sending would not see its answer otherwise."""
    left = THROWN_AWAY
    try:
        async with asyncio.timeout(2.0):
            while left > 0:
                message = await receive()
                if message["type"] == "http.disconnect" or not message.get("more_body", False):
                    return
                left -= len(message.get("body", b""))
    except TimeoutError:
        return


async def most(scope: Scope, threads: Executor) -> int:
    """How many bytes the sender of this request may send to its address."""
    if str(scope["path"]).startswith("/api/"):
        known = fast_lane.known(header(scope, b"authorization"))
        return settings.DATA_UPLOAD_MAX_MEMORY_SIZE if known else settings.ANONYMOUS_BODY_KB * 1024
    if str(scope["path"]).startswith("/scim/"):
        return await asyncio.get_running_loop().run_in_executor(threads, _most_of_scim, header(scope, b"authorization"))
    cookies = header(scope, b"cookie")
    if settings.SESSION_COOKIE_NAME not in cookies:
        return settings.ANONYMOUS_BODY_KB * 1024
    return await asyncio.get_running_loop().run_in_executor(threads, _most_of_page, str(scope["path"]), cookies)


def _most_of_page(path: str, cookies: str) -> int:
    """Of a page whose form takes a file a signed-in person may send MAX_UPLOAD_MB, of any other what Django takes of a form."""
    if not _signed_in(cookies):
        return settings.ANONYMOUS_BODY_KB * 1024
    try:
        takes_file = getattr(resolve(path).func, "takes_file", False)
    except Resolver404:
        takes_file = False
    form = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    return settings.MAX_UPLOAD_MB * 1024 * 1024 + form if takes_file else form


def _most_of_scim(authorization: str) -> int:
    """A group's members come in one body."""
    from agents_app.scim import tokens  # with all of REST framework: loaded with the first body that needs it

    close_old_connections()
    try:
        known = settings.SCIM and tokens.of(authorization) is not None
    except DatabaseFault:
        known = False
    finally:
        close_old_connections()
    return settings.DATA_UPLOAD_MAX_MEMORY_SIZE if known else settings.ANONYMOUS_BODY_KB * 1024


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


def header(scope: Scope, name: bytes) -> str:
    """The value of a request's header, "" where it has none."""
    return next((value.decode("latin-1") for found, value in scope["headers"] if found == name), "")
