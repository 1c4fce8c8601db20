"""What one span says of a conversation, whatever its instrumentation calls it.

Read are the attributes of OpenTelemetry's GenAI conventions (with those that Traceloop wrote before them), OpenInference, Langfuse,
Traceloop, MLflow and Vercel's AI SDK. A span that says nothing of these is kept for its place in the trace alone.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from training_app.engine.data import storable

AGENT, LLM, TOOL, HANDOFF = "agent", "llm", "tool", "handoff"
#: What is read of one span: the newest messages, characters of a message, of a name, and of a value that may be JSON.
MOST_MESSAGES, LONGEST_MESSAGE, LONGEST_NAME, LONGEST_VALUE = 500, 20_000, 120, 2_000_000
DEEPEST = 6
#: Characters of a trace's id that a traced turn has room for.
LONGEST_TRACE = 64

#: Where each instrumentation writes it, the most exact first.
INPUTS = (
    "gen_ai.input.messages", "llm.input_messages", "gen_ai.prompt", "llm.prompts", "ai.prompt.messages", "ai.prompt",
    "langfuse.observation.input", "traceloop.entity.input", "mlflow.spanInputs", "input.value", "langfuse.trace.input",
)  # fmt: skip
OUTPUTS = (
    "gen_ai.output.messages", "llm.output_messages", "gen_ai.completion", "llm.completions", "ai.response.text",
    "langfuse.observation.output", "traceloop.entity.output", "mlflow.spanOutputs", "output.value", "langfuse.trace.output",
)  # fmt: skip
CONVERSATIONS = (
    "gen_ai.conversation.id", "session.id", "langfuse.session.id", "mlflow.trace.session",
    *(f"traceloop.association.properties.{name}" for name in ("session_id", "conversation_id", "thread_id", "chat_id")),
    *(f"metadata.{name}" for name in ("session_id", "conversation_id", "thread_id")),
)  # fmt: skip
KINDS = (
    "gen_ai.operation.name", "openinference.span.kind", "langfuse.observation.type", "traceloop.span.kind", "mlflow.spanType",
    "llm.request.type",
)  # fmt: skip
ROLE_OF_KIND = {
    "invoke_agent": AGENT, "agent": AGENT, "execute_tool": TOOL, "tool": TOOL, "handoff": HANDOFF,
    **dict.fromkeys(("chat", "text_completion", "generate_content", "llm", "generation", "chat_model", "completion"), LLM),
}  # fmt: skip
AGENT_NAMES = ("gen_ai.agent.name", "agent.name", "langfuse.agent.name", "graph.node.id")
TOOL_NAMES = ("gen_ai.tool.name", "tool.name", "ai.toolCall.name")
DECISIONS = ("routerweb.decision", "router.decision.id", "router.decision_id")
SOURCES = (
    ("langfuse.", "Langfuse"), ("openinference.", "OpenInference"), ("traceloop.", "Traceloop"), ("mlflow.", "MLflow"),
    ("ai.", "Vercel AI SDK"),
)  # fmt: skip
SPEAKERS = {
    **dict.fromkeys(("user", "human", "humanmessage", "humanmessagechunk"), "user"),
    **dict.fromkeys(("assistant", "ai", "aimessage", "aimessagechunk", "model", "bot"), "assistant"),
}
_NUMBERED = re.compile(r"^(.+?)\.(\d{1,4})\.(?:message\.)?(.+)$")
_HANDOFF = re.compile(
    r"^(?:transfer|hand[_ -]?off|delegate|escalate|route)(?:[_ -]?(?:task|work))?[_ -]*(?:to|:|→|->)[_ -]*(\S.*)$", re.I
)
_OPERATION = re.compile(r"^(?:invoke_agent|execute_tool|create_agent)\s+", re.I)


class BadSpan(ValueError):
    """Why a span is left out, in words that many spans can share."""


@dataclass(slots=True)
class Span:
    """One span: its place in its trace, who acts in it by `role` and `name`, the conversation up to its last user message as
    [speaker, text], the `answer`, and what was said of it as [name, value, label, comment]. `at` are seconds since 1970, 0 where the
    span does not say."""

    trace: str
    id: str
    parent: str = ""
    at: float = 0.0
    role: str = ""
    name: str = ""
    conversation: str = ""
    messages: list[list[str]] = field(default_factory=list)
    answer: str = ""
    feedback: list[list[Any]] = field(default_factory=list)
    decision: str = ""
    source: str = ""

    def as_json(self) -> list[Any]:
        """Its values in the order of its fields."""
        return [getattr(self, name) for name in NAMES]


NAMES = tuple(column.name for column in fields(Span))


def read(
    trace: str,
    span: str,
    parent: str,
    at: float,
    title: str,
    values: Mapping[str, Any],
    events: Iterable[tuple[str, Mapping[str, Any]]] = (),
) -> Span:
    """The span with that title, those attributes and events. Raises BadSpan without ids, or with text that no database holds."""
    if not trace or not span:
        raise BadSpan("has no trace id or no span id")
    messages: list[Any] = []
    answers: list[Any] = []
    feedback: list[list[Any]] = []
    for name, more in events:
        if name == "gen_ai.evaluation.result":
            feedback.append(_evaluation(more))
        elif name in (
            "gen_ai.client.inference.operation.details",
            "gen_ai.content.prompt",
            "gen_ai.content.completion",
        ):
            values = {**values, **more}
        elif name.startswith("gen_ai.") and name.endswith(".message"):
            messages.append({"role": name.split(".")[1], "content": more.get("content") or more.get("body")})
        elif name == "gen_ai.choice":
            answers.append(more.get("message") or more.get("content") or more.get("body"))
    role, name = _who(title, values)
    result = Span(trace, span, parent, at, role, name)
    result.source = next(
        (label for begin, label in SOURCES if any(key.startswith(begin) for key in values)), "OpenTelemetry"
    )
    result.conversation = _first_text(values, CONVERSATIONS)[:200]
    result.decision = _first_text(values, DECISIONS)[:40]
    result.feedback = feedback
    if role not in (TOOL, HANDOFF):
        result.messages = turn_of(messages or _chosen(values, INPUTS))
        result.answer = answer_in(answers or _chosen(values, OUTPUTS))
    check(result)
    return result


def check(span: Span) -> None:
    """Raises BadSpan where a text of it cannot be stored."""
    texts = [span.trace, span.id, span.parent, span.name, span.conversation, span.answer, span.decision, span.source]
    if any(map(storable.text_fault, texts)) or any(storable.text_fault(text) for _who, text in span.messages):
        raise BadSpan("has text that cannot be stored (half of a surrogate pair, or NUL)")
    if storable.fault(span.feedback) is not None:
        raise BadSpan("has a score that cannot be stored")


def _who(title: str, values: Mapping[str, Any]) -> tuple[str, str]:
    """The role and the name of who acts in a span, "" for nobody."""
    kind = next((values[key] for key in KINDS if isinstance(values.get(key), str)), "")
    role = ROLE_OF_KIND.get(kind.lower().rpartition(".")[2], "")
    agent = _first_text(values, AGENT_NAMES)
    if role in (TOOL, HANDOFF):
        name = (
            _first_text(values, TOOL_NAMES)
            or _first_text(values, ("traceloop.entity.name",))
            or _OPERATION.sub("", title)
        )
    elif role == AGENT:
        name = agent or _first_text(values, ("traceloop.entity.name",)) or _OPERATION.sub("", title)
    else:
        name = agent
    if handed := _HANDOFF.match(name) or (_HANDOFF.match(title) if role in ("", TOOL, HANDOFF) else None):
        return HANDOFF, handed[1].strip()[:LONGEST_NAME]
    return role, name.strip()[:LONGEST_NAME]


def _first_text(values: Mapping[str, Any], keys: Iterable[str]) -> str:
    for key in keys:
        value = values.get(key)
        if isinstance(value, str | int) and not isinstance(value, bool) and str(value).strip():
            return str(value).strip()
    return ""


def _chosen(values: Mapping[str, Any], keys: Sequence[str]) -> Any:
    """The first of these keys that says something: a value of its own, or messages under numbered keys."""
    numbered = _numbered(values)
    for key in keys:
        if key in numbered:
            return [numbered[key][place] for place in sorted(numbered[key])]
        if values.get(key) not in (None, "", [], {}):
            return values[key]
    return None


def _numbered(values: Mapping[str, Any]) -> dict[str, dict[int, dict[str, Any]]]:
    """Messages that stand one attribute a field: `llm.input_messages.0.message.role`, `gen_ai.prompt.0.content`."""
    messages: dict[str, dict[int, dict[str, Any]]] = {}
    for key, value in values.items():
        if (match := _NUMBERED.match(key)) and match[1] in _LISTS:
            rest = match[3]
            message = messages.setdefault(match[1], {}).setdefault(int(match[2]), {})
            if rest.startswith("contents.") and rest.endswith((".text", ".message_content.text")):
                message["content"] = "\n".join(
                    filter(None, (message.get("content"), value if isinstance(value, str) else ""))
                )
            else:
                message[rest] = value
    return messages


_LISTS = frozenset({*INPUTS, *OUTPUTS})


def _evaluation(values: Mapping[str, Any]) -> list[Any]:
    begin = "gen_ai.evaluation."
    return [
        str(values.get(begin + "name") or "")[:LONGEST_NAME], values.get(begin + "score.value"), values.get(begin + "score.label"),
        str(values.get(begin + "explanation") or "")[:500],
    ]  # fmt: skip


# ---------------------------------------------------------------------------------------------------- messages


def turn_of(value: Any) -> list[list[str]]:
    """The conversation in a value up to its last user message, [] without one: what users and assistants said."""
    messages = [message for message in said_in(value) if message[0] and message[1].strip()]
    while messages and messages[-1][0] != "user":
        messages.pop()
    return messages[-MOST_MESSAGES:]


def answer_in(value: Any) -> str:
    """The last thing that an assistant says in a value, or the value where it is a text."""
    messages = [text for speaker, text in said_in(value, plain="assistant") if speaker == "assistant" and text.strip()]
    return messages[-1][:LONGEST_MESSAGE] if messages else ""


def said_in(value: Any, plain: str = "user", depth: int = 0) -> list[list[str]]:
    """The messages in a value of any form that is known, as [speaker, text]; a text alone is said by `plain`."""
    if isinstance(value, str):
        opened = _opened(value)
        return [[plain, value]] if opened is value else said_in(opened, plain, depth + 1)
    if depth > DEEPEST:
        return []
    if isinstance(value, dict):
        return _said_in_object(value, plain, depth)
    if isinstance(value, list | tuple):
        return [message for item in value[-MOST_MESSAGES:] for message in said_in(item, plain, depth + 1)]
    return []


#: Keys of an object that lead to messages, then those that hold one text.
_INSIDE = ("messages", "input_messages", "output_messages", "chat_history", "inputs", "outputs", "input", "output", "choices",
           "generations", "request", "response", "kwargs", "message", "args", "data")  # fmt: skip
_TEXTS = (
    "query",
    "question",
    "prompt",
    "user_input",
    "user_message",
    "text",
    "content",
    "answer",
    "completion",
    "result",
)


def _said_in_object(value: dict[str, Any], plain: str, depth: int) -> list[list[str]]:
    kwargs = value.get("kwargs")
    if value.get("lc") == 1 and isinstance(kwargs, dict):  # LangChain's own form of a message
        path = value.get("id")
        return said_in({"role": path[-1] if isinstance(path, list) and path else "", **kwargs}, plain, depth + 1)
    speaker = value.get("role") or value.get("type")
    if isinstance(speaker, str) and ("content" in value or "parts" in value or "text" in value):
        text = text_of(
            value.get("content") if value.get("content") is not None else value.get("parts") or value.get("text")
        )
        return [[SPEAKERS.get(speaker.lower(), "" if speaker.lower() != "text" else plain), text]]
    messages: list[list[str]] = []
    for key in _INSIDE:
        if isinstance(value.get(key), dict | list | str) and value[key]:
            messages = said_in(value[key], plain, depth + 1)
            if messages:
                # A history and, beside it, the text that is asked now.
                return messages + _beside(value, plain) if key == "chat_history" else messages
    return _beside(value, plain)


def _beside(value: Mapping[str, Any], plain: str) -> list[list[str]]:
    return next(
        ([[plain, value[key]]] for key in ("input", *_TEXTS) if isinstance(value.get(key), str) and value[key].strip()),
        [],
    )


def text_of(content: Any) -> str:
    """The text of a message's content: a text, or the text parts of a list."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else [content]
    return "\n".join(_texts(parts))


def _texts(parts: Sequence[Any]) -> Iterator[str]:
    for part in parts[:MOST_MESSAGES]:
        if isinstance(part, str):
            yield part
        elif isinstance(part, dict) and part.get("type", "text") in ("text", "input_text", "output_text"):
            text = part.get("text") if isinstance(part.get("text"), str) else part.get("content")
            if isinstance(text, str):
                yield text


def _opened(value: str) -> Any:
    """What a text of JSON holds, or the text."""
    if value.lstrip()[:1] not in ("[", "{") or len(value) > LONGEST_VALUE:
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def storable_name(name: str) -> str:
    """The name of a service or a source as it is stored."""
    return storable.mended_text(name.strip())[:60]
