"""Spans of other programs, by OpenTelemetry's protocol: what users asked and who answered."""

from collections import Counter
from collections.abc import Iterator
from time import sleep

from django.conf import settings
from django.http import HttpResponse
from rest_framework.request import Request

from agents_app.models import Pool
from datasets_app.traces import otlp, storing
from datasets_app.traces.spans import BadSpan, Span
from routerweb.serving import disconnect
from training_app.api import bodies
from training_app.api.errors import Refused, overloaded
from training_app.api.schema import operation
from training_app.api.serializers import traces as shapes
from training_app.api.views.base import ApiView

SPAN = {
    "traceId": "4bf92f3577b34da6a3ce929d0e0e4736", "spanId": "00f067aa0ba902b7", "name": "invoke_agent Billing",
    "startTimeUnixNano": "1772359200000000000",
    "attributes": [
        {"key": "gen_ai.operation.name", "value": {"stringValue": "invoke_agent"}},
        {"key": "gen_ai.agent.name", "value": {"stringValue": "Billing"}},
        {"key": "gen_ai.input.messages", "value": {"stringValue":
            '[{"role": "user", "parts": [{"type": "text", "content": "I was charged twice"}]}]'}},
    ],
}  # fmt: skip
#: After so many spans other threads get their turn: a route must not wait until all of a body is read.
TURN = 16
#: Reasons that an answer names.
NAMED = 3


class TracesView(ApiView):
    """What traces say of a pool's traffic."""

    scope = "traces"

    @operation(
        "sendTraces", "Send traces", of="Labeling", body=shapes.TracesRequest, query_string=shapes.TracesParameters,
        also_at="/v1/traces",
        example={"resourceSpans": [{"scopeSpans": [{"spans": [SPAN]}]}]},
        answers={200: (shapes.TracesSerializer, "What was left out",
                       {"partialSuccess": {"rejectedSpans": "1", "errorMessage": "1 span has no trace id or no span id."}})},
        errors=("not_otlp",),
    )  # fmt: skip
    def post(self, request: Request) -> HttpResponse:
        """Spans in protobuf or JSON, compressed with gzip or not, as any OpenTelemetry exporter sends them. Each user turn becomes a
        query with the conversation before it, and who answered it a suggestion. A worker does that in the background; a span that
        comes again adds nothing."""
        django_request = request._request
        media = django_request.META.get("CONTENT_TYPE", "").partition(";")[0].strip().lower()
        if media not in (otlp.PROTOBUF, otlp.JSON):
            raise Refused(
                415, "not_otlp", f"The body is {media[:80] or 'of no type'}; it must be {otlp.PROTOBUF} or {otlp.JSON}.",
                hint="OTLP over gRPC is not taken: set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf.",
            )  # fmt: skip
        pool = self.pool(self.query_string(shapes.TracesParameters)["pool"])
        encoding = django_request.META.get("HTTP_CONTENT_ENCODING", "").strip().lower()
        sent = bodies.raw(django_request.META, bodies.reader_of(django_request))
        problems = self._received(pool, sent, encoding, media)
        count = sum(problems.values())
        return HttpResponse(otlp.answer(count, _reason(problems), media), content_type=media)

    def _received(self, pool: Pool, sent: bytes, encoding: str, media: str) -> Counter[str]:
        if storing.crowded(pool):
            raise overloaded()
        try:
            body = otlp.unpacked(sent, encoding, settings.DATA_UPLOAD_MAX_MEMORY_SIZE)
            return storing.receive(pool, _in_turns(otlp.read(body, media)))
        except otlp.TooLarge:
            raise bodies.too_large() from None
        except otlp.Unreadable as error:
            raise Refused(400, "malformed", str(error)) from None


def _in_turns(spans: Iterator[Span | BadSpan]) -> Iterator[Span | BadSpan]:
    """The same spans; now and then a look at whether the client has left, and a moment for other threads."""
    for number, span in enumerate(spans):
        if number % TURN == 0:
            disconnect.check()
            sleep(0)
        yield span


def _reason(problems: Counter[str]) -> str:
    reasons = [f"{count} span{'s' if count > 1 else ''} {reason}" for reason, count in problems.most_common(NAMED)]
    return f"{'; '.join(reasons)}." if reasons else ""
