"""The audit trail: who did what to pools, labels, runs, promotions, keys and people. Entries are only ever added."""

from typing import Any

from django.contrib.auth.models import User

from agents_app.models import AuditEntry, Pool
from training_app.engine.data import storable


def record(
    action: str,
    *,
    actor: User | None,
    target: str = "",
    pool: Pool | None = None,
    detail: dict[str, Any] | None = None,
    actor_name: str = "",
) -> AuditEntry:
    """Add one entry; call it inside the transaction of what it tells of, so that neither stands without the other.

    `action` is "noun.verb", for example "agent.retired". `actor` is the person; a command has none and gives its own name as
    `actor_name`. `detail` is anything that JSON can hold, and never a secret; what cannot be stored of it or of `target` is mended,
    so that an entry is never the reason why a change fails.
    """
    name = actor_name or (actor.get_username() if actor is not None else "system")
    return AuditEntry.objects.create(
        actor=actor,
        actor_name=storable.mended_text(name)[:150],
        action=action,
        pool=pool,
        target=storable.mended_text(target)[:200],
        detail=storable.mended(detail or {})[0],
    )
