"""The body of a request, read on the event loop before any thread is taken for it, and never more of it than its sender may send.

Anybody may send ANONYMOUS_BODY_KB, which is enough for every form that is open to all. The sender is looked up only where a body is
larger: `routerweb.serving.body_limits` says how much an API key, a SCIM token or a session allows.
"""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from typing import IO, NamedTuple

from django.conf import settings

from routerweb.serving.client_limits import Receive, Scope

#: A larger body is kept in the temporary folder while its request lasts.
IN_MEMORY = 256 * 1024
#: So much of a refused body is still read and thrown away, so that the client gets to the answer.
THROWN_AWAY = 1024 * 1024
THROW_AWAY_SECONDS = 2.0


class Body(NamedTuple):
    """A body that was read whole, or not at all: `length` is then what its sender announced, or more than the limit."""

    file: IO[bytes]
    length: int
    whole: bool


class Disconnected(Exception):
    """The client left before its request was whole."""


async def read(scope: Scope, receive: Receive, limit_of: Callable[[Scope], Awaitable[int]]) -> Body:
    """The request's body. `limit_of` gives the bytes that its sender may send. Raises Disconnected."""
    announced = int(header(scope, b"content-length") or 0)
    limit, limit_known = settings.ANONYMOUS_BODY_KB * 1024, False
    file = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115 - the request's end closes it
    try:
        length, more = 0, True
        while more:
            if max(announced, length) > limit and not limit_known:
                limit_known, limit = True, await limit_of(scope)
            if max(announced, length) > limit:
                file.seek(0)
                file.truncate()
                return Body(file, max(announced, length), whole=False)
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Disconnected
            piece, more = message.get("body", b""), message.get("more_body", False)
            length += len(piece)
            if length <= limit or not limit_known:
                file.write(piece)
        file.seek(0)
        return Body(file, length, whole=True)
    except BaseException:
        file.close()
        raise


async def throw_away(receive: Receive) -> None:
    """Read on for a moment without keeping anything: a client that is still sending would not see its answer otherwise."""
    remaining = THROWN_AWAY
    try:
        async with asyncio.timeout(THROW_AWAY_SECONDS):
            while remaining > 0:
                message = await receive()
                if message["type"] == "http.disconnect" or not message.get("more_body", False):
                    return
                remaining -= len(message.get("body", b""))
    except TimeoutError:
        return


def header(scope: Scope, name: bytes) -> str:
    """The value of a request's header, "" where it has none."""
    return next((value.decode("latin-1") for header_name, value in scope["headers"] if header_name == name), "")
