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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from training_app.engine.data import SPLITS, Agent, DataError, Example, Folder, Row, RowError, normalise

T = TypeVar("T")

MAX_TEXT = 20_000  # characters in one query
MAX_LINE = 1 << 20  # bytes in one line of a file
MAX_ID = 200  # characters in a row's id
FORMATS = ("jsonl", "csv", "txt")

_SPLIT_NAMES = {
    "": "",
    "train": "train",
    "val": "val",
    "valid": "val",
    "validation": "val",
    "dev": "val",
    "test": "test",
}
_COLUMNS = ("id", "text", "required_agents", "asked_agents", "split")
_EXCERPT = 120


# ------------------------------------------------------------------------------------------------- what a row holds


class _BadRow(Exception):
    def __init__(self, reason: str, field: str = "", excerpt: str = "") -> None:
        self.reason, self.field, self.excerpt = reason, field, excerpt


def _short(value: object) -> str:
    text = value if isinstance(value, str) else repr(value)
    text = " ".join(text.replace("\0", "\\0").split())
    return text if len(text) <= _EXCERPT else text[: _EXCERPT - 1] + "…"


class _Roster:
    """Finds agents by id, name or code."""

    def __init__(self, agents: Sequence[Agent]) -> None:
        self.ids = {agent.id for agent in agents}
        self.by_name: dict[str, int] = {}
        # Names come after codes, so that a name wins over another agent's code.
        for agent in agents:
            if agent.code:
                self.by_name[normalise(agent.code)] = agent.id
        for agent in agents:
            self.by_name[normalise(agent.name)] = agent.id

    def find(self, value: object, field: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise _BadRow(f"{_short(value)} is not an agent: give its id, name or code", field)
        if isinstance(value, int):
            if value in self.ids:
                return value
        else:
            named = self.by_name.get(normalise(value))
            if named is not None:
                return named
            if re.fullmatch(r"[0-9]{1,9}", value.strip()) and int(value) in self.ids:
                return int(value)
        raise _BadRow(f"unknown agent {_short(value)}: not an id, name or code of this pool", field)

    def set(self, value: object, field: str) -> frozenset[int] | None:
        """A list of agents; None and a blank string are "not said"."""
        if value is None or (isinstance(value, str) and not value.strip()):
            return None
        if not isinstance(value, list):
            raise _BadRow(f"must be a list of agents, not {type(value).__name__}", field, _short(value))
        return frozenset(self.find(item, field) for item in value)


def _text(value: object) -> str:
    if value is None:
        raise _BadRow("the text is missing", "text")
    if not isinstance(value, str):
        raise _BadRow(f"must be a string, not {type(value).__name__}", "text", _short(value))
    if not value.strip():
        raise _BadRow("the text is empty", "text")
    if len(value) > MAX_TEXT:
        raise _BadRow(f"the text has {len(value):,} characters; at most {MAX_TEXT:,}", "text", _short(value))
    if "\0" in value:
        raise _BadRow("the text holds a NUL character", "text", _short(value))
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _BadRow("the text holds half of a surrogate pair", "text") from None
    return value


def _row(line: int, values: Mapping[str, Any], roster: _Roster) -> Row:
    text = _text(values.get("text"))
    raw_id = values.get("id")
    if raw_id is None:
        raw_id = ""
    if isinstance(raw_id, bool) or not isinstance(raw_id, int | str):
        raise _BadRow("must be a string or a number", "id", _short(raw_id))
    identifier = str(raw_id).strip()
    if len(identifier) > MAX_ID or "\0" in identifier:
        raise _BadRow(f"must have at most {MAX_ID} characters and no NUL", "id", _short(identifier))
    required = roster.set(values.get("required_agents"), "required_agents")
    asked = roster.set(values.get("asked_agents"), "asked_agents")
    if required and asked is not None and not required <= asked:
        stray = ", ".join(map(str, sorted(required - asked)))
        raise _BadRow(f"agent {stray} is required but not among asked_agents", "required_agents")
    split = values.get("split")
    if split is None:
        split = ""
    if not isinstance(split, str) or split.strip().lower() not in _SPLIT_NAMES:
        raise _BadRow("must be train, val, test or blank", "split", _short(split))
    extra = {k: v for k, v in values.items() if k not in _COLUMNS}
    return Row(line, identifier, text, required, asked, _SPLIT_NAMES[split.strip().lower()], extra)


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
            head = raw[:_EXCERPT]
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
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise _BadRow(f"the key {_short(key)!r} stands twice")
        found[key] = value
    return found


def _constant(name: str) -> Any:
    raise _BadRow(f"{name} is not JSON")


def _json(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_constant)
    except (ValueError, RecursionError) as error:
        reason = getattr(error, "msg", None) or str(error) or type(error).__name__
        raise _BadRow(f"not JSON: {reason}", excerpt=_short(text)) from None


def _read_objects(stream: BinaryIO, make: Callable[[int, dict[str, Any]], T]) -> Iterator[T | RowError]:
    for number, text, bad in _lines(stream):
        if bad:
            yield RowError(number, bad, excerpt=_short(text))
        elif text.strip():
            try:
                value = _json(text)
                if not isinstance(value, dict):
                    raise _BadRow(f"must be a JSON object, not {type(value).__name__}", excerpt=_short(text))
                yield make(number, value)
            except _BadRow as error:
                yield RowError(number, error.reason, error.field, error.excerpt)


def _cell_list(value: str) -> list[Any] | None:
    """Agents in a CSV cell: a JSON list, or names and ids between `;`, `,` or `|`. Blank is None."""
    value = value.strip()
    if not value:
        return None
    if value.startswith("["):
        found = _json(value)
        return found if isinstance(found, list) else [found]
    return [part for part in (p.strip() for p in re.split(r"[;,|]", value)) if part]


def _whole_cell(value: str, roster: _Roster) -> list[Any] | None:
    # A name may itself hold a comma or a bar: the whole cell is tried as one agent first.
    if normalise(value) in roster.by_name:
        return [value]
    return _cell_list(value)


def _read_csv(stream: BinaryIO, roster: _Roster) -> Iterator[Row | RowError]:
    bad: dict[int, str] = {}

    def decoded() -> Iterator[str]:
        for number, text, reason in _lines(stream):
            if reason:
                bad[number] = reason
                # The quotes of a broken line are dropped so that it cannot swallow the lines after it.
                text = text.replace('"', "").rstrip("\r\n") + "\n"
            yield text

    lines = decoded()
    first = next(lines, None)
    if first is None:
        return
    if 1 in bad:
        yield RowError(1, bad[1], excerpt=_short(first))
        return

    def header_of(delimiter: str) -> list[str]:
        return [c.strip().lower() for c in next(csv.reader([first], delimiter=delimiter), [])]

    delimiter = next((d for d in ",;\t" if "text" in header_of(d)), ",")
    header = header_of(delimiter)
    if "text" not in header:
        yield RowError(1, "the header needs a column named text", "text", _short(first))
        return
    repeated = sorted({c for c in header if c and header.count(c) > 1})
    if repeated:
        yield RowError(1, f"the column {repeated[0]} stands twice in the header", repeated[0], _short(first))
        return

    reader = csv.reader(lines, delimiter=delimiter)
    while True:
        begin = reader.line_num + 2
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield RowError(begin, f"not CSV: {error}")
            continue
        end = reader.line_num + 1
        broken = next((n for n in range(begin, end + 1) if n in bad), None)
        if broken is not None:
            yield RowError(broken, bad.pop(broken), excerpt=_short(delimiter.join(cells)))
            continue
        if not cells or (len(cells) == 1 and not cells[0].strip()):
            continue
        try:
            if len(cells) != len(header):
                raise _BadRow(
                    f"has {len(cells)} cells where the header has {len(header)}", excerpt=_short(delimiter.join(cells))
                )
            values: dict[str, Any] = {k: v for k, v in zip(header, cells, strict=True) if k and k != "extra"}
            for column in ("required_agents", "asked_agents"):
                if column in values:
                    try:
                        values[column] = _whole_cell(values[column], roster)
                    except _BadRow as error:
                        raise _BadRow(error.reason, column, error.excerpt) from None
            for column in [c for c in values if c not in _COLUMNS and not values[c]]:
                del values[column]
            extra = dict(zip(header, cells, strict=True)).get("extra", "").strip()
            if extra:
                kept = _json(extra) if extra.startswith("{") else {"extra": extra}
                values.update({k: v for k, v in kept.items() if k not in _COLUMNS})
            yield _row(begin, values, roster)
        except _BadRow as error:
            yield RowError(begin, error.reason, error.field, error.excerpt)


def _read_txt(stream: BinaryIO) -> Iterator[Row | RowError]:
    for number, text, bad in _lines(stream):
        text = text.rstrip("\r\n")
        if bad:
            yield RowError(number, bad, excerpt=_short(text))
        elif text.strip():
            try:
                yield Row(number, "", _text(text))
            except _BadRow as error:
                yield RowError(number, error.reason, error.field, error.excerpt)


def read_rows(stream: BinaryIO, format: str, agents: Sequence[Agent]) -> Iterator[Row | RowError]:
    """Read a binary stream row by row, in memory that does not grow with the file.

    `format` is "jsonl", "csv" or "txt" (ValueError otherwise). Agents are named by id, name or code, in any case.
    Blank lines are skipped; every other line gives a `Row` or a `RowError` with its line number, counted from 1.
    """
    roster = _Roster(agents)
    if format == "jsonl":
        return _read_objects(stream, lambda line, values: _row(line, values, roster))
    if format == "csv":
        return _read_csv(stream, roster)
    if format == "txt":
        return _read_txt(stream)
    raise ValueError(f"unknown format {format!r}: one of {', '.join(FORMATS)}")


# ------------------------------------------------------------------------------------------------------------ writing


def write_rows(rows: Iterable[Row], format: str, stream: BinaryIO, agents: Sequence[Agent] = ()) -> int:
    """Write rows to a binary stream as they come; returns how many.

    JSONL and CSV lose nothing that `read_rows` gives (agents are written by id; CSV keeps `[]` and blank apart and
    puts other keys into one column `extra` of JSON). TXT holds texts only, one a line: line breaks within a text
    become one space there. `agents`, where given, must hold every id that is written (ValueError).
    """
    known = {agent.id for agent in agents}

    def ids(value: frozenset[int] | None) -> list[int] | None:
        if value is None:
            return None
        if known and not value <= known:
            raise ValueError(f"agent {min(value - known)} is not in the pool")
        return sorted(value)

    if format not in FORMATS:
        raise ValueError(f"unknown format {format!r}: one of {', '.join(FORMATS)}")
    count = 0
    if format == "csv":
        stream.write((",".join((*_COLUMNS, "extra")) + "\r\n").encode())
    for row in rows:
        required, asked = ids(row.required), ids(row.asked)
        if format == "jsonl":
            values: dict[str, Any] = {"id": row.id} if row.id else {}
            values |= {"text": row.text, "required_agents": required}
            if asked is not None:
                values["asked_agents"] = asked
            if row.split:
                values["split"] = row.split
            values |= {k: v for k, v in row.extra.items() if k not in _COLUMNS}
            stream.write((json.dumps(values, ensure_ascii=False) + "\n").encode())
        elif format == "csv":
            buffer = io.StringIO()

            def cell(value: list[int] | None) -> str:
                return "" if value is None else ";".join(map(str, value)) or "[]"

            extra = json.dumps(row.extra, ensure_ascii=False) if row.extra else ""
            csv.writer(buffer).writerow([row.id, row.text, cell(required), cell(asked), row.split, extra])
            stream.write(buffer.getvalue().encode())
        else:
            stream.write((re.sub(r"\s*[\r\n]+\s*", " ", row.text).strip() + "\n").encode())
        count += 1
    return count


# ------------------------------------------------------------------------------------------------------------ folders


def _agent(values: dict[str, Any], seen: dict[int | str, int], line: int) -> Agent:
    identifier, name = values.get("id"), values.get("name")
    if isinstance(identifier, bool) or not isinstance(identifier, int) or not 0 <= identifier < 1 << 31:
        raise _BadRow("must be a whole number from 0", "id", _short(identifier))
    if not isinstance(name, str) or not name.strip() or len(name) > MAX_ID:
        raise _BadRow(f"must be a text of 1 to {MAX_ID} characters", "name", _short(name))
    for key, what in ((identifier, "id"), (normalise(name), "name")):
        if key in seen:
            raise _BadRow(f"{_short(values[what])} stands on line {seen[key]} already", what)
        seen[key] = line
    description, code = values.get("description") or "", values.get("code") or ""
    if not isinstance(description, str) or len(description) > MAX_TEXT:
        raise _BadRow(f"must be a text of at most {MAX_TEXT:,} characters", "description", _short(description))
    if not isinstance(code, str):
        raise _BadRow("must be a text", "code", _short(code))
    keywords = values.get("keywords") or []
    if isinstance(keywords, str):
        keywords = [k for k in (part.strip() for part in re.split(r"[;,\n]", keywords)) if k]
    if not isinstance(keywords, list) or not all(isinstance(k, str) for k in keywords):
        raise _BadRow("must be a list of texts", "keywords", _short(keywords))
    cost = values.get("cost") or 0.0
    if isinstance(cost, bool) or not isinstance(cost, int | float):
        raise _BadRow("must be a number", "cost", _short(cost))
    return Agent(identifier, name.strip(), description.strip(), tuple(keywords), code.strip(), float(cost))


def read_agents(path: str | Path) -> tuple[Agent, ...]:
    """Agents from a JSONL file, in the order of their ids. Raises DataError with line numbers."""
    path = Path(path)
    if not path.is_file():
        raise DataError([(path.name, RowError(0, f"{path} does not exist: list the agents there, one JSON a line"))])
    seen: dict[int | str, int] = {}
    agents: list[Agent] = []
    errors: list[tuple[str, RowError]] = []
    with path.open("rb") as stream:
        for found in _read_objects(stream, lambda line, values: _agent(values, seen, line)):
            if isinstance(found, RowError):
                errors.append((path.name, found))
            else:
                agents.append(found)
    if not agents and not errors:
        errors.append((path.name, RowError(0, "holds no agent")))
    if errors:
        raise DataError(errors)
    return tuple(sorted(agents, key=lambda agent: agent.id))


def read_folder(path: str | Path) -> Folder:
    """A folder with `agents.jsonl`, `train.jsonl` and, where there are any, `val.jsonl` and `test.jsonl`.

    The splits are taken as the files have them. Unlabeled rows are counted and left out. Raises DataError with the
    file and line of every bad row.
    """
    path = Path(path)
    agents = read_agents(path / "agents.jsonl")
    splits: dict[str, tuple[Example, ...]] = {}
    errors: list[tuple[str, RowError]] = []
    unlabeled = 0
    for split in SPLITS:
        name = f"{split}.jsonl"
        examples: list[Example] = []
        if (path / name).is_file():
            with (path / name).open("rb") as stream:
                for row in read_rows(stream, "jsonl", agents):
                    if isinstance(row, RowError):
                        errors.append((name, row))
                    elif row.required is None:
                        unlabeled += 1
                    else:
                        identifier = row.id or f"{split}-{row.line}"
                        examples.append(Example(identifier, row.text, row.required, row.asked, split))
        elif split == "train":
            errors.append((name, RowError(0, f"{path / name} does not exist: labeled queries to learn from go there")))
        splits[split] = tuple(examples)
    if errors:
        raise DataError(errors)
    return Folder(agents, splits["train"], splits["val"], splits["test"], unlabeled)
