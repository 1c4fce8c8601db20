"""What traces cost a route: the fast lane in one process with TRACES off, on and not sampled, on and sampled, in turns, in CPU time.

    python -m benchmarks.traces_cost

Each turn answers BATCH requests of a pool of three agents whose router reads names in the text, so that next to nothing is measured
but the lane. What is sampled is also put together and sent, by a thread of the same process, to a receiver that is another process
and reads nothing: "all of it" is the process's CPU time, "the request" the time of the thread that answers.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from importlib import import_module

BATCH, ROUNDS = 300, 30
RECEIVER = """
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200); self.send_header("Content-Length", "0"); self.end_headers()
    def log_message(self, *words): pass
server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
"""
SAMPLED, UNSAMPLED = (b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0" + last for last in (b"1", b"0"))


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen([sys.executable, "-c", RECEIVER], stdout=subprocess.PIPE, text=True) as receiver,
    ):
        assert receiver.stdout is not None
        try:
            _measure(folder, int(receiver.stdout.readline()))
        finally:
            receiver.kill()


def _measure(folder: str, port: int) -> None:
    os.environ |= {
        "DATA_DIR": folder, "TRACES": "1", "SECRET_KEY": "benchmark", "PLAIN_HTTP": "1",
        "DJANGO_SETTINGS_MODULE": "routerweb.settings",
        "BACKGROUND_THREADS": "0", "DATABASE_URL": f"sqlite:///{folder}/db.sqlite3", "LOG_LEVEL": "error",
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}", "OTEL_BSP_MAX_QUEUE_SIZE": "100000",
    }  # fmt: skip
    import django

    django.setup()
    from django.core.management import call_command
    from django.test.utils import override_settings

    from agents_app import pools
    from training_app.answering import decisions
    from training_app.api import fast_lane
    from training_app.engine.routing import router

    served = import_module("tests.training_app.served")
    call_command("migrate", verbosity=0)
    router.Router = served.ScriptedRouter  # type: ignore[misc]
    pool = pools.create_pool("Support", "support")
    for name in served.NAMES:
        pools.add_agent(pool, name)
    served.promoted(pool, *enumerate(served.NAMES))
    secret = served.application(pool).secret
    decisions.record = lambda pending: None
    headers = [
        (b"host", b"127.0.0.1"),
        (b"authorization", f"Bearer {secret}".encode()),
        (b"content-type", b"application/json"),
    ]
    body = b'{"query": "my billing is wrong and the parcel is late"}'
    kinds = {
        "off": (False, headers),
        "on, not sampled": (True, [*headers, (b"traceparent", UNSAMPLED)]),
        "on, sampled": (True, [*headers, (b"traceparent", SAMPLED)]),
    }
    taken: dict[str, list[tuple[float, float]]] = {kind: [] for kind in kinds}
    for _ in range(ROUNDS):
        for kind, (on, sent) in kinds.items():
            with override_settings(TRACES=on):
                for _warm in range(20):
                    assert fast_lane.answer(b"POST", fast_lane.ROUTE, sent, body, "http") is not None
                thread, whole = time.thread_time_ns(), time.process_time_ns()
                for _one in range(BATCH):
                    fast_lane.answer(b"POST", fast_lane.ROUTE, sent, body, "http")
                mine = time.thread_time_ns() - thread
                if on:
                    from opentelemetry import trace

                    trace.get_tracer_provider().force_flush()  # type: ignore[attr-defined]
                taken[kind].append((mine / BATCH / 1000, (time.process_time_ns() - whole) / BATCH / 1000))
    print("| traces | µs of CPU a route, the request | all of it |\n| --- | --- | --- |")
    for kind, found in taken.items():
        request, everything = (statistics.median(column) for column in zip(*found, strict=True))
        print(f"| {kind} | {request:.1f} | {everything:.1f} |")
    off = [one for one, _all in taken["off"]]
    for kind in list(kinds)[1:]:
        more = [one - base for (one, _all), base in zip(taken[kind], off, strict=True)]
        spread = statistics.quantiles(more, n=20)
        print(f"{kind}, above off: {statistics.median(more):.1f} ({spread[0]:.1f} to {spread[-1]:.1f})")


if __name__ == "__main__":
    main()
