"""The files that carry labeled queries.

Three formats are read and written as streams: JSONL (one object a line), CSV (a header, `;` between agents) and TXT
(one query a line, texts only). In all of them "unlabeled" and "none of these agents" are different: a missing, null
or blank `required_agents` is unlabeled, `[]` is the empty set. A bad row becomes a `RowError` that names its line
and never takes the good rows down with it. Standard library only.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, TypeVar

from training_app.engine.data import conversations
from training_app.engine.data.examples import Agent, Row, RowError, normalise
from training_app.engine.data.file_rows import COLUMNS, TURN_COLUMNS, BadRow, Roster, row_of, short, text_of
from training_app.engine.data.storable import MAX_DEPTH, MAX_DIGITS, mended_text

T = TypeVar("T")

MAX_LINE = 1 << 20  # bytes in one line of a file
FORMATS = ("jsonl", "csv", "txt")

_HEAD = 120  # bytes of a line too long to be read that its error shows
# What a spreadsheet takes for a formula where a cell begins with it. In a CSV of ours one apostrophe stands before.
_FORMULA = re.compile(r"'*[=+\-@\t\r]")
_OWN_HEADER = (*COLUMNS, "extra")


# ------------------------------------------------------------------------------------------------------------ reading


def _lines(stream: BinaryIO) -> Iterator[tuple[int, str, str]]:
    """(line number, text with its line end, reason it is bad or ""), in memory bounded by `MAX_LINE`."""
    number = 0
    while True:
        raw = stream.readline(MAX_LINE + 1)
        if not raw:
            return
        number += 1
        if len(raw) > MAX_LINE:
            head = raw[:_HEAD]
            while raw and not raw.endswith(b"\n"):
                raw = stream.readline(MAX_LINE)
            yield number, head.decode(errors="replace"), f"the line is longer than {MAX_LINE:,} bytes"
            continue
        if number == 1 and raw.startswith(b"\xef\xbb\xbf"):
            raw = raw[3:]
        try:
            yield number, raw.decode(), ""
        except UnicodeDecodeError as error:
            yield number, raw.decode(errors="replace"), f"not UTF-8: byte {raw[error.start]:#04x} at {error.start + 1}"


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        keys = [key for key, _value in pairs]
        repeated = next(key for key in keys if keys.count(key) > 1)
        raise BadRow(f"the key {short(repeated)!r} stands twice", repeated)
    return fields


def _constant(name: str) -> Any:
    raise BadRow(f"{name} is not JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant)


def _json(text: str) -> Any:
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise BadRow(f"not JSON: {error.msg.removesuffix(' at')}", excerpt=short(text)) from None
    except ValueError:  # Python reads no whole number of more than 4,300 digits
        raise BadRow(f"holds a whole number of more than {MAX_DIGITS} digits", excerpt=short(text)) from None
    except RecursionError:
        raise BadRow(f"not JSON that can be kept: nested more than {MAX_DEPTH} deep", excerpt=short(text)) from None


def read_objects(stream: BinaryIO, make: Callable[[int, dict[str, Any]], T]) -> Iterator[T | RowError]:
    """What `make` makes of each JSON object of a stream (line number, object), or why not; `make` raises BadRow."""
    for number, text, bad in _lines(stream):
        if bad:
            yield RowError(number, bad, excerpt=short(text))
        elif text.strip():
            try:
                value = _json(text)
                if not isinstance(value, dict):
                    raise BadRow(f"must be a JSON object, not {type(value).__name__}", excerpt=short(text))
                yield make(number, value)
            except BadRow as error:
                yield error.at(number)


@dataclass(frozen=True, slots=True)
class _Header:
    """The first line of a CSV: what stands between its cells, and its columns in small letters. `own`: this module wrote it."""

    delimiter: str
    columns: tuple[str, ...]
    own: bool


def _columns(first: str, delimiter: str) -> tuple[str, ...]:
    return tuple(cell.strip().lower() for cell in next(csv.reader([first], delimiter=delimiter), []))


def _header(first: str) -> _Header:
    """The header in the first line of a file. Raises BadRow."""
    delimiter = next((d for d in ",;\t" if {"text", "messages"} & set(_columns(first, d))), ",")
    columns = _columns(first, delimiter)
    if not {"text", "messages"} & set(columns):
        raise BadRow("the header needs a column named text, or messages", "text", short(first))
    repeated = sorted({column for column in columns if column and columns.count(column) > 1})
    if repeated:
        raise BadRow(f"the column {repeated[0]} stands twice in the header", repeated[0], short(first))
    return _Header(delimiter, columns, columns == _OWN_HEADER)


class _CsvLines:
    """The lines of a stream as `csv` wants them; `bad` has those that are not UTF-8 or too long, by number."""

    def __init__(self, stream: BinaryIO) -> None:
        self._lines = _lines(stream)
        self.bad: dict[int, str] = {}

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        number, text, reason = next(self._lines)
        if reason:
            self.bad[number] = reason
            # The quotes of a broken line are dropped so that it cannot swallow the lines after it.
            text = text.replace('"', "").rstrip("\r\n") + "\n"
        return text

    def first_bad(self, begin: int, end: int) -> tuple[int, str] | None:
        """The first broken line from `begin` to `end`, taken out of `bad`."""
        line = next((number for number in range(begin, end + 1) if number in self.bad), None) if self.bad else None
        return None if line is None else (line, self.bad.pop(line))


def read_records(stream: BinaryIO, delimiter: str) -> Iterator[tuple[int, list[str]] | RowError]:
    """(line on which it begins, cells) of each record of a CSV in UTF-8 that is not blank, a header among them."""
    return _records(_CsvLines(stream), delimiter, 0)


def _records(lines: _CsvLines, delimiter: str, before: int = 1) -> Iterator[tuple[int, list[str]] | RowError]:
    """(line on which it begins, cells) of each record that is not blank, behind so many lines that were taken `before`."""
    reader = csv.reader(lines, delimiter=delimiter)
    while True:
        begin = reader.line_num + before + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield RowError(begin, f"not CSV: {error}")
            continue
        broken = lines.first_bad(begin, reader.line_num + before)
        if broken is not None:
            yield RowError(*broken, excerpt=short(delimiter.join(cells)))
        elif len(cells) > 1 or (cells and cells[0].strip()):
            yield begin, cells


def agents_cell(value: str, roster: Roster, column: str) -> list[Any] | None:
    """Agents in a cell of a table: a JSON list, or names and ids between `;`, `,` or `|`. Blank is None. Raises BadRow."""
    # A name may itself hold a comma or a bar: the whole cell is tried as one agent first.
    if normalise(value) in roster.by_name:
        return [value]
    value = value.strip()
    if not value:
        return None
    if not value.startswith("["):
        return [part for part in (p.strip() for p in re.split(r"[;,|]", value)) if part]
    try:
        content = _json(value)
    except BadRow as error:
        raise BadRow(error.reason, column, error.excerpt) from None
    return content if isinstance(content, list) else [content]


def json_cell(value: str, column: str) -> Any:
    """JSON in a CSV cell; None for a blank one. Raises BadRow."""
    if not value.strip():
        return None
    try:
        return _json(value)
    except BadRow as error:
        raise BadRow(error.reason, column, error.excerpt) from None


def _by_column(header: _Header, cells: list[str]) -> dict[str, Any]:
    """The keys and values of one record, as a JSONL line would have them, but agents as their cells. Raises BadRow."""
    if len(cells) != len(header.columns):
        joined = header.delimiter.join(cells)
        raise BadRow(f"has {len(cells)} cells where the header has {len(header.columns)}", excerpt=short(joined))
    if header.own:
        cells = [cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell for cell in cells]
    by_column = dict(zip(header.columns, cells, strict=True))
    extra = by_column.pop("extra", "").strip()
    values: dict[str, Any] = {k: cell for k, cell in by_column.items() if k and (cell or k in COLUMNS)}
    if "messages" in values:
        values["messages"] = json_cell(values["messages"], "messages")
    if extra:
        try:
            further = _json(extra) if extra.startswith("{") else {"extra": extra}
        except BadRow as error:
            raise BadRow(error.reason, "extra", error.excerpt) from None
        values.update({k: v for k, v in further.items() if k not in COLUMNS})
    return values


def own_table(stream: BinaryIO) -> Iterator[tuple[int, dict[str, Any]] | RowError]:
    """(line, values by column) of each record of a CSV whose header has our names; agents stand as their cells."""
    lines = _CsvLines(stream)
    first = next(lines, None)
    if first is None:
        return
    if 1 in lines.bad:
        yield RowError(1, lines.bad[1], excerpt=short(first))
        return
    try:
        header = _header(first)
    except BadRow as error:
        yield error.at(1)
        return
    for record in _records(lines, header.delimiter):
        if isinstance(record, RowError):
            yield record
            continue
        begin, cells = record
        try:
            yield begin, _by_column(header, cells)
        except BadRow as error:
            yield error.at(begin)


def own_row(line: int, values: dict[str, Any], roster: Roster) -> Row:
    """The row that a record of `own_table` makes. Raises BadRow."""
    for column in ("required_agents", "asked_agents"):
        if isinstance(values.get(column), str):
            values[column] = agents_cell(values[column], roster, column)
    return row_of(line, values, roster)


def _read_csv(stream: BinaryIO, roster: Roster) -> Iterator[Row | RowError]:
    for record in own_table(stream):
        if isinstance(record, RowError):
            yield record
            continue
        begin, values = record
        try:
            yield own_row(begin, values, roster)
        except BadRow as error:
            yield error.at(begin)


def _read_txt(stream: BinaryIO) -> Iterator[Row | RowError]:
    for number, text, bad in _lines(stream):
        text = text.rstrip("\r\n")
        if bad:
            yield RowError(number, bad, excerpt=short(text))
        elif text.strip():
            try:
                yield Row(number, "", text_of(text))
            except BadRow as error:
                yield error.at(number)


def read_rows(stream: BinaryIO, format: str, agents: Sequence[Agent]) -> Iterator[Row | RowError]:
    """Read a binary stream row by row, in memory that does not grow with the file.

    `format` is "jsonl", "csv" or "txt" (ValueError otherwise). Agents are named by id, name, key or code, in any case.
    Blank lines are skipped; every other line gives a `Row` or a `RowError` with its line number, counted from 1.
    """
    roster = Roster(agents)
    if format == "jsonl":
        return read_objects(stream, lambda line, values: row_of(line, values, roster))
    if format == "csv":
        return _read_csv(stream, roster)
    if format == "txt":
        return _read_txt(stream)
    raise ValueError(f"unknown format {format!r}: one of {', '.join(FORMATS)}")


# ------------------------------------------------------------------------------------------------------------ writing


def write_rows(rows: Iterable[Row], format: str, stream: BinaryIO, agents: Sequence[Agent] = ()) -> int:
    """Write rows to a binary stream as they come; returns how many.

    JSONL and CSV lose nothing that `read_rows` gives (agents are written by id; CSV keeps `[]` and blank apart and
    puts other keys into one column `extra` of JSON). A CSV cell that a spreadsheet would take for a formula gets an
    apostrophe in front, which `read_rows` takes off. TXT holds texts only, one a line: line breaks within a text
    become one space there. `agents`, where given, must hold every id that is written (ValueError).
    """
    ids = {agent.id for agent in agents}
    if format not in FORMATS:
        raise ValueError(f"unknown format {format!r}: one of {', '.join(FORMATS)}")
    written = {"jsonl": _jsonl_line, "csv": _csv_line, "txt": _txt_line}[format]
    count = 0
    if format == "csv":
        stream.write((",".join(_OWN_HEADER) + "\r\n").encode())
    for row in rows:
        stray = (row.required or frozenset()) | (row.asked or frozenset()) if ids else frozenset()
        if not stray <= ids:
            raise ValueError(f"agent {min(stray - ids)} is not in the pool")
        line = written(row)
        try:
            stream.write(line.encode())
        except UnicodeEncodeError:  # rows of an installation whose texts have not been mended yet
            stream.write(mended_text(line).encode())
        count += 1
    return count


def formula_safe(cell: str) -> str:
    """A CSV cell that no spreadsheet takes for a formula: an apostrophe in front where it would be one."""
    return f"'{cell}" if _FORMULA.match(cell) else cell


def _jsonl_line(row: Row) -> str:
    values: dict[str, Any] = {"id": row.id} if row.id else {}
    turn = _is_turn(row)
    values |= {"messages": conversations.as_json(row.text)} if turn else {"text": row.text}
    if row.conversation:
        values["conversation_id"] = row.conversation
    values["required_agents"] = None if row.required is None else sorted(row.required)
    if row.asked is not None:
        values["asked_agents"] = sorted(row.asked)
    if row.split:
        values["split"] = row.split
    values |= {k: v for k, v in row.extra.items() if k not in COLUMNS and not (turn and k in TURN_COLUMNS)}
    return json.dumps(values, ensure_ascii=False) + "\n"


def _csv_line(row: Row) -> str:
    def cell(value: frozenset[int] | None) -> str:
        return "" if value is None else ";".join(map(str, sorted(value))) or "[]"

    buffer = io.StringIO()
    more = dict(row.extra)
    if _is_turn(row):
        more = {k: v for k, v in more.items() if k not in TURN_COLUMNS} | {"messages": conversations.as_json(row.text)}
        more |= {"conversation_id": row.conversation} if row.conversation else {}
    extra = json.dumps(more, ensure_ascii=False) if more else ""
    cells = [formula_safe(row.id), formula_safe(row.text), cell(row.required), cell(row.asked), row.split, extra]
    csv.writer(buffer).writerow(cells)
    return buffer.getvalue()


def _is_turn(row: Row) -> bool:
    """Whether a row is written with its messages: the first turn of a conversation is a plain text that knows its conversation."""
    return bool(row.conversation or conversations.before(row.text))


def _txt_line(row: Row) -> str:
    return re.sub(r"\s*[\r\n]+\s*", " ", row.text).strip() + "\n"


def holds_json(head: bytes) -> bool:
    """Whether a file that begins so has JSON objects with a text or messages on its lines, by the first line that is not blank; of
    one that is longer than `head`, by how it begins."""
    lines = head.lstrip(b"\xef\xbb\xbf").split(b"\n")
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                content = _json(line.decode())
            except (BadRow, UnicodeDecodeError):
                begins = number == len(lines) and re.match(rb'\s*\{\s*"[^"]*"\s*:', line)
                return bool(begins) and (b'"text"' in line or b'"messages"' in line)
            return isinstance(content, dict) and ("text" in content or "messages" in content)
    return False
