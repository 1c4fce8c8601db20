"""All tools of a pool's agents, searched by what a conversation needs: for clients that cannot read hundreds of descriptions.

A tool is one of an MCP server's, or an agent of another kind, which takes a task. `engine.tool_search` ranks them by what they and
their servers say of themselves and by the tasks that they were called for and did well at; how many are shown follows from how sure
that is.
"""

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
from django.db import transaction
from django.utils import timezone

from orchestration_app.engine.tool_search import Document, ToolSearch, as_many_as_needed
from orchestration_app.episodes.policies import Orchestra
from orchestration_app.models import Episode, Executor, Step
from routerweb import state
from training_app.engine.reading import sentences

POLICY = "mcp tools"
#: Earlier calls that a tool's document has at most, and that are read.
TASKS, CALLS = 30, 3_000
#: What was called is read again so often.
FRESH_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool: the agent that it belongs to, its name there and here, and how it is called."""

    name: str
    own: str
    agent: int
    description: str
    schema: Mapping[str, Any]

    def as_json(self) -> dict[str, Any]:
        """As `tools/list` has it."""
        return {"name": self.name, "description": self.description, "inputSchema": dict(self.schema)}


TASK = {"type": "object", "properties": {"task": {"type": "string"}}, "required": ["task"]}


@dataclass(frozen=True, slots=True)
class Toolbox:
    """The tools of a pool, and who finds them."""

    tools: tuple[Tool, ...]
    scorer: ToolSearch
    orchestra: Orchestra
    read_at: float

    def tools_for(self, query: str, limit: int = 0) -> list[tuple[Tool, float]]:
        """The tools that a query needs, likeliest first: `limit` of them, or as many as it takes to be sure."""
        scores = self.scorer.scores(query)
        order = np.argsort(-scores, kind="stable")[:limit].tolist() if limit else as_many_as_needed(scores)
        return [(self.tools[at], round(float(scores[at]), 4)) for at in order]

    def named(self, name: str) -> Tool | None:
        """The tool of that name."""
        return next((tool for tool in self.tools if tool.name == name), None)


_boxes: dict[str, Toolbox] = {}
state.keep(__name__, "_boxes", "Pools whose tools are searched", "one for each pool")
_making = threading.Lock()


def of(orchestra: Orchestra) -> Toolbox:
    """The pool's tools as of now."""
    slug = orchestra.pool.slug
    box = _boxes.get(slug)
    if box is None or box.orchestra is not orchestra or time.monotonic() - box.read_at > FRESH_SECONDS:
        with _making:
            box = _boxes[slug] = _made(orchestra, box)
    return box


def _made(orchestra: Orchestra, before: Toolbox | None) -> Toolbox:
    tools = tuple(_tools(orchestra))
    did = _did(orchestra.pool.pk)
    # An agent of several tools is their server; where it has one, both say the same.
    several = [agent for agent, count in Counter(tool.agent for tool in tools).items() if count > 1]
    place = {agent: at for at, agent in enumerate(several)}
    servers = [(orchestra.specs[agent].name, orchestra.specs[agent].description) for agent in several]
    documents = [
        Document(tool.own, tool.description, place.get(tool.agent, -1), tuple(did.get((tool.agent, tool.own), ()))) for tool in tools
    ]  # fmt: skip
    search = ToolSearch(
        documents, servers, meaning=sentences.installed(), before=None if before is None else before.scorer
    )
    return Toolbox(tools, search, orchestra, time.monotonic())


def _tools(orchestra: Orchestra) -> list[Tool]:
    callable_ = orchestra.callable
    keys = {agent.id: agent for agent in orchestra.pool.roster}
    tools: list[Tool] = []
    used_names: set[str] = set()
    for number in sorted(callable_):
        spec = orchestra.specs[number]
        offered = [tool for tool in spec.tools if isinstance(tool, Mapping)] if spec.kind == Executor.Kind.MCP else []
        only = spec.options.get("tool")
        listed = [(str(tool["name"]), tool) for tool in offered if not only or tool.get("name") == only]
        for name, tool in listed or [("", {})]:
            shown = name or str(getattr(keys[number], "key", "") or f"agent_{number}")
            shown = shown if shown not in used_names else f"{shown}_{number}"
            used_names.add(shown)
            description = str(tool.get("description") or "") or spec.description or spec.name
            schema = tool.get("inputSchema") if name else TASK
            tools.append(
                Tool(
                    shown[:120], name or spec.name, number, description, schema if isinstance(schema, Mapping) else TASK
                )
            )
    return tools


def _did(pool: int) -> dict[tuple[int, str], list[str]]:
    """The tasks that each tool did lately, by agent and own name; what somebody judged to be wrong is left out."""
    rows = Step.objects.filter(
        episode__pool_id=pool, episode__policy=POLICY, status=Step.Status.DONE, agent__isnull=False
    )
    rows = rows.exclude(episode__success=False).order_by("-at")
    examples: dict[tuple[int, str], list[str]] = defaultdict(list)
    for agent, metadata, task in rows.values_list("agent", "metadata", "episode__task")[:CALLS]:
        tasks = examples[int(agent or 0), str(metadata.get("tool", ""))]
        if task and task not in tasks and len(tasks) < TASKS:
            tasks.append(task)
    return examples


def keep(orchestra: Orchestra, tool: Tool, task: str, row: Step, api_key: int | None) -> Episode:
    """Store a call as an episode of one step, so that it is seen, judged and learnt from."""
    failed = row.status == Step.Status.FAILED
    episode = Episode(
        pool_id=orchestra.pool.pk, policy=POLICY, api_key_id=api_key, task=task, messages=[{"role": "user", "content": task}],
        plan={"agents": [tool.agent], "tool": tool.name}, max_steps=1, steps=1, cost=row.cost, tokens=row.tokens, latency=row.latency,
        status=Episode.Status.FAILED if failed else Episode.Status.DONE, answer=row.output, stop_reason="stop",
        error=f"{row.failure}: {row.why}" if failed else "", finished_at=timezone.now(),
    )  # fmt: skip
    with transaction.atomic():
        episode.save(force_insert=True)
        # It is stored at its end, and began before.
        Episode.objects.filter(pk=episode.pk).update(created_at=timezone.now() - timedelta(seconds=row.latency))
        row.episode = episode
        row.metadata = {**row.metadata, "tool": tool.own}
        row.save(force_insert=True)
    return episode
