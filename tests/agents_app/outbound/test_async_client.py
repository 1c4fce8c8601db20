"""The asynchronous client: guarded like the other one, and what it says of each way in which a call fails."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import httpcore
import pytest

from agents_app.outbound import async_client, guard
from agents_app.outbound.async_client import CallFault, Client, HttpReply
from tests.agents_app.outbound.test_outbound import dripping, names, nothing_listed  # noqa: F401

pytestmark = pytest.mark.any_database


def post(
    *urls: str, headers: dict[str, str] | None = None, seconds: float = 5.0, most_bytes: int = 10_000
) -> list[Any]:
    """The answers to one post after another with one client; an exception of the last is raised."""

    async def call() -> list[HttpReply]:
        client = Client()
        try:
            return [
                await client.post(url, b"{}", headers or {}, seconds=seconds, most_bytes=most_bytes) for url in urls
            ]
        finally:
            await client.close()

    return asyncio.run(call())


@pytest.fixture
def server() -> Iterator[Callable[..., tuple[str, list[bytes]]]]:
    """Starts a server that answers each request with the same bytes; returns its address and what it was sent, a request each.

    It serves one connection after another, each as long as the client keeps it, or until its answer without `keep`.
    """
    listening: list[socket.socket] = []

    def start(answer: bytes, *, keep: bool = False) -> tuple[str, list[bytes]]:
        inside = socket.create_server(("127.0.0.1", 0))
        listening.append(inside)
        received: list[bytes] = []

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    with inside.accept()[0] as stream:
                        while sent := stream.recv(100_000):
                            received.append(sent)
                            stream.sendall(answer)
                            if not keep:
                                break

        threading.Thread(target=serve, daemon=True).start()
        return f"http://127.0.0.1:{inside.getsockname()[1]}/", received

    yield start
    for one in listening:
        one.close()


@pytest.fixture
def here(settings: Any) -> None:
    settings.INTERNAL_HOSTS = ("127.0.0.1",)


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-One: 1\r\n\r\n{}"


@pytest.mark.usefixtures("here")
def test_a_post_and_its_answer(server: Any) -> None:
    address, received = server(OK, keep=True)
    first, second = post(f"{address}hook?token=1", f"{address}hook?token=1", headers={"X-Two": "2"})
    assert (first.status, first.body, first.headers["x-one"]) == (200, b"{}", "1")
    assert first == second
    assert b"POST /hook?token=1 HTTP/1.1\r\n" in received[0]
    assert b"X-Two: 2\r\n" in received[0]
    assert b"Accept-Encoding: identity\r\n" in received[0]


@pytest.mark.usefixtures("here")
def test_a_redirect_is_an_answer_and_not_followed(server: Any) -> None:
    target, reached = server(OK)
    address, _received = server(f"HTTP/1.1 302 Found\r\nLocation: {target}\r\nContent-Length: 0\r\n\r\n".encode())
    assert post(address)[0].status == 302
    assert reached == []


def test_the_name_is_resolved_once_and_the_checked_address_is_connected_to(
    names: Any,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked, connected = names(["1.1.1.1"], ["127.0.0.1"]), []

    async def connect(self: Any, host: str, port: int, *_more: Any) -> None:
        connected.append((host, port))
        raise httpcore.ConnectError("not today")

    monkeypatch.setattr(httpcore.AnyIOBackend, "connect_tcp", connect)
    with pytest.raises(CallFault, match="not today") as fault:
        post("https://example.com/hook")
    assert fault.value.kind == "unreachable"
    assert (asked, connected) == (["example.com"], [("1.1.1.1", 443)])


def test_a_name_that_leads_inside_is_never_connected_to(names: Any, settings: Any) -> None:  # noqa: F811
    asked = names(["127.0.0.1"])
    with socket.create_server(("127.0.0.1", 0)) as inside:
        inside.settimeout(0)
        with pytest.raises(guard.Refused):
            post(f"https://harmless.example.com:{inside.getsockname()[1]}/")
        with pytest.raises(BlockingIOError):
            inside.accept()
    assert asked == ["harmless.example.com"]


def test_a_name_that_moves_inside_between_two_calls_is_looked_up_again(
    names: Any,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names(["1.1.1.1"], ["127.0.0.1"])
    monkeypatch.setattr(async_client, "FRESH_SECONDS", -1.0)

    async def connect(self: Any, host: str, *_more: Any) -> None:
        assert host == "1.1.1.1"
        raise httpcore.ConnectError("not today")

    monkeypatch.setattr(httpcore.AnyIOBackend, "connect_tcp", connect)

    async def twice() -> None:
        client = Client()
        with pytest.raises(CallFault):
            await client.post("https://example.com/", b"{}", {}, seconds=5, most_bytes=10)
        with pytest.raises(guard.Refused):
            await client.post("https://example.com/", b"{}", {}, seconds=5, most_bytes=10)
        await client.close()

    asyncio.run(twice())


@pytest.mark.parametrize(
    "url", ["http://example.com/", "ftp://example.com/", "https://me@example.com/", "https://10.0.0.1/"]
)
def test_an_address_that_is_not_allowed_is_refused(url: str) -> None:
    with pytest.raises(guard.Refused):
        post(url)


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (b"", "cut_off"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx", "cut_off"),
        (b"no HTTP\r\n\r\n", "malformed"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 20000\r\n\r\n" + b"x" * 20_000, "too_large"),
        (b"HTTP/1.1 200 OK\r\n" + b"X-More: yes\r\n" * 20_000, "too_large"),
    ],
)
def test_an_answer_that_is_not_whole(server: Any, answer: bytes, kind: str) -> None:
    with pytest.raises(CallFault) as fault:
        post(server(answer)[0])
    assert fault.value.kind == kind


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("value", ["a\r\nX-Other: b", "a\nb", "\u20ac"])
def test_a_header_that_http_cannot_carry(server: Any, value: str) -> None:
    address, received = server(OK)
    with pytest.raises(CallFault) as fault:
        post(address, headers={"X-One": value})
    assert (fault.value.kind, received) == ("refused", [])


@pytest.mark.usefixtures("here")
def test_a_server_that_is_not_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    with pytest.raises(CallFault) as fault:
        post(f"http://127.0.0.1:{port}/")
    assert fault.value.kind == "unreachable"


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("begins", [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9000\r\n\r\n"])
def test_one_deadline_holds_for_the_whole_call(dripping: Any, begins: bytes) -> None:  # noqa: F811
    drop = b"X-More: yes\r\n" if begins.endswith(b"OK\r\n") else b"x" if begins else b""
    with pytest.raises(CallFault) as fault:
        post(dripping(begins, drop), seconds=0.3)
    assert fault.value.kind == "timeout"


def test_a_name_that_is_never_resolved_is_given_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_given, **_more: over.wait(60) and [])
    monkeypatch.setattr(guard, "SECONDS", 0.2)
    try:
        with pytest.raises(CallFault) as fault:
            post("https://example.com/", seconds=0.1)
        assert fault.value.kind == "unreachable"
    finally:
        over.set()
