"""Writing many new rows of one table at once, without an object for each: what an import of a hundred thousand rows needs."""

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from django.db import connection, models
from django.db.models.expressions import RawSQL
from django.utils import timezone

Field = models.Field[Any, Any]

#: What SQLite does on this connection while many batches go in: 8 MB of pages stay in memory, for 2; its log is copied into the file
#: every 40 MB, for 4. Hashes come in no order, so every batch writes on most pages of their indexes, and a page is copied less often.
ROOMY = {"cache_size": -8_000, "wal_autocheckpoint": 10_000}


@contextmanager
def many_batches() -> Iterator[None]:
    """Around what writes batch after batch; the first commit behind it copies the log."""
    if connection.vendor != "sqlite":
        yield
        return
    with connection.cursor() as cursor:
        before = {name: cursor.execute(f"PRAGMA {name}").fetchone()[0] for name in ROOMY}
        for name, value in ROOMY.items():
            cursor.execute(f"PRAGMA {name} = {value}")
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            for name, value in before.items():
                cursor.execute(f"PRAGMA {name} = {value}")


def insert(model: type[models.Model], columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[int]:
    """Insert rows given as values of `columns` (names of attributes, like "group_id"); every other column gets its default.

    A JSON column takes its JSON as text. Returns the keys in the order of the rows. To be called in a transaction; on SQLite the keys
    are free because that transaction is the only one that writes.
    """
    if not rows:
        return []
    fields = [_field(model, name) for name in columns]
    rest = [field for field in model._meta.concrete_fields if not field.primary_key and field not in fields]
    same = tuple(field.get_db_prep_save(_default(field), connection) for field in rest)
    keys = _take_keys(model, len(rows))
    names = [model._meta.pk.column, *(field.column for field in (*fields, *rest))]
    _write(model._meta.db_table, [str(name) for name in names], _values(keys, rows, same))
    return keys


def among(values: Sequence[str]) -> Any:
    """What `column__in=` takes for a thousand texts: on SQLite one parameter, where Django would look at each of a thousand."""
    if connection.vendor == "sqlite":
        return RawSQL("SELECT value FROM json_each(%s)", [json.dumps(values)])
    return values


def _field(model: type[models.Model], attribute: str) -> Field:
    return next(field for field in model._meta.concrete_fields if field.attname == attribute)


def _default(field: Field) -> Any:
    if getattr(field, "auto_now", False) or getattr(field, "auto_now_add", False):
        return timezone.now()
    return field.get_default()


def _values(keys: Sequence[int], rows: Iterable[Sequence[Any]], same: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    for key, row in zip(keys, rows, strict=True):
        yield (key, *row, *same)


def _take_keys(model: type[models.Model], count: int) -> list[int]:
    table = model._meta.db_table
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute("SELECT seq FROM sqlite_sequence WHERE name = %s", [table])
            reserved = cursor.fetchone()
            last = int(reserved[0]) if reserved else 0
            return list(range(last + 1, last + 1 + count))
        key = model._meta.pk.column
        cursor.execute(
            "SELECT nextval(pg_get_serial_sequence(%s, %s)) FROM generate_series(1, %s)", [table, key, count]
        )
        return [row[0] for row in cursor.fetchall()]


def _write(table: str, names: Sequence[str], values: Iterator[tuple[Any, ...]]) -> None:
    quote = connection.ops.quote_name
    into = f"{quote(table)} ({', '.join(map(quote, names))})"
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            marks = ", ".join(["%s"] * len(names))
            cursor.executemany(f"INSERT INTO {into} VALUES ({marks})", list(values))  # noqa: S608  (our own names)
            return
        with cursor.copy(f"COPY {into} FROM STDIN") as copy:
            for row in values:
                copy.write_row(row)
