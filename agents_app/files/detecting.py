"""What a file is, from its first bytes: how it is built and in which encoding. Runs in the child process."""

from __future__ import annotations

import contextlib
import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, BinaryIO

from agents_app.files import encodings
from agents_app.files.formats import Reading, Record, Unreadable, gettext_noop, records
from agents_app.files.json_records import records_in
from agents_app.files.names import NAMES, known_names, plain_name
from training_app.engine.data.examples import RowError

#: So many bytes are looked at, so many records judged, and so many characters of them sent on.
HEAD = 1 << 20
JUDGED = 200
JUDGED_CHARACTERS = 4 << 20
#: A table's header stands among the first so many rows, behind titles.
TITLES = 15
#: How a JSON array begins; lines of text may begin with a bracket too ("[EXTERNAL] …", "[12:05] …").
_ARRAY = re.compile(r'\[\s*(?:[\[{"]|\]\s*$|-?\d+(?:\.\d+)?\s*[,\n])')
#: Files that are no text, by how they begin: what they are.
_BINARY = {
    b"%PDF": "PDF",
    b"\xd0\xcf\x11\xe0": "XLS",
    b"\x1f\x8b": "GZIP",
    b"\x89PNG": "PNG",
    b"\xff\xd8\xff": "JPEG",
    b"7z\xbc\xaf": "7z",
    b"Rar!": "RAR",
    b"SQLite format": "SQLite",
    b"PAR1": "Parquet",
}


def detect(stream: BinaryIO, file_name: str) -> Reading:
    """How a file is best read; its columns are still to be named. Raises Unreadable with one sentence where it cannot be."""
    head = stream.read(HEAD)
    stream.seek(0)
    if not head.strip(b"\xef\xbb\xbf \t\r\n"):
        raise Unreadable(gettext_noop("The file is empty. Choose one that holds queries."))
    _refuse(head)
    if not head.startswith(b"PK\x03\x04"):
        return _text_reading(head, file_name)
    if b"mimetypeapplication/vnd.oasis" in head[:120]:
        raise Unreadable(gettext_noop("This is an OpenDocument file. Save it as .xlsx or CSV."))
    if b"[Content_Types].xml" not in head and b"xl/" not in head:
        return Reading("zip")
    return Reading("xlsx")


def head(stream: BinaryIO, file_name: str, stored: Mapping[str, Any] | None) -> Iterator[Any]:
    """How a file is read, as JSON, by `stored` or else as detected; then its first records, as `plain` gives them."""
    reading = Reading.of(stored) if stored else detect(stream, file_name)
    first = list(islice(_few(stream, reading), JUDGED + 1))
    yield reading.as_json()
    characters = 0
    for record in plain(first):
        characters += len(json.dumps(record))
        if characters > JUDGED_CHARACTERS:
            return
        yield record


def plain(records: Iterator[Record | RowError] | Sequence[Record | RowError]) -> Iterator[list[Any]]:
    """Records as JSON has them: [line, cells], or [line, reason, field, excerpt] for what is wrong with one."""
    for record in records:
        if isinstance(record, RowError):
            yield [record.line, record.reason, record.field, record.excerpt]
        else:
            yield list(record)


def all_records(stream: BinaryIO, stored: Mapping[str, Any]) -> Iterator[list[Any]]:
    """Every record of a file, as `plain` gives them."""
    return plain(records(stream, Reading.of(stored)))


def _few(stream: BinaryIO, reading: Reading) -> Iterator[Record | RowError]:
    """The file's first records, from its head alone where it is a text: what breaks off at its end is left out."""
    if reading.kind in ("xlsx", "zip", "object"):
        yield from records(stream, reading)
        return
    beginning = stream.read(HEAD)
    whole = len(beginning) < HEAD
    if not whole:
        beginning = beginning[: beginning.rfind(b"\n") + 1] or beginning
    rows = list(islice(records(io.BytesIO(beginning), reading), JUDGED + 2))
    if not whole and rows and isinstance(rows[-1], RowError):
        rows.pop()
    yield from rows


def _refuse(beginning: bytes) -> None:
    kind = next((what for sign, what in _BINARY.items() if beginning.startswith(sign)), "")
    if kind == "XLS":
        raise Unreadable(
            gettext_noop("This is an old Excel file (.xls) or one with a password. Save it as .xlsx or CSV.")
        )
    if kind == "GZIP":
        raise Unreadable(gettext_noop("This file is compressed. Unpack it first."))
    if kind:
        raise Unreadable(
            gettext_noop("This is a %(kind)s file, not a table or text. Save the queries as CSV."), kind=kind
        )
    start = beginning[:500].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if start.startswith((b"<!doctype html", b"<html", b"<?xml", b"<table")):
        raise Unreadable(
            gettext_noop("This is a web page or XML, not a table. Open it in a spreadsheet and save it as CSV.")
        )


# ---------------------------------------------------------------------------------------------------- how it is built


def encoding_of(beginning: bytes) -> str:
    """The encoding that a text's first bytes are most likely in. Raises Unreadable for what is no text."""
    if beginning.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    if b"\0" in beginning and (wide := encodings.wide(beginning)):
        return wide
    if b"\0" in beginning:
        raise Unreadable(gettext_noop("This is no text: it holds zero bytes. Save the queries as CSV or one a line."))
    try:
        io.TextIOWrapper(io.BytesIO(beginning), encoding="utf-8").read()
        return "utf-8"
    except UnicodeDecodeError as error:
        if error.start > len(beginning) - 4 and len(beginning) >= HEAD:  # the head ends within a character
            return "utf-8"
    return encodings.guessed(beginning)


def _text_reading(beginning: bytes, file_name: str) -> Reading:
    encoding = encoding_of(beginning)
    text = beginning.decode("utf-8-sig" if encoding == "utf-8" else encoding, errors="replace")
    start = text.lstrip()
    if _ARRAY.match(start):
        with contextlib.suppress(ValueError, RecursionError):
            json.loads(start.split("\n", 1)[0])
            if "\n" in start.strip() and start.split("\n", 2)[1].lstrip().startswith("["):
                return Reading("lines", encoding)  # lists, one a line: no form of ours, shown as it stands
        return Reading("array", encoding)
    if start.startswith("{"):
        first = start.split("\n", 1)[0]
        try:
            json.loads(first)
            whole = len(start.strip()) == len(first.strip())
            return Reading("object" if whole and _holds_records(first) else "objects", encoding)
        except (ValueError, RecursionError):
            if '"' in first or first.strip() == "{":
                return Reading("object", encoding)
    delimiter = _delimiter(text, file_name)
    return Reading("table", encoding, delimiter) if delimiter else Reading("lines", encoding)


def _holds_records(text: str) -> bool:
    """Whether a JSON object is no record itself but holds several somewhere in it."""
    value = json.loads(text)
    return isinstance(value, dict) and records_in(value) != [value]


def _delimiter(text: str, file_name: str) -> str:
    """What stands between a table's cells; "" for lines of text."""
    lines = [line for line in text.splitlines()[:50] if line.strip()]
    headings = known_names()
    for line in lines[:TITLES]:
        for delimiter in "\t;,|":
            cells = [plain_name(cell) for cell in line.split(delimiter)]
            if len(cells) > 1 and headings & set(cells) and max(map(len, cells)) < 60:
                return delimiter
    if plain_name(lines[0]) in NAMES["text"]:
        return ","  # one column with a header
    named = file_name.lower().rsplit(".", 1)[-1]
    if named in ("csv", "tsv", "tab"):
        counts = {d: [line.count(d) for line in lines[:20]] for d in "\t;,|"}
        return (
            max(counts, key=lambda d: (min(counts[d]) > 0, sum(counts[d]))) if any(map(any, counts.values())) else ","
        )
    for delimiter in "\t;|":
        if len(lines) > 1 and all(line.count(delimiter) == lines[0].count(delimiter) > 0 for line in lines[:20]):
            return delimiter
    return ""
