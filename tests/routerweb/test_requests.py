"""Ids of requests, the access log, and the templates that requests are counted by."""

import asyncio
import io
import json
import logging
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import Any

import pytest

from routerweb.observing import requests
from routerweb.serving.client_limits import Message, Receive, Scope, Send
from routerweb.serving.thread_pools import Threads

pytestmark = pytest.mark.any_database
threads = Threads("test-requests", 1)


def answered(headers: list[tuple[bytes, bytes]], application: Any, path: str = "/p/support/") -> Any:
    """The head of the answer, and what was recorded."""
    sent: list[Message] = []
    recorded: list[requests.Answered] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "http.request"}

    scope = {"type": "http", "method": "GET", "path": path, "headers": headers, "client": ("10.0.0.7", 1)}
    recording = requests.Recorded(application, recorded.append)
    with ThreadPoolExecutor(1) as aside:  # a test that drove the browser leaves an event loop running in this thread
        aside.submit(lambda: asyncio.run(recording(scope, receive, send))).result()
    return (sent[0] if sent else None), recorded


async def fine(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"x-a", b"1")]})
    await send({"type": "http.response.body", "body": b""})


def test_an_id_that_the_caller_sends_comes_back() -> None:
    head, (one,) = answered([(b"x-request-id", b"from-a-proxy.7")], fine)
    assert head["headers"] == [(b"x-a", b"1"), (b"x-request-id", b"from-a-proxy.7")]
    assert (one.request_id, one.status, one.method, one.client) == ("from-a-proxy.7", 200, "GET", "10.0.0.7")


@pytest.mark.parametrize("sent", [b"", b"two words", b"x" * 65, b"line\r\nbreak", "ü".encode()])
def test_any_other_gets_a_new_one(sent: bytes) -> None:
    head, (one,) = answered([(b"x-request-id", sent)], fine)
    assert len(one.request_id) == 32
    assert head["headers"][-1] == (b"x-request-id", one.request_id.encode())


def test_a_client_that_leaves_has_status_0() -> None:
    async def gone(scope: Scope, receive: Receive, send: Send) -> None:
        return

    _head, (one,) = answered([], gone)
    assert one.status == 0


def test_a_log_line_has_the_id_in_the_thread_that_answers() -> None:
    seen: list[str] = []

    def work() -> None:
        record = logging.LogRecord("a", logging.INFO, "", 0, "text", (), None)
        requests.WithRequestID().filter(record)
        seen.append(record.request_id)  # type: ignore[attr-defined]

    async def in_thread(scope: Scope, receive: Receive, send: Send) -> None:
        await threads.run(work)
        await fine(scope, receive, send)

    answered([(b"x-request-id", b"abc")], in_thread)
    threads.executor.submit(work).result()
    assert seen == ["abc", ""]


def test_the_access_log_is_one_line_of_json_without_a_query_string() -> None:
    stream = io.StringIO()
    log = requests.AccessLog(lambda path: "/p/<slug>/", stream)
    log(requests.Answered("abc", "GET", "/p/support/", 200, 0.01234, "10.0.0.7"))
    line = json.loads(stream.getvalue())
    assert line.pop("at").endswith("+00:00")
    assert line == {
        "logger": "access", "request_id": "abc", "method": "GET", "route": "/p/<slug>/", "path": "/p/support/", "status": 200,
        "ms": 12.34, "client": "10.0.0.7",
    }  # fmt: skip


@pytest.fixture
def asgi(db: None) -> Any:
    """The module, which reads the pools when it is loaded."""
    return import_module("routerweb.asgi")


@pytest.mark.parametrize(
    ("path", "template"),
    [
        ("/api/route/", "/api/route/"),
        ("/v1/chat/completions", "/api/v1/chat/completions"),
        ("/api/decisions/123e4567-e89b-12d3-a456-426614174000/", "/api/decisions/<uuid:key>/"),
        ("/api/nothing/", "none"),
        ("/static/routerweb/app.css", "/static/"),
    ],
)
def test_requests_are_counted_by_templates(asgi: Any, path: str, template: str) -> None:
    assert asgi.route_of(path).partition("<")[0] == template.partition("<")[0]


def test_a_page_is_counted_by_its_template(asgi: Any) -> None:
    asgi.wsgi.pages()
    assert asgi.route_of("/p/support/queries/") == asgi.route_of("/p/other/queries/")
    assert "support" not in asgi.route_of("/p/support/queries/")
    assert asgi.route_of("/p/support/no-such-page/") == "none"
