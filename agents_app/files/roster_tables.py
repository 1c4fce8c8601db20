"""The agents that a table lists, below titles, with notes, under headings of any name. Runs in the child process."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from typing import Any, BinaryIO

from agents_app.files.formats import Reading, Unreadable, gettext_noop, records
from training_app.engine.data import examples as data
from training_app.engine.data import folders

#: What people call an agent's columns.
COLUMNS: dict[str, tuple[str, ...]] = {
    "name": (
        "name", "agent", "agent name", "agents", "team", "teams", "team name", "department", "service", "bot", "skill", "queue",
        "title", "label", "intent", "category", "group", "role", "desk", "abteilung", "fachbereich", "bereich", "amt", "bezeichnung",
        "agenten", "nombre", "agente", "equipo", "departamento", "área", "servicio", "nome", "equipa", "equipe", "serviço", "setor",
        "nom", "équipe", "squadra", "reparto", "команда", "агент", "название", "отдел",
    ),
    "description": (
        "description", "desc", "what they do", "what it does", "what does it do", "what", "purpose", "responsibility",
        "responsibilities", "responsible for", "duties", "scope", "about", "details", "handles", "summary", "instructions",
        "beschreibung", "aufgabe", "aufgaben", "zuständigkeit", "zuständigkeiten", "zuständig für", "descripción", "qué hace",
        "que hace", "qué hacen", "función", "funciones", "tareas", "descrição", "o que faz", "o que fazem", "função", "funções",
        "tarefas", "ce qu il fait", "descrizione", "cosa fa", "описание", "что делает",
    ),
    "keywords": (
        "keywords", "keyword", "tags", "topics", "examples of words", "stichwörter", "stichworte", "stichwort", "schlagwörter",
        "schlagworte", "schlagwort", "schlüsselwörter", "palabras clave", "palavras chave", "mots clés", "ключевые слова",
    ),
    "examples": (
        "examples", "example", "example queries", "example query", "sample queries", "example questions", "sample questions",
        "utterances", "sample utterances", "beispiele", "beispiel", "beispielanfragen", "beispielfragen", "ejemplos", "exemplos",
        "exemples", "примеры",
    ),
    "code": ("code", "abbreviation", "abbr", "kürzel", "sigla"),
    "id": ("id", "number", "agent id"),
    "key": ("key", "slug"),
    "cost": ("cost", "price", "kosten", "coste", "precio", "custo", "preço"),
}  # fmt: skip
#: A header stands among the first so many rows.
HEADER_WITHIN = 10
#: A number, or letters and a number, as people number their teams: "7", "P-01", "Nr. 3".
CODE = re.compile(r"[^\W\d_]{0,4}[-_./ ]*\d+[.)]?")
#: What a row below a list begins with that sums it up: "Total: 8".
TOTAL = re.compile(
    r"(?:grand total|total|sum|summe|gesamt|insgesamt|anzahl|count|итого|всего)\b[\s:=]*\d*", re.IGNORECASE
)
CURRENCY = re.compile(r"\s*(?:[€$£¥]|eur|usd|gbp|chf)\s*", re.IGNORECASE)


def delimiter_of(text: str, suffix: str) -> str:
    """What stands between the cells of a table of agents; "" for what is no table."""
    lines = [line for line in text.splitlines() if line.strip()][: HEADER_WITHIN + 10]
    for delimiter in "\t;|,":
        for line in lines[:HEADER_WITHIN]:
            names = [plain(cell) for cell in line.split(delimiter)]
            if len(names) > 1 and {"name", "description"} <= set(named(names)):
                return delimiter
    if suffix in (".csv", ".tsv", ".tab") and lines:
        counts = {d: sum(line.count(d) for line in lines) for d in "\t;|,"}
        return max(counts, key=lambda d: counts[d]) if any(counts.values()) else ""
    if len(lines) > 1:
        for delimiter in "\t;|":
            if all(line.count(delimiter) == lines[0].count(delimiter) > 0 for line in lines):
                return delimiter
    return ""


def cells_of(stream: BinaryIO, reading: Reading) -> list[tuple[int, list[str]]]:
    """(line, cells) of each row that holds something. Raises Unreadable with the first bad line."""
    rows = []
    for record in records(stream, reading):
        if isinstance(record, data.RowError):
            raise Unreadable(gettext_noop("Line %(line)d: %(why)s."), line=record.line, why=record.reason)
        line, cells = record
        texts = ["\n".join(filter(None, (" ".join(part.split()) for part in str(cell).splitlines()))) for cell in cells]
        if any(texts):
            rows.append((line, texts))
    return rows


def plain(cell: str) -> str:
    """A heading in lower case, without signs."""
    return " ".join(re.sub(r"[^\w#]+", " ", cell.strip(" \"'").lower().replace("_", " ")).split())


def named(names: Sequence[str]) -> dict[str, int]:
    """Which of our columns each name is: ours → its place."""
    places: dict[str, int] = {}
    for ours, headings in COLUMNS.items():
        place = next(
            (names.index(name) for name in headings if name in names and names.index(name) not in places.values()), None
        )
        if place is not None:
            places[ours] = place
    return places


def entries_of(rows: list[tuple[int, list[str]]]) -> tuple[list[dict[str, Any]], list[int], list[str]]:
    """What a table says of each agent, by our columns, and its line: by the header, which may stand below titles, or else the first
    column that holds names; and the headings of filled columns that are not read. Raises Unreadable."""
    columns, header, rows = _below_header(_without_total(_without_notes(rows)))
    if "description" not in columns and rows:
        others = [i for i in range(max(len(cells) for _line, cells in rows)) if i not in columns.values()]
        lengths = {i: sum(len(cells[i]) for _line, cells in rows if i < len(cells)) for i in others}
        if lengths:
            columns["description"] = max(lengths, key=lambda i: lengths[i])
    entries, numbers = [], []
    for line, cells in rows:
        values: dict[str, Any] = {ours: cells[i] for ours, i in columns.items() if i < len(cells) and cells[i]}
        if "name" not in values:
            raise Unreadable(gettext_noop("Line %(line)d names no agent."), line=line)
        entries.append(values)
        numbers.append(line)
    if not entries:
        raise Unreadable(gettext_noop("There is no list of agents in it."))
    _make_plain(entries)
    unread = [
        " ".join(heading.split())
        for place, heading in enumerate(header)
        if heading and place not in columns.values() and any("".join(cells[place : place + 1]) for _line, cells in rows)
    ]
    return entries, numbers, unread


def _make_plain(entries: list[dict[str, Any]]) -> None:
    """Names on one line, examples each alone, and numbers out of what people write in cells. A column of ids such as "P-01" holds the
    agents' keys, where it is no column of numbers and no other column holds keys."""
    for values in entries:
        values["name"] = " ".join(values["name"].split())
        if "examples" in values:
            values["examples"] = _each(values["examples"])
        if "cost" in values:
            values["cost"] = CURRENCY.sub("", values["cost"])
        for number in ("id", "cost"):
            if number in values:
                with contextlib.suppress(ValueError):
                    values[number] = float(str(values[number]).replace(",", "."))
                    values[number] = int(values[number]) if values[number].is_integer() else values[number]
    if any(isinstance(values.get("id"), str) for values in entries):
        for values in entries:
            number = values.pop("id", None)
            key = re.sub(r"[^a-z0-9_-]+", "-", str(number or "").lower()).strip("-_")
            if isinstance(number, str) and len(key) <= folders.MAX_KEY and re.match(folders.AGENT_KEY, key):
                values.setdefault("key", key)
    for values in entries:
        if "key" in values:
            values["key"] = values["key"].lower()


def _each(cell: str) -> list[str]:
    """The texts in one cell: one a line, or else between semicolons or bars. A comma stands within a text."""
    parts = cell.splitlines() if "\n" in cell else re.split(r"\s*[;|]\s*", cell)
    return list(dict.fromkeys(filter(None, (part.strip("-*•– \t\"'„“”»«") for part in parts))))


def _without_notes(rows: list[tuple[int, list[str]]]) -> list[tuple[int, list[str]]]:
    """The rows without titles above and notes below a table: they fill one cell of rows that fill more, and a note stands behind an
    empty row."""
    filled = [sum(map(bool, cells)) for _line, cells in rows]
    if sum(count > 1 for count in filled) * 2 <= len(rows):
        return rows
    first = next(place for place, count in enumerate(filled) if count > 1)
    last = len(rows)
    while last - 2 > first and filled[last - 1] == 1 and rows[last - 1][0] > rows[last - 2][0] + 1:
        last -= 1
    return rows[first:last]


def _without_total(rows: list[tuple[int, list[str]]]) -> list[tuple[int, list[str]]]:
    """The rows without a last one that sums the list up: its only words are "Total: 8" or the like, and the row above it says more."""
    if len(rows) < 3:
        return rows
    words = [cell for cell in rows[-1][1] if cell and not cell.isdigit()]
    says_more = sum(map(bool, rows[-2][1])) > len(words)
    return rows[:-1] if len(words) == 1 and says_more and TOTAL.fullmatch(words[0]) else rows


def _below_header(
    rows: list[tuple[int, list[str]]],
) -> tuple[dict[str, int], list[str], list[tuple[int, list[str]]]]:
    """Which column holds what, the cells of the header, and the rows below it.

    Below a header that names the description and one more of our columns, but no name, the first other column holds the names. Where
    no heading is one that people give agents, the names are in the first column that does not number the rows, and the first row is a
    header if it has no such number itself.
    """
    for place, (_line, cells) in enumerate(rows[:HEADER_WITHIN]):
        columns = named([plain(cell) for cell in cells])
        if "name" not in columns and "description" in columns and len(columns) > 1:
            others = [i for i, cell in enumerate(cells) if cell and i not in columns.values()]
            columns |= {"name": others[0]} if others else {}
        if "name" in columns and sum(map(bool, cells)) > 1:
            return columns, cells, rows[place + 1 :]
    numbered = 0
    while len(rows) > 1 and all(len(cells) > numbered + 1 and CODE.fullmatch(cells[numbered]) for _, cells in rows[1:]):
        numbered += 1
    if not numbered:
        return {"name": 0, "description": 1}, [], rows
    if CODE.fullmatch(rows[0][1][numbered - 1]):
        return {"name": numbered}, [], rows
    return {"name": numbered}, rows[0][1], rows[1:]
