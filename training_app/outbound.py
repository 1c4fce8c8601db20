"""Posting to an address that somebody typed in, without lending them this server's place in the network.

The name is resolved once, every address that it has must be a public one, and the connection goes to the address that was checked: a
name that changes its mind in between leads nowhere else. Redirects are not followed. Hosts that WEBHOOK_INTERNAL_HOSTS lists are
exempt, and may be spoken to by plain http.
"""

import contextlib
import http.client
import ipaddress
import socket
import ssl
import threading
from collections.abc import Mapping
from urllib.parse import SplitResult, urlsplit

from django.conf import settings
from django.utils.translation import gettext as _

SECONDS = 5.0
READ = 2_000  # bytes of the answer that are looked at
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


class Refused(ValueError):
    """An address that nothing is sent to; the message says why."""


def check_url(url: str) -> SplitResult:
    """The parts of an address that may be posted to, before its name is resolved. Raises Refused."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise Refused(_("This is not an address.")) from None
    if parts.scheme not in ("https", "http") or not parts.hostname or port == 0:
        raise Refused(_("The address must begin with https:// and name a host."))
    if parts.username or parts.password:
        raise Refused(_("The address must not hold a user name or a password."))
    if any(ord(character) <= 32 or ord(character) == 127 for character in url):
        raise Refused(_("The address must not hold spaces or control characters."))
    if parts.scheme == "http" and not _internal(parts.hostname):
        raise Refused(_("The address must begin with https://."))
    return parts


def addresses(host: str, port: int) -> list[str]:
    """The addresses of a host, each checked. Raises Refused where one is not public, OSError where the name is unknown."""
    found = [str(info[4][0]) for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    if not _internal(host):
        for address in found:
            if not public(address):
                raise Refused(
                    _("%(host)s leads to %(address)s, which is not a public address.")
                    % {"host": host, "address": address}
                )
    return found


def public(address: str) -> bool:
    """Whether an IP address is one of the internet's, also where it wraps an IPv4 address."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        inner = ip.ipv4_mapped or ip.sixtofour
        if ip in _NAT64:
            inner = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
        if inner is not None:
            return public(str(inner))
    return ip.is_global and not ip.is_multicast


def _internal(host: str) -> bool:
    return host.lower() in {name.lower() for name in settings.WEBHOOK_INTERNAL_HOSTS}


def post(url: str, body: bytes, headers: Mapping[str, str]) -> tuple[int, str]:
    """Post a body; the answer's status and its first words. Takes SECONDS at most once connected.

    Raises Refused for an address that is not allowed, OSError and http.client.HTTPException for one that does not answer.
    """
    parts = check_url(url)
    host = parts.hostname or ""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    plain = socket.create_connection((addresses(host, port)[0], port), timeout=SECONDS)
    with contextlib.closing(plain):
        end = threading.Timer(SECONDS, _hang_up, (plain,))
        end.daemon = True
        end.start()
        try:
            stream = plain
            if parts.scheme == "https":
                stream = ssl.create_default_context().wrap_socket(plain, server_hostname=host)
            connection = http.client.HTTPConnection(host, port, timeout=SECONDS)
            connection.sock = stream
            path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            connection.request("POST", path, body, {"Host": parts.netloc, "User-Agent": "Routerweb", **headers})
            answer = connection.getresponse()
            said = answer.read(READ).decode("utf-8", "replace")
            connection.close()
            return answer.status, said
        finally:
            end.cancel()


def _hang_up(stream: socket.socket) -> None:
    with contextlib.suppress(OSError):
        stream.shutdown(socket.SHUT_RDWR)
