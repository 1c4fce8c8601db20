"""A server that receives webhooks."""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


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
