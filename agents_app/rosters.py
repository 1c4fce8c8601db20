"""Several agents at once, as people have them: lines, cells, JSON or YAML, pasted or from a file; and the way back out."""

import io
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, BinaryIO

import yaml
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


@dataclass(frozen=True, slots=True)
class Listed:
    """What a text or a file lists: (name, description) pairs, agents, and the headings of a table's columns that are not read."""

    lines: tuple[tuple[str, str], ...] = ()
    agents: tuple[data.Agent, ...] = ()
    unread: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.lines or self.agents)

    @property
    def names(self) -> list[str]:
        """The names of all agents."""
        return [*(name for name, _description in self.lines), *(agent.name for agent in self.agents)]

    def and_also(self, other: "Listed") -> "Listed":
        """Both, one behind the other."""
        return Listed(self.lines + other.lines, self.agents + other.agents, self.unread + other.unread)

    def as_text(self) -> str:
        """The same as `parse` reads it: lines where there are only names and descriptions, else YAML."""
        agents = [(agent.name, agent.description) for agent in self.agents]
        if all(agent == data.Agent(agent.id, agent.name, agent.description) for agent in self.agents) and not any(
            agent.id >= 0 or agent.key or agent.examples for agent in self.agents
        ):
            listed = [*self.lines, *agents]
            return "\n".join(_line(*(" ".join(part.split()) for part in parts)) for parts in listed)
        values = [{"name": name, "description": description} for name, description in self.lines]
        values += [_filled(agent) for agent in self.agents]
        return yaml.safe_dump(values, allow_unicode=True, sort_keys=False, width=100)


def _line(name: str, description: str) -> str:
    """A line that `parse` reads as this name and description."""
    if description:
        return f"{name}: {description}"
    return f"{name}:" if files.divided(name)[1] else name


def _filled(agent: data.Agent) -> dict[str, Any]:
    """What is said of an agent, by name."""
    values = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(agent).items()}
    del values["id"]
    number = {"id": agent.id} if agent.id >= 0 else {}
    return number | {name: value for name, value in values.items() if value}


def parse(text: str, field: str = "agents") -> Listed:
    """What a pasted text says.

    Lines "Name: description", cells of a spreadsheet (name, then description), JSONL, a JSON array, or YAML: a list, or names with
    their descriptions. Raises PoolError that names the line or the agent at fault.
    """
    if not text.strip():
        return Listed()
    return _listed(io.BytesIO(text.encode("utf-8", "replace")), "", field)


def read_upload(upload: BinaryIO) -> Listed:
    """The same of an uploaded file: agents.jsonl, YAML, JSON or lines. Raises PoolError with the lines at fault."""
    listed = _listed(upload, str(getattr(upload, "name", "") or ""), "file")
    if not listed:
        raise pools.PoolError(_("The file contains no agent."), "file")
    return listed


def among(upload: BinaryIO) -> Listed:
    """The agents that a file brought for import lists; none where it lists none, or queries."""
    name = str(getattr(upload, "name", "") or "")
    try:
        (lists_agents,) = limited.run(files.describes_agents, upload, name, limits=limited.PAGE)
        upload.seek(0)
        return read_upload(upload) if lists_agents else Listed()
    except (Unreadable, pools.PoolError):
        return Listed()
    finally:
        upload.seek(0)


def _listed(stream: BinaryIO, file_name: str, field: str) -> Listed:
    lines: list[tuple[str, str]] = []
    agents: list[data.Agent] = []
    unread: list[str] = []
    try:
        for found_agent in limited.run(files.agents, stream, file_name, limits=limited.PAGE):
            if "unread" in found_agent:
                unread.append(found_agent["unread"])
            elif "card" in found_agent:
                description = cards.described_by(found_agent["card"])
                agents.append(
                    data.Agent(
                        -1 - len(agents),
                        description.name,
                        description.description,
                        description.keywords,
                        examples=description.examples,
                    )
                )
            elif "id" in found_agent:
                lists = {name: tuple(found_agent[name]) for name in ("keywords", "examples")}
                agents.append(data.Agent(**{**found_agent, **lists}))
            else:
                lines.append((found_agent["name"], found_agent["description"]))
    except (Unreadable, SourceError) as error:
        raise pools.PoolError(str(error), field) from None
    return Listed(tuple(lines), tuple(agents), tuple(unread))


def add_several(pool: Pool, listed: Listed, *, actor: User | None) -> pools.Loaded:
    """Add what was pasted and load what was uploaded, all or none. An agent that is listed without an id and has the name of an active
    one is that one: what is said of it changes. Raises PoolError."""
    with transaction.atomic():
        active = {agent.name.casefold(): agent for agent in pool.agents.active()}
        free = max([pool.next_agent_number, *(agent.id + 1 for agent in listed.agents)])
        agents = [
            agent
            if agent.id >= 0
            else _also_saying(namesake, agent)
            if (namesake := active.get(" ".join(agent.name.split()).casefold()))
            else replace(agent, id=free - 1 - agent.id)
            for agent in listed.agents
        ]
        loaded = pools.load_agents(pool, agents, actor) if agents else pools.Loaded()
        for name, description in listed.lines:
            try:
                pools.add_agent(pool, name, description, actor=actor)
            except pools.PoolError as error:
                raise pools.PoolError(_("“%(name)s”: %(why)s") % {"name": name, "why": error}, "agents") from None
    return replace(loaded, created=loaded.created + len(listed.lines))


def _also_saying(agent: Agent, said: data.Agent) -> data.Agent:
    """An agent with what a list says of it; what the list leaves out stays."""
    given = {name: value for name, value in asdict(said).items() if value and name != "id"}
    return replace(pools.engine_agent(agent), **given)


def pool_with_agents(name: str, slug: str, listed: Listed, *, actor: User | None) -> Pool:
    """A new pool with its first agents, or nothing at all. Raises PoolError."""
    with transaction.atomic():
        pool = pools.create_pool(name, slug, actor=actor)
        add_several(pool, listed, actor=actor)
    return pool


def json_lines(pool: Pool) -> Iterator[str]:
    """The pool's active agents as lines of an agents.jsonl file that another pool or the engine reads."""
    agents: list[Agent] = list(pool.agents.active().order_by("number").prefetch_related("sources"))
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
        if examples := pools.all_examples(agent):
            values["examples"] = examples
        yield json.dumps(values, ensure_ascii=False) + "\n"
