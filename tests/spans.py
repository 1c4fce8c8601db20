"""Spans as they are made in this process, for tests of traces."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider, sampling
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from routerweb.observing import tracing

#: A caller's trace, sampled and not.
TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SAMPLED, UNSAMPLED = f"00-{TRACE}-{CALLER}-01", f"00-{TRACE}-{CALLER}-00"


class Spans:
    """What has ended so far."""

    def __init__(self, kept: InMemorySpanExporter) -> None:
        self._kept = kept

    @property
    def names(self) -> list[str]:
        return [span.name for span in self.all()]

    def all(self) -> list[ReadableSpan]:
        return list(self._kept.get_finished_spans())

    def one(self, name: str) -> ReadableSpan:
        (found,) = [span for span in self.all() if span.name == name]
        return found

    def clear(self) -> None:
        self._kept.clear()


@contextmanager
def made(monkeypatch: pytest.MonkeyPatch, settings: Any) -> Iterator[Spans]:
    """Traces are on, as if the process had been started so; the caller's word counts for what is sampled."""
    kept = InMemorySpanExporter()
    provider = TracerProvider(sampler=sampling.ParentBased(sampling.ALWAYS_ON))
    provider.add_span_processor(SimpleSpanProcessor(kept))
    settings.TRACES = True
    monkeypatch.setattr(tracing, "_tracer", lambda: provider.get_tracer("routerweb"))
    yield Spans(kept)
    provider.shutdown()


def hexed(span: ReadableSpan) -> tuple[str, str, str | None]:
    """Trace, span, and the span that it is within."""
    assert span.context is not None
    parent = None if span.parent is None else f"{span.parent.span_id:016x}"
    return f"{span.context.trace_id:032x}", f"{span.context.span_id:016x}", parent
