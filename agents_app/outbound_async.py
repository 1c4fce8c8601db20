"""Calls to addresses that somebody typed in, on an event loop: the guard of `outbound`, for many calls at once.

Checked as there: each name's addresses when it is connected to, no redirect, no proxy of the environment. A call has one deadline
from the look-up to the last byte, and its answer a largest size. httpcore alone, without httpx: it is a third of the work a call.
"""

import asyncio
import ssl
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import httpcore
import httpx

from agents_app import outbound

#: Names that are looked up at the same time.
LOOK_UPS = 8
#: An idle connection is kept for so long: servers close theirs after five seconds or more.
IDLE_SECONDS = 3.0


class CallFault(Exception):
    """A call without a whole answer. `sent` tells whether it may have reached who was called."""

    def __init__(self, kind: str, why: str, *, sent: bool) -> None:
        super().__init__(why)
        self.kind, self.sent = kind, sent


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer; header names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Client:
    """Calls from one event loop; connections are kept for a few seconds."""

    def __init__(self, most: int = 1_000) -> None:
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=_context(), network_backend=_CheckedNetwork(), max_connections=most,
            max_keepalive_connections=most, keepalive_expiry=IDLE_SECONDS,
        )  # fmt: skip

    async def post(
        self, url: str, body: bytes, headers: Mapping[str, str], *, seconds: float, most_bytes: int
    ) -> Answer:
        """The whole answer to a POST within so many seconds. Raises CallFault, and outbound.Refused for an address not allowed."""
        outbound.check_url(url)
        fields = [(b"User-Agent", b"Routerweb"), (b"Accept-Encoding", b"identity")]
        try:
            fields += [(name.encode("ascii"), value.encode("ascii")) for name, value in headers.items()]
        except UnicodeEncodeError:
            raise CallFault("refused", "a header holds characters that HTTP cannot carry", sent=False) from None
        sent = False
        try:
            async with asyncio.timeout(seconds):
                async with self._pool.stream("POST", url, headers=fields, content=body) as answer:
                    sent = True
                    return await _whole(answer, most_bytes)
        except TimeoutError:
            raise CallFault("timeout", f"no whole answer within {seconds:g} seconds", sent=True) from None
        except (httpcore.ConnectError, httpcore.ConnectTimeout, httpcore.PoolTimeout) as error:
            raise CallFault("unreachable", outbound.plain_words(error), sent=False) from None
        except httpcore.TimeoutException:
            raise CallFault("timeout", "no whole answer in time", sent=True) from None
        except (httpcore.NetworkError, httpcore.ProtocolError) as error:
            kind = "cut_off" if sent or not isinstance(error, httpcore.LocalProtocolError) else "refused"
            raise CallFault(kind, outbound.plain_words(error), sent=True) from None
        except httpcore.UnsupportedProtocol:
            raise CallFault("refused", "this is not an address that can be called", sent=False) from None

    async def close(self) -> None:
        """Let every connection go."""
        await self._pool.aclose()


async def _whole(answer: httpcore.Response, most_bytes: int) -> Answer:
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in answer.headers}
    pieces, size = [], 0
    async for piece in answer.aiter_stream():
        size += len(piece)
        if size > most_bytes:
            raise CallFault("too_large", f"the answer is larger than {most_bytes // 1024:,} KiB", sent=True)
        pieces.append(piece)
    return Answer(answer.status, headers, b"".join(pieces))


class _CheckedNetwork(httpcore.AsyncNetworkBackend):
    def __init__(self) -> None:
        self._network = httpcore.AnyIOBackend()
        self._look_ups = ThreadPoolExecutor(LOOK_UPS, thread_name_prefix="look-up")

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        loop = asyncio.get_running_loop()
        try:
            found = await loop.run_in_executor(self._look_ups, outbound.addresses, host, port)
        except TimeoutError as error:
            raise httpcore.ConnectTimeout(str(error)) from None
        except OSError as error:
            raise httpcore.ConnectError(str(error)) from None
        failed: Exception = httpcore.ConnectError("the name has no address")
        for address in found:
            try:
                return await self._network.connect_tcp(address, port, timeout, local_address, socket_options)
            except httpcore.ConnectError as error:
                failed = error
        raise failed

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def _context() -> ssl.SSLContext:
    return httpx.create_ssl_context(trust_env=False)
