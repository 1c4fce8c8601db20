"""An answer that is still to come holds no thread: what a view leaves to the event loop is sent as it comes."""

import asyncio
import io
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

from routerweb.serving import later, threads
from routerweb.serving.bodies import Body
from routerweb.serving.later import Later

SCOPE = {
    "server": ("localhost", 80), "client": None, "method": "POST", "raw_path": b"/", "query_string": b"", "http_version": "1.1",
    "scheme": "http", "headers": [],
}  # fmt: skip


async def counted() -> AsyncIterator[bytes]:
    for piece in (b"one ", b"two ", b"three"):
        await asyncio.sleep(0)
        yield piece


def view(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    environ[later.NAME].pieces = counted
    start_response("200 OK", [("Content-Type", "text/event-stream"), ("Content-Length", "0")])
    return [b""]


def test_the_pieces_are_sent_as_they_come_and_no_length_is_promised() -> None:
    promise, sent = Later(), []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    async def serve() -> None:
        found = threads.answer(view, SCOPE, Body(io.BytesIO(), 0, whole=True), promise)
        await threads.send_later(found, promise, send, there)

    asyncio.run(serve())
    assert (sent[0]["type"], sent[0]["status"]) == ("http.response.start", 200)
    assert sent[0]["headers"] == [(b"content-type", b"text/event-stream")]
    assert [message["body"] for message in sent[1:]] == [b"one ", b"two ", b"three", b""]
    assert [message.get("more_body", False) for message in sent[1:]] == [True, True, True, False]


async def there() -> dict[str, Any]:
    """What a client sends that waits."""
    await asyncio.Event().wait()
    raise AssertionError("an event that nobody sets")


async def left() -> dict[str, Any]:
    """What a client sends that has gone."""
    return {"type": "http.disconnect"}


def test_for_a_client_that_has_gone_nothing_is_waited_for() -> None:
    closed: list[bool] = []

    async def endless() -> AsyncIterator[bytes]:
        try:
            await asyncio.Event().wait()
            yield b"never"
        finally:
            closed.append(True)

    async def send(message: dict[str, Any]) -> None:
        raise AssertionError(message)

    async def serve() -> None:
        promise = Later()
        found = threads.answer(view, SCOPE, Body(io.BytesIO(), 0, whole=True), promise)
        promise.pieces = endless
        async with asyncio.timeout(30):
            await threads.send_later(found, promise, send, left)

    asyncio.run(serve())
    assert closed == [True]


def test_what_is_found_out_before_the_first_piece_may_change_the_status() -> None:
    promise, statuses = Later(), []

    async def failed() -> AsyncIterator[bytes]:
        promise.status = 502
        yield b"{}"

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    async def serve() -> None:
        found = threads.answer(view, SCOPE, Body(io.BytesIO(), 0, whole=True), promise)
        promise.pieces = failed
        await threads.send_later(found, promise, send, there)

    asyncio.run(serve())
    assert statuses == [502]
