"""Finding out what a file is, from its first bytes: how it is built, in which encoding, and which of its columns is what."""

import contextlib
import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, BinaryIO

from django.utils.translation import gettext as _

from datasets_app.files.tables import Reading, Record, Unreadable, records
from training_app.engine.data.examples import Agent, RowError, normalise
from training_app.engine.data.file_rows import COLUMNS, TURN_COLUMNS, BadRow, Roster, short
from training_app.engine.data.files import agents_cell

#: So many bytes are looked at, and so many records shown and judged.
HEAD = 1 << 20
SHOWN, JUDGED = 5, 200
#: What people call our columns; the first that fits wins.
NAMES: Mapping[str, tuple[str, ...]] = {
    "text": (
        "text", "query", "question", "message", "utterance", "request", "prompt", "input", "body", "content", "sentence",
        "ticket", "email", "chat", "anfrage", "frage", "nachricht", "запрос", "вопрос", "сообщение", "текст",
    ),
    "required_agents": (
        "required_agents", "required agents", "agents", "agent", "labels", "label", "intents", "intent", "categories",
        "category", "class", "tags", "topic", "agenten", "kategorie", "агенты", "метка", "категория",
    ),
    "asked_agents": ("asked_agents", "asked agents"),
    "id": ("id", "key", "ticket_id", "ticket id", "message_id", "external_id", "number", "nr", "no", "#"),
    "split": ("split", "fold", "subset"),
}  # fmt: skip
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


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a file: `key` as a Reading names it, its `name` on screen, the first values."""

    key: str
    name: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Look:
    """What a file's first records show. `strange`: agents' names that the pool does not have, the most frequent first, with how many
    of the first records hold them. `bad`: what is wrong with the first bad record, "" for none."""

    reading: Reading
    columns: tuple[Column, ...]
    judged: int
    strange: tuple[tuple[str, int], ...]
    bad: str

    @property
    def plain(self) -> bool:
        """Whether the file has our own names or no columns at all, so that nothing needs to be asked."""
        if self.reading.encoding != "utf-8" or self.reading.kind in ("xlsx", "array"):
            return False
        names = {column.name.strip().lower() for column in self.columns}
        has_query = "text" in names or "messages" in names
        return self.reading.kind == "lines" or (has_query and names - {""} <= {*COLUMNS, *TURN_COLUMNS, "extra"})


def look(stream: BinaryIO, file_name: str, agents: Sequence[Agent]) -> Look:
    """How a file is best read, and what its first records hold. Raises Unreadable with one sentence where it cannot be."""
    head = stream.read(HEAD)
    stream.seek(0)
    if not head.strip(b"\xef\xbb\xbf \t\r\n"):
        raise Unreadable(_("The file is empty. Choose one that holds queries."))
    _refuse(head)
    if head.startswith(b"PK\x03\x04"):
        if b"mimetypeapplication/vnd.oasis" in head[:120]:
            raise Unreadable(_("This is an OpenDocument file. Save it as .xlsx or CSV."))
        if b"[Content_Types].xml" not in head and b"xl/" not in head:
            raise Unreadable(_("This is a ZIP archive. Unpack it and import the files one by one."))
        reading = Reading("xlsx")
    else:
        reading = _text_reading(head, file_name)
    return again(stream, reading, agents, guess=True)


def again(stream: BinaryIO, reading: Reading, agents: Sequence[Agent], *, guess: bool = False) -> Look:
    """The first records by a reading that a person has corrected, or, with `guess`, by one whose columns are still to be found."""
    first = list(islice(_few(stream, reading), JUDGED + 1))
    good = [record for record in first if not isinstance(record, RowError)]
    bad = next((f"{one.line}: {one.reason}" for one in first if isinstance(one, RowError)), "")
    if not good:
        raise Unreadable(_("The file holds no row that can be read. Its first: %(why)s") % {"why": bad or "–"})
    if guess and reading.kind in ("table", "xlsx"):
        reading = replace(reading, header=_is_header([cells for _line, cells in good if isinstance(cells, list)]))
    columns, body = _columns(good, reading)
    if guess:
        reading = replace(reading, columns=_guess(columns, agents))
    return Look(reading, columns, len(body), _strange(body, reading, agents), bad)


def _few(stream: BinaryIO, reading: Reading) -> Iterator[Record | RowError]:
    """The file's first records, from its head alone where it is a text: what breaks off at its end is left out."""
    if reading.kind == "xlsx":
        yield from records(stream, reading)
        return
    head = stream.read(HEAD)
    whole = len(head) < HEAD
    if not whole:
        head = head[: head.rfind(b"\n") + 1] or head
    found = list(islice(records(io.BytesIO(head), reading), JUDGED + 2))
    if not whole and found and isinstance(found[-1], RowError):
        found.pop()
    yield from found


def _refuse(head: bytes) -> None:
    kind = next((what for sign, what in _BINARY.items() if head.startswith(sign)), "")
    if kind == "XLS":
        raise Unreadable(_("This is an old Excel file (.xls) or one with a password. Save it as .xlsx or CSV."))
    if kind == "GZIP":
        raise Unreadable(_("This file is compressed. Unpack it first."))
    if kind:
        raise Unreadable(_("This is a %(kind)s file, not a table or text. Save the queries as CSV.") % {"kind": kind})
    start = head[:500].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if start.startswith((b"<!doctype html", b"<html", b"<?xml", b"<table")):
        raise Unreadable(_("This is a web page or XML, not a table. Open it in a spreadsheet and save it as CSV."))


# ---------------------------------------------------------------------------------------------------- how it is built


def encoding_of(head: bytes) -> str:
    """The encoding that a text's first bytes are most likely in. Raises Unreadable for what is no text."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    if b"\0" in head:
        raise Unreadable(_("This is no text: it holds zero bytes. Save the queries as CSV or one a line."))
    try:
        io.TextIOWrapper(io.BytesIO(head), encoding="utf-8").read()
        return "utf-8"
    except UnicodeDecodeError as error:
        if error.start > len(head) - 4 and len(head) >= HEAD:  # the head ends within a character
            return "utf-8"
    # Western texts have few letters beyond ASCII, Cyrillic ones hardly any within it.
    beyond = sum(byte >= 0xC0 for byte in head)
    ascii_letters = sum(65 <= byte <= 90 or 97 <= byte <= 122 for byte in head)
    return "cp1251" if beyond > ascii_letters else "cp1252"


def _text_reading(head: bytes, file_name: str) -> Reading:
    encoding = encoding_of(head)
    text = head.decode("utf-8-sig" if encoding == "utf-8" else encoding, errors="replace")
    start = text.lstrip()
    if start.startswith("["):
        with contextlib.suppress(ValueError):
            json.loads(start.split("\n", 1)[0])
            if "\n" in start.strip() and start.split("\n", 2)[1].lstrip().startswith("["):
                return Reading("lines", encoding)  # lists, one a line: no form of ours, shown as it stands
        return Reading("array", encoding)
    if start.startswith("{"):
        first = start.split("\n", 1)[0]
        try:
            json.loads(first)
            return Reading("objects", encoding)
        except ValueError:
            if '"' in first or first.strip() == "{":
                raise Unreadable(
                    _("This is one JSON object over several lines. Give a JSON array, or one object on each line.")
                ) from None
    delimiter = _delimiter(text, file_name)
    return Reading("table", encoding, delimiter) if delimiter else Reading("lines", encoding)


def _delimiter(text: str, file_name: str) -> str:
    """What stands between a table's cells; "" for lines of text."""
    lines = [line for line in text.splitlines()[:50] if line.strip()]
    known = {name for names in NAMES.values() for name in names}
    for delimiter in "\t;,|":
        cells = [cell.strip(" \"'").lower() for cell in lines[0].split(delimiter)]
        if len(cells) > 1 and known & set(cells):
            return delimiter
    if lines[0].strip(" \"'").lower() in NAMES["text"]:
        return ","  # one column with a header
    named = file_name.lower().rsplit(".", 1)[-1]
    if named in ("csv", "tsv", "tab"):
        counts = {d: [line.count(d) for line in lines[:20]] for d in "\t;,|"}
        return (
            max(counts, key=lambda d: (min(counts[d]) > 0, sum(counts[d]))) if any(map(any, counts.values())) else ","
        )
    if all(line.count("\t") == lines[0].count("\t") > 0 for line in lines[:20]):
        return "\t"
    return ""


def _is_header(rows: Sequence[list[Any]]) -> bool:
    """Whether a table's first row holds names: one of them is a name that we know, or they are short beside what stands below."""
    first = [str(cell).strip().lower() for cell in rows[0]]
    if {name for names in NAMES.values() for name in names} & set(first):
        return True
    if len(rows) < 2 or not all(first) or len(set(first)) < len(first) or any(re.search(r"\d", cell) for cell in first):
        return False
    below = [len(str(cell)) for row in rows[1:20] for cell in row]
    return max(map(len, first)) <= 30 and max(below, default=0) > 2 * max(map(len, first))


# ---------------------------------------------------------------------------------------------------- what is what


def _columns(good: Sequence[Record], reading: Reading) -> tuple[tuple[Column, ...], list[dict[str, Any]]]:
    """The columns, and the records behind the header by column."""
    body: list[dict[str, Any]] = []
    names: dict[str, str] = {}
    for place, (_line, cells) in enumerate(good):
        if isinstance(cells, dict):
            body.append(cells)
            names |= {key: key for key in cells if key not in names}
            continue
        if place == 0 and reading.header and reading.kind in ("table", "xlsx"):
            names = {str(i): str(cell).strip() for i, cell in enumerate(cells)}
            continue
        if len(names) == 1 and reading.header and reading.kind == "table":
            cells = [reading.delimiter.join(map(str, cells))]
        body.append({str(i): cell for i, cell in enumerate(cells)})
        if not (reading.header and reading.kind in ("table", "xlsx")):
            names |= {str(i): _("column %(n)d") % {"n": i + 1} for i in range(len(cells)) if str(i) not in names}
    shown = body[:SHOWN]
    columns = tuple(
        Column(key, name, tuple(_shown(row.get(key)) for row in shown))
        for key, name in names.items()
        if name or any(str(row.get(key) or "").strip() for row in body)
    )
    return columns, body


def _shown(value: Any) -> str:
    if value is None:
        return ""
    return short(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _guess(columns: Sequence[Column], agents: Sequence[Agent]) -> dict[str, str]:
    """Which column is what: by the names that people use, the text else by its length, the agents else by their names."""
    found: dict[str, str] = {}
    by_name: dict[str, str] = {}
    for column in columns:
        by_name.setdefault(column.name.strip().lower().replace("-", "_"), column.key)
    for ours, names in NAMES.items():
        key = next((by_name[name] for name in names if name in by_name and by_name[name] not in found.values()), None)
        if key is not None:
            found[ours] = key
    rest = [column for column in columns if column.key not in found.values()]
    if "text" not in found and rest:
        longest = max(rest, key=lambda column: sum(map(len, column.values)))
        if any(re.search(r"\w", value) for value in longest.values):
            found["text"] = longest.key
    if "required_agents" not in found:
        known = Roster(agents).by_name
        for column in rest:
            values = [value for value in column.values if value.strip()]
            if column.key not in found.values() and values and all(normalise(value) in known for value in values):
                found["required_agents"] = column.key
                break
    return found


def _strange(
    body: Sequence[Mapping[str, Any]], reading: Reading, agents: Sequence[Agent]
) -> tuple[tuple[str, int], ...]:
    key = reading.columns.get("required_agents")
    if key is None:
        return ()
    roster = Roster(agents)
    counts: dict[str, int] = {}
    for row in body:
        value = row.get(key)
        try:
            named = agents_cell(value, roster, key) if isinstance(value, str) else value
        except BadRow:
            named = [value]
        for one in named if isinstance(named, list) else [named]:
            try:
                if one not in (None, ""):
                    roster.find(one, key)
            except BadRow:
                counts[short(one)] = counts.get(short(one), 0) + 1
    return tuple(sorted(counts.items(), key=lambda pair: -pair[1]))
