"""Several agents at once, as people have them: lines, cells, JSON or YAML, pasted or from a file; and the way back out."""

import io
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import BinaryIO

from django.contrib.auth.models import User
from django.db import transaction
from django.utils.translation import gettext as _

from agents_app import pools
from agents_app.files import limited
from agents_app.files import rosters as files
from agents_app.files.formats import Unreadable
from agents_app.models import Agent, Pool
from agents_app.sources import cards
from agents_app.sources.described import SourceError
from training_app.engine.data import examples as data

Listed = tuple[list[tuple[str, str]], tuple[data.Agent, ...]]


def parse(text: str, field: str = "agents") -> Listed:
    """What a pasted text says: (name, description) pairs, and agents with ids of their own.

    Lines "Name: description", cells of a spreadsheet (name, then description), JSONL, a JSON array, or YAML: a list, or names with
    their descriptions. Raises PoolError that names the line or the agent at fault.
    """
    if not text.strip():
        return [], ()
    return _listed(io.BytesIO(text.encode("utf-8", "replace")), "", field)


def read_upload(upload: BinaryIO) -> Listed:
    """The same of an uploaded file: agents.jsonl, YAML, JSON or lines. Raises PoolError with the lines at fault."""
    listed = _listed(upload, str(getattr(upload, "name", "") or ""), "file")
    if listed == ([], ()):
        raise pools.PoolError(_("The file contains no agent."), "file")
    return listed


def among(upload: BinaryIO) -> str:
    """The agents that a file brought for import lists, as a form takes them, a line each; "" where it lists none, or queries."""
    name = str(getattr(upload, "name", "") or "")
    try:
        (lists_agents,) = limited.run(files.describes_agents, upload, name, limits=limited.PAGE)
        upload.seek(0)
        lines, agents = read_upload(upload) if lists_agents else ([], ())
    except (Unreadable, pools.PoolError):
        lines, agents = [], ()
    upload.seek(0)
    listed = [*lines, *((agent.name, agent.description) for agent in agents)]
    return "\n".join(": ".join(" ".join(part.split()) for part in parts if part) for parts in listed)


def _listed(stream: BinaryIO, file_name: str, field: str) -> Listed:
    lines: list[tuple[str, str]] = []
    agents: list[data.Agent] = []
    try:
        for found_agent in limited.run(files.agents, stream, file_name, limits=limited.PAGE):
            if "card" in found_agent:
                description = cards.described_by(found_agent["card"])
                agents.append(
                    data.Agent(-1 - len(agents), description.name, description.description, description.keywords)
                )
            elif "id" in found_agent:
                agents.append(data.Agent(**{**found_agent, "keywords": tuple(found_agent["keywords"])}))
            else:
                lines.append((found_agent["name"], found_agent["description"]))
    except (Unreadable, SourceError) as error:
        raise pools.PoolError(str(error), field) from None
    return lines, tuple(agents)


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
