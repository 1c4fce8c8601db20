"""A folder of labeled queries and the file of agents in it. Standard library only."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, BinaryIO

from training_app.engine.data import storable
from training_app.engine.data.examples import SPLITS, Agent, DataError, Example, Folder, RowError, normalise
from training_app.engine.data.file_rows import MAX_ID, MAX_TEXT, BadRow, short
from training_app.engine.data.files import read_objects, read_rows

#: What an agent's key looks like: never like an id.
AGENT_KEY = r"^(?=.*[a-z])[a-z0-9][a-z0-9_-]*\Z"
MAX_KEY = 60


def _agent(values: dict[str, Any], lines_by_key: dict[int | str, int], line: int) -> Agent:
    fault = storable.fault(values)
    if fault is not None:
        raise BadRow(fault.reason, fault.path, short(values.get(fault.key, "")))
    identifier, name = values.get("id"), values.get("name")
    if isinstance(identifier, bool) or not isinstance(identifier, int) or not 0 <= identifier < 1 << 31:
        raise BadRow("must be a whole number from 0", "id", short(identifier))
    if not isinstance(name, str) or not name.strip() or len(name) > MAX_ID:
        raise BadRow(f"must be a text of 1 to {MAX_ID} characters", "name", short(name))
    for key, what in ((identifier, "id"), (normalise(name), "name")):
        if key in lines_by_key:
            raise BadRow(f"{short(values[what])} stands on line {lines_by_key[key]} already", what)
        lines_by_key[key] = line
    description, code = values.get("description") or "", values.get("code") or ""
    if not isinstance(description, str) or len(description) > MAX_TEXT:
        raise BadRow(f"must be a text of at most {MAX_TEXT:,} characters", "description", short(description))
    if not isinstance(code, str):
        raise BadRow("must be a text", "code", short(code))
    handle = values.get("key")
    if handle is not None:
        if not isinstance(handle, str) or len(handle) > MAX_KEY or not re.match(AGENT_KEY, handle):
            problem = f"must be at most {MAX_KEY} small letters, digits, - and _, a letter among them"
            raise BadRow(problem, "key", short(handle))
        place = f"key {handle}"  # no name begins so once it is a place: ids are numbers
        if place in lines_by_key:
            raise BadRow(f"{short(handle)} stands on line {lines_by_key[place]} already", "key")
        lines_by_key[place] = line
    keywords, examples = _keywords(values.get("keywords") or []), _examples(values.get("examples") or [])
    cost = values.get("cost") or 0.0
    if isinstance(cost, bool) or not isinstance(cost, int | float):
        raise BadRow("must be a number", "cost", short(cost))
    if cost < 0:
        raise BadRow("must be a number from 0", "cost", short(cost))
    return Agent(
        identifier,
        name.strip(),
        description.strip(),
        keywords,
        code.strip(),
        float(cost),
        handle or "",
        examples,
    )


def _keywords(value: object) -> tuple[str, ...]:
    """An agent's keywords: a list, or one text that commas, semicolons or lines divide."""
    if isinstance(value, str):
        value = [keyword for keyword in (part.strip() for part in re.split(r"[;,\n]", value)) if keyword]
    if not isinstance(value, list) or not all(isinstance(keyword, str) for keyword in value):
        raise BadRow("must be a list of texts", "keywords", short(value))
    return tuple(value)


def _examples(value: object) -> tuple[str, ...]:
    """An agent's example queries, without empty ones: a list, or one text."""
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) and len(text) <= MAX_TEXT for text in texts):
        raise BadRow(f"must be a list of texts of at most {MAX_TEXT:,} characters", "examples", short(texts))
    return tuple(text.strip() for text in texts if text.strip())


def read_agents(path: str | Path) -> tuple[Agent, ...]:
    """Agents from a JSONL file, in the order of their ids. Raises DataError with line numbers."""
    path = Path(path)
    if not path.is_file():
        raise DataError([(path.name, RowError(0, f"{path} does not exist: list the agents there, one JSON a line"))])
    with path.open("rb") as stream:
        return agents_in(stream, path.name)


def agents_in(stream: BinaryIO, name: str) -> tuple[Agent, ...]:
    """Agents from JSON lines, in the order of their ids; `name` is the file's. Raises DataError with line numbers."""
    lines_by_key: dict[int | str, int] = {}
    agents: list[Agent] = []
    errors: list[tuple[str, RowError]] = []
    for row in read_objects(stream, lambda line, values: _agent(values, lines_by_key, line)):
        if isinstance(row, RowError):
            errors.append((name, row))
        else:
            agents.append(row)
    if not agents and not errors:
        errors.append((name, RowError(0, "contains no agent")))
    if errors:
        raise DataError(errors)
    return tuple(sorted(agents, key=lambda agent: agent.id))


def read_folder(path: str | Path) -> Folder:
    """A folder with `agents.jsonl`, `train.jsonl` and, where there are any, `val.jsonl` and `test.jsonl`.

    The splits are taken as the files have them. Unlabeled rows are counted; the texts of those of train are kept apart.
    Raises DataError with the file and line of every bad row.
    """
    path = Path(path)
    agents = read_agents(path / "agents.jsonl")
    splits: dict[str, tuple[Example, ...]] = {}
    errors: list[tuple[str, RowError]] = []
    unlabeled = 0
    texts: list[str] = []
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
                        if split == "train":
                            texts.append(row.text)
                    else:
                        identifier = row.id or f"{split}-{row.line}"
                        examples.append(Example(identifier, row.text, row.required, row.asked, split, row.conversation))
        elif split == "train":
            errors.append((name, RowError(0, f"{path / name} does not exist: labeled queries to learn from go there")))
        splits[split] = tuple(examples)
    if errors:
        raise DataError(errors)
    return Folder(agents, splits["train"], splits["val"], splits["test"], unlabeled, tuple(texts))
