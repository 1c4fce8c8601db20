"""A pool's privacy: what is taken out of texts before they are stored, and how long decisions and episodes are kept."""

from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import UTC, timedelta
from typing import Any

from django.db import models, transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from agents_app import audit, redaction
from agents_app.audit import Who
from agents_app.models import Pool, Privacy
from agents_app.redaction import BadPattern, Redactor
from routerweb import holds
from routerweb.holds import Content


def of(pool: Pool) -> Privacy:
    """The pool's privacy; an unsaved row of the defaults where nobody has changed it."""
    return Privacy.objects.filter(pool=pool).first() or Privacy(pool=pool)


def change(
    pool: Pool,
    *,
    kinds: Sequence[str],
    patterns: Sequence[tuple[str, str]],
    decision_days: int | None,
    episode_days: int | None,
    archive_days: int | None = None,
    actor: Who,
) -> Privacy:
    """Say again what is redacted and kept; what is stored already stays as it is. Raises BadPattern."""
    check_patterns(patterns)
    values: dict[str, Any] = {
        "kinds": [kind for kind in redaction.KINDS if kind in kinds],
        "patterns": [{"name": name, "pattern": pattern} for name, pattern in patterns],
        "decision_days": decision_days,
        "episode_days": episode_days,
        "archive_days": archive_days,
    }
    with transaction.atomic():
        Privacy.objects.update_or_create(pool=pool, defaults=values)
        audit.record("pool.privacy", actor=actor, target=pool.slug, pool=pool, detail=values)
    return of(pool)


def check_patterns(patterns: Sequence[tuple[str, str]]) -> None:
    """Raise BadPattern unless each (name, pattern) can be used, and none fits what it or another is replaced by."""
    if len(patterns) > redaction.MOST_PATTERNS:
        raise BadPattern(_("At most %(most)d patterns are allowed.") % {"most": redaction.MOST_PATTERNS})
    signs = [f"[{name}]" for name in (*redaction.KINDS, *(name for name, _pattern in patterns))]
    for name, pattern in patterns:
        if not name or len(name) > redaction.LONGEST_NAME or set(name) & set("[]"):
            raise BadPattern(_("“%(name)s” is no name: 1 to 30 characters, without brackets.") % {"name": name})
        matcher = redaction.compiled(pattern)
        if any(matcher.search(sign) is not None for sign in signs):
            raise BadPattern(_("“%(pattern)s” matches the replacement of another kind.") % {"pattern": pattern})


def redactors(pools: Collection[int] | None = None) -> dict[int, Redactor]:
    """The redactor of each pool that has one, of these keys or of all. One database query."""
    rows = Privacy.objects.exclude(kinds=[], patterns=[])
    if pools is not None:
        rows = rows.filter(pool__in=pools)
    return {row.pool_id: _redactor(row) for row in rows}


def redactor_of(pool_id: int) -> Redactor | None:
    """The pool's redactor, None where it has none."""
    return redactors((pool_id,)).get(pool_id)


def redacted(pool_id: int, texts: Iterable[str]) -> list[str]:
    """Plain texts as the pool stores them."""
    redactor = redactor_of(pool_id)
    return [redactor.text(text) for text in texts] if redactor else list(texts)


def _redactor(row: Privacy) -> Redactor:
    patterns = tuple((pattern["name"], pattern["pattern"]) for pattern in row.patterns)
    return redaction.redactor(tuple(row.kinds), patterns)


def changes_of(row: models.Model, redactor: Redactor) -> dict[str, Any]:
    """What the columns of a row that declare a query's text or a remark say once they are redacted; keys by which programs find the
    row stay."""
    keys = {name for constraint in row._meta.total_unique_constraints for name in constraint.fields}
    keys |= {
        name
        for constraint in row._meta.constraints
        if isinstance(constraint, models.UniqueConstraint)
        for name in constraint.fields
    }
    changes = {}
    for column in holds.columns(type(row), Content.QUERY | Content.REMARK):
        if column.name not in keys:
            value = redactor.value(getattr(row, column.attname))
            changes[column.attname] = value[: column.max_length] if isinstance(value, str) else value
    return changes


def days_of(column: str) -> dict[int, int]:
    """What this column says of each pool that says it itself."""
    return dict(Privacy.objects.exclude(**{column: None}).values_list("pool_id", column))


def delete_old(
    rows: models.QuerySet[Any],
    at: str,
    *,
    default: int,
    rows_at_once: int = 2_000,
    beside: Callable[[list[Any]], object] = list,
    whole_days: bool = False,
) -> int:
    """Delete those of the rows whose time `at` is longer ago than their pool keeps them, as their model declares, else `default` days,
    in small transactions; how many. `beside` is called with the keys of rows that were deleted. With `whole_days`, a day of UTC goes
    when all of it is that old."""
    days_by_pool, deleted = days_of(holds.days(rows.model)), 0
    for pool in Pool.objects.values_list("pk", flat=True):
        before = timezone.now() - timedelta(days=days_by_pool.get(pool, default))
        if whole_days:
            before = before.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        old = rows.filter(**{"pool": pool, f"{at}__lt": before}).order_by(at)
        while keys := list(old.values_list("pk", flat=True)[:rows_at_once]):
            deleted += len(keys)
            rows.model._default_manager.filter(pk__in=keys).delete()
            beside(keys)
    return deleted
