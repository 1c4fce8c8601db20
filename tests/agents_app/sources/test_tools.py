"""Tools of MCP servers: the official server library, in both kinds, and servers that misbehave."""

import contextlib
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import uvicorn

from agents_app.sources import described, tools
from agents_app.sources.described import SourceError

pytestmark = pytest.mark.any_database


@pytest.fixture(autouse=True)
def servers_live_here(settings) -> None:
    settings.INTERNAL_HOSTS = ("127.0.0.1",)


@contextlib.contextmanager
def running(application: Any) -> Iterator[str]:
    server = uvicorn.Server(uvicorn.Config(application, host="127.0.0.1", port=0, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/mcp"
    server.should_exit = True
    thread.join(20)


@pytest.mark.parametrize("options", [{"stateless_http": True}, {"json_response": True}, {}])
@pytest.mark.parametrize("old", [False, True])
def test_the_official_servers_tools_become_one_agent(
    options: dict[str, Any], old: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mcp.server import MCPServer  # only where it is used: each test process imports this file

    made = MCPServer("Weather", instructions="All about weather.")

    @made.tool()
    def forecast(city: str) -> str:
        """Tomorrow's weather."""
        return city

    @made.tool()
    def warn(city: str) -> str:
        """Storms to come."""
        return city

    if old:  # what a server does that knows no discovery

        def refuse(self: Any, method: str, **params: Any) -> Any:
            if method == "server/discover":
                raise tools._Refused
            return call(self, method, **params)

        call = tools._Asking.call
        monkeypatch.setattr(tools._Asking, "call", refuse)
    with running(made.streamable_http_app(**options)) as address:
        said = tools.at(address)
    assert said.name == "Weather"
    assert said.keywords == ("forecast", "warn")
    assert said.description == "All about weather.\nforecast: Tomorrow's weather.\nwarn: Storms to come."
    assert said.examples == ()


class Odd(BaseHTTPRequestHandler):
    """Answers as its class says."""

    status, body, media = 200, b"", "application/json"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(self.status)
        self.send_header("Content-Type", self.media)
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(self.body)

    def log_message(self, *_arguments: object) -> None:
        pass


@pytest.mark.parametrize(
    ("status", "body", "why"),
    [
        (401, b"{}", "requires a key"),
        (500, b"<html>", "does not answer"),
        (200, b"[" * 100_000, "does not answer"),
        (200, b'{"jsonrpc":"2.0","id":null,"result":{"tools":[]}}', "no tools"),
        (200, b'{"jsonrpc":"2.0","id":null,"result":{"tools":[{"name":""},3,{}],"_meta":3}}', "no tools"),
        (200, b" " * (described.MOST_BYTES + 1), "larger than"),
    ],
)
def test_what_misbehaves_is_said(status: int, body: bytes, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Odd, "status", status)
    monkeypatch.setattr(Odd, "body", body)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Odd)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with pytest.raises(SourceError, match=why):
            tools.at(f"http://127.0.0.1:{server.server_port}/mcp")
    finally:
        server.shutdown()
        server.server_close()


def test_an_address_inside_is_not_asked(settings) -> None:
    settings.INTERNAL_HOSTS = ()
    with pytest.raises(SourceError, match="https://"):
        tools.at("http://127.0.0.1:9/mcp")
    with pytest.raises(SourceError, match="not on the internet"):
        tools.at("https://127.0.0.1:9/mcp")
