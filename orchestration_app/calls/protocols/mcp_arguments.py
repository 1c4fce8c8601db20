"""Which tool of an MCP server a call is for, and with which arguments: what turns a task in words into a `tools/call`.

In this order: what the caller chose itself; a template that ops wrote; a tool without parameters, or with one text that must be
given, which gets the task; the installation's LLM, which also chooses among several tools. Without an LLM, the tool with the most
words in common with the task is chosen.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agents_app.llm import Connection
from datasets_app.prelabeling import templates
from orchestration_app.calls.parts import AgentCall, AttemptResult, CallFailed, Spec, Terms
from orchestration_app.calls.wire import Wire, check_status, parsed
from orchestration_app.models import Executor

Json = Mapping[str, Any]
#: Seconds in which the LLM fills in arguments.
LLM_SECONDS = 20.0
MOST_TOKENS = 1_024
_WORD = re.compile(r"[^\W_]{2,}")


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One `tools/call`: the tool, its arguments, and what it was told to resume with after a question."""

    tool: str
    arguments: Json
    resume: Json = field(default_factory=dict)

    def params(self, call: AgentCall) -> dict[str, Any]:
        """The parameters of the request; with the answer to the tool's question, where it asked one."""
        params: dict[str, Any] = {"name": self.tool, "arguments": dict(self.arguments)}
        if self.resume and call.exchanges:
            answer = call.exchanges[-1].answer
            responses = {
                key: {"action": "accept", "content": _content(schema, answer)}
                for key, schema in self.resume["requests"].items()
            }
            params |= {"inputResponses": responses, "requestState": self.resume["state"]}
        return params


async def prepared(spec: Spec, call: AgentCall, wire: Wire) -> ToolCall:
    """The call that a task asks for. Raises CallFailed."""
    if call.resume:
        return ToolCall(str(call.resume["tool"]), call.resume["arguments"], call.resume)
    if call.tool is not None:
        return ToolCall(*call.tool)
    tools = named(spec)
    if spec.options.get("arguments"):
        return ToolCall(_closest(tools, call.task)["name"], _drawn(spec, call))
    simple = [(tool, arguments) for tool in tools if (arguments := plain(tool, call)) is not None]
    if len(tools) == 1 and simple:
        return ToolCall(tools[0]["name"], simple[0][1])
    if spec.llm is not None:
        return await _filled(spec.llm, tools, call, wire)
    tool = _closest(tools, call.task)
    arguments = plain(tool, call)
    if arguments is None:
        names = ", ".join(_required(tool))
        why = f"the tool {tool['name']} needs {names}: write a template of its arguments, or connect an LLM"
        raise CallFailed("instruction", why)
    return ToolCall(tool["name"], arguments)


def named(spec: Spec) -> list[dict[str, Any]]:
    """The tools that the executor may call. Raises CallFailed where there is none."""
    name = str(spec.options.get("tool", ""))
    tools = [dict(tool) for tool in spec.tools if isinstance(tool, Mapping) and tool.get("name")]
    fitting = [tool for tool in tools if not name or tool["name"] == name]
    if not fitting and name:
        return [{"name": name}]
    if not fitting:
        raise CallFailed("instruction", "the executor has no tools: read them from the server first")
    return fitting


def _schema(tool: Json) -> Json:
    schema = tool.get("inputSchema")
    return schema if isinstance(schema, Mapping) else {}


def _properties(tool: Json) -> dict[str, Any]:
    properties = _schema(tool).get("properties")
    return dict(properties) if isinstance(properties, Mapping) else {}


def _required(tool: Json) -> list[str]:
    required = _schema(tool).get("required")
    return [str(name) for name in required] if isinstance(required, list) else []


def plain(tool: Json, call: AgentCall) -> dict[str, Any] | None:
    """Arguments that need no thought: none, or the task as the one text that must be given; None for other tools."""
    required, properties = _required(tool), _properties(tool)
    if not required and len(properties) != 1:
        return {} if not properties else None
    names = required or list(properties)
    schema = properties.get(names[0], {})
    if (
        len(names) == 1
        and isinstance(schema, Mapping)
        and schema.get("type", "string") == "string"
        and "enum" not in schema
    ):
        return {names[0]: call.task}
    return None


def unfilled(executor: Executor) -> list[str]:
    """The tools of an MCP executor that cannot be called for a task without an LLM, since no template fills in their arguments."""
    if executor.kind != Executor.Kind.MCP or executor.options.get("arguments"):
        return []
    only, task = executor.options.get("tool"), AgentCall("", "")
    tools = [tool for tool in executor.tools if isinstance(tool, Mapping) and tool.get("name")]
    return [str(tool["name"]) for tool in tools if only in (None, "", tool["name"]) and plain(tool, task) is None]


def _drawn(spec: Spec, call: AgentCall) -> dict[str, Any]:
    values = {
        "task": call.task, "messages": [dict(message) for message in call.messages],
        "history": [earlier.as_json() for earlier in call.history], "step": call.step,
    }  # fmt: skip
    try:
        arguments = json.loads(templates.draw(str(spec.options["arguments"]), values))
    except templates.TemplateProblem as problem:
        raise CallFailed("instruction", str(problem)) from None
    except (ValueError, RecursionError):
        raise CallFailed("instruction", "the template of the arguments does not make JSON") from None
    if not isinstance(arguments, dict):
        raise CallFailed("instruction", "the template of the arguments makes no JSON object")
    return arguments


def _closest(tools: Sequence[dict[str, Any]], task: str) -> dict[str, Any]:
    """The tool whose name and description share the most words with the task; the first of those that share as many."""
    words = set(map(str.casefold, _WORD.findall(task)))
    words_of_tools = [
        set(map(str.casefold, _WORD.findall(f"{tool['name']} {tool.get('description', '')}"))) for tool in tools
    ]
    return max(
        zip(tools, words_of_tools, strict=True), key=lambda pair: len(pair[1] & words) / (1 + len(pair[1])) ** 0.5
    )[0]


async def _filled(llm: Connection, tools: Sequence[Json], call: AgentCall, wire: Wire) -> ToolCall:
    """What the LLM would call. Raises CallFailed."""
    body = {
        "model": llm.model,
        "messages": [
            {
                "role": "system",
                "content": "Call the one tool that does what the user wants. Take values from the user's words.",
            },
            {"role": "user", "content": call.with_others},
        ],
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": tool["name"],
                    "description": str(tool.get("description", ""))[:1_000],
                    "parameters": dict(_schema(tool)) or {"type": "object", "properties": {}},
                },
            }
            for tool in tools
        ],
        "tool_choice": "required",
        "max_tokens": MOST_TOKENS,
    }
    headers = {"Authorization": f"Bearer {llm.key}"} if llm.key else {}
    try:
        terms = Terms(llm.key, LLM_SECONDS, most_bytes=1 << 20, own_server=llm.own_server)
        answer = await wire.post(llm.base_url.rstrip("/") + "/chat/completions", body, headers, terms)
        check_status(answer, llm.key)
        reply = parsed(answer)
    except CallFailed as failed:  # the server of the tools has no part in it
        raise CallFailed("instruction", f"the LLM that chooses the tool: {failed}") from None
    try:
        function = reply["choices"][0]["message"]["tool_calls"][0]["function"]
        name, arguments = function["name"], json.loads(function["arguments"])
    except (KeyError, IndexError, TypeError, ValueError, RecursionError):
        raise CallFailed("instruction", "the LLM did not say which tool to call with which arguments") from None
    if name not in {tool["name"] for tool in tools} or not isinstance(arguments, dict):
        raise CallFailed("instruction", "the LLM named a tool that is not there")
    return ToolCall(name, arguments)


# --- Results ----------------------------------------------------------------------------------------------------------


def answered(result: Json, tool_call: ToolCall) -> AttemptResult:
    """What a tool said. Raises CallFailed where it says that it failed."""
    if result.get("resultType") == "input_required":
        return _question(result, tool_call)
    content = result.get("content")
    parts = [part for part in content if isinstance(part, Mapping)] if isinstance(content, list) else []
    text = "\n".join(str(part["text"]) for part in parts if isinstance(part.get("text"), str))
    if not text and result.get("structuredContent") is not None:
        text = json.dumps(result["structuredContent"], ensure_ascii=False)
    if result.get("isError"):
        raise CallFailed("failed", f"the tool {tool_call.tool} failed: {text}"[:300])
    if content is None and not text:
        raise CallFailed("malformed", "the result has no content")
    return AttemptResult(text, metadata={"tool": tool_call.tool, "arguments": dict(tool_call.arguments)})


def _question(result: Json, tool_call: ToolCall) -> AttemptResult:
    requests = result.get("inputRequests")
    wanted: dict[str, Any] = {}
    questions = []
    for key, request in requests.items() if isinstance(requests, Mapping) else ():
        params = request.get("params") if isinstance(request, Mapping) else None
        if (
            isinstance(params, Mapping)
            and request.get("method") == "elicitation/create"
            and "requestedSchema" in params
        ):
            wanted[str(key)] = params["requestedSchema"]
            questions.append(str(params.get("message", "")))
    if not wanted or len(wanted) != len(requests or ()):
        raise CallFailed("refused", f"the tool {tool_call.tool} asks for something that only its own client can give")
    resume = {
        "tool": tool_call.tool, "arguments": dict(tool_call.arguments), "requests": wanted, "state": result.get("requestState"),
    }  # fmt: skip
    return AttemptResult("\n".join(questions), 0.0, 0, {"tool": tool_call.tool}, asks=True, resume=resume)


def _content(schema: Any, answer: str) -> dict[str, Any]:
    """An answer in words as the fields that a tool asked for: one field is the answer; several are read from JSON, or all get it."""
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    names = {str(name): kind for name, kind in properties.items()} if isinstance(properties, Mapping) else {}
    try:
        value = json.loads(answer)
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, dict) and set(value) & set(names):
        return {name: value[name] for name in names if name in value}
    return {name: _typed(kind, answer) for name, kind in names.items()}


def _typed(schema: Any, answer: str) -> Any:
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    text = answer.strip()
    if kind == "boolean":
        return text.casefold() in ("yes", "true", "1", "y", "ok")
    try:
        return int(text) if kind == "integer" else float(text) if kind == "number" else answer
    except ValueError:
        return answer
