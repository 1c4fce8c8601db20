"""Health checks: an address that an agent may have, asked every minute; failures in a row pause it, a success brings it back.

People with the role ops type the address and a worker asks it, so it is treated with suspicion: http and https only, no user and
password in it, no redirect is followed, no body is read or shown, and the name is resolved once and that address is asked. It must not
be link-local (where clouds keep their credentials), multicast or unspecified. This machine's and the network's own addresses are
allowed: that is where agents live. What a person paused, no check brings back.
"""

import ipaddress
import logging
import socket
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpx
from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from agents_app import audit, pools
from agents_app.models import Agent, HealthCheck, Pool

logger = logging.getLogger(__name__)

AT_ONCE = 16
LONGEST = 500


class Probe(NamedTuple):
    """What one look at an address found, in a few words."""

    ok: bool
    said: str


class Unfit(Exception):
    """An address that is not asked; the message says why."""


def set_url(agent: Agent, url: str, *, actor: User | None, actor_name: str = "") -> None:
    """Give the agent a health check, another address, or none (""). Raises PoolError for an address that would not be asked.

    An agent that its check had paused comes back when the check goes.
    """
    url = url.strip()
    if url:
        try:
            _parts(url)
        except Unfit as error:
            raise pools.PoolError(str(error), "url") from None
    with transaction.atomic():
        Pool.objects.select_for_update().get(pk=agent.pool_id)
        known = HealthCheck.objects.filter(agent=agent).first()
        before = known.url if known else ""
        if url == before:
            return
        if url:
            fresh = {"url": url, "failures": 0, "checked_at": None, "ok": None, "said": ""}
            HealthCheck.objects.update_or_create(agent=agent, defaults=fresh)
        else:
            HealthCheck.objects.filter(agent=agent).delete()
            agent.refresh_from_db()
            if agent.paused_by_check:
                pools.set_available(agent, True, actor=actor, actor_name=actor_name)
        detail = {"url": [before, url]}
        audit.record(
            "agent.health", actor=actor, target=str(agent), pool=agent.pool, detail=detail, actor_name=actor_name
        )


def check_all() -> int:
    """Look at every active agent's address, AT_ONCE at a time, and act on it; how many agents changed. A schedule calls it."""
    checks = list(HealthCheck.objects.filter(agent__state=Agent.State.ACTIVE).select_related("agent__pool"))
    if not checks:
        return 0
    found = _look([check.url for check in checks])
    return sum(record(check, probe) for check, probe in zip(checks, found, strict=True))


def _look(urls: Sequence[str]) -> list[Probe]:
    """Every address's probe. One that sends its answer drop by drop is given up on: no round lasts longer than its addresses may."""
    pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="health")
    looks: list[Future[Probe]] = [pool.submit(probe, url) for url in urls]
    rounds = -(-len(urls) // AT_ONCE)
    wait(looks, timeout=2 * settings.HEALTH_TIMEOUT * rounds + 1)
    pool.shutdown(wait=False, cancel_futures=True)
    return [look.result() if look.done() and not look.cancelled() else Probe(False, _timed_out()) for look in looks]


def probe(url: str) -> Probe:
    """One look: it works where a GET is answered with a status below 400 in HEALTH_TIMEOUT seconds. Raises nothing."""
    try:
        address, headers, extensions = _target(url)
        timeout = httpx.Timeout(settings.HEALTH_TIMEOUT)
        with (
            httpx.Client(timeout=timeout, follow_redirects=False, trust_env=False) as client,
            client.stream("GET", address, headers=headers, extensions=extensions) as answer,
        ):
            return Probe(answer.status_code < 400, f"HTTP {answer.status_code}")
    except Unfit as error:
        return Probe(False, str(error))
    except httpx.TimeoutException:
        return Probe(False, _timed_out())
    except (httpx.ConnectError, socket.gaierror) as error:
        # "[Errno 111] Connection refused": the words are enough.
        return Probe(False, _("no connection: %(why)s") % {"why": str(error).partition("] ")[2] or error})
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        return Probe(False, f"{type(error).__name__}: {error}"[:150])


def record(check: HealthCheck, probe: Probe) -> bool:
    """Keep what was found; whether the agent was paused or brought back for it."""
    now = timezone.now()
    with transaction.atomic():
        Pool.objects.select_for_update().get(pk=check.agent.pool_id)
        present = HealthCheck.objects.filter(pk=check.pk, url=check.url).select_related("agent__pool").first()
        if present is None:
            return False  # it was changed while it was asked
        present.ok, present.said, present.checked_at = probe.ok, probe.said[:200], now
        present.failures = 0 if probe.ok else present.failures + 1
        present.save(update_fields=("ok", "said", "checked_at", "failures"))
        agent = present.agent
        if probe.ok and agent.paused_by_check and not agent.available:
            pools.set_available(agent, True, actor=None, actor_name="health check")
            return True
        if not probe.ok and agent.available and present.failures >= settings.HEALTH_FAILURES:
            why = _("%(said)s, %(count)d times in a row") % {"said": present.said, "count": present.failures}
            pools.set_available(agent, False, actor=None, actor_name="health check", why=why, by_check=True)
            return True
    return False


def _timed_out() -> str:
    return _("no answer within %(seconds)g seconds") % {"seconds": settings.HEALTH_TIMEOUT}


# --- Addresses ----------------------------------------------------------------------------------------------------


def _parts(url: str) -> tuple[str, int]:
    """Host and port of an address that may be asked. Raises Unfit."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise Unfit(_("This is no address. Expected one like https://agent.example.com/health.")) from None
    if parts.scheme not in ("http", "https"):
        raise Unfit(_("The address must begin with http:// or https://."))
    if not parts.hostname or any(c.isspace() or ord(c) < 32 for c in url):
        raise Unfit(_("The address names no host."))
    if parts.username is not None or parts.password is not None:
        raise Unfit(_("The address must not hold a user or a password: everybody who sees the agent would see them."))
    if len(url) > LONGEST:
        raise Unfit(_("The address is longer than %(most)d characters.") % {"most": LONGEST})
    return parts.hostname, port or (443 if parts.scheme == "https" else 80)


def _target(url: str) -> tuple[httpx.URL, dict[str, str], dict[str, Any]]:
    """The address by number, with the headers and the TLS name that make it the named host's. Raises Unfit and OSError."""
    host, port = _parts(url)
    found = [entry[4][0] for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    for number in found:
        ip = ipaddress.ip_address(str(number).partition("%")[0])
        mapped = getattr(ip, "ipv4_mapped", None) or ip
        if mapped.is_link_local or mapped.is_multicast or mapped.is_unspecified:
            raise Unfit(_("%(host)s is %(ip)s, which is not asked.") % {"host": host, "ip": ip})
    named = httpx.URL(url)
    return named.copy_with(host=str(found[0])), {"Host": named.netloc.decode()}, {"sni_hostname": host}
