"""What is in a file that somebody gave us. The only door to it: nothing is parsed in this process."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from agents_app.files import detecting, texts
from agents_app.files.formats import Reading, Record
from agents_app.files.limited import JOB, PAGE, Limits, Position, run
from training_app.engine.data.examples import RowError


@dataclass(frozen=True, slots=True)
class Head:
    """How a file is read, and its first records, bad ones too, a header among them."""

    reading: Reading
    first: tuple[Record | RowError, ...]


def head(stream: BinaryIO, file_name: str = "", reading: Reading | None = None, *, limits: Limits = PAGE) -> Head:
    """What a file is, or how it begins by a `reading` that a person has corrected. Raises Unreadable."""
    stored = {**reading.as_json(), "columns": {}} if reading else None
    answer = run(detecting.head, stream, file_name, stored, limits=limits)
    detected = Reading.of(next(answer))
    return Head(reading or detected, tuple(map(_record, answer)))


def records(
    stream: BinaryIO, reading: Reading, *, limits: Limits = JOB, position: Position | None = None
) -> Iterator[Record | RowError]:
    """Every record of a file, its header among them, as they are read; `position` says how far. Raises Unreadable."""
    stored = {**reading.as_json(), "columns": {}}
    return map(_record, run(detecting.all_records, stream, stored, limits=limits, position=position))


def stored_texts(stream: BinaryIO, reading: Reading | None = None) -> Iterator[tuple[int, str]]:
    """(line, text) of everything that stands in a stored file of any format and encoding, by the same reader that imports it.

    `reading` is how it was to be imported, where that is known. Cells, keys and values come parsed and unescaped; every line also
    comes as it stands, so that what an import could not read is not overlooked. A text may come several times. Raises Unreadable for
    what cannot be looked through within the limits: such a file may hold anything.
    """
    stored = {**reading.as_json(), "columns": {}} if reading else None
    yield from run(texts.texts, stream, stored, limits=JOB)


def _record(values: list[Any]) -> Record | RowError:
    return (values[0], values[1]) if len(values) == 2 else RowError(*values)
