"""Finding out what the columns of a file are, from its first records: its header, and what each column holds by name and content."""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, BinaryIO

from django.utils.translation import gettext as _

from agents_app.files import reader
from agents_app.files.archives import MEMBER
from agents_app.files.detecting import TITLES
from agents_app.files.formats import Reading, Record, Unreadable
from agents_app.files.names import NAMES, known_names, label_of, plain_name
from datasets_app.files import chats, label_columns, shapes, tables
from datasets_app.files.values import Values
from datasets_app.queries import query_columns
from training_app.engine.data.examples import Agent, RowError
from training_app.engine.data.file_rows import COLUMNS, TURN_COLUMNS, short

SHOWN = 5
#: What the name of a column begins with that holds what a model said: "Predicted team" is nobody's label.
PREDICTED = frozenset(
    {"predicted", "prediction", "suggested", "proposed", "vorhergesagt", "vorgeschlagen", "предсказанный"}
)
#: Characters of a column's name at most; cells that tell it from what stands below, which are numbers or repeat.
LONGEST_NAME, NUMBERED, REPEATED = 30, 5, 30
#: What a column of whole conversations is called.
MESSAGES = ("messages", "conversation", "conversations", "dialogue", "dialog", "turns")
#: What numbers the rows of somebody's table: one word with a number in it, as "4711", "T-104" or "#17b".
TICKET_NUMBER = re.compile(r"#?[A-Za-z]{0,10}[-_./ ]?\d[\w./-]*")


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a file: `key` as a Reading names it, its `name` on screen, the first values."""

    key: str
    name: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Look:
    """What a file's first records, `body`, show. `bad`: what is wrong with the first bad record, "" for none. `unread`: the names of
    columns that look like labels and are not read as such."""

    reading: Reading
    columns: tuple[Column, ...]
    body: tuple[Mapping[str, Any], ...]
    bad: str
    unread: tuple[str, ...] = ()

    @property
    def guessed_encoding(self) -> bool:
        """Whether nothing in the file says in which encoding it is: whoever imports it should look."""
        return self.reading.kind not in ("xlsx", "zip") and self.reading.encoding not in ("utf-8", "utf-16")

    @property
    def garbled(self) -> bool:
        """Whether a row holds the sign for what its encoding does not know."""
        return any("\ufffd" in str(value) for record in self.body for value in record.values())

    @property
    def plain(self) -> bool:
        """Whether the file has our own names or no columns at all, so that nothing needs to be asked."""
        if self.reading.encoding != "utf-8" or self.reading.kind in ("xlsx", "array", "object", "zip"):
            return False
        if self.reading.shape or self.reading.skip:
            return False
        names = {column.name.strip().lower() for column in self.columns}
        entered = [column.name for column, entry in query_columns.entries() if not entry.row]
        has_query = "text" in names or "messages" in names
        messages = [one for row in self.body for one in row.get("messages") or () if isinstance(row["messages"], list)]
        if "speaker" in self.reading.columns or any(label_of(one) is not None for one in messages):
            return False
        return self.reading.kind == "lines" or (
            has_query and names - {""} <= {*COLUMNS, *TURN_COLUMNS, *entered, "extra"}
        )


def look(stream: BinaryIO, file_name: str, agents: Sequence[Agent]) -> Look:
    """How a file is best read, and what its first records hold. Raises Unreadable with one sentence where it cannot be."""
    return _look(reader.head(stream, file_name), agents, guess=True)


def again(
    stream: BinaryIO, reading: Reading, agents: Sequence[Agent], *, columns: bool = False, header: bool = False
) -> Look:
    """The first records by a reading that a person has corrected; with `columns`, what its columns are is guessed again, with
    `header` also whether they have names."""
    if columns and header:
        return _look(reader.head(stream, reading=reading), agents, guess=True)
    looked = _look(reader.head(stream, reading=reading), agents)
    if not columns:
        return looked
    return _guessed(looked, agents)


def _look(head: reader.Head, agents: Sequence[Agent], *, guess: bool = False) -> Look:
    reading = head.reading
    good = [record for record in head.first if not isinstance(record, RowError)]
    bad = next((f"{row.line}: {row.reason}" for row in head.first if isinstance(row, RowError)), "")
    if not good and bad:
        raise Unreadable(_("The file holds no row that can be read. Its first: %(why)s"), why=bad)
    if not good:
        raise Unreadable(_("The file holds no row that can be read."))
    if guess and reading.kind in ("table", "xlsx"):
        skip, header = _header([cells for _line, cells in good if isinstance(cells, list)])
        reading = replace(reading, skip=skip, header=header)
    columns, body = _columns(good, reading)
    looked = Look(reading, columns, tuple(body), bad)
    return _guessed(looked, agents) if guess else with_unread(looked, agents)


def _guessed(looked: Look, agents: Sequence[Agent]) -> Look:
    """The same with the tool whose export the records are, or else with what each column is."""
    shape = shapes.shape_of(_named(looked.columns, looked.body))
    named, further = ({}, {}) if shape else _guess(looked.columns, looked.body, agents)
    reading = replace(looked.reading, shape=shape, columns=named, further=further)
    return with_unread(replace(looked, reading=reading), agents)


def with_unread(looked: Look, agents: Sequence[Agent]) -> Look:
    """The same with the columns that its reading leaves out although they look like labels."""
    reading = looked.reading
    if reading.shape or reading.kind == "lines":
        return replace(looked, unread=())
    names, cells = _candidates(looked.columns, looked.body)
    read = [*reading.columns.values(), *reading.further]
    return replace(looked, unread=tuple(label_columns.unread(names, cells, Values(agents, reading.values), read)))


def _candidates(
    columns: Sequence[Column], body: Sequence[Mapping[str, Any]]
) -> tuple[dict[str, str], dict[str, list[Any]]]:
    """The names and the cells of the columns, by key."""
    names = {column.key: column.name for column in columns}
    return names, {key: [row.get(key) for row in body] for key in names}


def _named(columns: Sequence[Column], body: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The records by the columns' names, as they stand in the file."""
    names = {column.key: column.name for column in columns}
    return [{names.get(key, key): value for key, value in record.items()} for record in body]


def _header(rows: Sequence[list[Any]]) -> tuple[int, bool]:
    """(how many titles stand above a table, whether a row of names follows): by names that we know, else by how a row is unlike those
    below it. A known name that another row has in its column is what a cell holds ("chat", in a column of channels), and so is a
    single one behind a row that is as full: titles mostly fill fewer cells."""
    headings = known_names()
    plain = [[plain_name(cell) for cell in cells] for cells in rows]
    fullest = 0
    for place, names in enumerate(plain[:TITLES]):
        filled = [name for name in names if name]
        known = sum(
            name in headings and not any(name in other[column : column + 1] for other in plain if other != names)
            for column, name in enumerate(names)
        )
        enough = known and (len(filled) > fullest or known > 1)
        if enough and max(map(len, filled)) < 60 and (len(filled) > 1 or place == 0):
            return place, True
        fullest = max(fullest, len(filled))
    widest = max((sum(bool(str(cell).strip()) for cell in cells) for cells in rows), default=0)
    place = next(
        (i for i, cells in enumerate(rows[:TITLES]) if sum(bool(str(cell).strip()) for cell in cells) == widest), 0
    )
    if widest < 2:
        place = 0
    return place, _is_header(rows[place:])


def _is_header(rows: Sequence[list[Any]]) -> bool:
    """Whether a table's first row holds names: none of them has a number in it, and they are short beside what stands below, or a
    column tells one from the rest."""
    if not rows:
        return True
    width = max(map(len, rows))
    used = [
        place for place in range(width) if any(str(cell).strip() for row in rows for cell in row[place : place + 1])
    ]
    rows = [[row[place] if place < len(row) else "" for place in used] for row in rows]
    first = [str(cell).strip().lower() for cell in rows[0]]
    if len(rows) < 2 or not all(first) or len(set(first)) < len(first) or any(re.search(r"\d", cell) for cell in first):
        return False
    below = [[str(cell).strip().lower() for cell in row] for row in rows[1:]]
    longest = max(len(cell) for row in below[:20] for cell in row)
    if max(map(len, first)) > LONGEST_NAME:
        return False
    return longest > 2 * max(map(len, first)) or any(map(_stands_out, first, zip(*below, strict=True)))


def _stands_out(name: str, below: Sequence[str]) -> bool:
    """Whether a column's first cell, which has no number, is unlike all others: these number the rows, or each of many is there
    again."""
    counts = Counter(cell for cell in below if cell)
    if counts.total() >= NUMBERED and _numbers_rows(below):
        return True
    return counts.total() >= REPEATED and name not in counts and min(counts.values()) > 1


# ---------------------------------------------------------------------------------------------------- what is what


def _columns(good: Sequence[Record], reading: Reading) -> tuple[tuple[Column, ...], list[dict[str, Any]]]:
    """The columns, and the records behind the header by column."""
    body: list[dict[str, Any]] = []
    names: dict[str, str] = {}
    is_table = reading.kind in ("table", "xlsx")
    for place, (_line, cells) in enumerate(good[reading.skip :] if is_table else good):
        if isinstance(cells, dict):
            body.append(cells)
            names |= {key: key for key in cells if key not in names}
            continue
        if place == 0 and reading.header and is_table:
            names = {str(i): str(cell).strip() for i, cell in enumerate(cells)}
            continue
        if len(names) == 1 and reading.header and reading.kind == "table":
            cells = [reading.delimiter.join(map(str, cells))]
        body.append({str(i): cell for i, cell in enumerate(cells)})
        if not (reading.header and is_table):
            names |= {str(i): _("column %(n)d") % {"n": i + 1} for i in range(len(cells)) if str(i) not in names}
    if not is_table and not shapes.shape_of(body):
        body = [tables.flat(record) for record in body]
        names = {key: key for record in body for key in record if key != MEMBER}
    shown = body[:SHOWN]
    columns = tuple(
        Column(key, name, tuple(_shown(row.get(key)) for row in shown))
        for key, name in names.items()
        if name or any(str(row.get(key) or "").strip() for row in body)
    )
    return columns, body


def _chat(columns: Sequence[Column], cells: Mapping[str, Sequence[Any]], read: Mapping[str, str]) -> dict[str, str]:
    """Where each row is a message of a chat: which column says who speaks, and which whose rows belong together; nothing else.
    `read`: what is read already, by key."""
    speaker = next(
        (column.key for column in columns if column.key not in read and chats.speaks(cells[column.key])), None
    )
    free = {
        column.key: column.name
        for column in columns
        if read.get(column.key, "id") in ("id", "conversation_id") and column.key != speaker
    }
    conversation = chats.together(free, cells)
    return {"speaker": speaker, "conversation_id": conversation} if speaker and conversation else {}


def _shown(value: Any) -> str:
    if value is None:
        return ""
    return short(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _numbers_rows(cells: Sequence[Any]) -> bool:
    """Whether a column's cells are numbers of tickets and the like, such as "T-104", and no texts."""
    filled = [str(cell).strip() for cell in cells if cell is not None and str(cell).strip()]
    return bool(filled) and all(TICKET_NUMBER.fullmatch(cell) for cell in filled)


def _guess(
    columns: Sequence[Column], body: Sequence[Mapping[str, Any]], agents: Sequence[Agent]
) -> tuple[dict[str, str], dict[str, str]]:
    """Which column is what, and which others hold labels too: labels by their content first, as names mislead, the others by the
    names that people use, the text else by its length."""
    values = Values(agents, {})
    guesses: dict[str, str] = {}
    by_name: dict[str, str] = {}
    for column in columns:
        by_name.setdefault(plain_name(column.name), column.key)
        by_name.setdefault(plain_name(column.name.rpartition(".")[2]), column.key)
    headings = {
        column.name: (column.name, *entry.headings) for column, entry in query_columns.entries() if not entry.row
    }
    names_of = {**NAMES, **headings, **{name: (name,) for name in TURN_COLUMNS}, "messages": MESSAGES}
    named = {ours: next((by_name[name] for name in names if name in by_name), None) for ours, names in names_of.items()}
    names, cells = _candidates(columns, body)
    texts = [by_name[name] for name in names_of["text"] if name in by_name]
    # "Customer message" is a message, "message type" is none.
    texts += [key for name, key in by_name.items() if name.rpartition(" ")[2] in names_of["text"]]
    named["text"] = next((key for key in texts if not _numbers_rows(cells[key])), None)
    if named["suggested_agents"] is None:
        named["suggested_agents"] = next(
            (key for name, key in by_name.items() if name.split(" ")[0] in PREDICTED), None
        )
    likely = {
        key: name
        for key, name in names.items()
        if key not in (named["text"], named["suggested_agents"], named["asked_agents"], named["annotator"])
    }
    main, further = label_columns.find(likely, cells, values, named["required_agents"])
    if main is not None:
        guesses["required_agents"] = main
    for ours, key in named.items():
        if key is not None and ours not in guesses and key not in (*guesses.values(), *further):
            guesses[ours] = key
    if "suggested_agents" not in guesses:
        for ours in ("suggestion_score", "suggestion_source"):
            guesses.pop(ours, None)
    rest = [column for column in columns if column.key not in (*guesses.values(), *further)]
    if "text" not in guesses and "messages" not in guesses and rest:
        lengths = {column.key: sum(len(_shown(row.get(column.key))) for row in body) for column in rest}
        longest = max(lengths, key=lambda key: lengths[key])
        if any(re.search(r"\w", _shown(row.get(longest))) for row in body):
            guesses["text"] = longest
    if "text" in guesses and "messages" not in guesses:
        guesses |= _chat(columns, cells, {key: ours for ours, key in guesses.items()})
        if guesses.get("conversation_id") == guesses.get("id"):
            guesses.pop("id", None)
    return guesses, further
