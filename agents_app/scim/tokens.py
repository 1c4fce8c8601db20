"""Tokens of identity providers: made once, shown once, kept as a digest; rotated as API keys are."""

from datetime import datetime

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from agents_app import audit
from agents_app.audit import Actor, Who, actor_of
from agents_app.keys import GRACES
from agents_app.models import ScimToken
from routerweb import state
from routerweb.background import Background

#: A token's last use is written so often, in seconds, by a thread: a call that reads must not write.
NOTED_SECONDS = 60.0
_uses: dict[int, datetime] = {}
state.keep(__name__, "_uses", "Uses of SCIM tokens, not yet written", "one for each token")


class TokenRefused(Exception):
    """A token that cannot be made or changed as asked; the message says why."""


def create(name: str, actor: Who) -> tuple[ScimToken, str]:
    """A new token and its secret, which exists nowhere but in this answer. Raises TokenRefused without a name."""
    name = name.strip()
    if not 0 < len(name) <= 120:
        raise TokenRefused(
            _("Name the token after the identity provider that will send it, in at most 120 characters.")
        )
    token = ScimToken(name=name, created_by=actor_of(actor).user)
    secret = token.renew()
    with transaction.atomic():
        token.save()
        audit.record("scim_token.created", actor=actor, target=str(token))
    return token, secret


def rotate(token: ScimToken, actor: Who, *, grace: str = "24h") -> str:
    """A new secret for a token; the old one works on for `grace`, one of `keys.GRACES`. Raises TokenRefused."""
    if grace not in GRACES:
        raise TokenRefused(_("Choose how long the old secret works: %(known)s.") % {"known": ", ".join(GRACES)})
    with transaction.atomic():
        held = ScimToken.objects.select_for_update(of=("self",)).live().filter(pk=token.pk).first()
        if held is None:
            raise TokenRefused(_("The token was revoked. Make a new one."))
        secret = held.renew(timezone.now() + GRACES[grace] if GRACES[grace] else None)
        held.save()
        audit.record("scim_token.rotated", actor=actor, target=str(held), detail={"grace": grace})
    token.refresh_from_db()
    return secret


def revoke(token: ScimToken, actor: Who) -> bool:
    """Turn a token off at once, with its old secret. False when it was revoked before."""
    with transaction.atomic():
        changed = (
            ScimToken.objects.live()
            .filter(pk=token.pk)
            .update(revoked_at=timezone.now(), old_digest=None, old_until=None)
        )
        if changed:
            audit.record("scim_token.revoked", actor=actor, target=str(token))
    token.refresh_from_db()
    return bool(changed)


def of(authorization: str) -> ScimToken | None:
    """The live token of an Authorization header; None where it holds none. Its use is noted."""
    word, _space, secret = authorization.partition(" ")
    token = ScimToken.objects.of(secret.strip()) if word.lower() == "bearer" and secret.strip() else None
    if token is not None:
        _uses[token.pk] = timezone.now()
        use_writer.start(NOTED_SECONDS)
    return token


def write_uses() -> None:
    """Write when tokens were used since the last time."""
    for token, at in [(token, _uses.pop(token)) for token in list(_uses)]:
        ScimToken.objects.filter(pk=token).update(used_at=at)


def _turn() -> float:
    write_uses()
    return NOTED_SECONDS


use_writer = Background("scim-token-uses", _turn, at_end=write_uses, in_child=_uses.clear)


def actor(token: ScimToken) -> Actor:
    """As whom the audit trail records what this token changes."""
    return Actor(f"SCIM {token.name}")
