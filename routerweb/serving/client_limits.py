"""The ASGI middleware around the whole application: limits for clients, and a way to end without losing a request.

The server's own settings bound how long a request's head may take and a connection may idle. This middleware bounds what comes after:
how long a client may take to send a body and to read an answer. The server stops reading a head near its limit; here it is exact.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

Scope = dict[str, Any]
Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

#: A body that announces its length gets one second more for each so many bytes.
BYTES_PER_SECOND = 64 * 1024
#: A request's line and headers, in bytes; a longer head is answered with 431.
MAX_HEAD_BYTES = 64 * 1024
CLOSE = (b"connection", b"close")


class BodyTooSlow(Exception):
    """The client did not send its body in time."""


class AnswerNotRead(Exception):
    """The client did not read its answer in time."""


class ClientLimits:
    """`application` with `body_seconds` for a request's body and `answer_seconds` for a client to read on.

    A late body is answered with 408. After `end` every answer says `Connection: close`, so that clients which keep connections
    learn that this process ends before it does.
    """

    def __init__(self, application: Application, *, body_seconds: float, answer_seconds: float) -> None:
        self.application = application
        self.body_seconds, self.answer_seconds = body_seconds, answer_seconds
        self.ending = False
        self._requests, self._last = 0, 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request within its deadlines."""
        if scope["type"] != "http":
            await self.application(scope, receive, send)
            return
        exchange = _Exchange(self, scope, receive, send)
        self._requests += 1
        try:
            if head_bytes(scope) > MAX_HEAD_BYTES:
                await refuse(exchange.send, 431, "The head of this request is too large.", CLOSE)
                return
            await self.application(scope, exchange.receive, exchange.send)
        except BodyTooSlow:
            if not exchange.answered:
                await refuse(exchange.send, 408, "This request took too long to arrive.", CLOSE)
        except AnswerNotRead:
            pass  # the kernel drops the connection: see `listen` in routerweb.serving.worker
        finally:
            self._requests -= 1
            self._last = asyncio.get_running_loop().time()

    async def end(self, *, quiet_seconds: float, seconds: float) -> None:
        """Tell clients to close their connections until none has sent a request for `quiet_seconds`, but no longer than `seconds`."""
        loop = asyncio.get_running_loop()
        self.ending, self._last = True, loop.time()
        until = loop.time() + seconds
        while loop.time() < until and (self._requests or loop.time() - self._last < quiet_seconds):
            await asyncio.sleep(0.05)


def head_bytes(scope: Scope) -> int:
    """The length of a request's line and headers as a client writes them: four bytes beside each name and value."""
    query = scope["query_string"]
    line = len(scope["method"]) + len(scope["raw_path"]) + (len(query) + 1 if query else 0) + len("  HTTP/1.1\r\n\r\n")
    return line + sum(len(name) + len(value) + 4 for name, value in scope["headers"])


class _Exchange:
    """One request and its answer: `receive` and `send` with deadlines."""

    __slots__ = ("_limits", "_receive", "_send", "_streamed", "_until", "answered", "whole")

    def __init__(self, limits: ClientLimits, scope: Scope, receive: Receive, send: Send) -> None:
        self._limits, self._receive, self._send = limits, receive, send
        length = next((int(value) for name, value in scope["headers"] if name == b"content-length"), 0)
        self._until = asyncio.get_running_loop().time() + limits.body_seconds + length / BYTES_PER_SECOND
        self.answered = self.whole = self._streamed = False

    async def receive(self) -> Message:
        """The next piece of the body, or after the last one, the client's leaving. Raises BodyTooSlow."""
        if self.whole:
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._until):
                message = await self._receive()
        except TimeoutError:
            raise BodyTooSlow from None
        self.whole = message["type"] != "http.request" or not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        """Send a part of the answer. Raises AnswerNotRead."""
        if message["type"] == "http.response.start":
            self.answered = True
            if self._limits.ending:
                message = {**message, "headers": [*message["headers"], CLOSE]}
        self._streamed = self._streamed or message.get("more_body", False)
        if not self._streamed:  # the server takes a whole answer at once
            await self._send(message)
            return
        try:
            async with asyncio.timeout(self._limits.answer_seconds):
                await self._send(message)
        except TimeoutError:
            raise AnswerNotRead from None


async def refuse(
    send: Send, status: int, why: str, *headers: tuple[bytes, bytes], media_type: bytes = b"text/plain; charset=utf-8"
) -> None:
    """Answer with a status and a sentence."""
    text = why.encode()
    all_headers = [(b"content-type", media_type), (b"content-length", str(len(text)).encode()), *headers]
    await send({"type": "http.response.start", "status": status, "headers": all_headers})
    await send({"type": "http.response.body", "body": text})
