"""Health checks: an address that an agent may have, asked every minute; failures in a row pause it, a success brings it back.

People with the role ops type the address and a worker asks it, so `outbound.guard` guards it: where agents live in a network of
one's own, INTERNAL_HOSTS names it. No body is read or shown. An address that may not be asked tells nothing of its agent, and pauses
nobody. What a person paused, no check brings back.
"""

import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import httpx
from django.conf import settings
from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from agents_app import audit, pools
from agents_app.audit import Actor, Who
from agents_app.models import Agent, HealthCheck, Pool
from agents_app.outbound import guard

logger = logging.getLogger(__name__)

AT_ONCE = 16
LONGEST = 500


class Probe(NamedTuple):
    """What one look at an address found, in a few words; `ok` is None where it was not asked."""

    ok: bool | None
    message: str


def set_url(agent: Agent, url: str, *, actor: Who) -> None:
    """Give the agent a health check, another address, or none (""). Raises PoolError for an address that would not be asked.

    An agent that its check had paused comes back when the check goes.
    """
    url = url.strip()
    if url:
        if len(url) > LONGEST:
            raise pools.PoolError(_("The address is longer than %(most)d characters.") % {"most": LONGEST}, "url")
        try:
            guard.check(url, plain=True, seconds=settings.HEALTH_TIMEOUT)
        except guard.Refused as error:
            raise pools.PoolError(str(error), "url") from None
        except OSError:
            pass  # not found today; the check will say so
    with transaction.atomic():
        Pool.objects.select_for_update(no_key=True).get(pk=agent.pool_id)
        check = HealthCheck.objects.filter(agent=agent).first()
        before = check.url if check else ""
        if url == before:
            return
        if url:
            fresh = {"url": url, "failures": 0, "checked_at": None, "ok": None, "said": ""}
            HealthCheck.objects.update_or_create(agent=agent, defaults=fresh)
        else:
            HealthCheck.objects.filter(agent=agent).delete()
            agent.refresh_from_db()
            if agent.paused_by_check:
                pools.set_available(agent, True, actor=actor)
        detail = {"url": [before, url]}
        audit.record("agent.health", actor=actor, target=str(agent), pool=agent.pool, detail=detail)


def check_all() -> int:
    """Look at every active agent's address, AT_ONCE at a time, and act on it; how many agents changed. A schedule calls it."""
    checks = list(
        HealthCheck.objects.filter(
            agent__state=Agent.State.ACTIVE, agent__pool__in=Pool.objects.in_use()
        ).select_related("agent__pool")
    )
    results = look([check.url for check in checks]) if checks else []
    return sum(record(check, probe) for check, probe in zip(checks, results, strict=True))


def look(urls: Sequence[str]) -> list[Probe]:
    """Every address's probe."""
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="health") as threads:
        return list(threads.map(probe, urls))


def probe(url: str) -> Probe:
    """One look: it works where a GET is answered with a status below 400 in HEALTH_TIMEOUT seconds. Raises nothing."""
    try:
        with (
            guard.client(settings.HEALTH_TIMEOUT, plain=True) as client,
            client.stream("GET", url) as answer,
        ):
            return Probe(answer.status_code < 400, f"HTTP {answer.status_code}")
    except guard.Refused as error:
        return Probe(None, str(error))
    except httpx.TimeoutException:
        return Probe(False, _("no answer within %(seconds)g seconds") % {"seconds": settings.HEALTH_TIMEOUT})
    except httpx.ConnectError as error:
        return Probe(False, _("no connection: %(why)s") % {"why": guard.plain_words(error)})
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return Probe(False, f"{type(error).__name__}: {error}"[:150])


def record(check: HealthCheck, probe: Probe) -> bool:
    """Keep what was found; whether the agent was paused or brought back for it."""
    now = timezone.now()
    with transaction.atomic():
        Pool.objects.select_for_update(no_key=True).get(pk=check.agent.pool_id)
        present = HealthCheck.objects.filter(pk=check.pk, url=check.url).select_related("agent__pool").first()
        if present is None:
            return False  # it was changed while it was asked
        present.ok, present.said, present.checked_at = probe.ok, probe.message[:200], now
        if probe.ok is not None:
            present.failures = 0 if probe.ok else present.failures + 1
        present.save(update_fields=("ok", "said", "checked_at", "failures"))
        agent = present.agent
        if probe.ok and agent.paused_by_check and not agent.available:
            pools.set_available(agent, True, actor=Actor("health check"))
            return True
        if probe.ok is False and agent.available and present.failures >= settings.HEALTH_FAILURES:
            why = _("%(said)s, %(count)d times in a row") % {"said": present.said, "count": present.failures}
            pools.set_available(agent, False, actor=Actor("health check"), why=why, by_check=True)
            return True
    return False
