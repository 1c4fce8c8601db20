"""API keys: made once, shown once, kept only as a digest; rotated, so that an application changes over without a gap; with quotas."""

import time
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _

from agents_app import audit
from agents_app.access import Role, roles_of
from agents_app.audit import Who, actor_of
from agents_app.models import ApiKey, AuditEntry, KeyMonth, Pool, Stamp
from routerweb import hooks

#: How long the old secret of a rotated key goes on.
GRACES: dict[str, timedelta] = {
    "now": timedelta(0), "1h": timedelta(hours=1), "24h": timedelta(hours=24), "7d": timedelta(days=7),
}  # fmt: skip
#: A key that ends by itself is warned of so long before.
EXPIRES_SOON = timedelta(days=7)
#: The share of a quota from which it is nearly used up.
NEARLY = 0.8


class KeyRefused(Exception):
    """A key that cannot be made, or changed, as asked; the message says why."""


class Use(NamedTuple):
    """What a key has sent of one thing in the month that began with `begins`, and what it may; a new month begins with `ends`."""

    what: str
    used: int
    limit: int
    begins: datetime
    ends: datetime

    @property
    def share(self) -> float:
        """The part that is used, from 0; above 1 where it was more than is allowed now."""
        return self.used / self.limit if self.limit else 1.0

    @property
    def left(self) -> int:
        """What may still be sent."""
        return max(self.limit - self.used, 0)


def create_key(
    name: str,
    pools: Iterable[Pool],
    scopes: Sequence[str],
    created_by: Who = None,
    expires_at: datetime | None = None,
    *,
    labels_as: User | None = None,
) -> tuple[ApiKey, str]:
    """A new key for `pools` with `scopes`, and its secret, which exists nowhere but in this answer.

    A key with the scope `label` labels for its maker; `labels_as` names that person where a command makes the key, which has no
    maker. Raises KeyRefused when the name is blank, no pool or scope is given, a scope is unknown, the expiry has passed, or a key
    that labels is nobody's, somebody else's, or that of somebody who may not label.
    """
    name, pools = name.strip(), list(pools)
    if not name:
        raise KeyRefused(_("The key has no name. Name it after the application that will use it."))
    if len(name) > 120:
        raise KeyRefused(_("The key's name is longer than 120 characters."))
    if not pools:
        raise KeyRefused(_("The key has no pool. Choose at least one."))
    unknown = [scope for scope in scopes if scope not in ApiKey.Scope.values]
    if unknown or not scopes:
        raise KeyRefused(
            _("Scope %(scope)s is not known. Choose from %(known)s.")
            % {"scope": ", ".join(map(repr, unknown)) or "''", "known": ", ".join(ApiKey.Scope.values)}
        )
    if expires_at is not None and expires_at <= timezone.now():
        raise KeyRefused(_("The key would have expired already. Choose a later time."))
    maker = actor_of(created_by).user
    for pool in pools:
        if maker is not None and Role.OPS not in roles_of(maker, pool):
            message = _("%(person)s is not ops of %(pool)s and cannot create keys for it.")
            raise KeyRefused(message % {"person": maker.get_username(), "pool": pool.name})
    labels_as = _labels_as(maker, labels_as, pools) if ApiKey.Scope.LABEL in scopes else None
    key = ApiKey(
        name=name,
        scopes=[scope for scope in ApiKey.Scope.values if scope in scopes],
        person=labels_as,
        created_by=maker,
        expires_at=expires_at,
    )
    secret = key.renew()
    with transaction.atomic():
        key.save()
        key.pools.set(pools)
        audit.record(
            "key.created",
            actor=created_by,
            target=str(key),
            pool=pools[0] if len(pools) == 1 else None,
            detail={"key": key.pk, "scopes": key.scopes, "pools": [pool.slug for pool in pools]}
            | ({"labels_as": labels_as.get_username()} if labels_as else {}),
        )
        Stamp.bump()
    return key, secret


def _labels_as(maker: User | None, named: User | None, pools: Iterable[Pool]) -> User:
    """Whose labels they are that come with a key. Raises KeyRefused."""
    if maker is not None and named not in (None, maker):
        raise KeyRefused(_("A key labels only for the person who creates it."))
    whose = maker or named
    if whose is None:
        raise KeyRefused(_("A key with the scope label needs a person: whose labels are they?"))
    if any(Role.LABELER not in roles_of(whose, pool) for pool in pools):
        raise KeyRefused(
            _("%(person)s has no role that labels. Give them one first.") % {"person": whose.get_username()}
        )
    return whose


def revoke(key: ApiKey, actor: Who) -> bool:
    """Turn a key off, everywhere within two seconds. False when it was revoked before."""
    with transaction.atomic():
        changed = ApiKey.objects.filter(pk=key.pk, revoked_at__isnull=True).update(revoked_at=timezone.now())
        if changed:
            audit.record("key.revoked", actor=actor, target=str(key), detail={"key": key.pk})
            Stamp.bump()
    key.refresh_from_db(fields=("revoked_at",))
    return bool(changed)


def rotate(key: ApiKey, actor: Who, *, grace: str = "24h", expires_at: datetime | None = None) -> str:
    """A new secret for a key, which exists nowhere but in this answer; the old one works on for `grace`, one of GRACES, and ends then
    by itself. With `expires_at` the key ends then, without when it would have.

    The secret before the old one, where that still worked, ends at once. Raises KeyRefused for another grace, a time that has
    passed, a key that is revoked, expired or stopped, and one that labels as somebody else than the person who asks.
    """
    if grace not in GRACES:
        message = _("“%(grace)s” is not a grace period. Choose from %(known)s.")
        raise KeyRefused(message % {"grace": grace, "known": ", ".join(GRACES)})
    now = timezone.now()
    if expires_at is not None and expires_at <= now:
        raise KeyRefused(_("The key would have expired already. Choose a later time."))
    asks = actor_of(actor).user
    with transaction.atomic():
        held = ApiKey.objects.select_for_update(of=("self",)).get(pk=key.pk)
        if not ApiKey.objects.live().filter(pk=key.pk).exists():
            raise KeyRefused(_("Only a key that works can be rotated. Make a new one instead."))
        if asks is not None and held.person_id not in (None, asks.pk):
            message = _("“%(name)s” labels as %(person)s, so only %(person)s can rotate it.")
            raise KeyRefused(message % {"name": held.name, "person": held.person})
        until = now + GRACES[grace]
        if held.expires_at is not None:
            until = min(until, held.expires_at)
        goes_on = until > now
        secret = held.renew(until if goes_on else None)
        held.rotated_at, held.expires_at = now, expires_at or held.expires_at
        held.save()
        audit.record(
            "key.rotated", actor=actor, target=str(held),
            detail={"key": key.pk, "grace": grace, "old_until": until.isoformat() if goes_on else None}
            | ({"expires_at": expires_at.isoformat()} if expires_at else {}),
        )  # fmt: skip
        Stamp.bump()
    key.refresh_from_db()
    return secret


def end_old_secret(key: ApiKey, actor: Who) -> bool:
    """End the secret from before the last rotation now, everywhere within two seconds. False when none works any more."""
    with transaction.atomic():
        keys = ApiKey.objects.filter(pk=key.pk, old_until__gt=timezone.now())
        ended = bool(keys.update(old_prefix="", old_digest=None, old_until=None))
        if ended:
            audit.record("key.old_secret_ended", actor=actor, target=str(key), detail={"key": key.pk})
            Stamp.bump()
    key.refresh_from_db()
    return ended


def set_quota(key: ApiKey, actor: Who, *, queries: int | None, characters: int | None) -> None:
    """How many queries and characters a key may send in a calendar month (UTC), each None for no limit. What it sends is counted from
    its first quota on. Raises KeyRefused below 1."""
    for value in (queries, characters):
        if value is not None and not 1 <= value < 10**15:
            raise KeyRefused(_("A quota is a whole number from 1, or blank for none."))
    with transaction.atomic():
        before = ApiKey.objects.select_for_update().get(pk=key.pk)
        if (before.monthly_queries, before.monthly_characters) != (queries, characters):
            ApiKey.objects.filter(pk=key.pk).update(monthly_queries=queries, monthly_characters=characters)
            audit.record(
                "key.quota", actor=actor, target=str(key),
                detail={
                    "key": key.pk,
                    "before": {"queries": before.monthly_queries, "characters": before.monthly_characters},
                    "quota": {"queries": queries, "characters": characters},
                },
            )  # fmt: skip
            Stamp.bump()
    key.refresh_from_db()


def uses(keys: Collection[ApiKey]) -> dict[int, list[Use]]:
    """What each key with a quota has sent of it this month, as web processes have told until a moment ago. One query."""
    begins, ends = KeyMonth.span(time.time())
    limited = [key for key in keys if key.quota is not None]
    rows = {row.api_key_id: row for row in KeyMonth.objects.filter(api_key__in=limited, month=begins.date())}
    by_key: dict[int, list[Use]] = {}
    for key in limited:
        row = rows.get(key.pk)
        counted = (
            ("queries", row.queries if row else 0, key.monthly_queries),
            ("characters", row.characters if row else 0, key.monthly_characters),
        )
        by_key[key.pk] = [Use(what, used, limit, begins, ends) for what, used, limit in counted if limit is not None]
    return by_key


def history(key: ApiKey) -> QuerySet[AuditEntry]:
    """What was done to a key, newest first, whatever its secrets began with."""
    return AuditEntry.objects.filter(detail__key=key.pk, action__startswith="key.")


def last_used(keys: Collection[int]) -> dict[int, datetime]:
    """When each of these keys was last used, to about a minute; one that never was is left out."""
    return {key: at for times in hooks.key_last_used(keys) for key, at in times.items()}
