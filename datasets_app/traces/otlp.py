"""Spans in OpenTelemetry's protocol over HTTP: a body of protobuf or JSON → spans, and why others were left out.

One bad span leaves the others of its body as they are: a body of protobuf that cannot be read whole is read span by span.
"""

import json
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

from datasets_app.traces import spans
from datasets_app.traces.spans import BadSpan, Span

PROTOBUF, JSON = "application/x-protobuf", "application/json"
#: Years that a span may be of, in seconds since 1970: other clocks are wrong, and the time of arrival stands in.
EARLIEST, LATEST = 946_684_800.0, 4_102_444_800.0
DEEPEST = 20


class Unreadable(ValueError):
    """A body that holds no spans that can be read; the message says why."""


class TooLarge(ValueError):
    """A body that is larger unpacked than is taken."""


def unpacked(raw: bytes, encoding: str, max_bytes: int) -> bytes:
    """The body as it was before its sender compressed it. Raises Unreadable and TooLarge."""
    if encoding in ("", "identity"):
        return raw
    if encoding not in ("gzip", "deflate"):
        raise Unreadable(f"Content-Encoding {encoding[:40]} is not known: send gzip, deflate or none.")
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 32)
    try:
        body = unpacker.decompress(raw, max_bytes + 1)
    except zlib.error as error:
        raise Unreadable(f"The body is not {encoding}: {error}.") from None
    if len(body) > max_bytes:
        raise TooLarge
    if not unpacker.eof:
        raise Unreadable(f"The body of {encoding} breaks off.")
    return body


def read(body: bytes, media: str) -> Iterator[Span | BadSpan]:
    """The spans of a body. Raises Unreadable."""
    from google.protobuf.message import DecodeError

    parts = _of_json(body) if media == JSON else _of_protobuf(body)
    for service, part, read_one in parts:
        try:
            span = read_one(part)
        except BadSpan as bad:
            yield bad
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError, RecursionError, DecodeError):
            yield BadSpan("has a field of a wrong type")
        else:
            span.source = f"{span.source} · {service}" if service else span.source
            yield span


def answer(rejected: int, reason: str, media: str) -> bytes:
    """The protocol's answer: how many spans were left out and why; nothing where all were taken."""
    if media == JSON:
        partial = {"partialSuccess": {"rejectedSpans": str(rejected), "errorMessage": reason}} if rejected else {}
        return json.dumps(partial).encode()
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

    response = ExportTraceServiceResponse()
    if rejected:
        response.partial_success.rejected_spans = rejected
        response.partial_success.error_message = reason
    return bytes(response.SerializeToString())


def seconds(nanoseconds: Any) -> float:
    """Seconds since 1970 of a span's time; 0 for one that no working clock shows."""
    at = int(nanoseconds or 0) / 1e9
    return at if EARLIEST < at < LATEST else 0.0


# ---------------------------------------------------------------------------------------------------- protobuf


def _of_protobuf(body: bytes) -> Iterator[tuple[str, Any, Any]]:
    # Loaded with the first body: most web processes never get one.
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    request = ExportTraceServiceRequest()
    try:
        request.ParseFromString(body)
    except DecodeError:
        yield from _one_by_one(body)
        return
    for resource in request.resource_spans:
        service = _service(_values(resource.resource.attributes))
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield service, span, _protobuf_span


def _one_by_one(body: bytes) -> Iterator[tuple[str, Any, Any]]:
    """The spans of a body in which some message cannot be read: resource_spans (1) → scope_spans (2) → spans (2)."""
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.resource.v1.resource_pb2 import Resource
    from opentelemetry.proto.trace.v1 import trace_pb2

    for resource in _parts(body, 1):
        service = ""
        for part in _parts(resource, 1):
            try:
                service = _service(_values(Resource.FromString(part).attributes))
            except DecodeError:
                continue  # the name of the service is all that is lost
        for scope in _parts(resource, 2):
            for span in _parts(scope, 2):
                yield service, span, lambda raw: _protobuf_span(trace_pb2.Span.FromString(raw))


def _parts(message: bytes, field_number: int) -> Iterator[bytes]:
    """The messages and texts under one field number, by the wire format. Raises Unreadable."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        kind = tag & 7
        if kind == 0:
            _value, at = _varint(message, at)
        elif kind in (1, 5):
            at += 8 if kind == 1 else 4
        elif kind == 2:
            length, at = _varint(message, at)
            if at + length > len(message):
                raise Unreadable("The body is not protobuf of OTLP: it breaks off.")
            if tag >> 3 == field_number:
                yield message[at : at + length]
            at += length
        else:
            raise Unreadable("The body is not protobuf of OTLP.")


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(message):
            break
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise Unreadable("The body is not protobuf of OTLP.")


def _protobuf_span(span: Any) -> Span:
    if len(span.trace_id) != 16 or len(span.span_id) != 8:
        raise BadSpan("has no trace id or no span id")
    events = [(event.name, _values(event.attributes)) for event in span.events if event.name.startswith("gen_ai.")]
    return spans.read(
        span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex(), seconds(span.start_time_unix_nano), span.name,
        _values(span.attributes), events,
    )  # fmt: skip


def _values(attributes: Any) -> dict[str, Any]:
    return {attribute.key: _value(attribute.value, 0) for attribute in attributes}


def _value(value: Any, depth: int) -> Any:
    kind = value.WhichOneof("value")
    if kind in ("string_value", "int_value", "double_value", "bool_value"):
        return getattr(value, kind)
    if depth > DEEPEST:
        return None
    if kind == "array_value":
        return [_value(item, depth + 1) for item in value.array_value.values]
    if kind == "kvlist_value":
        return {item.key: _value(item.value, depth + 1) for item in value.kvlist_value.values}
    return None


def _service(values: Mapping[str, Any]) -> str:
    name = values.get("service.name")
    return "" if not isinstance(name, str) or name.startswith("unknown_service") else spans.storable_name(name)


# ---------------------------------------------------------------------------------------------------- JSON


def _of_json(body: bytes) -> Iterator[tuple[str, Any, Any]]:
    try:
        request = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"The body is not JSON: {error}.") from None
    if not isinstance(request, dict):
        raise Unreadable("The body must be a JSON object with resourceSpans.")
    for resource in _objects(request, "resourceSpans", "resource_spans"):
        about = resource.get("resource")
        service = _service(_json_values(about.get("attributes"))) if isinstance(about, dict) else ""
        for scope in _objects(resource, "scopeSpans", "scope_spans", "instrumentationLibrarySpans"):
            spans_of = scope.get("spans")
            for span in spans_of if isinstance(spans_of, list) else ():
                yield service, span, _json_span


def _objects(holder: Mapping[str, Any], *names: str) -> list[dict[str, Any]]:
    listed: list[Any] = next((holder[name] for name in names if isinstance(holder.get(name), list)), [])
    return [item for item in listed if isinstance(item, dict)]


def _json_span(span: Any) -> Span:
    def text(*names: str) -> str:
        value = next((span[name] for name in names if span.get(name) is not None), "")
        if not isinstance(value, str):
            raise BadSpan("has a field of a wrong type")
        return value

    trace, key = text("traceId", "trace_id").lower(), text("spanId", "span_id").lower()
    if len(trace) != 32 or len(key) != 16:
        raise BadSpan("has no trace id or no span id")
    events = [
        (event["name"], _json_values(event.get("attributes")))
        for event in _objects(span, "events")
        if isinstance(event.get("name"), str) and event["name"].startswith("gen_ai.")
    ]
    at = seconds(span.get("startTimeUnixNano", span.get("start_time_unix_nano")))
    parent = text("parentSpanId", "parent_span_id").lower()
    return spans.read(trace, key, parent, at, text("name"), _json_values(span.get("attributes")), events)


def _json_values(attributes: Any) -> dict[str, Any]:
    return {
        attribute["key"]: _json_value(attribute.get("value"), 0)
        for attribute in (attributes if isinstance(attributes, list) else ())
        if isinstance(attribute, dict) and isinstance(attribute.get("key"), str)
    }


def _json_value(value: Any, depth: int) -> Any:
    if not isinstance(value, dict) or depth > DEEPEST:
        return None
    for name in ("stringValue", "boolValue", "doubleValue", "string_value", "bool_value", "double_value"):
        if name in value:
            return value[name]
    if "intValue" in value:
        return int(value["intValue"])
    listed: Any = value.get("arrayValue")
    if isinstance(listed, dict):
        return [_json_value(item, depth + 1) for item in listed.get("values") or []]
    inside = value.get("kvlistValue")
    if isinstance(inside, dict):
        return {
            item["key"]: _json_value(item.get("value"), depth + 1)
            for item in inside.get("values") or []
            if isinstance(item, dict) and isinstance(item.get("key"), str)
        }
    return None
