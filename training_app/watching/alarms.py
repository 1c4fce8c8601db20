"""Alarms: something that somebody has to look at, open until it has passed, told to whoever asked for it, muted for a while by ops."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _

from agents_app import audit
from agents_app.access import Role, roles_of
from agents_app.models import Pool
from training_app.models import Alarm, AlarmMute
from training_app.watching import deliveries


class MuteRefused(Exception):
    """Somebody who may not mute an alarm asked for it; the message says why."""


#: An alarm that has not been seen for so long has passed. Drift and promises, looked at by the hour, are resolved by their own looks.
PASSED = timedelta(minutes=2)
MUTE_HOURS = (1, 8, 24, 168)
SEEN_BY_LOOKS = (Alarm.Kind.DRIFT, Alarm.Kind.PROMISE)


def hold(kind: str, sentence: str, evidence: Sequence[Sequence[str]], pool: Pool | None = None) -> tuple[Alarm, bool]:
    """Open an alarm, or note that it still holds; and whether it is new. A new one is told, unless it is muted."""
    values = {"sentence": sentence[:500], "evidence": [list(row) for row in evidence], "seen_at": timezone.now()}
    open_ = Alarm.objects.filter(pool=pool, kind=kind, resolved_at__isnull=True)
    if open_.update(**values):
        return open_.get(), False
    try:
        with transaction.atomic():
            alarm = Alarm.objects.create(pool=pool, kind=kind, **values)
            if not muted(alarm):
                deliveries.tell(alarm, deliveries.OPENED)
    except IntegrityError:
        return open_.get(), False  # another process was first
    return alarm, True


def resolve(kind: str, pool: Pool | None = None) -> int:
    """End the open alarm of that kind, where there is one, and tell those who were told of it."""
    return _end(Alarm.objects.filter(pool=pool, kind=kind))


def resolve_passed() -> int:
    """End every alarm that nobody has seen for a while."""
    return _end(Alarm.objects.filter(seen_at__lt=timezone.now() - PASSED).exclude(kind__in=SEEN_BY_LOOKS))


def _end(alarms: "QuerySet[Alarm]") -> int:
    ended = 0
    for alarm in list(alarms.filter(resolved_at__isnull=True)):
        with transaction.atomic():
            now = timezone.now()
            if Alarm.objects.filter(pk=alarm.pk, resolved_at__isnull=True).update(resolved_at=now):
                alarm.resolved_at = now
                deliveries.tell(alarm, deliveries.RESOLVED)
                ended += 1
    return ended


def tell_late() -> int:
    """Tell of open alarms that nobody was told of: they were muted, or nobody had asked to be told. Returns how many."""
    sent = 0
    for alarm in Alarm.objects.filter(resolved_at__isnull=True, deliveries__isnull=True).select_related("pool"):
        if not muted(alarm):
            sent += bool(deliveries.tell(alarm, deliveries.OPENED))
    return sent


def open_alarms(pool: Pool | None) -> list[Alarm]:
    """The open alarms of a pool and of the site, newest first; each has `muted_until`, None where it is not muted."""
    return _with_mutes(Alarm.objects.filter(_of(pool), resolved_at__isnull=True))


def _with_mutes(rows: "QuerySet[Alarm]") -> list[Alarm]:
    alarms = list(rows.select_related("pool"))
    until = {(mute.pool_id, mute.kind): mute.until for mute in AlarmMute.objects.filter(until__gt=timezone.now())}
    for alarm in alarms:
        alarm.muted_until = until.get((alarm.pool_id, alarm.kind))  # type: ignore[attr-defined]
    return alarms


def open_in(pools: Sequence[Pool]) -> dict[int, list[Alarm]]:
    """`open_alarms` of each of these pools, by its key: an alarm of the site is one of each. Two database queries."""
    mine = Alarm.objects.filter(Q(pool__in=pools) | Q(pool__isnull=True), resolved_at__isnull=True)
    alarms = _with_mutes(mine)
    return {pool.pk: [alarm for alarm in alarms if alarm.pool_id in (None, pool.pk)] for pool in pools}


def is_open(kind: str, pool: Pool | None) -> bool:
    """Whether the pool, or the site, has an open alarm of that kind."""
    return Alarm.objects.filter(pool=pool, kind=kind, resolved_at__isnull=True).exists()


def past(pool: Pool | None) -> "QuerySet[Alarm]":
    """Alarms that have passed, newest first."""
    return Alarm.objects.filter(_of(pool), resolved_at__isnull=False).select_related("pool")


def _of(pool: Pool | None) -> Q:
    return Q(pool=pool) | Q(pool__isnull=True)


def muted(alarm: Alarm) -> bool:
    """Whether alarms of this kind are not to be told now."""
    return AlarmMute.objects.filter(pool=alarm.pool_id, kind=alarm.kind, until__gt=timezone.now()).exists()


def may_mute(alarm: Alarm, actor: User) -> bool:
    """Whether a person may mute an alarm: ops of its pool, and of all pools for one of the whole site, which every pool is told of."""
    return Role.OPS in roles_of(actor, alarm.pool_id)


def mute(alarm: Alarm, hours: int, actor: User) -> AlarmMute:
    """Tell nobody of alarms of this kind for so many hours. Raises MuteRefused where `may_mute` says no."""
    _require(alarm, actor)
    until = timezone.now() + timedelta(hours=hours)
    with transaction.atomic():
        AlarmMute.objects.filter(pool=alarm.pool_id, kind=alarm.kind).delete()
        mute_ = AlarmMute.objects.create(pool=alarm.pool, kind=alarm.kind, until=until, author=actor)
        _record("alarm.muted", alarm, actor, {"hours": hours})
    return mute_


def unmute(alarm: Alarm, actor: User) -> None:
    """Tell of them again. Raises MuteRefused as `mute` does."""
    _require(alarm, actor)
    with transaction.atomic():
        AlarmMute.objects.filter(pool=alarm.pool_id, kind=alarm.kind).delete()
        _record("alarm.unmuted", alarm, actor, {})


def _require(alarm: Alarm, actor: User) -> None:
    if not may_mute(alarm, actor):
        raise MuteRefused(_("This alarm is for the whole site. Only ops of all pools can mute or unmute it."))


def _record(action: str, alarm: Alarm, actor: User, detail: dict[str, Any]) -> None:
    target = (
        str(alarm.get_kind_display()) if alarm.pool else _("%(kind)s, whole site") % {"kind": alarm.get_kind_display()}
    )
    audit.record(action, actor=actor, target=target, pool=alarm.pool, detail=detail)
