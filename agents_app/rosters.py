"""Several agents at once, as people have them: lines, cells, JSON or YAML, pasted or from a file; and the way back out."""

import contextlib
import json
import re
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import yaml
from django.contrib.auth.models import User
from django.db import transaction
from django.utils.translation import gettext as _

from agents_app import pools
from agents_app.models import Agent, Pool
from training_app.engine.data import examples as data
from training_app.engine.data import folders

MAX_PASTED = 1_000
MAX_FILE = 8 << 20
#: Characters of YAML or of one JSON array.
MAX_LISTED = 2_000_000


def parse_lines(text: str) -> list[tuple[str, str]]:
    """(name, description) of each line "Name: description"; blank lines fall away. Raises PoolError with the line's number."""
    found: list[tuple[str, str]] = []
    lines_by_name: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        name, _colon, description = line.partition(":")
        name = " ".join(name.split())
        if not name:
            raise pools.PoolError(_("Line %(line)d has no name before its colon.") % {"line": number}, "agents")
        if len(name) > 120:
            raise pools.PoolError(
                _("Line %(line)d: the name is longer than 120 characters. Is a colon missing after it?")
                % {"line": number},
                "agents",
            )
        if first := lines_by_name.get(name.casefold()):
            raise pools.PoolError(
                _("Lines %(first)d and %(line)d both name “%(name)s”.")
                % {"first": first, "line": number, "name": name},
                "agents",
            )
        lines_by_name[name.casefold()] = number
        found.append((name, description.strip()))
    if len(found) > MAX_PASTED:
        raise pools.PoolError(
            _("More than %(most)d agents. Is this a list of agents?") % {"most": MAX_PASTED}, "agents"
        )
    return found


def parse(text: str, field: str = "agents") -> tuple[list[tuple[str, str]], tuple[data.Agent, ...]]:
    """What a pasted or uploaded text says: (name, description) pairs, and agents with ids of their own.

    Lines "Name: description", cells of a spreadsheet (name, then description), JSONL, a JSON array, or YAML: a list, or names with
    their descriptions. Raises PoolError that names the line or the agent at fault.
    """
    start = text.lstrip("\ufeff \t\r\n")
    if not start:
        return [], ()
    if start.startswith(("{", "[")):
        return (parse_lines(""), _objects(start, field)) if start.startswith("{") else _listed(start, field)
    if re.match(r"(?:---|-\s|agents\s*:\s*$)", start, re.MULTILINE) or _nested(start):
        return _listed(start, field)
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


def _objects(text: str, field: str) -> tuple[data.Agent, ...]:
    """The agents of JSON objects, one a line. Where none of them names an id they get negative ones: `add_several` numbers them."""
    lines = [line for line in text.splitlines() if line.strip()]
    nameless = False
    with contextlib.suppress(ValueError, RecursionError):  # the reader below names the line
        found = [json.loads(line) for line in lines]
        nameless = all(isinstance(one, dict) and "id" not in one for one in found)
        if nameless:
            lines = [json.dumps({**one, "id": place}) for place, one in enumerate(found)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "agents.jsonl"
        path.write_text("\n".join(lines), "utf-8")
        try:
            agents = folders.read_agents(path)
        except data.DataError as error:
            raise pools.PoolError(str(error), field) from None
    return tuple(replace(agent, id=-1 - agent.id) for agent in agents) if nameless else agents


def _listed(text: str, field: str) -> tuple[list[tuple[str, str]], tuple[data.Agent, ...]]:
    """The agents of a JSON array or of YAML."""
    if len(text) > MAX_LISTED:
        raise pools.PoolError(_("This is too long for a list of agents. Give one JSON object a line."), field)
    try:
        if any(
            isinstance(event, yaml.AliasEvent) for event in yaml.parse(text)
        ):  # a few lines could unfold to gigabytes
            raise pools.PoolError(_("References (*name) are not read. Write each agent out."), field)
        found = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        where = getattr(error, "problem_mark", None)
        line = f" {_('Line %(line)d.') % {'line': where.line + 1}}" if where else ""
        raise pools.PoolError(_("This is neither YAML nor JSON that can be read.") + line, field) from None
    if isinstance(found, dict) and isinstance(found.get("agents"), list | dict):
        found = found["agents"]
    if isinstance(found, dict):
        if all(isinstance(value, dict) for value in found.values()):
            found = [{"name": str(name), **value} for name, value in found.items()]
        else:
            found = [{"name": str(name), "description": value or ""} for name, value in found.items()]
    if not isinstance(found, list) or not found:
        raise pools.PoolError(_("There is no list of agents in it."), field)
    if all(isinstance(one, str) for one in found):
        return parse_lines("\n".join(found)), ()
    try:
        lines = "\n".join(json.dumps(one, ensure_ascii=False) for one in found)
    except (TypeError, ValueError):
        raise pools.PoolError(_("An agent's values must be texts, numbers and lists."), field) from None
    return [], _objects(lines, field)


def read_upload(upload: BinaryIO) -> tuple[list[tuple[str, str]], tuple[data.Agent, ...]]:
    """The same of an uploaded file: agents.jsonl, YAML, JSON or lines. Raises PoolError with the lines at fault."""
    content = upload.read(MAX_FILE + 1)
    if len(content) > MAX_FILE:
        raise pools.PoolError(_("The file is too large for a list of agents."), "file")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise pools.PoolError(_("The file is not UTF-8. Save it as UTF-8 and try again."), "file") from None
    suffix = Path(str(getattr(upload, "name", "") or "")).suffix.lower()
    if suffix in (".jsonl", ".ndjson"):
        return [], _objects(text, "file")
    lines, agents = (
        _listed(text, "file") if suffix in (".yaml", ".yml", ".json") and text.strip() else parse(text, "file")
    )
    if not lines and not agents:
        raise pools.PoolError(_("The file holds no agent."), "file")
    return lines, agents


def add_several(
    pool: Pool, lines: list[tuple[str, str]], agents: tuple[data.Agent, ...] = (), *, actor: User | None
) -> int:
    """Add what was pasted and load what was uploaded, all or none. Returns how many agents are new. Raises PoolError."""
    with transaction.atomic():
        free = max([pool.next_agent_number, *(agent.id + 1 for agent in agents)])
        agents = tuple(replace(agent, id=free - 1 - agent.id) if agent.id < 0 else agent for agent in agents)
        created = pools.load_agents(pool, agents, actor).created if agents else 0
        for name, description in lines:
            try:
                pools.add_agent(pool, name, description, actor=actor)
            except pools.PoolError as error:
                raise pools.PoolError(_("“%(name)s”: %(why)s") % {"name": name, "why": error}, "agents") from None
    return created + len(lines)


def pool_with_agents(
    name: str,
    slug: str,
    lines: list[tuple[str, str]],
    agents: tuple[data.Agent, ...] = (),
    *,
    actor: User | None,
) -> Pool:
    """A new pool with its first agents, or nothing at all. Raises PoolError."""
    with transaction.atomic():
        pool = pools.create_pool(name, slug, actor=actor)
        add_several(pool, lines, agents, actor=actor)
    return pool


def json_lines(pool: Pool) -> Iterator[str]:
    """The pool's active agents as lines of an agents.jsonl file that another pool or the engine reads."""
    agents: list[Agent] = list(pool.agents.active().order_by("number"))
    for agent in agents:
        values = {
            "id": agent.number,
            "key": agent.key,
            "name": agent.name,
            "code": agent.code,
            "description": agent.description,
            "keywords": agent.keywords,
            "cost": agent.cost,
        }
        yield json.dumps(values, ensure_ascii=False) + "\n"
