"""All tools of a pool's agents behind one MCP server of two tools: `search` finds them, `call` calls one.

A client that says in `tools/list` what its conversation is about (`_meta`, `routerweb/query`) sees the tools that it needs instead, as
tools of their own beside the two; the list then changes by turn.
"""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Coroutine
from typing import Any

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request

from orchestration_app.calls import spending
from orchestration_app.calls.parts import AgentCall, Failure, Reply, Spec
from orchestration_app.episodes import asides, direct, policies, toolbox
from orchestration_app.episodes.toolbox import Tool, Toolbox
from orchestration_app.models import Executor, Step
from routerweb import state
from routerweb.serving import later
from training_app.api import json_rpc, mcp
from training_app.api.bodies import written
from training_app.api.json_rpc import Call, Fault, Id
from training_app.api.views.mcp import McpView
from training_app.engine.data import storable

Json = dict[str, Any]
SEARCH, CALL = "search", "call"
QUERY = "routerweb/query"
LONGEST = 4_000
INSTRUCTIONS = (
    "This server stands before many tools. Call search with what you want to do, in the user's words: it names the tools that fit, "
    "with the schemas of their arguments. Then call one of them by call."
)
#: Before the question of an agent that asks its user something: a tool's call has nobody to wait for.
ASKS = "It asks something; call it again with a task that says it:"
#: Calls that event loops make, which nobody else may hold on to.
_under_way: set["asyncio.Future[Json]"] = set()
state.keep(__name__, "_under_way", "Calls of tools under way", "one for each call, until it ends")
TEXT = {"type": "string"}
TOOLS = [
    {
        "name": SEARCH,
        "title": "Find tools",
        "description": "Finds the tools for a task. Returns their names, descriptions and input schemas, likeliest first.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "query": TEXT | {"description": "What is to be done, in the user's words."},
                "most": {"type": "integer", "minimum": 1, "maximum": 50, "description": "Tools at most."},
            },
            "required": ["query"],
            "additionalProperties": False,
        },
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    },
    {
        "name": CALL,
        "title": "Call a tool",
        "description": "Calls a tool that search named.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "name": TEXT | {"description": "The tool's name, as search gave it."},
                "arguments": {"type": "object", "description": "Its arguments, by its input schema."},
                "task": TEXT | {"description": "What this is for, in the user's words: search learns from it."},
            },
            "required": ["name"],
            "additionalProperties": False,
        },
    },
]


class ToolsView(McpView):
    """The tools of a pool's agents."""

    asks: Any
    slug = ""

    @extend_schema(exclude=True)
    def post(self, request: Request, slug: str) -> HttpResponse:  # type: ignore[override]
        """The answer to a request; 202 without a body for a notification."""
        self.slug = slug
        self.access.pool(slug)  # refused before anything is said
        return super().post(request)

    def done(self, call: Call, stateless: bool) -> dict[str, Any]:
        """What the call's method gives. Raises Fault."""
        if call.method == "tools/list":
            return self._listed(call)
        response = super().done(call, stateless)
        return {**response, "instructions": INSTRUCTIONS} if "instructions" in response else response

    def _box(self) -> Toolbox:
        return toolbox.of(policies.orchestra(self.access.pool(self.slug), self.access.state.stamp))

    def _listed(self, call: Call) -> dict[str, Any]:
        meta = call.params.get("_meta")
        query = meta.get(QUERY) if isinstance(meta, dict) else None
        needed = self._box().tools_for(query[:LONGEST]) if isinstance(query, str) and query.strip() else []
        return {"tools": [*TOOLS, *(tool.as_json() for tool, _score in needed)], **mcp.cached(0)}

    def called(self, call: Call) -> dict[str, Any]:
        """What search or a tool answers. Raises Fault."""
        name, arguments = call.params.get("name"), call.params.get("arguments") or {}
        if not isinstance(arguments, dict):
            raise Fault(json_rpc.INVALID_PARAMS, "arguments must be an object.")
        if name == SEARCH:
            return self._searched(arguments)
        box = self._box()
        task = ""
        if name == CALL:
            name, task, arguments = arguments.get("name"), arguments.get("task", ""), arguments.get("arguments") or {}
            if not isinstance(arguments, dict) or not isinstance(task, str):
                return mcp.tool_error("arguments must be an object, and task a text.")
        tool = box.named(str(name))
        if tool is None:
            return mcp.tool_error(f"There is no tool {str(name)[:80]}. Call search first.")
        return self._tool(call.id, box, tool, arguments, task[:LONGEST])

    def _searched(self, arguments: dict[str, Any]) -> dict[str, Any]:
        query, limit = arguments.get("query"), arguments.get("most", 0)
        if not isinstance(query, str) or not query.strip():
            return mcp.tool_error("query must be a text that says what is to be done.")
        if isinstance(limit, bool) or not isinstance(limit, int) or not 0 <= limit <= 50:
            return mcp.tool_error("most must be a whole number from 1 to 50.")
        self._count(query)
        tools = self._box().tools_for(query[:LONGEST], limit)
        return mcp.answered({"tools": [{**tool.as_json(), "score": score} for tool, score in tools]})

    def _count(self, text: str) -> None:
        class Texts:
            texts = [text] if text else ["."]

        self.asks = Texts()
        self.check_throttles(self.request)

    def _tool(self, id_: Id, box: Toolbox, tool: Tool, arguments: Json, task: str) -> Json:
        spec = box.orchestra.specs[tool.agent]
        words = task or " ".join(value for value in arguments.values() if isinstance(value, str)) or tool.own
        self._count(words)
        if asides.needs_approval(spec, [words, json.dumps(arguments)]):
            return mcp.tool_error(
                f"A person has to approve calls of {tool.name}. Begin an episode instead: POST /api/orchestrate/."
            )
        if spending.limited(dict(box.orchestra.limits), self.access.caller.pk) is not None:
            return mcp.tool_error(
                "What calls may cost in a month is limited here. Begin an episode instead: POST /api/orchestrate/."
            )
        work = _answered(box, tool, arguments, words, self.access.caller.pk)
        promise: later.Later | None = self.request.META.get(later.NAME)
        if promise is None:
            return asyncio.run(work)

        async def pieces() -> AsyncIterator[bytes]:
            yield written(json_rpc.result(id_, await _to_its_end(work)))

        promise.pieces = pieces
        return {}  # the event loop sends the answer


async def _to_its_end(work: Coroutine[Any, Any, Json]) -> Json:
    """What the work returns. It goes on where the client leaves: what an agent did is stored, and paid for, in any case."""
    task = asyncio.ensure_future(work)
    _under_way.add(task)
    task.add_done_callback(_under_way.discard)
    return await asyncio.shield(task)


async def _answered(box: Toolbox, tool: Tool, arguments: Json, words: str, api_key: int | None) -> Json:
    """The result of the tool's call, which is stored as an episode."""
    outcome = await direct.call(
        box.orchestra, tool.agent, _call_of(box.orchestra.specs[tool.agent], tool, arguments, words)
    )
    if isinstance(outcome, Reply) and outcome.asks:
        outcome = Failure("failed", f"{ASKS} {outcome.content}", outcome.cost, outcome.latency, outcome.attempts)
    row = Step(turn=0, number=0, call=0, agent=tool.agent, candidates=[tool.agent], probabilities=[1.0])
    row.cost, row.latency, row.attempts = outcome.cost, outcome.latency, outcome.attempts
    row.metadata = dict(outcome.metadata)
    if isinstance(outcome, Failure):
        row.status, row.failure = Step.Status.FAILED, outcome.kind
        row.why = storable.mended_text(outcome.why)[:400]
    else:
        row.status, row.output, row.tokens = Step.Status.DONE, outcome.content, outcome.tokens
    episode = await direct.kept(lambda: toolbox.keep(box.orchestra, tool, storable.mended_text(words), row, api_key))
    about = {"_meta": {"routerweb/episode": str(episode.pk)}}
    if isinstance(outcome, Failure):
        return mcp.tool_error(f"{tool.name} failed: {outcome.why}") | about
    content = [{"type": "text", "text": outcome.content}]
    return {"content": content, "isError": False, "resultType": "complete", **about}


def _call_of(spec: Spec, tool: Tool, arguments: Json, words: str) -> AgentCall:
    key = f"tool-{uuid.uuid4().hex}"
    if spec.kind == Executor.Kind.MCP:
        return AgentCall(key, words, ({"role": "user", "content": words},), tool=(tool.own, arguments))
    task = str(arguments.get("task") or words)
    return AgentCall(key, task, ({"role": "user", "content": task},))
