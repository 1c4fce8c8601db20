"""The one guard for calls to addresses that somebody typed in: nobody borrows this server's place in the network.

A name is resolved once, every address that it has must be one of the internet's, and the connection goes to an address that was
checked: a name that changes its mind in between leads nowhere else. TLS and the Host header keep the name. No redirect is followed,
and no proxy of the environment is asked. All of a call, from the name's look-up to the last byte, has one deadline: a server that
sends its answer drop by drop does not outlast it.

INTERNAL_HOSTS exempts hosts and networks of one's own, and LLM_BASE_URL the one server that it names: whoever runs the site set
them. Those may be spoken to by plain http, and what they reply may stand on a page.
"""

import contextlib
import ipaddress
import logging
import queue
import socket
import threading
import time
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from ssl import SSLContext
from typing import Any
from urllib.parse import SplitResult, urlsplit

import httpcore
import httpx
from django.conf import settings
from django.utils.translation import gettext as _

logger = logging.getLogger(__name__)

SECONDS = 5.0
READ = 2_000  # bytes of the answer to a post that are looked at
IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
#: Host and port of a server of one's own network that certain calls alone may reach.
Server = tuple[str, int]

# Beyond what Python calls not global: IETF's own, relays to other networks, what only looks like the internet.
_NO_IPV4 = tuple(map(ipaddress.IPv4Network, ("100.64.0.0/10", "192.0.0.0/24", "192.88.99.0/24", "240.0.0.0/4")))
_IPV6 = ipaddress.IPv6Network("2000::/3")  # what IANA has given out; all else is inside, local, or nobody's
_NO_IPV6 = tuple(map(ipaddress.IPv6Network, ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")))
# Networks without IPv4 reach it through this prefix (RFC 6052), so what it wraps decides.
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


class Refused(ValueError):
    """An address that is not called; the message says why, and tells nothing of the network inside."""


# --- Addresses ----------------------------------------------------------------------------------------------------


def check_url(url: str, *, plain: bool = False, own_server: Server | None = None) -> SplitResult:
    """The parts of an address that may be called, before its name is resolved. `plain`: http will do. `own_server`: one that may be
    called as if it were listed. Raises Refused."""
    parts = _parts(url)
    if parts.scheme == "http" and not plain and not listed(parts.hostname or "", port_of(parts), own_server):
        raise Refused(
            _("The address must begin with https://. Plain http is for hosts that the setting INTERNAL_HOSTS names.")
        )
    return parts


@lru_cache(maxsize=256)
def _parts(url: str) -> SplitResult:
    """The parts of what looks like an address; the same few are called again and again. Raises Refused."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise Refused(_("This is not an address. Expected one like https://example.com/path.")) from None
    if parts.scheme not in ("https", "http") or not parts.hostname or port == 0:
        raise Refused(_("The address must begin with https:// and name a host."))
    if parts.username is not None or parts.password is not None:
        raise Refused(_("The address must not hold a user name or a password."))
    if any(ord(character) <= 32 or ord(character) == 127 for character in url):
        raise Refused(_("The address must not hold spaces or control characters."))
    return parts


def port_of(parts: SplitResult) -> int:
    """The port that an address leads to."""
    return parts.port or (443 if parts.scheme == "https" else 80)


def check(url: str, *, plain: bool = False, seconds: float = SECONDS, own_server: Server | None = None) -> None:
    """Whether an address may be called today, its name resolved. Raises Refused, and OSError where nobody has that name."""
    parts = check_url(url, plain=plain, own_server=own_server)
    addresses(parts.hostname or "", port_of(parts), seconds, own_server)


def listed(host: str, port: int, own_server: Server | None = None) -> bool:
    """Whether who runs the site has named this host in the settings, by name, number or network, or it is `own_server`."""
    host = host.lower().rstrip(".")
    if own_server == (host, port):
        return True
    named = urlsplit(settings.LLM_BASE_URL)
    if (host, port) == ((named.hostname or "").rstrip("."), port_of(named)):
        return True
    names = {name.lower() for name in settings.INTERNAL_HOSTS}
    shown = f"[{host}]" if ":" in host else host
    if names & {host, shown, f"{shown}:{port}"}:
        return True
    try:
        return _in_networks(ipaddress.ip_address(host), names)
    except ValueError:
        return False


def _in_networks(ip: IPAddress, names: Iterable[str]) -> bool:
    return any("/" in name and ip in ipaddress.ip_network(name, strict=False) for name in names)


def addresses(host: str, port: int, seconds: float = SECONDS, own_server: Server | None = None) -> list[str]:
    """The addresses of a host, each checked. Raises Refused where one is not public, OSError where the name is unknown."""
    resolved = _resolved(host, port, seconds)
    if not listed(host, port, own_server):
        for address in resolved:
            if not public(address) and not _in_networks(_number(address), settings.INTERNAL_HOSTS):
                logger.warning("Not called: %s leads to %s", host, address)
                raise Refused(
                    _(
                        "%(host)s is not on the internet. To call a host of your own network, have whoever runs this site "
                        "name it in the setting INTERNAL_HOSTS."
                    )
                    % {"host": host}
                )
    return resolved


def _resolved(host: str, port: int, seconds: float) -> list[str]:
    """A name's addresses, within so many seconds: the system's look-up knows no time-out, so a thread of its own waits for it."""
    answers: queue.SimpleQueue[list[str] | OSError] = queue.SimpleQueue()

    def look_up() -> None:
        try:
            answers.put([str(entry[4][0]) for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)])
        except OSError as error:
            answers.put(error)
        except UnicodeError:
            answers.put(OSError("Name or service not known"))

    threading.Thread(target=look_up, name="look-up", daemon=True).start()
    try:
        answer = answers.get(timeout=max(seconds, 0.0))
    except queue.Empty:
        raise TimeoutError("the name was not resolved in time") from None
    if isinstance(answer, OSError):
        raise answer
    return answer


def _number(address: str) -> IPAddress:
    return ipaddress.ip_address(address.partition("%")[0])


def public(address: str) -> bool:
    """Whether an IP address is one of the internet's, also where it wraps an IPv4 address."""
    ip = _number(address)
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.ipv4_mapped is not None:
            return public(str(ip.ipv4_mapped))
        if ip in _NAT64:
            return public(str(ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)))
        return ip in _IPV6 and ip.is_global and not any(ip in network for network in _NO_IPV6)
    return ip.is_global and not ip.is_multicast and not any(ip in network for network in _NO_IPV4)


# --- Calls --------------------------------------------------------------------------------------------------------


@cache
def tls_context() -> SSLContext:
    """Whom connections trust: reading the authorities takes 60 ms, so a process does it once."""
    return httpx.create_ssl_context(trust_env=False)


class Transport(httpx.HTTPTransport):
    """What an httpx client calls through, one call at a time: checks where it connects, and holds to one deadline a call.

    `seconds` are a call's in all; a request that carries the extension "until", in time.monotonic()'s seconds, may have less.
    """

    def __init__(self, seconds: float = SECONDS, *, plain: bool = False, own_server: Server | None = None) -> None:
        super().__init__(verify=tls_context(), trust_env=False)
        self._seconds, self._plain, self._own_server, self._clock = seconds, plain, own_server, _Clock()
        # httpx has no way of its own to hand on a network; a test sees that this one is asked.
        self._pool = httpcore.ConnectionPool(
            ssl_context=tls_context(), network_backend=_CheckedNetwork(self._clock, own_server)
        )

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        check_url(str(request.url), plain=self._plain, own_server=self._own_server)
        until = time.monotonic() + self._seconds
        self._clock.until = min(until, request.extensions.get("until", until))
        return super().handle_request(request)


class _Clock:
    """When the call under way has to be over."""

    def __init__(self) -> None:
        self.until = 0.0

    def left(self, timeout: float | None, late: type[httpcore.TimeoutException]) -> float:
        seconds = self.until - time.monotonic()
        if seconds <= 0:
            raise late("the time for the whole call is over")
        return seconds if timeout is None else min(seconds, timeout)


class _CheckedNetwork(httpcore.NetworkBackend):
    def __init__(self, clock: _Clock, own_server: Server | None = None) -> None:
        self._clock, self._own_server, self._network = clock, own_server, httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        try:
            candidates = addresses(host, port, self._clock.left(timeout, httpcore.ConnectTimeout), self._own_server)
        except TimeoutError as error:
            raise httpcore.ConnectTimeout(str(error)) from None
        except OSError as error:
            raise httpcore.ConnectError(str(error)) from None
        failed: httpcore.ConnectError | None = None
        for address in candidates:
            seconds = self._clock.left(timeout, httpcore.ConnectTimeout)
            try:
                stream = self._network.connect_tcp(address, port, seconds, local_address, socket_options)
            except httpcore.ConnectError as error:
                failed = error
            else:
                return _TimedStream(stream, self._clock)
        raise failed or httpcore.ConnectError("the name has no address")


class _TimedStream(httpcore.NetworkStream):
    def __init__(self, stream: httpcore.NetworkStream, clock: _Clock) -> None:
        self._stream, self._clock = stream, clock

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, self._clock.left(timeout, httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, self._clock.left(timeout, httpcore.WriteTimeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        seconds = self._clock.left(timeout, httpcore.ConnectTimeout)
        return _TimedStream(self._stream.start_tls(ssl_context, server_hostname, seconds), self._clock)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


def client(seconds: float = SECONDS, *, plain: bool = False) -> httpx.Client:
    """A client of which each call is checked and takes `seconds` at most. Redirects are answers."""
    transport = Transport(seconds, plain=plain)
    return httpx.Client(transport=transport, timeout=seconds, follow_redirects=False, trust_env=False)


def post(url: str, body: bytes, headers: Mapping[str, str]) -> tuple[int, str]:
    """Post a body, within SECONDS; the answer's status, and of a listed host its first words.

    Raises Refused for an address that is not allowed, and OSError for one that does not answer.
    """
    parts = check_url(url)
    reply = b""
    try:
        with (
            client(SECONDS) as calling,
            calling.stream("POST", url, content=body, headers={"User-Agent": "Routerweb", **headers}) as answer,
        ):
            if listed(parts.hostname or "", port_of(parts)):
                with contextlib.suppress(httpx.TimeoutException):
                    for piece in answer.iter_bytes(READ):
                        reply += piece
                        if len(reply) >= READ:
                            break
            return answer.status_code, reply[:READ].decode("utf-8", "replace")
    except httpx.TimeoutException:
        raise TimeoutError(_("no answer within %(seconds)g seconds") % {"seconds": SECONDS}) from None
    except httpx.InvalidURL:
        raise Refused(_("This is not an address. Expected one like https://example.com/path.")) from None
    except httpx.HTTPError as error:
        raise ConnectionError(plain_words(error)) from None


def plain_words(error: Exception) -> str:
    """Why there is no connection, in a few words: "[Errno 111] Connection refused" without its number."""
    return str(error).partition("] ")[2] or str(error) or type(error).__name__
