"""Calls to addresses that somebody typed in, on an event loop: the same guard, for hundreds of calls at once.

Checked as there: each name's addresses when it is connected to, no redirect, no proxy of the environment. A call has one deadline
from the look-up to the last byte, and its answer a largest size. Over asyncio's own transports and the parser that the web server
reads with: a hundred calls at once through httpx take a hundred times the work of one.
"""

import asyncio
import ssl
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, lru_cache
from urllib.parse import SplitResult

import httptools
import httpx

from agents_app.outbound import guard

#: Names that are looked up at the same time.
LOOK_UPS = 8
#: An idle connection is kept for so long: servers close theirs after five seconds or more.
IDLE_SECONDS = 3.0
#: A name's addresses, once checked, are good for so long.
FRESH_SECONDS = 2.0
#: An answer's line and headers, in bytes.
LONGEST_HEAD = 64 * 1024

Server = tuple[bool, str, int]  # whether by TLS, host, port


class CallFault(Exception):
    """A call without a whole answer, why in a word (`calls.FAILURES`) and in a sentence."""

    def __init__(self, kind: str, why: str) -> None:
        super().__init__(why)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer; header names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Client:
    """Calls from one event loop; connections are kept for a few seconds."""

    def __init__(self) -> None:
        self._idle: dict[Server, list[_Connection]] = {}
        self._looked_up: dict[tuple[str, int], tuple[float, asyncio.Future[list[str]]]] = {}
        self._look_ups = ThreadPoolExecutor(LOOK_UPS, thread_name_prefix="look-up")

    async def post(
        self, url: str, body: bytes, headers: Mapping[str, str], *, seconds: float, most_bytes: int
    ) -> Answer:
        """The whole answer to a POST within so many seconds. Raises CallFault, and guard.Refused for an address not allowed."""
        server, host, target = _to(guard.check_url(url))
        fields = {"Host": host, "User-Agent": "Routerweb", "Accept-Encoding": "identity", **headers}
        fields["Content-Length"] = str(len(body))
        request = _request(target, fields) + body
        connection: _Connection | None = None
        try:
            async with asyncio.timeout(seconds):
                connection = self._kept(server) or await self._connected(server)
                answer = await connection.exchange(request, most_bytes)
        except TimeoutError:
            if connection is None:
                raise CallFault("unreachable", f"no connection within {seconds:g} seconds") from None
            raise CallFault("timeout", f"no whole answer within {seconds:g} seconds") from None
        finally:
            if connection is not None:
                self._keep(server, connection)
        return answer

    async def close(self) -> None:
        """Let every connection go."""
        for connections in self._idle.values():
            for connection in connections:
                connection.abort()
        self._idle.clear()
        self._look_ups.shutdown(wait=False)

    def _kept(self, server: Server) -> "_Connection | None":
        """A connection that was used a moment ago, the last one first; what is too old goes."""
        idle = self._idle.get(server, [])
        while idle:
            connection = idle.pop()
            if connection.fit:
                return connection
            connection.abort()
        return None

    def _keep(self, server: Server, connection: "_Connection") -> None:
        if not connection.done:
            connection.abort()
            return
        idle = self._idle.setdefault(server, [])
        connection.since = asyncio.get_running_loop().time()
        idle.append(connection)
        while idle and not idle[0].fit:
            idle.pop(0).abort()

    async def _connected(self, server: Server) -> "_Connection":
        by_tls, host, port = server
        loop = asyncio.get_running_loop()
        try:
            found = await self._addresses(host, port)
        except OSError as error:
            raise CallFault("unreachable", guard.plain_words(error)) from None
        why = "the name has no address"
        for address in found:
            try:
                _transport, connection = await loop.create_connection(
                    _Connection,
                    address,
                    port,
                    ssl=_context() if by_tls else None,
                    server_hostname=host if by_tls else None,
                )
            except OSError as error:  # ssl's errors are among them
                why = guard.plain_words(error)
            else:
                return connection
        raise CallFault("unreachable", why)

    async def _addresses(self, host: str, port: int) -> list[str]:
        """The checked addresses of a name; who asks within FRESH_SECONDS of another shares its look-up, and connects to what it
        checked."""
        loop = asyncio.get_running_loop()
        until, looked_up = self._looked_up.get((host, port), (0.0, None))
        if looked_up is None or loop.time() > until:
            looked_up = loop.run_in_executor(self._look_ups, guard.addresses, host, port)
            self._looked_up[host, port] = loop.time() + FRESH_SECONDS, looked_up
        # One caller's deadline must not end the look-up for the others.
        return await asyncio.shield(looked_up)


class _Connection(asyncio.Protocol):
    """One connection, for one exchange after another."""

    def __init__(self) -> None:
        self.since = 0.0
        self.done = False
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._future: asyncio.Future[Answer] | None = None

    @property
    def fit(self) -> bool:
        """Whether another request may go out on it."""
        transport = self._transport
        open_ = transport is not None and not transport.is_closing()
        return self.done and open_ and self._loop.time() - self.since < IDLE_SECONDS

    def abort(self) -> None:
        """Let it go at once."""
        if self._transport is not None:
            self._transport.abort()

    async def exchange(self, request: bytes, most_bytes: int) -> Answer:
        """Send a request and wait for its answer. Raises CallFault."""
        self.done = False
        self._parser = httptools.HttpResponseParser(self)
        self._headers: dict[str, str] = {}
        self._pieces: list[bytes] = []
        self._left, self._head_left = most_bytes, LONGEST_HEAD
        self._most = most_bytes
        self._in_head = True
        self._future = self._loop.create_future()
        assert self._transport is not None
        if self._transport.is_closing():
            raise CallFault("cut_off", "the connection was closed")
        self._transport.write(request)
        return await self._future

    # --- What asyncio calls ---------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is there."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Some of the answer came."""
        if self._future is None or self._future.done():
            self.abort()  # nobody asked for more
            return
        if self._in_head:
            self._head_left -= len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail("malformed", f"the answer is no HTTP: {error}")
        if self._in_head and self._head_left < 0:
            self._fail("too_large", "the head of the answer is too large")

    def connection_lost(self, error: Exception | None) -> None:
        """It is gone; an answer that does not tell its length ends with it."""
        if self._future is None or self._future.done():
            return
        if not self._in_head and not {"content-length", "transfer-encoding"} & self._headers.keys():
            self._complete()
        else:
            self._fail(
                "cut_off",
                guard.plain_words(error) if error else "the connection was closed before the answer was whole",
            )

    # --- What the parser calls ------------------------------------------------------------------------------------

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header."""
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """The head is whole; an interim answer's is only the first."""
        self._in_head = self._parser.get_status_code() < 200

    def on_body(self, piece: bytes) -> None:
        """Some of the body."""
        self._left -= len(piece)
        if self._left < 0:
            self._fail("too_large", f"the answer is larger than {self._most // 1024:,} KiB")
        else:
            self._pieces.append(piece)

    def on_message_complete(self) -> None:
        """The answer is whole."""
        if self._in_head:
            self._headers = {}
        else:
            self.done = self._parser.should_keep_alive()
            self._complete()

    def _complete(self) -> None:
        if self._future is not None and not self._future.done():
            self._future.set_result(Answer(self._parser.get_status_code(), self._headers, b"".join(self._pieces)))

    def _fail(self, kind: str, why: str) -> None:
        if self._future is not None and not self._future.done():
            self._future.set_exception(CallFault(kind, why))
        self.abort()


@lru_cache(maxsize=256)
def _to(parts: SplitResult) -> tuple[Server, str, str]:
    """Where a request to an address goes: the server, the header Host, and the request's target."""
    server = parts.scheme == "https", (parts.hostname or "").lower(), guard.port_of(parts)
    return server, parts.netloc, (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def _request(target: str, fields: Mapping[str, str]) -> bytes:
    """A request's head. Raises CallFault for what HTTP cannot carry."""
    lines = [f"POST {target} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
    if any("\r" in line or "\n" in line for line in lines):
        raise CallFault("refused", "a header holds a line's end")
    try:
        return "\r\n".join([*lines, "", ""]).encode("ascii")
    except UnicodeEncodeError:
        raise CallFault("refused", "the address or a header holds characters that HTTP cannot carry") from None


@cache
def _context() -> ssl.SSLContext:
    return httpx.create_ssl_context(trust_env=False)
