"""Traces: what a request, an episode and a job did, as spans of OpenTelemetry, sent by OTLP over HTTP to the address that
OTEL_EXPORTER_OTLP_ENDPOINT names.

Names are OpenTelemetry's own: those of HTTP servers, and for language models and agents those of its conventions for generative AI
(`gen_ai.*`, https://github.com/open-telemetry/semantic-conventions-genai, status "development", as of autumn 2026). Ours begin with
`routerweb.`. A span holds no text of a query, an answer or an error unless TRACE_TEXT is on.

With TRACES off nothing of OpenTelemetry is imported; what is called here then does nothing, for the price of one look at a setting.
"""

import contextvars
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache, lru_cache, wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar
from urllib.parse import urlsplit

from django.conf import settings

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer

P = ParamSpec("P")
T = TypeVar("T")
Values = Mapping[str, Any]

#: Providers by the host that is called, as the conventions name them; who else speaks OpenAI's protocol counts as "openai", and
#: `server.address` says who it is.
PROVIDERS = {
    "api.anthropic.com": "anthropic", "openai.azure.com": "azure.ai.openai", "amazonaws.com": "aws.bedrock",
    "api.cohere.com": "cohere", "api.deepseek.com": "deepseek", "generativelanguage.googleapis.com": "gcp.gemini",
    "aiplatform.googleapis.com": "gcp.vertex_ai", "api.groq.com": "groq", "api.mistral.ai": "mistral_ai",
    "api.moonshot.ai": "moonshot_ai", "api.perplexity.ai": "perplexity", "api.x.ai": "x_ai",
}  # fmt: skip


class SpanNotes:
    """What is said of a span that is under way."""

    def __init__(self, span: "Span | None" = None) -> None:
        self._span = span if span is not None and span.is_recording() else None

    @property
    def headers(self) -> dict[str, str]:
        """What goes with a request that is made within it."""
        return passed_on()

    @property
    def recording(self) -> bool:
        """Whether anybody will see it."""
        return self._span is not None

    def set(self, **values: Any) -> None:
        """Attributes by name, a dot written as two underlines; None says nothing."""
        if self._span is not None:
            self._span.set_attributes({k.replace("__", "."): v for k, v in values.items() if v is not None})

    def failed(self, kind: str) -> None:
        """It came to nothing: why, in a word. An error's own words may hold what somebody typed."""
        if self._span is not None:
            from opentelemetry.trace import StatusCode

            self._span.set_attribute("error.type", kind)
            self._span.set_status(StatusCode.ERROR)

    def usage(self, tokens_in: int, tokens_out: int) -> None:
        """The tokens of a call, as its server counts them."""
        self.set(gen_ai__usage__input_tokens=tokens_in, gen_ai__usage__output_tokens=tokens_out)

    def record_texts(self, sent: Sequence[Mapping[str, Any]], answer: str | None = None) -> None:
        """The messages of a call and what came back, where texts may be told."""
        if self._span is None or not settings.TRACE_TEXT:
            return
        if sent:
            self.set(gen_ai__input__messages=_messages(sent))
        if answer is not None:
            self.set(gen_ai__output__messages=_messages([{"role": "assistant", "content": answer}]))

    # A completion of the engine's client is told in these words.

    def completed(self, text: str, tokens_in: int, tokens_out: int) -> None:
        """What a language model said."""
        self.usage(tokens_in, tokens_out)
        self.record_texts((), text)


_NOTHING = SpanNotes()
Around = AbstractContextManager[SpanNotes]


def _messages(sent: Sequence[Mapping[str, Any]]) -> str:
    parts = [{"role": message["role"], "parts": [{"type": "text", "content": message["content"]}]} for message in sent]
    return json.dumps(parts, ensure_ascii=False)


# --- What is traced -----------------------------------------------------------------------------------------------


def request(environ: Mapping[str, Any]) -> Around:
    """A request to the API that goes through Django; the caller's `traceparent` continues."""
    if not settings.TRACES:
        return nullcontext(_NOTHING)
    method = str(environ["REQUEST_METHOD"])
    values = {"http.request.method": method, "url.scheme": environ.get("wsgi.url_scheme", "http")}
    return _span(method, "SERVER", values, _parent(environ.get("HTTP_TRACEPARENT"), environ.get("HTTP_TRACESTATE")))


def answered(span: SpanNotes, method: str, route: str, status: int) -> None:
    """How a request was answered: the pattern of its address, and the status."""
    if span.recording:
        span._span.update_name(f"{method} {route}" if route else method)  # type: ignore[union-attr]
        span.set(http__route=route or None, http__response__status_code=status)
        if status >= 500:
            span.failed(str(status))


def in_lane(
    answer: Callable[[], bytes | None], path: str, headers: Sequence[tuple[bytes, bytes]], scheme: str
) -> bytes | None:
    """What the fast lane answers, as a span where it is sampled; none is made of what the lane leaves to Django."""
    from opentelemetry import trace

    carried = {name: value for name, value in headers if name in (b"traceparent", b"tracestate")}
    parent = None
    if b"traceparent" in carried:
        parent = _parent(carried[b"traceparent"].decode("latin-1"), carried.get(b"tracestate", b"").decode("latin-1"))
    values = {"http.request.method": "POST", "url.scheme": scheme, "http.route": path}
    span = _tracer().start_span(f"POST {path}", parent, trace.SpanKind.SERVER, values)
    if not span.is_recording():
        return answer()
    with trace.use_span(span, end_on_exit=False, record_exception=False, set_status_on_exception=False):
        body = answer()
    if body is not None:
        span.set_attribute("http.response.status_code", 200)
        span.end()
    return body


def routed(
    pool: str, model: str, texts: Sequence[str], shown: Mapping[str, Any] | None = None, microseconds: int | None = None
) -> None:
    """What the router answered, told of the request that asked: of one text with the answer as it is shown."""
    if not settings.TRACES:
        return
    from opentelemetry import trace

    span = trace.get_current_span()
    if not span.is_recording():
        return
    span_notes = SpanNotes(span)
    span_notes.set(routerweb__pool=pool, routerweb__model=model, routerweb__queries=len(texts))
    if shown is not None:
        span_notes.set(
            routerweb__decision__id=shown["decision_id"], routerweb__stop_reason=shown["stop_reason"],
            routerweb__abstained=shown["abstained"], routerweb__agents=list(shown["agents"]),
            routerweb__router__microseconds=microseconds,
        )  # fmt: skip
    if settings.TRACE_TEXT:
        span_notes.set(routerweb__query=[str(text) for text in texts])


def completion(address: str, model: str, sent: Sequence[Mapping[str, Any]], temperature: float | None = None) -> Around:
    """A call of a language model with all its tries: pre-labeling, judging, orchestrating by one, an agent that is one."""
    if not settings.TRACES:
        return nullcontext(_NOTHING)
    values = {"gen_ai.operation.name": "chat", "gen_ai.request.model": model, **_server(address)}
    values["gen_ai.provider.name"] = _provider_of(values.get("server.address", ""))
    if temperature is not None:
        values["gen_ai.request.temperature"] = temperature
    return _span(f"chat {model}" if model else "chat", "CLIENT", values, sent=sent)


def agent(name: str, number: int, pool_address: str, model: str, *, remote: bool, episode: str, step: int) -> Around:
    """A call of an agent with all its attempts; `remote` where another program is the agent, and not a model or function of ours."""
    if not settings.TRACES:
        return nullcontext(_NOTHING)
    values = {
        "gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": name, "gen_ai.agent.id": str(number),
        "routerweb.step": step, **_server(pool_address),
    }  # fmt: skip
    values["gen_ai.provider.name"] = "routerweb" if remote or not model else _provider_of(values["server.address"])
    if model:
        values["gen_ai.request.model"] = model
    if episode:
        values["gen_ai.conversation.id"] = episode
    return _span(f"invoke_agent {name}", "CLIENT" if remote else "INTERNAL", values)


def tool(name: str, key: str) -> Around:
    """A Python function that an agent is."""
    if not settings.TRACES:
        return nullcontext(_NOTHING)
    values = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": name,
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": key,
    }
    return _span(f"execute_tool {name}", "INTERNAL", values)


def workflow(pool: str, episode: str, context: Mapping[str, str]) -> Around:
    """An episode, as far as this process runs it, within the trace of the request that `asked` for it: what `passed_on` said there."""
    if not settings.TRACES:
        return nullcontext(_NOTHING)
    values = {
        "gen_ai.operation.name": "invoke_workflow",
        "gen_ai.workflow.name": pool,
        "gen_ai.conversation.id": episode,
    }
    parent = _parent(context.get("traceparent"), context.get("tracestate"))
    return _span(f"invoke_workflow {pool}", "INTERNAL", {**values, "routerweb.pool": pool}, parent)


def job(kind: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """For a job that a worker runs, known by its first argument: a span of its own, with what it returned where that is a word."""

    def decorated(run: Callable[P, T]) -> Callable[P, T]:
        @wraps(run)
        def traced(*args: P.args, **options: P.kwargs) -> T:
            if not settings.TRACES:
                return run(*args, **options)
            _send_at_end(os.getpid())
            key = str(args[0]) if args else ""
            values = {"routerweb.job.kind": kind, "routerweb.job.id": key}
            with _span(f"job {kind}", "CONSUMER", values) as span_notes:
                ended = run(*args, **options)
                if isinstance(ended, str):
                    span_notes.set(routerweb__job__outcome=str(ended))
                    if ended == "failed":
                        span_notes.failed("failed")
                return ended

        return traced

    return decorated


# --- Between threads and programs ---------------------------------------------------------------------------------


def passed_on() -> dict[str, str]:
    """The headers by which whoever is called goes on with this trace. What else a caller sent along is passed to nobody."""
    headers: dict[str, str] = {}
    if settings.TRACES:
        _format().inject(headers)
    return headers


def going_on(function: Callable[P, T]) -> Callable[P, T]:
    """The function for another thread, its spans within the one that is under way here."""
    return _in_copy(function) if settings.TRACES else function


def _in_copy(function: Callable[P, T]) -> Callable[P, T]:
    here = contextvars.copy_context()

    def run(*args: P.args, **options: P.kwargs) -> T:
        return here.copy().run(function, *args, **options)

    return run


def _parent(traceparent: str | None, tracestate: str | None) -> "Context | None":
    if not traceparent:
        return None
    return _format().extract({"traceparent": traceparent, **({"tracestate": tracestate} if tracestate else {})})


# --- OpenTelemetry ------------------------------------------------------------------------------------------------


@contextmanager
def _span(
    name: str, kind: str, values: Values, parent: "Context | None" = None, sent: Sequence[Mapping[str, Any]] = ()
) -> Iterator[SpanNotes]:
    from opentelemetry import trace

    with _tracer().start_as_current_span(
        name, parent, trace.SpanKind[kind], values, record_exception=False, set_status_on_exception=False
    ) as span:
        span_notes = SpanNotes(span)
        span_notes.record_texts(sent)
        try:
            yield span_notes
        except BaseException as error:
            span_notes.failed(type(error).__name__)
            raise


@cache
def _format() -> Any:
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    return TraceContextTextMapPropagator()


@cache
def _tracer() -> "Tracer":
    """The process's tracer. Where somebody has set up OpenTelemetry around this program, theirs; else one that sends by OTLP."""
    from opentelemetry import trace

    if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        trace.set_tracer_provider(_provider())
    return trace.get_tracer("routerweb")


def _provider() -> Any:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    named = "OTEL_SERVICE_NAME" in os.environ or "service.name=" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    provider = TracerProvider(resource=Resource.create({} if named else {"service.name": "routerweb"}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider


@lru_cache(maxsize=1)
def _send_at_end(pid: int) -> None:
    """Have a worker of a cluster send what it has when it ends: such a process runs none of Python's own last words."""
    from multiprocessing.util import Finalize

    from opentelemetry import trace

    _tracer()
    provider: Any = trace.get_tracer_provider()
    if hasattr(provider, "force_flush"):
        Finalize(None, provider.force_flush, args=(5_000,), exitpriority=10)


@lru_cache(maxsize=1_024)
def _server(address: str) -> dict[str, Any]:
    """Host and port of an address; nothing where there is none."""
    parts = urlsplit(address)
    if not parts.hostname:
        return {}
    return {"server.address": parts.hostname, "server.port": parts.port or (443 if parts.scheme == "https" else 80)}


@lru_cache(maxsize=1_024)
def _provider_of(host: str) -> str:
    return next((name for end, name in PROVIDERS.items() if host == end or host.endswith(f".{end}")), "openai")
