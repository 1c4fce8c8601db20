"""The agents that a text or a file lists. Runs in the child process.

Lines "Name: description", a table with any separator or a workbook, JSON, JSONL or YAML; agent cards of A2A; an OpenAPI document, one
agent; the tools of an MCP server, which is one agent where it is named, or else of a model: an agent each.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import PurePath
from typing import Any, BinaryIO

import yaml

from agents_app.files import roster_tables
from agents_app.files.detecting import detect, encoding_of
from agents_app.files.formats import Reading, Unreadable, gettext_noop
from agents_app.files.names import NAMES, plain_name
from training_app.engine.data import examples as data
from training_app.engine.data import folders

MAX_AGENTS = 1_000
MAX_FILE = 8 << 20  # bytes
#: Characters of YAML or of one JSON array.
MAX_LISTED = 2_000_000
#: Characters of a description made of an API's or a server's parts, and how many of these are named.
MAX_DESCRIPTION, MAX_PARTS = 4_000, 60


def agents(stream: BinaryIO, file_name: str) -> Iterator[dict[str, Any]]:
    """Each agent of a file, as a mapping: `id` is its own, negative where the file gives none and they are to be numbered, and missing
    for a line "Name: description"; {"card": …} for an agent card, {"unread": …} for a table's heading that is not read. Raises
    Unreadable with the line or the agent at fault."""
    content = stream.read(MAX_FILE + 1)
    if len(content) > MAX_FILE:
        raise Unreadable(gettext_noop("The file is too large for a list of agents."))
    suffix = PurePath(file_name).suffix.lower()
    if content.startswith(b"PK\x03\x04"):
        yield from _of_table(roster_tables.cells_of(io.BytesIO(content), Reading("xlsx")))
        return
    encoding = encoding_of(content)
    text = content.decode("utf-8-sig" if encoding == "utf-8" else encoding, "replace")
    if suffix in (".jsonl", ".ndjson"):
        yield from map(asdict, _objects(text))
        return
    if text.lstrip("\ufeff \t\r\n")[:1] in ("{", "["):
        try:
            value = json.loads(text.strip("\ufeff \t\r\n"))
        except (ValueError, RecursionError):
            value = None  # perhaps an object a line, or YAML
        if value is not None:
            yield from _of_value(value)
            return
    delimiter = roster_tables.delimiter_of(text, suffix)
    if delimiter:
        table = Reading("table", "utf-8", delimiter)
        yield from _of_table(roster_tables.cells_of(io.BytesIO(text.encode("utf-8", "replace")), table))
        return
    lines, entries = _listed(text) if suffix in (".yaml", ".yml", ".json") and text.strip() else parse(text)
    for name, description in lines:
        yield {"name": name, "description": description}
    yield from map(asdict, entries)


def describes_agents(stream: BinaryIO, file_name: str) -> Iterator[bool]:
    """Whether a file lists agents and no queries: an agent card, an OpenAPI document, tools, or a table with a column of distinct
    names, one of what they do, and none that people call a query's."""
    content = stream.read(MAX_FILE + 1)
    if len(content) > MAX_FILE:
        yield False
    elif content.startswith(b"PK\x03\x04"):
        stream.seek(0)
        yield detect(stream, file_name).kind == "xlsx" and _is_roster(
            roster_tables.cells_of(io.BytesIO(content), Reading("xlsx"))
        )
    else:
        encoding = encoding_of(content)
        text = content.decode("utf-8-sig" if encoding == "utf-8" else encoding, "replace").strip("\ufeff \t\r\n")
        if text[:1] in ("{", "["):
            yield _is_description(text)
        else:
            delimiter = roster_tables.delimiter_of(text, PurePath(file_name).suffix.lower())
            table = Reading("table", "utf-8", delimiter)
            yield bool(delimiter) and _is_roster(
                roster_tables.cells_of(io.BytesIO(text.encode("utf-8", "replace")), table)
            )


def _of_table(rows: list[tuple[int, list[str]]]) -> Iterator[dict[str, Any]]:
    """The agents of a table, and the headings of its other columns. Raises Unreadable."""
    entries, lines, unread = roster_tables.entries_of(rows)
    yield from map(asdict, _objects("\n".join(json.dumps(values, ensure_ascii=False) for values in entries), lines))
    yield from ({"unread": heading} for heading in unread)


def _is_roster(rows: list[tuple[int, list[str]]]) -> bool:
    """Whether a table lists agents, by its header."""
    for place, (_line, cells) in enumerate(rows[: roster_tables.HEADER_WITHIN]):
        columns = roster_tables.named([roster_tables.plain(cell) for cell in cells])
        if {"name", "description"} <= set(columns):
            below = [cells[columns["name"]] for _line, cells in rows[place + 1 :] if columns["name"] < len(cells)]
            query = {plain_name(cell) for cell in cells} & set(NAMES["text"])
            return bool(below) and not query and len(set(below)) == len(below) <= MAX_AGENTS
    return False


def _is_description(text: str) -> bool:
    """Whether JSON is an agent card or several, an OpenAPI document, or tools."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return False
    if isinstance(value, dict) and isinstance(value.get("result"), dict):
        value = value["result"]
    ones = value if isinstance(value, list) else [value]
    if all(isinstance(item, dict) for item in ones) and ones:
        if all((isinstance(item.get("skills"), list) and "name" in item) or _is_tool(item) for item in ones):
            return True
        only = ones[0]
        return len(ones) == 1 and (
            (isinstance(only.get("paths"), dict) and ("openapi" in only or "swagger" in only))
            or (isinstance(only.get("tools"), list) and "inputSchema" in str(only["tools"])[:100_000])
        )
    return False


# ---------------------------------------------------------------------------------------------------- JSON


def _of_value(value: Any) -> Iterator[dict[str, Any]]:
    """The agents that a JSON value describes. Raises Unreadable."""
    if isinstance(value, dict) and isinstance(value.get("result"), dict) and "tools" in value["result"]:
        value = value["result"]  # the answer to an MCP call, with its envelope
    if isinstance(value, dict):
        if isinstance(value.get("skills"), list):
            yield {"card": value}
            return
        if isinstance(value.get("paths"), dict) and ("openapi" in value or "swagger" in value):
            yield from map(asdict, _objects(json.dumps(_of_openapi(value))))
            return
        if isinstance(value.get("tools"), list):
            yield from map(asdict, _of_tools(value["tools"], value.get("serverInfo"), value.get("instructions")))
            return
        if isinstance(value.get("name"), str) and not isinstance(value.get("agents"), list | dict):
            yield from map(asdict, _objects(json.dumps(value)))
            return
    if isinstance(value, list) and value:
        if all(isinstance(card, dict) and isinstance(card.get("skills"), list) for card in value):
            yield from ({"card": card} for card in value)
            return
        if all(_is_tool(tool) for tool in value):
            yield from map(asdict, _of_tools(value, None, None))
            return
    lines, entries = _in_value(value)
    for name, description in lines:
        yield {"name": name, "description": description}
    yield from map(asdict, entries)


def _is_tool(value: Any) -> bool:
    return isinstance(value, dict) and (
        "inputSchema" in value or "input_schema" in value or isinstance(value.get("function"), dict)
    )


def _of_tools(tools: list[Any], server: Any, instructions: Any) -> tuple[data.Agent, ...]:
    """One agent for a server that is named, else one for each tool. Raises Unreadable."""
    plain = [
        tool["function"] if isinstance(tool, dict) and isinstance(tool.get("function"), dict) else tool
        for tool in tools
    ]
    named = [
        tool for tool in plain if isinstance(tool, dict) and isinstance(tool.get("name"), str) and tool["name"].strip()
    ]
    if not named:
        raise Unreadable(gettext_noop("There is no tool with a name in it."))
    described = [(str(tool.get("title") or tool["name"]), str(tool.get("description") or "")) for tool in named]
    if isinstance(server, dict) and isinstance(server.get("title") or server.get("name"), str):
        parts = [
            str(instructions or ""),
            *(f"{name}: {description}" if description else name for name, description in described[:MAX_PARTS]),
        ]
        agent = {
            "name": str(server.get("title") or server["name"]),
            "description": "\n".join(filter(None, parts))[:MAX_DESCRIPTION],
            "keywords": [str(tool["name"])[:60] for tool in named[:50]],
        }
        return _objects(json.dumps(agent))
    return _objects(
        "\n".join(
            json.dumps({"name": name[:120], "description": description[:MAX_DESCRIPTION]})
            for name, description in described
        )
    )


def _of_openapi(document: dict[str, Any]) -> dict[str, Any]:
    """The one agent that an API is: what its document says of it, and what each of its operations does. Raises Unreadable."""
    about = document["info"] if isinstance(document.get("info"), dict) else {}
    name = str(about.get("title") or "").strip()
    if not name:
        raise Unreadable(
            gettext_noop("The OpenAPI document has no title (info.title): give it one, it becomes the agent's name.")
        )
    parts, tags = [str(about.get("description") or about.get("summary") or "").strip()], []
    for operations in document["paths"].values():
        for operation in operations.values() if isinstance(operations, dict) else ():
            if not isinstance(operation, dict):
                continue
            text = operation.get("summary") or operation.get("description") or operation.get("operationId")
            if text and len(parts) <= MAX_PARTS:
                parts.append(" ".join(str(text).split()))
            tags += [str(tag) for tag in operation.get("tags") or () if isinstance(tag, str)]
    description = "\n".join(dict.fromkeys(filter(None, parts)))[:MAX_DESCRIPTION]
    return {"name": name[:120], "description": description, "keywords": list(dict.fromkeys(tags))[:50]}


# ---------------------------------------------------------------------------------------------------- lines and YAML


#: What people put between a name and what it does where they put no colon, and words of a name that is followed by one.
_DIVIDES = re.compile(r"\s+[-–—]+\s+|\s*;\s+")
NAME_WORDS = 4


def divided(line: str) -> tuple[str, str]:
    """(name, description) of a line "Name: description". Without a colon a dash or semicolon may stand for it: behind a short name and
    before several words, for "Travel - EU" is a name."""
    if colon := re.search("[:：]", line):
        return line[: colon.start()], line[colon.end() :]
    name, *rest = _DIVIDES.split(line, maxsplit=1)
    if rest and len(name.split()) <= NAME_WORDS and len(rest[0].split()) > 1:
        return name, rest[0]
    return line, ""


def parse_lines(text: str) -> list[tuple[str, str]]:
    """(name, description) of each line, as `divided`; blank lines fall away. Raises Unreadable with the line's number."""
    pairs: list[tuple[str, str]] = []
    lines_by_name: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        name, description = divided(line)
        name = " ".join(name.split())
        if not name:
            raise Unreadable(gettext_noop("Line %(line)d has no name before its colon."), line=number)
        if len(name) > 120:
            raise Unreadable(
                gettext_noop("Line %(line)d: the name is longer than 120 characters. Is a colon missing after it?"),
                line=number,
            )
        if first := lines_by_name.get(name.casefold()):
            raise Unreadable(
                gettext_noop("Lines %(first)d and %(line)d both name “%(name)s”."), first=first, line=number, name=name
            )
        lines_by_name[name.casefold()] = number
        pairs.append((name, description.strip()))
    if len(pairs) > MAX_AGENTS:
        raise Unreadable(gettext_noop("More than %(most)d agents. Is this a list of agents?"), most=MAX_AGENTS)
    return pairs


def parse(text: str) -> tuple[list[tuple[str, str]], tuple[data.Agent, ...]]:
    """What a text says: (name, description) pairs, and agents with ids of their own.

    Lines "Name: description", cells of a spreadsheet (name, then description), JSONL, a JSON array, or YAML: a list, or names with
    their descriptions. Raises Unreadable.
    """
    start = text.lstrip("\ufeff \t\r\n")
    if not start:
        return [], ()
    if start.startswith("{"):
        return [], _objects(start)
    if start.startswith("[") or re.match(r"(?:---|-\s|agents\s*:\s*$)", start, re.MULTILINE) or _nested(start):
        return _listed(start)
    lines = start.splitlines()
    if all("\t" in line for line in lines if line.strip()):
        cells = [[cell.strip() for cell in line.split("\t")] for line in lines if line.strip()]
        if cells[0][0].lower() in ("name", "agent"):
            cells = cells[1:]
        return parse_lines("\n".join(f"{row[0]}: {' '.join(row[1:])}" for row in cells)), ()
    return parse_lines(start), ()


def _nested(text: str) -> bool:
    """Whether lines stand indented below a name, as in YAML."""
    return bool(re.search(r"^[^\s#][^\n]*:\s*\n\s+\w+\s*:", text, re.MULTILINE))


def _objects(text: str, numbers: Sequence[int] = ()) -> tuple[data.Agent, ...]:
    """The agents of JSON objects, one a line. Where none of them names an id they get negative ones. `numbers` are the lines of the
    file that they come from, rising, where these differ. Raises Unreadable."""
    lines = [line for line in text.splitlines() if line.strip()]
    nameless = False
    with contextlib.suppress(ValueError, RecursionError):  # the reader below names the line
        objects = [json.loads(line) for line in lines]
        nameless = all(isinstance(agent, dict) and "id" not in agent for agent in objects)
        if nameless:
            lines = [json.dumps({**agent, "id": place}) for place, agent in enumerate(objects)]
    if numbers:
        # Each on its line of the file, so that a message that names another line names the file's.
        placed = dict(zip(numbers, lines, strict=True))
        lines = [placed.get(number, "") for number in range(1, max(placed, default=0) + 1)]
    try:
        agents = folders.agents_in(io.BytesIO("\n".join(lines).encode("utf-8", "surrogatepass")), "agents.jsonl")
    except data.DataError as error:
        if not numbers:
            raise Unreadable("%(why)s", why=str(error)) from None
        row = error.errors[0][1]
        reason = ": ".join(filter(None, (row.field, row.reason))) + (f" ({row.excerpt})" if row.excerpt else "")
        raise Unreadable(gettext_noop("Line %(line)d: %(why)s."), line=row.line, why=reason) from None
    return tuple(replace(agent, id=-1 - agent.id) for agent in agents) if nameless else agents


def _listed(text: str) -> tuple[list[tuple[str, str]], tuple[data.Agent, ...]]:
    """The agents of a JSON array or of YAML."""
    if len(text) > MAX_LISTED:
        raise Unreadable(gettext_noop("This is too long for a list of agents. Give one JSON object a line."))
    content = _yaml(text)
    return _in_value(content)


def _in_value(parsed: Any) -> tuple[list[tuple[str, str]], tuple[data.Agent, ...]]:
    """The agents of a list of texts or mappings, or of a mapping by name. Raises Unreadable."""
    if isinstance(parsed, dict) and isinstance(parsed.get("agents"), list | dict):
        parsed = parsed["agents"]
    if isinstance(parsed, dict):
        if all(isinstance(value, dict) for value in parsed.values()):
            parsed = [{"name": str(name), **value} for name, value in parsed.items()]
        elif all(value is None or isinstance(value, str) for value in parsed.values()):
            parsed = [{"name": str(name), "description": value or ""} for name, value in parsed.items()]
        else:
            raise Unreadable(
                gettext_noop("This is one object that describes no agent: it needs a name and a description.")
            )
    if not isinstance(parsed, list) or not parsed:
        raise Unreadable(gettext_noop("There is no list of agents in it."))
    if all(isinstance(item, str) for item in parsed):
        return parse_lines("\n".join(parsed)), ()
    try:
        lines = "\n".join(json.dumps(item, ensure_ascii=False) for item in parsed)
    except (TypeError, ValueError):
        raise Unreadable(gettext_noop("An agent's values must be texts, numbers and lists.")) from None
    return [], _objects(lines)


def _yaml(text: str) -> Any:
    """What YAML or JSON says. Raises Unreadable."""
    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text)):
            # A few lines could unfold to gigabytes.
            raise Unreadable(gettext_noop("References (*name) are not read. Write each one out."))
        return yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        if isinstance(error, Unreadable):
            raise
        where = getattr(error, "problem_mark", None)
        if where is None:
            raise Unreadable(gettext_noop("This is neither YAML nor JSON that can be read.")) from None
        raise Unreadable(
            gettext_noop("This is neither YAML nor JSON that can be read: see line %(line)d."), line=where.line + 1
        ) from None


def yaml_value(stream: BinaryIO) -> Iterator[Any]:
    """The one value of a file of YAML. Raises Unreadable."""
    try:
        text = stream.read(MAX_LISTED).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Unreadable(gettext_noop("The file is not UTF-8. Save it as UTF-8 and try again.")) from None
    yield json.loads(json.dumps(_yaml(text), default=str))


def json_value(stream: BinaryIO) -> Iterator[Any]:
    """The one JSON value of a file. Raises Unreadable."""
    content = stream.read(MAX_FILE + 1)
    if len(content) > MAX_FILE:
        raise Unreadable(gettext_noop("The file is too large for agent cards."))
    try:
        yield json.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        raise Unreadable(gettext_noop("The file is not JSON that can be read.")) from None
