"""The runs' pool and people; a server that receives webhooks, and an address that leads to it."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from agents_app.models import Pool
from tests.training_app.runs.conftest import browser, labeled, make_model, ops, person, pool, run, snapshot, told_router  # noqa: F401
from training_app.models import AlarmReceiver
from training_app.watching import deliveries


class Receiver(ThreadingHTTPServer):
    """Keeps what it was sent; answers with `status`, `headers` and `body`."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.got: list[tuple[dict[str, str], bytes]] = []
        self.status, self.headers, self.body = 200, {}, b"thank you"

    @property
    def url(self) -> str:
        return f"http://localhost:{self.server_address[1]}/hook?token=1"

    @property
    def events(self) -> list[str]:
        return [json.loads(body)["event"] for _headers, body in self.got]


class Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append(({**dict(self.headers), "path": self.path}, body))
        self.send_response(self.server.status)
        for name, value in self.server.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(self.server.body)))
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, *_arguments: Any) -> None:
        pass


@pytest.fixture
def receiver(settings: Any) -> Iterator[Receiver]:
    settings.INTERNAL_HOSTS = ("localhost",)
    with Receiver() as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def webhook(receiver: Receiver, pool: Pool, ops: Any) -> AlarmReceiver:  # noqa: F811
    return deliveries.add_receiver(pool, "webhook", receiver.url, ops)
