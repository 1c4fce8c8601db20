"""The tables looked through by what their columns declare to hold, and words taken out of them."""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from django.db import IntegrityError, models, transaction

from agents_app.texts import narrowing
from routerweb import holds
from routerweb.erasing import Lookup

Column = narrowing.Column
AT_ONCE = 500
#: Rows that are named by their keys.
MOST_NAMED = 10_000


def values(rows: models.QuerySet[Any], columns: Sequence[Column]) -> Iterator[Any]:
    """(key, [value, …]) of each row in the order of keys; each value as what it says, unpacked."""
    heavy = any(isinstance(column, models.BinaryField) for column in columns)
    packings = [holds.packing(column) for column in columns]
    named = rows.order_by("pk").values_list("pk", *(column.attname for column in columns))
    for key, *row in named.iterator(chunk_size=1 if heavy else AT_ONCE):
        yield key, [packing.unpack(value) for packing, value in zip(packings, row, strict=True)]


def holding(
    model: type[models.Model], columns: Sequence[Column], lookup: Lookup
) -> Iterator[tuple[Any, dict[Column, Any]]]:
    """(key, column → value) of each row in which it stands, with the columns in which it does."""
    if columns:
        for key, row in _perhaps(model, columns, lookup):
            held = {
                column: value for column, value in zip(columns, row, strict=True) if value and lookup.found_in(value)
            }
            if held:
                yield key, held


def _perhaps(model: type[models.Model], columns: Sequence[Column], lookup: Lookup) -> Iterator[Any]:
    """`values` of the rows in which it may stand. Their keys are asked for first, as long as they are few: that needs no order."""
    every = model._base_manager.order_by()
    rows = narrowing.narrowed(every, columns, narrowing.of(lookup))
    keys = list(rows.values_list("pk", flat=True)[: MOST_NAMED + 1]) if rows is not every else None
    if keys is None or len(keys) > MOST_NAMED:
        yield from values(rows, columns)
        return
    for some in chunks(sorted(keys)):
        yield from values(every.filter(pk__in=some), columns)


def take_out(
    model: type[models.Model], columns: Sequence[Column], lookup: Lookup, spared: Collection[Any] = frozenset()
) -> int:
    """Take it out of these columns of every row but the `spared` ones, by their keys; in how many rows it stood. They are looked for
    outside of a transaction."""
    keys = [key for key, _held in holding(model, columns, lookup) if key not in spared]
    take_out_of(model, keys, columns, lookup)
    return len(keys)


def take_out_of(model: type[models.Model], keys: Sequence[Any], columns: Sequence[Column], lookup: Lookup) -> None:
    """Take it out of these columns of the rows with these keys, a few rows a transaction."""
    for some in chunks(keys):
        with transaction.atomic():
            list(model._base_manager.select_for_update(of=("self",), no_key=True).filter(pk__in=some).values_list("pk"))
            for key, row in list(values(model._base_manager.filter(pk__in=some), columns)):
                held = {column: value for column, value in zip(columns, row, strict=True) if value}
                changed = {column: lookup.taken_out(value) for column, value in held.items() if lookup.found_in(value)}
                if changed:
                    write(model, key, changed)


def rewrite(
    row: models.QuerySet[Any],
    column: str,
    change: Callable[[bytes], bytes | None],
    beside: Callable[[bytes], object] = lambda _written: None,
) -> bool:
    """Replace the packed bytes in a column of one row by what `change` makes of them, None for no change; whether it did.

    `change` works outside of the transaction, and once more where somebody else wrote meanwhile. `beside` is called with the bytes in
    the transaction that writes them.
    """
    while (before := row.values_list(column, flat=True).first()) is not None:
        after = change(bytes(before))
        if after is None:
            return False
        with transaction.atomic():
            now = row.select_for_update(of=("self",), no_key=True).values_list(column, flat=True).first()
            if now is not None and bytes(now) == bytes(before):
                row.update(**{column: after})
                beside(after)
                return True
    return False


def write(model: type[models.Model], key: Any, changes: dict[Column, Any]) -> None:
    """Store what columns of a row say now, as far as fits. Where two rows may not say the same, the row's key is added."""
    packed = {column.attname: _fitting(column, holds.packing(column).pack(value)) for column, value in changes.items()}
    rows = model._base_manager.filter(pk=key)
    try:
        with transaction.atomic():
            rows.update(**packed)
    except IntegrityError:
        distinct = {
            column.attname: _fitting(column, value, f" {key}")
            for column, value in changes.items()
            if isinstance(value, str) and isinstance(column, models.CharField)
        }
        with transaction.atomic():
            rows.update(**packed | distinct)


def _fitting(column: Column, value: Any, end: str = "") -> Any:
    if not isinstance(value, str):
        return value
    room = len(value) if column.max_length is None else column.max_length - len(end)
    return value[:room] + end


def chunks(keys: Sequence[Any]) -> list[Sequence[Any]]:
    """The keys in pieces that one statement takes."""
    return [keys[start : start + AT_ONCE] for start in range(0, len(keys), AT_ONCE)]
