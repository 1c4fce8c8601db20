"""Calls to addresses that somebody typed in, from an event loop: httpx behind the same guard, for hundreds of calls at once.

Checked as in `guard`: the addresses of a name before one of them is connected to, no redirect, no proxy of the environment. A call has
one deadline from the look-up to the last byte, and its answer a largest size.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import httpcore
import httpx

from agents_app.outbound import guard

#: Names that are looked up at the same time.
LOOK_UPS = 8
#: An idle connection is kept for so long: servers close theirs after five seconds or more.
IDLE_SECONDS = 3.0
#: The addresses of a name are used for so long after they were checked.
FRESH_SECONDS = 2.0

Origin = tuple[str, str, int]  # scheme, host, port

HEADERS = {"User-Agent": "Routerweb", "Accept": "*/*", "Accept-Encoding": "identity"}


class CallFault(Exception):
    """A call without a whole answer: the reason in a word (`orchestration_app.calls.parts.FAILURES`) and in a sentence."""

    def __init__(self, kind: str, why: str) -> None:
        super().__init__(why)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class HttpReply:
    """A whole answer; header names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Transport(httpx.AsyncBaseTransport):
    """What an asynchronous httpx client calls through: it connects to checked addresses only.

    Each call under way has a pool of one connection; a finished call leaves it to the next one to the same server. One pool for all
    would look at every connection for every call: with 100 calls at once that takes seven times the work, with 300 they time out.
    """

    def __init__(self, *, plain: bool = False, own_server: guard.Server | None = None) -> None:
        self._plain, self._own_server, self._network = plain, own_server, _CheckedNetwork(own_server)
        guard.tls_context()  # reading the certificates takes a moment, which is not to be a call's
        self._idle: dict[Origin, list[tuple[float, _OneConnection]]] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """The answer, its body not read yet. Raises guard.Refused and httpx's errors."""
        parts = guard.check_url(str(request.url), plain=self._plain, own_server=self._own_server)
        origin = parts.scheme, parts.hostname or "", guard.port_of(parts)
        connection = await self._kept(origin) or _OneConnection(self._network)
        try:
            answer = await connection.handle_async_request(request)
        except BaseException:
            await connection.aclose()
            raise
        assert isinstance(answer.stream, httpx.AsyncByteStream)
        answer.stream = _Stream(answer.stream, lambda: self._keep(origin, connection))
        return answer

    async def _kept(self, origin: Origin) -> "_OneConnection | None":
        """A connection that was used a moment ago, the last one first."""
        now, idle = asyncio.get_running_loop().time(), self._idle.get(origin, [])
        while idle and idle[0][0] < now - IDLE_SECONDS:
            await idle.pop(0)[1].aclose()
        return idle.pop()[1] if idle else None

    def _keep(self, origin: Origin, connection: "_OneConnection") -> None:
        self._idle.setdefault(origin, []).append((asyncio.get_running_loop().time(), connection))

    async def aclose(self) -> None:
        """Close every connection that is not in use."""
        for _since, connection in (pair for idle in self._idle.values() for pair in idle):
            await connection.aclose()
        self._idle.clear()
        self._network.close()


class _OneConnection(httpx.AsyncHTTPTransport):
    """One connection at a time, through the checked network."""

    def __init__(self, network: "_CheckedNetwork") -> None:
        super().__init__(verify=guard.tls_context(), trust_env=False)
        # httpx accepts no network of a caller's, so the pool is replaced; a test sees that this one is used.
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=guard.tls_context(), max_connections=1, keepalive_expiry=IDLE_SECONDS, network_backend=network
        )


class _Stream(httpx.AsyncByteStream):
    """The body of an answer; `closed` is called when its connection is free."""

    def __init__(self, stream: httpx.AsyncByteStream, closed: Callable[[], None]) -> None:
        self._stream, self._closed = stream, closed

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._stream:
            yield piece

    async def aclose(self) -> None:
        await self._stream.aclose()
        self._closed()


class _CheckedNetwork(httpcore.AsyncNetworkBackend):
    """Connects to the addresses that `guard.addresses` has checked, never to a name."""

    def __init__(self, own_server: guard.Server | None) -> None:
        self._network, self._own_server = httpcore.AnyIOBackend(), own_server
        self._looked_up: dict[tuple[str, int], tuple[float, asyncio.Future[list[str]]]] = {}
        self._look_ups = ThreadPoolExecutor(LOOK_UPS, thread_name_prefix="look-up")

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        try:
            addresses = await self._addresses(host, port)
        except OSError as error:
            raise httpcore.ConnectError(str(error)) from None
        failed = httpcore.ConnectError("the name has no address")
        for address in addresses:
            try:
                return await self._network.connect_tcp(address, port, timeout, local_address, socket_options)
            except httpcore.ConnectError as error:
                failed = error
        raise failed

    async def _addresses(self, host: str, port: int) -> list[str]:
        """The checked addresses of a name. Callers within FRESH_SECONDS share a look-up, and connect to what it checked."""
        loop = asyncio.get_running_loop()
        until, looked_up = self._looked_up.get((host, port), (0.0, None))
        if looked_up is None or loop.time() > until:
            look_up = partial(guard.addresses, host, port, own_server=self._own_server)
            looked_up = loop.run_in_executor(self._look_ups, look_up)
            self._looked_up[host, port] = loop.time() + FRESH_SECONDS, looked_up
        # One caller's deadline must not end the look-up for the others.
        return await asyncio.shield(looked_up)

    def close(self) -> None:
        self._look_ups.shutdown(wait=False)


class Client:
    """Calls from one event loop; connections are kept for a few seconds. `own_server` may be called though it is not on the
    internet."""

    def __init__(self, own_server: guard.Server | None = None) -> None:
        self._own_server = own_server
        self._client = httpx.AsyncClient(
            transport=Transport(own_server=own_server),
            timeout=None,  # noqa: S113 - each call has its deadline
            follow_redirects=False,
            trust_env=False,
            headers=HEADERS,
        )

    async def post(
        self,
        url: str,
        body: bytes,
        headers: Mapping[str, str],
        *,
        seconds: float,
        most_bytes: int,
        method: str = "POST",
    ) -> HttpReply:
        """The whole answer to a POST within so many seconds, or to a request by another method. Raises CallFault, and guard.Refused
        for an address not allowed."""
        guard.check_url(url, own_server=self._own_server)
        connected = False

        async def trace(event: str, _details: Any) -> None:
            nonlocal connected
            connected = connected or event == "http11.send_request_headers.started"

        try:
            async with (
                asyncio.timeout(seconds),
                self._client.stream(method, url, content=body, headers=headers, extensions={"trace": trace}) as answer,
            ):
                return HttpReply(answer.status_code, dict(answer.headers), await _read(answer, most_bytes))
        except TimeoutError:
            if not connected:
                raise CallFault("unreachable", f"no connection within {seconds:g} seconds") from None
            raise CallFault("timeout", f"no whole answer within {seconds:g} seconds") from None
        except (httpx.InvalidURL, httpx.LocalProtocolError, UnicodeEncodeError):
            raise CallFault("refused", "the address or a header holds characters that HTTP cannot carry") from None
        except httpx.TransportError as error:
            raise _fault(error) from None

    @asynccontextmanager
    async def streamed(
        self, url: str, body: bytes, headers: Mapping[str, str], *, seconds: float
    ) -> AsyncIterator[tuple[int, Mapping[str, str], AsyncIterator[bytes]]]:
        """The status of an answer to a POST, its headers (names in lower case), and its body piece by piece, all within so many
        seconds. Raises as `post` does."""
        guard.check_url(url, own_server=self._own_server)
        try:
            async with (
                asyncio.timeout(seconds),
                self._client.stream("POST", url, content=body, headers=headers) as answer,
            ):
                yield answer.status_code, dict(answer.headers), answer.aiter_raw()
        except TimeoutError:
            raise CallFault("timeout", f"no whole answer within {seconds:g} seconds") from None
        except (httpx.InvalidURL, httpx.LocalProtocolError, UnicodeEncodeError):
            raise CallFault("refused", "the address or a header holds characters that HTTP cannot carry") from None
        except httpx.TransportError as error:
            raise _fault(error) from None

    async def close(self) -> None:
        """Close every connection."""
        await self._client.aclose()


async def _read(answer: httpx.Response, most_bytes: int) -> bytes:
    """The body of an answer. Raises CallFault where it is larger than `most_bytes`."""
    if int(answer.headers.get("content-length", 0)) > most_bytes:
        raise _too_large(most_bytes)
    pieces, remaining = [], most_bytes
    async for piece in answer.aiter_raw():
        remaining -= len(piece)
        if remaining < 0:
            raise _too_large(most_bytes)
        pieces.append(piece)
    return b"".join(pieces)


def _too_large(most_bytes: int) -> CallFault:
    return CallFault("too_large", f"the answer is larger than {most_bytes // 1024:,} KiB")


def _fault(error: httpx.TransportError) -> CallFault:
    """Why a call that httpx gave up has no answer."""
    words = guard.plain_words(error)
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
        return CallFault("unreachable", words)
    if not isinstance(error, httpx.RemoteProtocolError):
        return CallFault("cut_off", words)
    if "too long" in words:  # h11's words for a head without end
        return CallFault("too_large", "the head of the answer is too large")
    if "disconnected" in words or "closed" in words:
        return CallFault("cut_off", "the connection was closed before the answer was whole")
    return CallFault("malformed", f"the answer is no HTTP: {words}")
