"""API keys: made once, shown once, kept only as a digest."""

from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from agents_app import audit
from agents_app.access import Role, roles_of
from agents_app.audit import Who, actor_of
from agents_app.models import ApiKey, Pool, Stamp

PREFIX_LENGTH = 8  # "rw_" and five more: enough to tell keys apart, 226 of the 256 bits stay unknown

#: Who can tell when keys were last used: later rooms add themselves.
USES: list[Callable[[Collection[int]], dict[int, datetime]]] = []


class KeyRefused(Exception):
    """A key that cannot be made as asked; the message says why."""


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
        raise KeyRefused(_("The key opens no pool. Choose at least one."))
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
            said = _("%(person)s does not operate %(pool)s, and makes no keys of it.")
            raise KeyRefused(said % {"person": maker.get_username(), "pool": pool.name})
    labels_as = _labels_as(maker, labels_as, pools) if ApiKey.Scope.LABEL in scopes else None
    secret = ApiKey.new_secret()
    with transaction.atomic():
        key = ApiKey.objects.create(
            name=name,
            prefix=secret[:PREFIX_LENGTH],
            digest=ApiKey.digest_of(secret),
            scopes=[scope for scope in ApiKey.Scope.values if scope in scopes],
            person=labels_as,
            created_by=maker,
            expires_at=expires_at,
        )
        key.pools.set(pools)
        audit.record(
            "key.created",
            actor=created_by,
            target=str(key),
            pool=pools[0] if len(pools) == 1 else None,
            detail={"scopes": key.scopes, "pools": [pool.slug for pool in pools]}
            | ({"labels_as": labels_as.get_username()} if labels_as else {}),
        )
        Stamp.bump()
    return key, secret


def _labels_as(maker: User | None, named: User | None, pools: Iterable[Pool]) -> User:
    """Whose labels they are that come with a key. Raises KeyRefused."""
    if maker is not None and named not in (None, maker):
        raise KeyRefused(_("A key labels for the person who makes it, and for nobody else."))
    whose = maker or named
    if whose is None:
        raise KeyRefused(_("A key that may label needs a person: whose labels will they be?"))
    if any(Role.LABELER not in roles_of(whose, pool) for pool in pools):
        raise KeyRefused(_("%(person)s may not label. Give them the role first.") % {"person": whose.get_username()})
    return whose


def revoke(key: ApiKey, actor: Who) -> bool:
    """Turn a key off, everywhere within two seconds. False when it was revoked before."""
    with transaction.atomic():
        changed = ApiKey.objects.filter(pk=key.pk, revoked_at__isnull=True).update(revoked_at=timezone.now())
        if changed:
            audit.record("key.revoked", actor=actor, target=str(key))
            Stamp.bump()
    key.refresh_from_db(fields=("revoked_at",))
    return bool(changed)


def last_used(keys: Collection[int]) -> dict[int, datetime]:
    """When each of these keys was last used, to about a minute; one that never was is left out."""
    found: dict[int, datetime] = {}
    for told in USES:
        found |= told(keys)
    return found
