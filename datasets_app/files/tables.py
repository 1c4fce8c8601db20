"""Files as people have them: spreadsheets, exports with any separator or encoding, JSON arrays, pasted lines.

`datasets_app.files.looking` finds out how a file is to be read and proposes what its columns are; a person may correct both. What
they agreed on is a `Reading`, kept with the import, and `rows` reads the whole file by it, row by row, bad rows named.
"""

import codecs
import io
import json
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date, datetime, time
from typing import Any, BinaryIO, cast

from django.utils.translation import gettext as _

from training_app.engine.data.examples import Agent, Row, RowError
from training_app.engine.data.file_rows import COLUMNS, TURN_COLUMNS, BadRow, Roster, row_of, short
from training_app.engine.data.files import MAX_LINE, agents_cell, json_cell, read_objects, read_records, read_rows

#: How a file is built. `lines` is one query a line.
KINDS = ("table", "xlsx", "objects", "array", "lines")
ENCODINGS = ("utf-8", "cp1252", "cp1251", "utf-16")
#: What a workbook may unpack to: beyond, it is a bomb or wants splitting.
MAX_UNPACKED = 1 << 30
_SPOOL = 8 << 20


class Unreadable(ValueError):
    """A file that cannot be read in; the message is one sentence that says why and what to do."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How a file is read. `columns`: one of ours ("text", "required_agents", …) → the file's, by its name in JSON, by its
    place (as text) in a table. `header`: a table's first row holds names. `keep`: other columns are kept with the query."""

    kind: str
    encoding: str = "utf-8"
    delimiter: str = ","
    header: bool = True
    columns: Mapping[str, str] = field(default_factory=dict)
    keep: bool = True

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> "Reading":
        return cls(**stored)


#: One record of a file: the line on which it begins, and its cells by place, or its values by key.
Record = tuple[int, list[Any] | dict[str, Any]]


def records(stream: BinaryIO, reading: Reading) -> Iterator[Record | RowError]:
    """The records of a file, its header among them. Raises Unreadable where the file as a whole cannot be read."""
    if reading.kind == "xlsx":
        return _workbook(stream)
    text = (
        stream if reading.encoding == "utf-8" else cast(BinaryIO, io.BufferedReader(Recoded(stream, reading.encoding)))
    )
    if reading.kind == "table":
        return cast("Iterator[Record | RowError]", read_records(text, reading.delimiter))
    if reading.kind == "objects":
        return read_objects(text, lambda line, values: (line, values))
    if reading.kind == "array":
        return _array(text)
    return _lines(text)


def rows(stream: BinaryIO, reading: Reading, agents: Sequence[Agent]) -> Iterator[Row | RowError]:
    """A file's queries by what its columns were said to be; blank records are passed over."""
    roster = Roster(agents)
    names: list[str] | None = None
    for record in records(stream, reading):
        if isinstance(record, RowError):
            yield record
            continue
        line, cells = record
        if isinstance(cells, list) and reading.header and reading.kind in ("table", "xlsx") and names is None:
            names = [str(cell).strip() for cell in cells]
            continue
        try:
            values = _values(cells, names, reading, roster)
            if values is not None:
                yield row_of(line, values, roster)
        except BadRow as error:
            yield error.at(line)


def _values(
    cells: list[Any] | dict[str, Any], names: list[str] | None, reading: Reading, roster: Roster
) -> dict[str, Any] | None:
    """What a record says under our names; None for a blank one. Raises BadRow."""
    if isinstance(cells, list):
        if not any(str(cell).strip() for cell in cells):
            return None
        if names is not None and len(names) == 1 and len(cells) > 1:  # a list of texts, which hold commas
            cells = [reading.delimiter.join(map(str, cells))]
        if names is not None and any(str(cell).strip() for cell in cells[len(names) :]):
            joined = " · ".join(map(str, cells))
            raise BadRow(f"has {len(cells)} cells where the header has {len(names)}", excerpt=short(joined))
        by_name: dict[str, Any] = {str(place): cell for place, cell in enumerate(cells)}
    else:
        by_name = cells
    taken = {ours: by_name.get(theirs) for ours, theirs in reading.columns.items()}
    values: dict[str, Any] = {ours: value for ours, value in taken.items() if ours in (*COLUMNS, *TURN_COLUMNS)}
    if isinstance(values.get("messages"), str):
        values["messages"] = json_cell(values["messages"], "messages")
    for ours in ("required_agents", "asked_agents"):
        if isinstance(values.get(ours), str):
            values[ours] = agents_cell(values[ours], roster, ours)
        elif isinstance(values.get(ours), int):
            values[ours] = [values[ours]]
    for ours in ("id", "split"):
        if isinstance(values.get(ours), float) and values[ours].is_integer():
            values[ours] = int(values[ours])
    if isinstance(values.get("text"), int | float) and not isinstance(values["text"], bool):
        values["text"] = str(values["text"])
    if reading.keep:
        for key, value in by_name.items():
            name = key if names is None or not isinstance(cells, list) else _name(names, key)
            if key not in reading.columns.values() and name and name not in COLUMNS and value not in (None, ""):
                values[name] = value
    return values


def _name(names: Sequence[str], place: str) -> str:
    return names[int(place)] if int(place) < len(names) else ""


class Recoded(io.RawIOBase):
    """A binary stream of some encoding as one of UTF-8."""

    def __init__(self, stream: BinaryIO, encoding: str) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
        self._rest = b""
        self._over = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest and not self._over:
            piece = self._stream.read(1 << 16)
            self._over = not piece
            self._rest = self._decoder.decode(piece, final=self._over).encode("utf-8", "surrogatepass")
        size = min(len(buffer), len(self._rest))
        buffer[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size


def _lines(stream: BinaryIO) -> Iterator[Record | RowError]:
    for found in read_rows(stream, "txt", ()):
        yield found if isinstance(found, RowError) else (found.line, [found.text])


# ---------------------------------------------------------------------------------------------------- JSON arrays

_DECODER = json.JSONDecoder(parse_constant=lambda name: None)
_BETWEEN = " \t\r\n,"


def _array(stream: BinaryIO) -> Iterator[Record | RowError]:
    """The elements of one JSON array, of objects or of texts, as they come; the line is the element's number."""
    text = io.TextIOWrapper(stream, encoding="utf-8-sig", errors="replace")
    held = text.read(1 << 16).lstrip()
    if not held.startswith("["):
        raise Unreadable(_("The file does not begin with “[”, as a JSON array does."))
    at, number, over = 1, 0, False
    while True:
        while at < len(held) and held[at] in _BETWEEN:
            at += 1
        if at < len(held) and held[at] == "]":
            return
        try:
            value, end = _DECODER.raw_decode(held, at)
            if end == len(held) and not over:
                raise ValueError("it may go on")
        except (ValueError, RecursionError) as error:
            if len(held) - at > MAX_LINE or over:
                reason = f"the array breaks off or is no JSON behind element {number}"
                yield RowError(number + 1, reason, excerpt=short(held[at : at + 200]))
                return
            if isinstance(error, RecursionError):
                yield RowError(number + 1, "not JSON that can be kept: nested too deep")
                return
            more = text.read(1 << 16)
            over = not more
            held, at = held[at:] + more, 0
            continue
        at = end
        number += 1
        if isinstance(value, dict):
            yield number, value
        elif isinstance(value, str):
            yield number, {"text": value}
        else:
            yield RowError(number, f"must be an object or a text, not {type(value).__name__}", excerpt=short(value))


# ---------------------------------------------------------------------------------------------------- workbooks


def _workbook(stream: BinaryIO) -> Iterator[Record | RowError]:
    """The rows of a workbook's first sheet that holds any, as texts and numbers. Raises Unreadable."""
    with tempfile.SpooledTemporaryFile(max_size=_SPOOL) as copy:
        while piece := stream.read(1 << 20):
            copy.write(piece)
        copy.seek(0)
        yield from sheet(cast(BinaryIO, copy))


def sheet(file: BinaryIO) -> Iterator[Record]:
    """The same of a file that can be sought in."""
    # Here, not above: few processes ever read a workbook, and the package takes a moment to load.
    from openpyxl import load_workbook
    from openpyxl.utils.exceptions import InvalidFileException

    try:
        with zipfile.ZipFile(file) as packed:
            unpacked = sum(one.file_size for one in packed.infolist())
        if unpacked > MAX_UNPACKED:
            raise Unreadable(
                _("The workbook unpacks to %(size)s MB, more than is read. Save the sheet as CSV.")
                % {"size": unpacked >> 20}
            )
        file.seek(0)
        book = load_workbook(file, read_only=True, data_only=True)
    except (zipfile.BadZipFile, InvalidFileException, KeyError, OSError, ValueError) as error:
        if isinstance(error, Unreadable):
            raise
        raise Unreadable(
            _("This is no Excel workbook that can be read, or it has a password. Save it as .xlsx or CSV.")
        ) from None
    try:
        for one in book.worksheets:
            found = False
            for number, cells in enumerate(one.iter_rows(values_only=True), start=1):
                values = [_cell(cell) for cell in cells]
                while values and values[-1] == "":
                    values.pop()
                if values:
                    found = True
                    yield number, values
            if found:
                return
    finally:
        book.close()


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    return value if isinstance(value, str | int | float | bool) else str(value)
