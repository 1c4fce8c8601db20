"""The audit trail: who did what to pools, labels, runs, promotions, keys and people. Entries are only ever added."""

from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import User
from django.db.models import QuerySet

from agents_app.models import AuditEntry, Pool
from training_app.engine.data import storable


@dataclass(frozen=True, slots=True)
class Actor:
    """Who does something: the name that the audit trail keeps, and the account where somebody has one.

    A run or a key acts under its own name, for the person who made it; a command or a check acts for nobody.
    """

    name: str
    user: User | None = None


#: Whom functions take as the one who acts: a person, an Actor, or None for the system itself.
Who = User | Actor | None


def actor_of(who: Who) -> Actor:
    """The same as an Actor. A person acts under their own name."""
    if isinstance(who, Actor):
        return who
    return Actor("system") if who is None else Actor(who.get_username(), who)


def record(
    action: str, *, actor: Who, target: str = "", pool: Pool | None = None, detail: dict[str, Any] | None = None
) -> AuditEntry:
    """Add one entry; call it inside the transaction of what it tells of, so that neither stands without the other.

    `action` is "noun.verb", for example "agent.retired". `detail` is anything that JSON can hold, and never a secret; what cannot be
    stored of it, of `target` or of a name is mended, so that an entry is never the reason why a change fails.
    """
    by = actor_of(actor)
    return AuditEntry.objects.create(
        actor=by.user,
        actor_name=storable.mended_text(by.name)[:150],
        action=action,
        pool=pool,
        target=storable.mended_text(target)[:200],
        detail=storable.mended(detail or {})[0],
    )


def about(target: str, pool: Pool | None = None) -> "QuerySet[AuditEntry]":
    """What was done to something, newest first; with no `target`, to anything in the pool."""
    entries = AuditEntry.objects.filter(pool=pool) if pool else AuditEntry.objects.all()
    return entries.filter(target=target) if target else entries
