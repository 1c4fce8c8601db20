"""One connection of the web server: uvicorn's own, with a deadline for whatever its client may keep the server waiting for.

uvicorn waits for ever for a request's head, for its body, and for a client to read an answer. Here each of these has its time, a head
has its size, and only so many connections are open at once. A route of a short text is answered here, as soon as its body is there,
before any task is made for it and without a thread, as it asks the database nothing: that halves what HTTP costs beside a route. What
the fast lane leaves, the API's own view answers.
"""

import asyncio
import io
import math
from typing import TYPE_CHECKING, Any, ClassVar

from django.conf import settings
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from routerweb import threads, wsgi
from routerweb.bodies import Body
from training_app.answering import serving
from training_app.api import fast_lane

if TYPE_CHECKING:
    from uvicorn import Config
    from uvicorn.server import ServerState

#: A request's line and headers, in bytes.
LONGEST_HEAD = 64 * 1024
#: A slow line is given a second for each so many bytes that a body says it has, on top of BODY_SECONDS.
BYTES_A_SECOND = 64 * 1024
#: Bodies above it, and batches, are answered by a thread, so that routing a long text or many holds up nobody.
SHORT_BYTES = 4 * 1024
#: A chunked body's framing beyond what it carries, in bytes.
MOST_FRAMING = 64 * 1024
#: Requests that a client may send ahead of their answers.
MOST_AHEAD = 16

NEVER = math.inf


class Times:
    """Seconds that a client has for each part of its request; read once, as settings are slow to ask for."""

    def __init__(self) -> None:
        self.head, self.body = settings.HEAD_SECONDS, settings.BODY_SECONDS
        self.answer, self.keep_alive = settings.ANSWER_SECONDS, settings.KEEP_ALIVE_SECONDS


class Connection(HttpToolsProtocol):
    """`due` is when the client has to be done with what the server waits for, in the loop's seconds."""

    _made: ClassVar[bytes] = b""
    _made_for: ClassVar[list[tuple[bytes, bytes]] | None] = None

    def __init__(
        self, config: "Config", server_state: "ServerState", app_state: dict[str, Any], _loop: Any = None
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.due = NEVER
        self.times = Times()
        self.begun, self.in_head = False, True
        self.refused = False
        self.answering = False
        self.short_body: bytearray | None = None
        self._head_left = LONGEST_HEAD
        self._framing_left = MOST_FRAMING

    # --- What uvicorn calls ---------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request; beyond WEB_CONNECTIONS the connection that has kept the server waiting longest goes."""
        super().connection_made(transport)
        self.due = self.loop.time() + self.times.head
        if len(self.connections) > settings.WEB_CONNECTIONS:
            waiting = [other for other in self.connections if isinstance(other, Connection) and other.due < NEVER]
            min(waiting, key=lambda other: other.due).transport.abort()

    def data_received(self, data: bytes) -> None:
        """Read on, within the bounds of a head and of a body's framing."""
        if self.refused:
            return
        if self.in_head:
            self._head_left -= len(data)
        else:
            self._framing_left -= len(data)
        super().data_received(data)
        if self.parser is None or self.transport.is_closing():
            return
        if (self._head_left < 0 and self.in_head) or self._framing_left < 0:
            self.refuse(431, "The head of this request is too large.")
        elif len(self.pipeline) > MOST_AHEAD:
            self.transport.abort()

    def on_message_begin(self) -> None:
        """A request begins: its head has HEAD_SECONDS from its first byte on."""
        super().on_message_begin()
        self.begun = True
        self.due = self.loop.time() + self.times.head

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header of the head; what a chunked body trails is left out."""
        if self.in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Choose who answers; the body has its own time from here on."""
        self.in_head = False
        self._framing_left = MOST_FRAMING
        announced = _length(self.headers)
        self.due = self.loop.time() + self.times.body + announced / BYTES_A_SECOND
        small = 0 < announced <= SHORT_BYTES
        if (
            small
            and self.url == fast_lane.ROUTE
            and not self.answering
            and not self.expect_100_continue
            and serving.loaded()
        ):
            self.short_body = bytearray()
        else:
            super().on_headers_complete()
            self.answering = True

    def on_body(self, body: bytes) -> None:
        """Keep a piece of the body."""
        self._framing_left += 2 * len(body)
        if self.short_body is not None:
            self.short_body += body
        else:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is whole: it has all the time that its answer takes."""
        self.due, self.in_head, self._head_left = NEVER, True, LONGEST_HEAD
        if self.short_body is None:
            super().on_message_complete()
            return
        body, self.short_body = bytes(self.short_body), None
        self.transport.write(self._in_lane(body) or self._by_view(body))
        self.server_state.total_requests += 1
        if self.parser.should_keep_alive():
            self.begun, self.due = False, self.loop.time() + self.times.keep_alive
        else:
            self.close()

    def on_response_complete(self) -> None:
        """An answer of Django's is on its way: wait for the next request, or for the client to have read it."""
        super().on_response_complete()
        self._unset_keepalive_if_required()
        self.answering = not self.cycle.response_complete
        if self.transport.is_closing():
            self.due = self.loop.time() + self.times.answer
        elif not self.answering:
            self.begun = False
            self.due = self.loop.time() + self.times.keep_alive

    def pause_writing(self) -> None:
        """The client reads slower than it is answered."""
        super().pause_writing()
        self.due = self.loop.time() + self.times.answer

    def resume_writing(self) -> None:
        """The client has read on."""
        super().resume_writing()
        self.due = NEVER if self.answering else self.loop.time() + self.times.keep_alive

    def shutdown(self) -> None:
        """The server ends: an answer that is being made is waited for, a request that is not whole is not."""
        if self.answering and (self.cycle.response_started or not self.cycle.more_body):
            super().shutdown()
        else:
            self.close()

    # --- Deadlines ------------------------------------------------------------------------------------------------

    def expire(self) -> None:
        """The client is late. Where it can still be told so it is; what it did not read is thrown away."""
        unread = self.transport.get_write_buffer_size() > 0 or self.transport.is_closing()
        if unread or (self.answering and self.cycle.response_started):
            self.transport.abort()
        elif self.answering and not self.cycle.more_body:
            self.due = NEVER  # it sent the beginning of another request, which can wait for this one's answer
        elif self.begun:
            self.refuse(408, "This request took too long to arrive.")
        else:
            self.close()

    def refuse(self, status: int, why: str) -> None:
        """Answer a request that is not whole, and read no more of it."""
        self.refused = True
        text = why.encode()
        head = b"Content-Type: text/plain; charset=utf-8\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(text)
        self.transport.write(b"".join([STATUS_LINE[status], *self._dated(), head, text]))
        self.close()

    def close(self) -> None:
        """Close once what was written has been read, which has its time too."""
        self.due = self.loop.time() + self.times.answer
        self.transport.close()

    def _in_lane(self, body: bytes) -> bytes | None:
        """The fast lane's answer; None where it is off, or leaves the request."""
        if not fast_lane.takes(self.url):
            return None
        answer = fast_lane.answer(self.parser.get_method(), self.url, self.headers, body, self.scheme or "http")
        if answer is None:
            return None
        return b"%b%bcontent-length: %d\r\n\r\n%b" % (STATUS_LINE[200], self._routed_head(), len(answer), answer)

    def _by_view(self, body: bytes) -> bytes:
        """The view's answer."""
        scope = {**self.scope, "method": self.parser.get_method().decode(), "raw_path": self.url, "query_string": b""}
        found = threads.answer(wsgi.application, scope, Body(io.BytesIO(body), len(body), whole=True))
        head = b"".join(b"%b: %b\r\n" % header for header in [*self.server_state.default_headers, *found.headers])
        with found.file as file:
            return b"%b%b\r\n%b" % (STATUS_LINE[found.status], head, file.read())

    def _routed_head(self) -> bytes:
        """The headers of every route, made anew only with the second that they name."""
        dated = self.server_state.default_headers
        if Connection._made_for is not dated:
            fixed = [header for header in fast_lane.headers(0) if header[0] != b"content-length"]
            Connection._made = b"".join(b"%b: %b\r\n" % header for header in [*dated, *fixed])
            Connection._made_for = dated
        return Connection._made

    def _dated(self) -> list[bytes]:
        return [b"%b: %b\r\n" % header for header in self.server_state.default_headers]


def expire(connections: set[Any], now: float) -> None:
    """End every connection whose client is late; to be called about once a second."""
    for connection in [one for one in connections if one.due < now]:
        connection.expire()


def _length(headers: list[tuple[bytes, bytes]]) -> int:
    """The length that a body says it has, 0 where it says none; the parser let only digits through."""
    return next((int(value) for name, value in headers if name == b"content-length"), 0)
