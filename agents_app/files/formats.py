"""The records of a file, whatever its format. Runs in the child process: no Django here, and nothing that writes."""

from __future__ import annotations

import codecs
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, BinaryIO, cast

from agents_app.files.json_records import named, names_of, records_in
from training_app.engine.data.examples import RowError
from training_app.engine.data.file_rows import short
from training_app.engine.data.files import MAX_LINE, own_table, read_objects, read_records, read_rows

#: How a file is built. `csv` is a table as this product writes it, `lines` one query a line, `object` one JSON object with a list of
#: records somewhere in it, `zip` an archive of files that are each built as the first of them.
KINDS = ("table", "csv", "xlsx", "objects", "array", "object", "lines", "zip")
#: Characters of one JSON object that is read whole.
MAX_OBJECT = 64 << 20


def gettext_noop(message: str) -> str:
    """Mark a sentence for translation; the process that shows it translates it."""
    return message


class Unreadable(ValueError):
    """A file that cannot be read. `message` is one sentence that says why and what to do, with `%(name)s` for its `values`."""

    def __init__(self, message: str, **values: Any) -> None:
        self.message, self.values = message, values
        super().__init__(message % values if values else message)


@dataclass(frozen=True, slots=True)
class Reading:
    """How a file is read, as it is kept with an import.

    `columns`: one of ours ("text", "required_agents", …) → the file's, by its name in JSON, by its place (as text) in a table. `skip`:
    so many records stand above a table's header. `header`: a table has a row of names. `keep`: other columns are kept with the query.
    `shape`: the tool whose export it is, "" for none. `values`: what a label is called in the file, normalised → the agents that are
    meant, [] for none of them, None to leave its query without a label. `empty`: what an empty cell of labels means, "unlabeled" or
    "none". `further`: columns that hold labels beside `required_agents`, and how each is read, as `datasets_app.files.label_columns`
    has it.
    """

    kind: str
    encoding: str = "utf-8"
    delimiter: str = ","
    header: bool = True
    columns: Mapping[str, str] = field(default_factory=dict)
    keep: bool = True
    skip: int = 0
    shape: str = ""
    values: Mapping[str, list[int] | None] = field(default_factory=dict)
    empty: str = "unlabeled"
    further: Mapping[str, str] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Reading:
        return cls(**stored)


#: One record of a file: the line on which it begins, and its cells by place, or its values by key.
Record = tuple[int, list[Any] | dict[str, Any]]


def records(stream: BinaryIO, reading: Reading) -> Iterator[Record | RowError]:
    """The records of a file, its header among them. Raises Unreadable where the file as a whole cannot be read."""
    if reading.kind == "xlsx":
        from agents_app.files import workbooks  # few files are workbooks, and the package takes a moment to load

        return workbooks.records(stream)
    if reading.kind == "zip":
        from agents_app.files import archives

        return archives.records(stream)
    text = recoded(stream, reading.encoding)
    if reading.kind == "table":
        return cast("Iterator[Record | RowError]", read_records(text, reading.delimiter))
    if reading.kind == "csv":
        return own_table(text)
    if reading.kind == "objects":
        return read_objects(text, lambda line, values: (line, values))
    if reading.kind == "array":
        return _array(text)
    if reading.kind == "object":
        return _object(text)
    if reading.kind == "lines":
        return _lines(text)
    raise ValueError(f"unknown kind of file {reading.kind!r}: one of {', '.join(KINDS)}")


def recoded(stream: BinaryIO, encoding: str) -> BinaryIO:
    """A binary stream of some encoding as one of UTF-8."""
    return stream if encoding == "utf-8" else one_stream(_in_utf_8(stream, encoding))


def _in_utf_8(stream: BinaryIO, encoding: str) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
    while piece := stream.read(1 << 16):
        yield decoder.decode(piece).encode("utf-8", "surrogatepass")
    yield decoder.decode(b"", final=True).encode("utf-8", "surrogatepass")


def one_stream(pieces: Iterator[bytes]) -> BinaryIO:
    """Pieces as one binary stream, one of them in memory at a time."""
    return cast(BinaryIO, io.BufferedReader(_Pieces(pieces), 1 << 16))


class _Pieces(io.RawIOBase):
    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces, self._rest = pieces, memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._rest = memoryview(piece)
        size = min(len(buffer), len(self._rest))
        buffer[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size


def _lines(stream: BinaryIO) -> Iterator[Record | RowError]:
    for row in read_rows(stream, "txt", ()):
        yield row if isinstance(row, RowError) else (row.line, [row.text])


def _object(stream: BinaryIO) -> Iterator[Record | RowError]:
    """The records in one JSON object: its longest list of objects, wherever it stands, or the object itself."""
    text = stream.read(MAX_OBJECT + 1).decode("utf-8-sig", "replace")
    if len(text) > MAX_OBJECT:
        raise Unreadable(gettext_noop("This is one JSON object of more than 64 MB. Give one object on each line."))
    try:
        whole = json.loads(text, parse_constant=lambda name: None)
    except RecursionError:
        raise Unreadable(gettext_noop("This JSON is nested too deep to be read.")) from None
    except ValueError as error:
        line = getattr(error, "lineno", 1)
        raise Unreadable(gettext_noop("This is no JSON that can be read: see line %(line)d."), line=line) from None
    yield from enumerate(records_in(whole), start=1)


# ---------------------------------------------------------------------------------------------------- JSON arrays

_DECODER = json.JSONDecoder(parse_constant=lambda name: None)
_BETWEEN = " \t\r\n,"


def _array(stream: BinaryIO) -> Iterator[Record | RowError]:
    """The elements of one JSON array, of objects, of texts or of rows, as they come; the line is the element's number."""
    text = io.TextIOWrapper(stream, encoding="utf-8-sig", errors="replace")
    try:
        yield from _elements(text)
    finally:
        text.detach()  # the stream stays open: it is the caller's


def _elements(text: io.TextIOWrapper) -> Iterator[Record | RowError]:
    held = text.read(1 << 16).lstrip()
    if not held.startswith("["):
        raise Unreadable(gettext_noop("The file does not begin with “[”, as a JSON array does."))
    at, number, over = 1, 0, False
    names: list[str] = []  # of the columns, where the elements are rows
    tried = 0  # characters of an element that did not end yet, when it was last tried
    while True:
        while at < len(held) and held[at] in _BETWEEN:
            at += 1
        if at < len(held) and held[at] == "]":
            return
        try:
            if not over and len(held) - at < 2 * tried:
                raise ValueError("too little more to try again")
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
            tried = max(tried, len(held) - at) if "try again" not in str(error) else tried
            more = text.read(1 << 16)
            over = not more
            held, at = held[at:] + more, 0
            continue
        at, tried = end, 0
        number += 1
        if isinstance(value, dict):
            yield number, value
        elif isinstance(value, str):
            yield number, {"text": value}
        elif isinstance(value, list) and number == 1 and (names := names_of(value)):
            continue
        elif isinstance(value, list):
            yield number, named(value, names)
        else:
            reason = f"must be an object, a text or a list, not {type(value).__name__}"
            yield RowError(number, reason, excerpt=short(value))
