"""`python -m benchmarks.scale.spans [SECONDS [RATE]]`: how routes fare while a web server takes spans.

It starts PostgreSQL, a web server and a worker as real processes, with a pool of ten agents that has a router. Eight connections
route as fast as they can, which is the full rate; then they route at half of it, first alone, then while two others send RATE spans a
second (2,000) by OTLP: protobuf, gzip, 512 a body, three a turn, no turn twice. Each phase takes SECONDS (30). Printed are the
routes of each phase, and spans a second as they were taken and as they were put together.
"""

import gzip
import http.client
import json
import secrets
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Self

import numpy as np
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from benchmarks.growth import pools
from benchmarks.machines.site import Machine, Site
from benchmarks.scale.importing import AGENTS, POOL, prepared, rows_of, wait_for_rest
from tests import migrated, on_postgresql

CONNECTIONS, SENDERS, SPANS, OF_A_TURN = 8, 2, 512, 3


def body_of(texts: Sequence[str], agent: str) -> bytes:
    """A request of spans, three for each text: an agent that is asked, the model and the tool that it calls."""
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    for text in texts:
        trace, root = secrets.token_bytes(16), secrets.token_bytes(8)
        for operation, name in (("invoke_agent", agent), ("chat", "gpt"), ("execute_tool", "search")):
            span = spans.add(trace_id=trace, name=f"{operation} {name}", start_time_unix_nano=time.time_ns())
            span.span_id, span.parent_span_id = (
                (root, b"") if operation == "invoke_agent" else (secrets.token_bytes(8), root)
            )
            values = {"gen_ai.operation.name": operation, "gen_ai.conversation.id": trace.hex()}
            values["gen_ai.tool.name" if operation == "execute_tool" else "gen_ai.agent.name"] = name
            if operation != "execute_tool":
                parts = [{"type": "text", "content": text}]
                values["gen_ai.input.messages"] = json.dumps([{"role": "user", "parts": parts}])
            for key, value in values.items():
                span.attributes.add(key=key).value.string_value = value
    return gzip.compress(request.SerializeToString(), 1)


class Connections:
    """So many threads that each do `_again` until the block ends."""

    count = 1

    def _again(self, place: int) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        self._end = threading.Event()
        self._threads = [threading.Thread(target=self._again, args=(place,)) for place in range(self.count)]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join()


class Routes(Connections):
    """Connections that route, `rate` a second together or as fast as they can; stops with the block."""

    count = CONNECTIONS

    def __init__(self, web: Machine, key: str, texts: Sequence[str], rate: float = 0.0) -> None:
        self.web, self.key, self.texts, self.rate = web, key, texts, rate
        self.taken: list[float] = []
        self.failed = 0
        self._number = count()

    def _again(self, place: int) -> None:
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
        due = time.perf_counter() + place / (self.rate or 1)
        with closing(http.client.HTTPConnection("127.0.0.1", self.web.port, timeout=60)) as connection:
            while not self._end.is_set():
                if self.rate:
                    due += CONNECTIONS / self.rate
                    time.sleep(max(0.0, due - time.perf_counter()))
                number = next(self._number)
                text = f"{self.texts[number % len(self.texts)]} {number}"
                began = time.perf_counter()
                connection.request("POST", "/api/route/", json.dumps({"query": text}), headers)
                answer = connection.getresponse()
                answer.read()
                self.taken.append(1_000 * (time.perf_counter() - began))
                self.failed += answer.status != 200

    def __str__(self) -> str:
        p50, p99 = np.percentile(self.taken, [50, 99])
        return f"{len(self.taken):,} routes, p50 {p50:.1f} ms, p99 {p99:.1f} ms, {self.failed} failed"


class Spans(Connections):
    """Connections that send bodies, each once, `rate` spans a second together, until the block ends."""

    count = SENDERS

    def __init__(self, web: Machine, key: str, bodies: Sequence[bytes], rate: float) -> None:
        self.web, self.key, self.bodies, self.rate = web, key, iter(bodies), rate
        self.taken = self.refused = 0
        self._lock = threading.Lock()

    def _again(self, _place: int) -> None:
        headers = {
            "Authorization": f"Bearer {self.key}", "Content-Type": "application/x-protobuf", "Content-Encoding": "gzip",
        }  # fmt: skip
        due = time.perf_counter()
        with closing(http.client.HTTPConnection("127.0.0.1", self.web.port, timeout=60)) as connection:
            while not self._end.is_set():
                due += SENDERS * SPANS / self.rate
                time.sleep(max(0.0, due - time.perf_counter()))
                with self._lock:
                    body = next(self.bodies, None)
                if body is None:
                    return
                connection.request("POST", "/v1/traces", body, headers)
                answer = connection.getresponse()
                answer.read()
                with self._lock:
                    self.taken += SPANS if answer.status == 200 else 0
                    self.refused += answer.status != 200


def main(seconds: float, spans_a_second: float) -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory(prefix="routerweb-spans-") as data, on_postgresql.server() as server:
        folder, url = Path(data), migrated.postgresql(server, "spans")
        site = Site(folder, url)
        try:
            key = prepared(site, folder)
            senders_key = site.key(POOL, "traces")
            agents, examples = pools.pool(40_000, AGENTS, 1)
            texts = list(dict.fromkeys(e.text for e in examples))
            turns = SPANS // OF_A_TURN + 1
            bodies = [
                body_of(texts[at : at + turns], agents[at % AGENTS].name)
                for at in range(0, len(texts) - turns, turns)
            ]  # fmt: skip
            web = site.start("web")
            site.start("worker")
            wait_for_rest(url)
            with Routes(web, key, texts):
                time.sleep(5)
            with Routes(web, key, texts) as full:
                time.sleep(seconds / 3)
            rate = len(full.taken) / (seconds / 3)
            with Routes(web, key, texts, rate / 2) as alone:
                time.sleep(seconds)
            before, began = rows_of(url, "datasets_app_tracedturn"), time.monotonic()
            with Routes(web, key, texts, rate / 2) as beside, Spans(web, senders_key, bodies, spans_a_second) as spans:
                time.sleep(seconds)
            took = time.monotonic() - began
            stored = rows_of(url, "datasets_app_tracedturn") - before
        finally:
            site.close()
    print(
        f"full rate: {rate:.0f} routes a second, {full}",
        f"half of it, alone: {alone}",
        f"beside spans: {beside}",
        sep="\n",
    )
    print(
        f"{spans.taken / took:,.0f} spans a second were taken, {OF_A_TURN * stored / took:,.0f} put together meanwhile; "
        f"{spans.refused} bodies refused"
    )
    print(
        f"p99 of a route, beside spans to alone: {np.percentile(beside.taken, 99) / np.percentile(alone.taken, 99):.2f}"
    )


if __name__ == "__main__":
    given = [float(word) for word in sys.argv[1:]]
    main(*(given + [30.0, 2_000.0][len(given) :]))
