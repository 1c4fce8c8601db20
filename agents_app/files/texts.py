"""Every text that a file holds, in whatever format and encoding it is. Runs in the child process.

For finding somebody in a stored file: nothing may be overlooked, so a text that may be read in two ways is given in both, and what no
reader of ours understands (a broken line, a wrong encoding, an unknown format) is given as the characters that stand there.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import zipfile
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO
from xml.etree import ElementTree

from agents_app.files.detecting import encoding_of
from agents_app.files.formats import Reading, Unreadable, recoded, records
from agents_app.files.workbooks import MAX_PARTS, MAX_UNPACKED
from training_app.engine.data.examples import RowError

#: Archives within archives are followed so deep.
DEEP = 2
#: A line without an end is given in pieces that overlap by more than a name has characters.
LONGEST, OVERLAP = 1 << 20, 4_096

_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_CONTROL = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_HIGH = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def texts(stream: BinaryIO, stored: Mapping[str, Any] | None, depth: int = 0) -> Iterator[tuple[int, str]]:
    """(line, text) of everything that stands in a file: each cell, key and value that an import by the reading `stored` would see,
    and each line as it stands, in every encoding that it may have. Raises Unreadable for an archive that unpacks to too much."""
    beginning = stream.read(1 << 20)
    stream.seek(0)
    if beginning.startswith(b"PK\x03\x04"):
        yield from _packed(stream, depth)
        stream.seek(0)
    for encoding in _encodings(beginning, stored):
        yield from _lines(stream, encoding)
        for kind in ("array", "objects", "table"):
            yield from _values(stream, kind, encoding, beginning, stored)


def _encodings(beginning: bytes, stored: Mapping[str, Any] | None) -> list[str]:
    """The encodings that a file may have, likely ones first."""
    encodings = [str(stored["encoding"])] if stored and stored.get("encoding") else []
    if beginning.startswith((b"\xff\xfe", b"\xfe\xff")):
        return list(dict.fromkeys([*encodings, "utf-16"]))
    if b"\0" in beginning:
        return list(dict.fromkeys([*encodings, "utf-8", "utf-16-le", "utf-16-be"]))
    try:
        likely = encoding_of(beginning)
    except Unreadable:
        likely = "utf-8"
    more = [likely] if likely == "utf-8" else [likely, "cp1252", "cp1251", "utf-8"]
    return list(dict.fromkeys([*encodings, *more]))


def _lines(stream: BinaryIO, encoding: str) -> Iterator[tuple[int, str]]:
    """Each line as it stands, and without the escapes that JSON or CSV write."""
    stream.seek(0)
    text = recoded(stream, encoding)
    number, overlap = 1, ""
    while raw := text.readline(LONGEST):
        line = overlap + raw.decode("utf-8", "replace")
        yield number, line
        if "\\" in line:
            yield number, unescaped(line)
        if '""' in line:
            yield number, line.replace('""', '"')
        ended = raw.endswith(b"\n")
        number, overlap = number + ended, "" if ended else line[-OVERLAP:]


def unescaped(text: str) -> str:
    """A text without the escapes of JSON: `\\n`, `\\"`, `\\u00e9`."""
    plain = _ESCAPE.sub(lambda match: chr(int(match[1], 16)) if match[1] else _CONTROL.get(match[2], match[2]), text)
    return _HIGH.sub(lambda pair: pair[0].encode("utf-16", "surrogatepass").decode("utf-16"), plain)


def _values(
    stream: BinaryIO, kind: str, encoding: str, beginning: bytes, stored: Mapping[str, Any] | None
) -> Iterator[tuple[int, str]]:
    """The cells, keys and values of the records, were the file of that kind."""
    start = beginning[:8].lstrip(b"\xef\xbb\xbf\xff\xfe\0 \t\r\n")[:1]
    if kind == "table":
        delimiters = [str(stored["delimiter"])] if stored and stored.get("delimiter") else [",", ";", "\t", "|"]
        readings = [] if start in (b"[", b"{") else [Reading("table", encoding, delimiter) for delimiter in delimiters]
    else:
        readings = [Reading(kind, encoding)] if start == (b"[" if kind == "array" else b"{") else []
    for reading in readings:
        stream.seek(0)
        with contextlib.suppress(Unreadable):
            for record in records(stream, reading):
                if not isinstance(record, RowError):
                    for text in _inside(record[1]):
                        yield record[0], text


def _inside(value: Any) -> Iterator[str]:
    """Every text in a JSON value, keys too, and what stands in JSON within a text."""
    if isinstance(value, str):
        yield value
        if value[:1] in "[{" and value:
            with contextlib.suppress(ValueError, RecursionError):
                yield from _inside(json.loads(value))
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield str(key)
            yield from _inside(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _inside(inner)
    elif value is not None and not isinstance(value, bool):
        yield str(value)


# ---------------------------------------------------------------------------------------------------- archives and workbooks


def _packed(stream: BinaryIO, depth: int) -> Iterator[tuple[int, str]]:
    """The texts of an archive's members: of XML, as of a workbook, each element's; of others, as of any file."""
    try:
        with zipfile.ZipFile(stream) as packed:
            members = packed.infolist()
            if sum(member.file_size for member in members) > MAX_UNPACKED or len(members) > MAX_PARTS:
                raise Unreadable("the archive unpacks to more than is read")
            for member in members:
                yield 0, member.filename
                yield 0, member.comment.decode("utf-8", "replace")
                if member.is_dir():
                    continue
                with packed.open(member) as file:
                    if member.filename.lower().endswith((".xml", ".rels", ".vml")):
                        yield from _elements(file)
                    elif depth < DEEP:
                        yield from texts(io.BytesIO(file.read()), None, depth + 1)
    except (zipfile.BadZipFile, OSError, ValueError, RuntimeError, NotImplementedError) as error:
        if isinstance(error, Unreadable):
            raise
        # A damaged or locked archive: what stands in it unpacked is given line by line, as of any file.


def _elements(file: Any) -> Iterator[tuple[int, str]]:
    """Each element's attributes and text, the parts of a text that is formatted in parts joined."""
    row = 0
    try:
        for _event, element in ElementTree.iterparse(file):  # noqa: S314 - in a process with limits; expat bounds what entities unfold to
            name = element.tag.rpartition("}")[2]
            if name == "row":
                row = int(element.get("r", row + 1))
                element.clear()
                continue
            if name in ("si", "is", "c", "comment", "p", "sst", "sheetData", "worksheet"):
                texts = ["".join(element.itertext()), *element.attrib.values()]
                element.clear()
            elif name not in ("t", "r", "rPr", "v", "f"):
                texts = [element.text or "", *element.attrib.values()]
            else:
                continue
            yield from ((row, text) for text in texts if text.strip())
    except (ElementTree.ParseError, ValueError):
        return
