"""Rows from before texts were checked at the door: what cannot be stored on every database is mended, and told.

Only SQLite ever took such text (a NUL, half of a surrogate pair), so elsewhere there is nothing to look for.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError, connection, models, transaction

from training_app.engine.data import storable


@dataclass(frozen=True, slots=True)
class Mended:
    """One value: the table, its row's key, the column, and what was wrong. `done`: False where another row has the mended value."""

    table: str
    key: Any
    column: str
    reasons: tuple[str, ...]
    done: bool = True

    def __str__(self) -> str:
        what = "; ".join(self.reasons[:3]) + (f"; and {len(self.reasons) - 3} more" if len(self.reasons) > 3 else "")
        end = "" if self.done else " (NOT mended: another row has that value already; change it by hand)"
        return f"{self.table} {self.key}, {self.column}: {what}{end}"


def mend(found: Iterable[type[models.Model]]) -> Iterator[Mended]:
    """Mend the texts and JSON of these models' tables, a row at a time, and tell each change as it is made."""
    if connection.vendor != "sqlite":
        return
    for model in found:
        if model._meta.proxy or not model._meta.managed:
            continue
        for field in model._meta.concrete_fields:
            if isinstance(field, models.CharField | models.TextField | models.JSONField):
                yield from _mend_column(model, field)


def _mend_column(model: type[models.Model], field: "models.Field[Any, Any]") -> Iterator[Mended]:
    quote = connection.ops.quote_name
    table, column, key = (quote(str(name)) for name in (model._meta.db_table, field.column, model._meta.pk.column))
    escaped = (
        f"OR {column} LIKE '%%\\u0000%%' OR {column} LIKE '%%\\ud%%'" if isinstance(field, models.JSONField) else ""
    )
    with connection.cursor() as cursor:
        cursor.execute(  # our own names
            f"SELECT {key}, {column} FROM {table} WHERE instr(CAST({column} AS BLOB), x'00') > 0 {escaped}",  # noqa: S608
            [],
        )
        suspects = cursor.fetchall()
    for pk, raw in suspects:
        value = json.loads(raw) if isinstance(field, models.JSONField) else raw
        whole, faults = storable.mended(value)
        if not faults:
            continue
        stored = json.dumps(whole) if isinstance(field, models.JSONField) else whole
        try:
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute(f"UPDATE {table} SET {column} = %s WHERE {key} = %s", [stored, pk])  # noqa: S608
            done = True
        except IntegrityError:
            done = False
        yield Mended(model._meta.db_table, pk, str(field.column), tuple(str(fault) for fault in faults), done)
