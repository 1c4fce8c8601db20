"""Connections of the waiting client on which a call's deadline holds for all reads together, not for each of them again.

httpx passes one timeout for a whole phase on to every read in it, so a server that sends the head of its reply byte by byte would be
waited for without end. The timeout that `calls.Timeouts` gives is a `SecondsLeft`, and says at each read how many are left by then.
"""

import ssl
from collections.abc import Callable, Iterable
from typing import Any

import httpcore
import httpx


class SecondsLeft(float):
    """A number of seconds that shrinks: `now` tells how many are left."""

    now: Callable[[], float]

    def __new__(cls, now: Callable[[], float]) -> "SecondsLeft":
        """What is left at this moment, and a function that says so later. It returns 0 or less after the deadline."""
        timeout = super().__new__(cls, max(now(), SHORTEST_TIMEOUT))
        timeout.now = now
        return timeout


SHORTEST_TIMEOUT = 0.001  # seconds: 0 would mean that a socket does not wait at all


class _Stream(httpcore.NetworkStream):
    """A connection whose reads and writes ask what is left."""

    def __init__(self, stream: httpcore.NetworkStream) -> None:
        self._stream = stream

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, _left(timeout, httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, _left(timeout, httpcore.WriteTimeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        seconds = _left(timeout, httpcore.ConnectTimeout)
        return _Stream(self._stream.start_tls(ssl_context, server_hostname, seconds))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class _Backend(httpcore.SyncBackend):
    """Opens connections that are `_Stream`s."""

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        return _Stream(super().connect_tcp(host, port, timeout, local_address, socket_options))


def install(client: httpx.Client) -> None:
    """Have the client's connections, those through the environment's proxies too, keep to deadlines. httpx passes no backend on to
    httpcore, whose own parameter this is. A transport of the caller's own stays as it is."""
    for transport in (client._transport, *client._mounts.values()):
        pool = getattr(transport, "_pool", None)
        if isinstance(pool, httpcore.ConnectionPool):
            pool._network_backend = _Backend()


def _left(timeout: float | None, late: type[Exception]) -> float | None:
    if not isinstance(timeout, SecondsLeft):
        return timeout
    seconds = timeout.now()
    if seconds <= 0:
        raise late("the reply was not complete in time")
    return max(seconds, SHORTEST_TIMEOUT)
