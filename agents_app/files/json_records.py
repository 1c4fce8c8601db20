"""The records in a JSON value of any build: a list of objects somewhere in it, tables by column or by row, labels by text. Runs in the
child process: no Django here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agents_app.files.names import NAMES, known_names, plain_name

Json = dict[str, Any]

#: Lists within one record, and no lists of records.
INNER = (
    "messages", "annotations", "completions", "predictions", "responses", "suggestions", "options", "spans", "dialogue",
    "conversation",
)  # fmt: skip
#: Values of one level that are looked through at most.
MAX_WIDTH = 100_000
#: From so many texts on, each with one label, an object is no record itself.
LEAST_TEXTS = 3
LONGEST_NAME = 30  # characters of a column's name
TEXT = frozenset(NAMES["text"])


def records_in(whole: Any) -> list[Json]:
    """The records in a JSON value: its longest list of objects, wherever it stands; else a table by column or by row, the objects that
    it holds by their ids, or labels by text; else the value itself."""
    level = [whole]
    while level:
        objects = [item for item in level if isinstance(item, dict)]
        lists = [value for item in objects for name, value in item.items() if name not in INNER and _of_objects(value)]
        if lists:
            return max(lists, key=len)
        objects = [item for item in objects if not _has_text(item)]
        for records_of in (_by_column, _by_row, _by_id, _by_text):
            found = [records for item in objects if (records := records_of(item))]
            if found:
                return max(found, key=len)
        level = [value for item in objects for value in item.values()][:MAX_WIDTH]
    return [whole] if isinstance(whole, dict) else []


def named(cells: Sequence[Any], names: Sequence[str]) -> Json:
    """A row of a table as a record: cells without a name are called by their places."""
    return {names[place] if place < len(names) else str(place + 1): cell for place, cell in enumerate(cells)}


def names_of(cells: Sequence[Any]) -> list[str]:
    """The names that a table's first row gives its columns; none where it is a row like the others."""
    names = [str(cell).strip() for cell in cells]
    return names if len(set(names)) == len(names) and known_names() & set(map(plain_name, names)) else []


def _of_objects(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)


def _has_text(values: Json) -> bool:
    """Whether an object is a record itself: it has a text, by name."""
    return bool(_plain_names(name for name, value in values.items() if isinstance(value, str)) & TEXT)


def _plain_names(keys: Iterable[str]) -> set[str]:
    """The keys that may be names of columns, in the form of NAMES: others are texts, of which there may be very many."""
    return {plain_name(key) for key in keys if len(key) <= LONGEST_NAME}


def _by_id(by_key: Json) -> list[Json]:
    """The records of an object that has each under its id: two or more, alike in their keys."""
    if len(by_key) < 2 or not all(isinstance(value, dict) and value for value in by_key.values()):
        return []
    keys = [set(value) for value in by_key.values()]
    alike = 2 * len(set.intersection(*keys)) > len(set.union(*keys))
    return [{"id": key, **value} for key, value in by_key.items()] if alike else []


def _by_column(columns: Json) -> list[Json]:
    """The rows of a table whose columns are lists, or cells by the row's number (as pandas writes them): one is named as texts are."""
    if not _plain_names(columns) & TEXT:
        return []
    values = list(columns.values())
    if all(isinstance(value, dict) for value in values):
        rows = list(dict.fromkeys(row for value in values for row in value))
        return [{name: cells.get(row) for name, cells in columns.items()} for row in rows]
    if all(isinstance(value, list) for value in values) and len(set(map(len, values))) == 1:
        return [dict(zip(columns, cells, strict=True)) for cells in zip(*values, strict=True)]
    return []


def _by_row(table: Json) -> list[Json]:
    """The rows of a table that are lists, under names that stand beside them ("columns") or in the first of them."""
    rows = next((value for value in table.values() if _of_lists(value)), None)
    if rows is None:
        return []
    names = next((list(map(str, table[key])) for key in ("columns", "header") if isinstance(table.get(key), list)), [])
    if not names and (names := names_of(rows[0])):
        rows = rows[1:]
    return [named(cells, names) for cells in rows]


def _of_lists(value: Any) -> bool:
    """Whether a value is a table of two columns or more, with a text in every row."""
    return (
        isinstance(value, list)
        and len(value) > 1
        and all(isinstance(row, list) and len(row) > 1 and any(isinstance(cell, str) for cell in row) for row in value)
    )


def _by_text(by_key: Json) -> list[Json]:
    """The texts of an object that has labels by text, or texts by label: the longer ones are the texts."""
    entries = {key: [value] if isinstance(value, str) else value for key, value in by_key.items()}
    lists = all(isinstance(value, list) for value in by_key.values())
    if len(entries) < (2 if lists else LEAST_TEXTS) or _plain_names(entries) & known_names():
        return []
    if not all(isinstance(value, list) and all(isinstance(item, str) for item in value) for value in entries.values()):
        return []
    inside = [item for value in entries.values() for item in value]
    if _words(entries) >= _words(inside):
        return [{"text": text, "labels": labels} for text, labels in entries.items()] if _words(entries) > 2 else []
    if not lists:
        return []  # names and what they are: one record
    return [{"text": text, "labels": [label]} for label, texts in entries.items() for text in texts]


def _words(texts: Sequence[str] | Mapping[str, Any]) -> float:
    """How many words the texts have in the mean; of those without spaces, as Chinese, two characters count as one."""
    lengths = [len(text.split()) if text.isascii() or " " in text else len(text) / 2 for text in texts]
    return sum(lengths) / max(1, len(lengths))
