"""The exports of trace stores and chat logs, record by record: Langfuse, LangSmith, Phoenix, MLflow, OpenAI.

Field names are those of their published schemas. A record becomes spans as OpenTelemetry's exporters send them; what a file's spans
say together is read by `turns`, as for any trace.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from agents_app.files.names import label_of
from datasets_app.traces import otlp, spans, turns
from datasets_app.traces.spans import AGENT, TOOL, BadSpan, Span
from datasets_app.traces.turns import Turn

Values = Mapping[str, Any]
#: Nodes of a graph that are no agents.
NO_AGENTS = frozenset(
    {"agent", "agents", "tools", "model", "llm", "call_model", "__start__", "__end__", "start", "end", "chatbot"}
)


def spans_of(shape: str, values: Values) -> list[Span]:
    """The spans of one record. Raises BadSpan for one that is none of that tool's."""
    try:
        spans_read = SHAPES[shape][1](values)
        for span in spans_read:
            spans.check(span)
            span.trace = _trace_id(span.trace)
    except BadSpan:
        raise
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError, RecursionError):
        raise BadSpan("has a field of a wrong type") from None
    return spans_read


def _trace_id(trace: str) -> str:
    """The id as it is stored: people make ids of any length, two of which may begin alike."""
    return (
        trace
        if len(trace) <= spans.LONGEST_TRACE
        else hashlib.sha256(trace.encode()).hexdigest()[: spans.LONGEST_TRACE]
    )


def turns_of(numbered_spans: Sequence[tuple[int, Span]]) -> list[tuple[Turn, str, bool]]:
    """The turns of a file's spans, each span with its line: (turn, its place, whether it came alone), in the order of their lines."""
    of_trace: dict[str, list[Span]] = defaultdict(list)
    lines: dict[str, int] = {}
    for line, span in numbered_spans:
        of_trace[span.trace].append(span)
        lines.setdefault(span.trace, line)
    all_turns: list[Turn] = []
    for trace, some in of_trace.items():
        of_one = turns.of_trace(some)
        for turn in of_one:
            turn.line = lines[trace]
        all_turns += of_one
    placed = [(turn, turns.place_of(turn), turns.is_alone(turn)) for turn in all_turns]
    turns.join(all_turns, {})
    return sorted(placed, key=lambda pair: pair[0].line)


def seconds(value: Any) -> float:
    """Seconds since 1970 of a time in ISO 8601, or as a number of seconds, milliseconds or nanoseconds; 0 for none."""
    if isinstance(value, str) and not value.strip().isdigit():
        try:
            at = datetime.fromisoformat(value.strip().replace(" UTC", "+00:00"))
        except ValueError:
            return 0.0
        value = (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    if value is None or isinstance(value, bool):
        return 0.0
    number = float(value)
    for scale in (1, 1e3, 1e6, 1e9):
        if otlp.EARLIEST < number / scale < otlp.LATEST:
            return number / scale
    return 0.0


def _first(values: Values, *keys: str) -> Any:
    return next((values[key] for key in keys if values.get(key) not in (None, "")), None)


def _text(values: Values, *keys: str) -> str:
    value = _first(values, *keys)
    if not isinstance(value, str | int | None) or isinstance(value, bool):
        raise BadSpan("has a field of a wrong type")
    return "" if value is None else str(value)


def _opened(value: Any) -> Any:
    """An object or a list, where a cell holds its JSON."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "[", '"'):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def _objects(value: Any) -> list[Values]:
    value = _opened(value)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _object(value: Any) -> dict[str, Any]:
    value = _opened(value)
    return value if isinstance(value, dict) else {}


def _metadata(values: Values) -> Values:
    return _object(values.get("metadata"))


def _agent_of(metadata: Values) -> str:
    """The agent that frameworks name beside a run."""
    name = _first(metadata, "agent_name", "lc_agent_name", "ls_agent_name", "agent", "langgraph_node")
    return name if isinstance(name, str) and name.lower() not in NO_AGENTS else ""


# ---------------------------------------------------------------------------------------------------- Langfuse


def _is_langfuse(values: Values) -> bool:
    trace = (
        "input" in values
        and "output" in values
        and bool({"sessionId", "session_id"} & set(values))
        and "timestamp" in values
    )
    observation = bool({"traceId", "trace_id"} & set(values)) and bool(
        {"parentObservationId", "parent_observation_id"} & set(values)
    )
    score = (
        bool({"traceId", "trace_id"} & set(values))
        and bool({"dataType", "data_type"} & set(values))
        and "value" in values
    )
    return trace or observation or score


def _langfuse(values: Values) -> list[Span]:
    if {"dataType", "data_type"} & set(values):
        span = Span(_text(values, "traceId", "trace_id"), f"score {_text(values, 'id')}", source="Langfuse")
        span.feedback = [_langfuse_score(values)]
        return [span]
    is_observation = bool({"parentObservationId", "parent_observation_id"} & set(values))
    trace = _text(values, "traceId", "trace_id") if is_observation else _text(values, "id")
    parent = _text(values, "parentObservationId", "parent_observation_id") or (trace if is_observation else "")
    metadata = _metadata(values)
    attributes = {
        "langfuse.observation.type": _text(values, "type").lower(), "langfuse.observation.input": values.get("input"),
        "langfuse.observation.output": values.get("output"), "langfuse.agent.name": _agent_of(metadata),
        "langfuse.session.id": _first(values, "sessionId", "session_id") or _first(metadata, "session_id", "thread_id"),
    }  # fmt: skip
    at = seconds(_first(values, "startTime", "start_time", "timestamp"))
    span = spans.read(trace, _text(values, "id"), parent, at, _text(values, "name"), attributes)
    span.feedback = [_langfuse_score(score) for score in _objects(values.get("scores"))]
    below = [
        span_below
        for more in _objects(values.get("observations"))
        if _is_langfuse(more)
        for span_below in _langfuse(more)
    ]
    return [span, *below]


def _langfuse_score(values: Values) -> list[Any]:
    value, label = values.get("value"), _first(values, "stringValue", "string_value")
    if str(_first(values, "dataType", "data_type") or "").upper() == "BOOLEAN" and value in (0, 1, "0", "1"):
        value = bool(int(value))
    return [_text(values, "name")[:120], value, label, str(values.get("comment") or "")[:500]]


# ---------------------------------------------------------------------------------------------------- LangSmith


def _is_langsmith(values: Values) -> bool:
    return "run_type" in values and "inputs" in values and bool({"trace_id", "dotted_order"} & set(values))


def _langsmith(values: Values) -> list[Span]:
    metadata = {**_metadata(_object(values.get("extra"))), **_metadata(values)}
    trace = _text(values, "trace_id") or _text(values, "dotted_order").split(".")[0]
    kind = _text(values, "run_type")
    agent = _agent_of(metadata)
    attributes = {
        "gen_ai.operation.name": {"llm": "chat", "tool": "execute_tool"}.get(kind, "invoke_agent" if agent else ""),
        "input.value": values.get("inputs"), "output.value": values.get("outputs"), "gen_ai.agent.name": agent,
        "session.id": _first(metadata, "thread_id", "session_id", "conversation_id"),
    }  # fmt: skip
    at = seconds(values.get("start_time"))
    span = spans.read(trace, _text(values, "id"), _text(values, "parent_run_id"), at, _text(values, "name"), attributes)
    span.source = "LangSmith"
    for name, statistic in _object(values.get("feedback_stats")).items():
        if isinstance(statistic, dict) and statistic.get("avg") is not None:
            span.feedback.append([str(name)[:120], statistic["avg"], None, ""])
    for item in _objects(values.get("feedback")):
        span.feedback.append(
            [
                _text(item, "key")[:120],
                item.get("score"),
                item.get("value"),
                str(item.get("comment") or "")[:500],
            ]
        )
    return [span]


# ---------------------------------------------------------------------------------------------------- Phoenix


def _is_phoenix(values: Values) -> bool:
    return "context.trace_id" in values or {"trace_id", "span_id"} <= set(_object(values.get("context")))


def _phoenix(values: Values) -> list[Span]:
    with_context = {**values, **_object(values.get("context"))}
    attributes = dict(_flat(_object(values.get("attributes"))))
    attributes |= {
        key.removeprefix("attributes."): value for key, value in values.items() if key.startswith("attributes.")
    }
    attributes = {key: _undotted(_opened(value)) for key, value in attributes.items()}
    attributes["openinference.span.kind"] = _text(values, "span_kind") or attributes.get("openinference.span.kind", "")
    span = spans.read(
        _text(with_context, "context.trace_id", "trace_id"), _text(with_context, "context.span_id", "span_id"),
        _text(values, "parent_id"), seconds(values.get("start_time")), _text(values, "name"), attributes,
    )  # fmt: skip
    span.source = "Phoenix"
    for annotation in _objects(_first(values, "annotations", "span_annotations")):
        result = _object(annotation.get("result")) or annotation
        comment = str(result.get("explanation") or "")[:500]
        span.feedback.append(
            [_text(annotation, "name", "annotation_name")[:120], result.get("score"), result.get("label"), comment]
        )
    return [span]


def _flat(values: Values, above: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Attributes by their dotted names, whether an export has them nested or not; messages stay whole."""
    for key, value in values.items():
        name = f"{above}{key}"
        if isinstance(value, dict) and depth < 6 and name not in spans.INPUTS + spans.OUTPUTS:
            yield from _flat(value, f"{name}.", depth + 1)
        else:
            yield name, value


def _undotted(value: Any) -> Any:
    """OpenInference's messages, {"message.role": …, "message.content": …}, as objects with role and content."""
    if isinstance(value, list):
        return [
            {key.removeprefix("message."): inner for key, inner in item.items()} if isinstance(item, dict) else item
            for item in value
        ]
    return value


# ---------------------------------------------------------------------------------------------------- MLflow


def _is_mlflow(values: Values) -> bool:
    return bool(_object(values.get("info"))) and isinstance(_object(values.get("data")).get("spans"), list)


def _mlflow(values: Values) -> list[Span]:
    info, data = _object(values["info"]), _object(values["data"])
    trace = _text(info, "trace_id", "request_id")
    session = _object(_first(info, "trace_metadata", "request_metadata")).get("mlflow.trace.session")
    result = []
    for item in _objects(data["spans"]):
        attributes = {key: _opened(value) for key, value in _object(item.get("attributes")).items()} | {
            "mlflow.trace.session": session
        }
        at = seconds(_first(item, "start_time_unix_nano", "start_time", "start_time_ns"))
        key, parent = (
            _text({**item, **_object(item.get("context"))}, "span_id"),
            _text(item, "parent_span_id", "parent_id"),
        )
        result.append(spans.read(trace, key, parent, at, _text(item, "name"), attributes))
    if not result:
        attributes = {
            "input.value": _first(data, "request"),
            "output.value": _first(data, "response"),
            "mlflow.trace.session": session,
        }
        result.append(
            spans.read(trace, trace, "", seconds(_first(info, "request_time", "timestamp_ms")), "trace", attributes)
        )
    for assessment in _objects(info.get("assessments")):
        feedback = assessment.get("feedback")
        if isinstance(feedback, dict):
            value, label = feedback.get("value"), feedback.get("value")
            comment = str(assessment.get("rationale") or "")[:500]
            result[0].feedback.append([_text(assessment, "assessment_name", "name")[:120], value, label, comment])
    for span in result:
        span.source = "MLflow"
    return result


# ---------------------------------------------------------------------------------------------------- OpenAI


def _is_openai(values: Values) -> bool:
    """A chat completion with its request, or a log of messages that ends with an answer. One that ends with the user's is a query, and
    what has labels says who is needed, not who answered."""
    messages = _objects(values.get("messages"))
    if "required_agents" in values or "asked_agents" in values:
        return False
    labeled = any(label_of(one) is not None for one in (values, *messages))
    answered = bool(messages) and messages[-1].get("role") == "assistant" and not labeled
    request, response = _exchange(values)
    pair = request is not values and response is not values and bool(_objects(request.get("messages")))
    completion = values.get("object") == "chat.completion" and bool(_objects(_first(values, "messages", "input")))
    return answered or pair or completion


def _exchange(values: Values) -> tuple[Values, Values]:
    """The request and the response of a record; the record itself where it does not keep them apart."""
    request, response = _object(values.get("request")), _object(values.get("response"))
    return _object(request.get("body")) or request or values, _object(response.get("body")) or response or values


def _openai(values: Values) -> list[Span]:
    request, response = _exchange(values)
    messages = _objects(_first(request, "messages", "input"))
    choices = _objects(response.get("choices"))
    if choices and isinstance(choices[0].get("message"), dict):
        messages = [*messages, choices[0]["message"]]
    key = _text(values, "id", "custom_id") or _text(response, "id")
    key = key or hashlib.sha256(json.dumps(messages, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()[:32]
    metadata = _metadata(values)
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.agent.name": _agent_of(metadata)}
    attributes["session.id"] = _first(metadata, "conversation_id", "session_id", "thread_id")
    at = seconds(_first(values, "created", "created_at", "timestamp") or response.get("created"))
    result: list[Span] = []
    for place, message in enumerate(messages):
        if message.get("role") == "user":
            with_messages = {**attributes, "gen_ai.input.messages": messages[: place + 1]}
            result.append(spans.read(key, f"{place}", "", at + len(result) / 1e3 if at else 0.0, "chat", with_messages))
            result[-1].source = "OpenAI"
        elif message.get("role") == "assistant" and result:
            result += _answering(result[-1], message, place)
    return result


def _answering(request: Span, message: Values, place: int) -> list[Span]:
    """What an assistant's message says of who answered: its name, and the functions that it calls."""
    request.answer = spans.text_of(message.get("content"))[: spans.LONGEST_MESSAGE] or request.answer
    names = [(AGENT, message.get("name"))]
    for call in _objects(message.get("tool_calls")):
        function = call.get("function")
        names.append((TOOL, function.get("name") if isinstance(function, dict) else None))
    below = []
    for number, (role, name) in enumerate(names):
        if isinstance(name, str) and name:
            span = spans.read(
                request.trace, f"{place}.{number}", request.id, request.at, name, {"gen_ai.operation.name": ROLES[role]}
            )
            below.append(span)
    return below


ROLES = {AGENT: "invoke_agent", TOOL: "execute_tool"}
SHAPES: dict[str, tuple[Callable[[Values], bool], Callable[[Values], list[Span]]]] = {
    "mlflow": (_is_mlflow, _mlflow),
    "phoenix": (_is_phoenix, _phoenix),
    "langsmith": (_is_langsmith, _langsmith),
    "langfuse": (_is_langfuse, _langfuse),
    "openai": (_is_openai, _openai),
}
NAMES = {"langfuse": "Langfuse", "langsmith": "LangSmith", "phoenix": "Phoenix", "mlflow": "MLflow", "openai": "OpenAI"}
