"""Traces as a collector gets them: a real server of two processes and forked workers send OTLP over HTTP."""

import json
import os
import shutil
import signal
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from subprocess import run
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from tests.routerweb.test_server import Server, environment, prepared  # noqa: F401
from tests.spans import CALLER, SAMPLED, TRACE, UNSAMPLED

pytestmark = [pytest.mark.process, pytest.mark.any_database]

WORKER = """
import multiprocessing, sys
import django
django.setup()
from datasets_app import tasks
from routerweb.observing import tracing
with tracing.workflow("before the fork", "1", {}):
    pass
works = [multiprocessing.get_context("fork").Process(target=tasks.read_upload, args=(number,)) for number in (901, 902)]
for work in works: work.start()
for work in works: work.join()
sys.exit(max(work.exitcode for work in works))
"""


class Receiver(ThreadingHTTPServer):
    """A collector of OpenTelemetry: `spans` are (name, attributes, trace, parent, service, process)."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.spans: list[tuple[str, dict[str, Any], str, str, str]] = []
        self.kinds: set[str] = set()
        self.raw = b""
        self.address = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def named(self, name: str, number: int, seconds: float = 60) -> list[tuple[str, dict[str, Any], str, str, str]]:
        """So many spans of a name, waited for."""
        until = time.monotonic() + seconds
        while True:
            found = [span for span in self.spans if span[0] == name]
            if len(found) >= number or time.monotonic() > until:
                return found
            time.sleep(0.1)


class Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        assert self.path == "/v1/traces"
        self.server.kinds.add(self.headers["Content-Type"])
        self.server.raw += body
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            about = {one.key: one.value.string_value for one in resource.resource.attributes}
            for scope in resource.scope_spans:
                for span in scope.spans:
                    values = {
                        one.key: getattr(one.value, str(one.value.WhichOneof("value"))) for one in span.attributes
                    }
                    self.server.spans.append(
                        (span.name, values, span.trace_id.hex(), span.parent_span_id.hex(), about["service.name"])
                    )
        answer = ExportTraceServiceResponse().SerializeToString()
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_words: object) -> None:
        pass


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.shutdown()
    made.server_close()


def route(server: Server, query: str, traceparent: str) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {server.key}", "Content-Type": "application/json", "traceparent": traceparent}
    asked = urllib.request.Request(f"{server.address}/api/route/", json.dumps({"query": query}).encode(), headers)
    with urllib.request.urlopen(asked, timeout=30) as answer:
        return dict(json.load(answer))


@pytest.mark.at_length
def test_a_server_of_two_processes_sends_its_spans(
    tmp_path: Path,
    prepared: tuple[Path, str],  # noqa: F811
    receiver: Receiver,
) -> None:
    folder = Path(shutil.copytree(prepared[0], tmp_path / "installation"))
    server = Server(
        folder, prepared[1], WEB_WORKERS="2", TRACES="1", OTEL_EXPORTER_OTLP_ENDPOINT=receiver.address,
        OTEL_SERVICE_NAME="routes of a test", OTEL_BSP_SCHEDULE_DELAY="200",
    )  # fmt: skip
    try:
        answers = [route(server, "refund the invoice, MARKER-7731", SAMPLED) for _ in range(10)]
        route(server, "refund the invoice, MARKER-7731", UNSAMPLED)
        found = receiver.named("POST /api/route/", 10)
        for _ in range(5):
            route(server, "refund the invoice, MARKER-7731", SAMPLED)
        server.process.send_signal(signal.SIGTERM)  # what is not sent yet is sent at the end
        assert server.process.wait(30) == 0
    finally:
        if server.process.poll() is None:
            os.killpg(server.process.pid, signal.SIGKILL)
            server.process.wait(10)
    assert {span[1]["routerweb.decision.id"] for span in found} == {answer["decision_id"] for answer in answers}
    assert {span[2:] for span in found} == {(TRACE, CALLER, "routes of a test")}
    assert len(receiver.named("POST /api/route/", 15)) == 15
    assert receiver.kinds == {"application/x-protobuf"}
    assert b"MARKER" not in receiver.raw
    assert "MARKER" not in server.log.read_text()


@pytest.mark.at_length
def test_forked_workers_send_theirs_though_they_end_at_once(
    tmp_path: Path,
    prepared: tuple[Path, str],  # noqa: F811
    receiver: Receiver,
) -> None:
    folder = Path(shutil.copytree(prepared[0], tmp_path / "installation"))
    more = {"TRACES": "1", "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.address, "OTEL_BSP_SCHEDULE_DELAY": "60000"}
    ended = run(
        [sys.executable, "-W", "ignore", "-c", WORKER], env=environment(folder, **more), cwd=folder, capture_output=True,
        text=True, timeout=120,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    found = receiver.named("job import", 2)
    assert sorted(span[1]["routerweb.job.id"] for span in found) == ["901", "902"]
    assert {span[1]["routerweb.job.outcome"] for span in found} == {"not queued"}
    assert len({span[2] for span in found}) == 2
    assert {span[4] for span in found} == {"routerweb"}
    assert len(receiver.named("invoke_workflow before the fork", 1)) == 1


@pytest.mark.at_length
def test_a_collector_that_is_away_costs_no_answer(tmp_path: Path, prepared: tuple[Path, str]) -> None:  # noqa: F811
    folder = Path(shutil.copytree(prepared[0], tmp_path / "installation"))
    server = Server(
        folder, prepared[1], TRACES="1", OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9", OTEL_BSP_SCHEDULE_DELAY="100",
        OTEL_EXPORTER_OTLP_TIMEOUT="1",
    )  # fmt: skip
    try:
        for _ in range(5):
            assert set(route(server, "refund the invoice", SAMPLED)["agents"]) == {0}
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(30) == 0
    finally:
        if server.process.poll() is None:
            os.killpg(server.process.pid, signal.SIGKILL)
            server.process.wait(10)
    assert "MARKER" not in server.log.read_text()
