"""A WSGI application answers in threads of its own, each held only while it computes.

The request's body is there before a thread is taken, and the answer is made whole before its first byte goes out: no client can hold
a thread by sending or reading slowly. A long answer, an export say, waits in the temporary folder.
"""

import asyncio
import contextlib
import sys
import tempfile
from collections.abc import Callable, Iterable
from typing import IO, Any, NamedTuple
from urllib.parse import unquote_to_bytes

from routerweb.serving import later
from routerweb.serving.bodies import IN_MEMORY, Body, throw_away
from routerweb.serving.client_limits import CLOSE, Receive, Scope, Send

PIECE = 64 * 1024

WSGI = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class AppResponse(NamedTuple):
    """An answer that is whole."""

    status: int
    headers: list[tuple[bytes, bytes]]
    file: IO[bytes]


def answer(application: WSGI, scope: Scope, body: Body, promise: later.Later | None = None) -> AppResponse:
    """What the application answers to a request, made in this thread; `promise` is for what it leaves to the event loop."""
    started: list[Any] = []

    def start_response(status: str, headers: list[tuple[str, str]], _error: Any = None) -> None:
        started[:] = [int(status.split(" ", 1)[0]), headers]

    file = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115 - closed once it was sent
    pieces = application(environ(scope, body) | {later.NAME: promise}, start_response)
    try:
        for piece in pieces:
            file.write(piece)
    except BaseException:
        file.close()
        raise
    finally:
        close = getattr(pieces, "close", None)
        if close is not None:
            close()
    length = file.tell()
    file.seek(0)
    status, headers = started
    sent = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]
    if (
        scope["method"] != "HEAD"
        and status not in (204, 304)
        and not any(name == b"content-length" for name, _ in sent)
    ):
        sent.append((b"content-length", str(length).encode()))
    return AppResponse(status, sent, file)


async def send_answer(response: AppResponse, send: Send, receive: Receive, *, read_whole: bool) -> None:
    """Send an answer as fast as its client reads it; of a request that was not read whole it ends the connection."""
    with response.file as file:
        headers = response.headers if read_whole else [*response.headers, CLOSE]
        await send({"type": "http.response.start", "status": response.status, "headers": headers})
        piece = file.read(PIECE)
        while following := file.read(PIECE):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
            piece = following
        if read_whole:
            await send({"type": "http.response.body", "body": piece})
        else:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
            await throw_away(receive)
            await send({"type": "http.response.body", "body": b""})


async def send_later(response: AppResponse, promise: later.Later, send: Send, receive: Receive) -> None:
    """Send an answer whose body is still to come: its head goes out with the first of its promise's pieces, so nothing is promised
    before. Once the client has gone, nothing is waited for."""
    response.file.close()
    sending = asyncio.ensure_future(_send_pieces(response, promise, send))
    gone = asyncio.ensure_future(_gone(receive))
    try:
        await asyncio.wait({sending, gone}, return_when=asyncio.FIRST_COMPLETED)
        if sending.done():
            sending.result()
    finally:
        for task in (sending, gone):
            task.cancel()
        await asyncio.gather(sending, gone, return_exceptions=True)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send_pieces(response: AppResponse, promise: later.Later, send: Send) -> None:
    headers = [header for header in response.headers if header[0] != b"content-length"]

    async def begin() -> None:
        status = promise.status or response.status
        await send({"type": "http.response.start", "status": status, "headers": headers})

    assert promise.pieces is not None
    begun = False
    async with contextlib.aclosing(promise.pieces()) as coming:  # type: ignore[type-var]
        async for piece in coming:
            if not begun:
                await begin()
                begun = True
            await send({"type": "http.response.body", "body": piece, "more_body": True})
    if not begun:
        await begin()
    await send({"type": "http.response.body", "body": b""})


def environ(scope: Scope, body: Body) -> dict[str, Any]:
    """The request's variables as PEP 3333 names them."""
    host, port = scope["server"] or ("", None)
    client = scope["client"] or ("", 0)
    variables: dict[str, Any] = {
        "REQUEST_METHOD": scope["method"],
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote_to_bytes(scope["raw_path"]).decode("latin-1"),
        "QUERY_STRING": scope["query_string"].decode("latin-1"),
        "SERVER_PROTOCOL": f"HTTP/{scope['http_version']}",
        "SERVER_NAME": host,
        "SERVER_PORT": str(port or 0),
        "REMOTE_ADDR": client[0],
        "REMOTE_PORT": str(client[1]),
        "CONTENT_LENGTH": str(body.length),
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scope["scheme"],
        "wsgi.input": body.file,
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
    }
    for name, value in scope["headers"]:
        # A name with an underscore would be read as the header with a hyphen, which a proxy may have vouched for.
        if b"_" in name or name in (b"content-length", b"transfer-encoding"):
            continue
        text = value.decode("latin-1")
        if name == b"content-type":
            variables["CONTENT_TYPE"] = text
            continue
        variable = "HTTP_" + name.decode("latin-1").upper().replace("-", "_")
        joint = "; " if name == b"cookie" else ","
        variables[variable] = variables[variable] + joint + text if variable in variables else text
    return variables
