"""Several agents at once, as people have them: lines that were pasted, or an agents.jsonl file; and the way back out."""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from django.contrib.auth.models import User
from django.db import transaction
from django.utils.translation import gettext as _

from agents_app import pools
from agents_app.models import Agent, Pool
from training_app.engine.data import examples as data
from training_app.engine.data import folders

MAX_PASTED = 1_000


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


def read_upload(upload: BinaryIO) -> tuple[data.Agent, ...]:
    """The agents of an uploaded agents.jsonl. Raises PoolError with the lines at fault."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "agents.jsonl"
        with path.open("wb") as copy:
            while chunk := upload.read(1 << 16):
                copy.write(chunk)
        try:
            return folders.read_agents(path)
        except data.DataError as error:
            raise pools.PoolError(str(error), "file") from None


def add_several(
    pool: Pool, lines: list[tuple[str, str]], agents: tuple[data.Agent, ...] = (), *, actor: User | None
) -> int:
    """Add what was pasted and load what was uploaded, all or none. Returns how many agents are new. Raises PoolError."""
    with transaction.atomic():
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
            "name": agent.name,
            "code": agent.code,
            "description": agent.description,
            "keywords": agent.keywords,
            "cost": agent.cost,
        }
        yield json.dumps(values, ensure_ascii=False) + "\n"
