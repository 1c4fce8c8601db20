"""The real web server against clients that withhold, drip, flood or do not read: routes and pages are answered beside them."""

import http.client
import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.http import stored as stored_by_kind
from tests.routerweb.test_server import KEPT, Server, prepared, python  # noqa: F401
from tests.waiting import until

pytestmark = [pytest.mark.process, pytest.mark.any_database]

SHORT = {"BODY_SECONDS": "3", "ANSWER_SECONDS": "3", "KEEP_ALIVE_SECONDS": "3"}
#: Of each kind; more than a server has threads for requests.
HANGING = 20
SIGN_IN = """
import django
django.setup()
from django.contrib.auth.models import Group, User
from django.test import Client
from django.conf import settings
user = User.objects.create_superuser("admin", "admin@example.com", "secret")
browser = Client()
browser.force_login(user)
print(browser.cookies[settings.SESSION_COOKIE_NAME].value)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, prepared: tuple[Path, str]) -> Path:  # noqa: F811
    return Path(shutil.copytree(prepared[0], tmp_path_factory.mktemp("hanging") / "installation"))


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The server's temporary folder."""
    return tmp_path_factory.mktemp("temporary")


@pytest.fixture(scope="module")
def server(folder: Path, stored: Path, prepared: tuple[Path, str]) -> Iterator[Server]:  # noqa: F811
    started = Server(folder, prepared[1], TMPDIR=str(stored), **SHORT)
    yield started
    os.killpg(started.process.pid, signal.SIGKILL)
    started.process.wait(10)


def connect(server: Server) -> socket.socket:
    host, port = server.address.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=20)


def head(path: str, *headers: str, method: str = "POST") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", *headers, "", ""]).encode()


def answer(connection: socket.socket) -> http.client.HTTPResponse:
    found = http.client.HTTPResponse(connection)
    found.begin()
    return found


def status(server: Server, sent: bytes) -> int:
    """The status of the answer to what is sent, the connection left open until it is there."""
    with connect(server) as connection:
        connection.sendall(sent)
        return answer(connection).status


def taken(connection: socket.socket, piece: bytes, most: int = 100_000_000) -> int:
    """How many bytes, of pieces sent one after another, go out before the server ends the connection; at most `most`."""
    sent = 0
    try:
        while sent < most:
            sent += connection.send(piece)
    except (BrokenPipeError, ConnectionResetError):
        pass
    return sent


LOGIN = ("/login/", "Cookie: csrftoken=" + "a" * 32, "Content-Type: application/x-www-form-urlencoded")
API = ("/api/decisions/outcomes/", "Content-Type: application/json")
ROUTE = ("/api/route/", "Content-Type: application/json")


@pytest.mark.at_length
def test_routes_and_pages_are_answered_while_others_hang(server: Server) -> None:
    hanging = []
    for address in (LOGIN, API, ROUTE):
        for _ in range(HANGING):
            partial, withheld, unread = connect(server), connect(server), connect(server)
            partial.sendall(head(*address)[:30])
            withheld.sendall(head(*address, "Content-Length: 1000") + b"x")
            unread.sendall(head(address[0], method="GET") * 8)
            hanging += [partial, withheld, unread]
    for _ in range(20):
        assert server.route("the parcel is late")["agents"] == [1]
    assert status(server, head("/login/", method="GET")) == 200
    assert status(server, head("/api/health/", method="GET")) == 200
    for connection in hanging:
        connection.close()


@pytest.mark.at_length
def test_a_dripping_body_does_not_gain_time(server: Server) -> None:
    with connect(server) as connection:
        connection.sendall(head(*LOGIN, "Content-Length: 1000"))
        began = time.monotonic()
        connection.settimeout(0.3)
        received = b""
        while not received and time.monotonic() - began < 30:
            connection.sendall(b"x")
            try:
                received = connection.recv(1000)
            except TimeoutError:
                continue
        assert received.startswith(b"HTTP/1.1 408")


@pytest.mark.at_length
def test_a_head_that_stays_partial_is_ended_and_an_idle_connection_too(server: Server) -> None:
    with connect(server) as partial, connect(server) as idle, connect(server) as kept:
        partial.sendall(b"GET / HTTP/1.1\r\nHost:")
        kept.sendall(head("/api/health/", method="GET"))
        first = answer(kept)
        first.read()
        assert first.status == 200
        kept.sendall(b"GET / HTTP/1.1\r\nHost:")
        assert partial.recv(1) == b""
        assert idle.recv(1) == b""
        assert kept.recv(1) == b""


def connected(server: Server, connection: socket.socket) -> bool:
    """Whether the kernel still has the server's end of a connection."""
    local, remote = (f":{port:04X}" for port in (int(server.address.rsplit(":", 1)[1]), connection.getsockname()[1]))
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    return any(line.split()[1].endswith(local) and line.split()[2].endswith(remote) for line in lines)


@pytest.mark.at_length
@pytest.mark.skipif(sys.platform != "linux", reason="looks for the connection in /proc, which only Linux has")
def test_a_connection_whose_answer_is_not_read_is_dropped(server: Server) -> None:
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        host, port = server.address.removeprefix("http://").split(":")
        connection.connect((host, int(port)))
        connection.sendall(head("/api/schema/", method="GET") * 50)  # more than the kernel's buffers hold
        until(lambda: not connected(server, connection), "the connection's end", seconds=60)


def test_a_head_without_end_is_refused(server: Server) -> None:
    with connect(server) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nX: ")
        assert taken(connection, b"x" * 10_000) < 10_000_000


def test_a_head_over_the_limit_is_refused_with_431_and_one_below_it_is_read(server: Server) -> None:
    assert status(server, head("/api/health/", "X-Long: " + "x" * 63_000, method="GET")) == 200
    assert status(server, head("/api/health/", "X-Long: " + "x" * 66_000, method="GET")) == 431
    assert status(server, head("/api/health/", *[f"X-{n}: {'x' * 900}" for n in range(75)], method="GET")) == 431


def test_a_request_that_offers_http_2_is_answered_as_any_other(server: Server) -> None:
    """Java's client offers the upgrade with each request over plain http."""
    body = b'{"query": "the parcel is late"}'
    offer = (
        "Connection: Upgrade, HTTP2-Settings",
        "Upgrade: h2c",
        "HTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA",
    )
    sent = head(*ROUTE, f"Authorization: Bearer {server.key}", f"Content-Length: {len(body)}", *offer) + body
    with connect(server) as connection:
        for _ in range(2):
            connection.sendall(sent)
            routed = answer(connection)
            assert routed.status == 200
            assert b'"agents":[1]' in routed.read()


def test_framing_without_content_is_refused(server: Server) -> None:
    with connect(server) as connection:
        connection.sendall(head(*LOGIN, "Transfer-Encoding: chunked"))
        assert taken(connection, (b"1;" + b"x" * 1_000 + b"\r\nx\r\n") * 10) < 10_000_000


@pytest.mark.parametrize("address", ["/login/", "/password/reset/", "/p/support/import/", "/nothing/"])
def test_nothing_is_stored_of_what_nobody_known_uploads(server: Server, stored: Path, address: str) -> None:
    with connect(server) as connection:
        connection.sendall(
            head(address, "Content-Type: multipart/form-data; boundary=b", "Content-Length: 10000000000")
        )
        assert answer(connection).status == 413
    with connect(server) as connection:
        connection.sendall(head(address, "Content-Type: multipart/form-data; boundary=b", "Transfer-Encoding: chunked"))
        assert taken(connection, b"10000\r\n" + b"x" * 0x10000 + b"\r\n") < 100_000_000
    assert list(stored.iterdir()) == []


def test_an_unknown_key_sends_no_large_body(server: Server) -> None:
    for address in ("/api/route/", "/api/route/batch/"):
        sent = head(
            address, "Authorization: Bearer rw_made_up", "Content-Type: application/json", "Content-Length: 20000000"
        )
        assert status(server, sent) == 401


def test_a_key_sends_a_large_batch_and_no_larger_one(server: Server) -> None:
    mine = ("/api/route/batch/", f"Authorization: Bearer {server.key}", "Content-Type: application/json")
    body = b'{"queries": [' + b", ".join([b'"' + b"the parcel is late " * 500 + b'"'] * 30) + b"]}"
    assert status(server, head(*mine, f"Content-Length: {len(body)}") + body) == 200
    assert status(server, head(*mine, "Content-Length: 30000000")) == 413


@pytest.mark.at_length
def test_batches_whose_clients_left_are_not_routed(folder: Path, prepared: tuple[Path, str]) -> None:  # noqa: F811
    """Three of the largest, sent at once: the first stops where it is, the others wait for their turn and never begin."""
    server = Server(folder, prepared[1])
    try:
        queries = b", ".join([b'"' + b"the parcel is late " * 50 + b'"'] * 1_000)
        body = b'{"queries": [' + queries + b"]}"
        mine = (f"Authorization: Bearer {server.key}", "Content-Type: application/json")
        sent = head("/api/route/batch/", *mine, f"Content-Length: {len(body)}") + body
        clients = [connect(server) for _ in range(3)]
        for client in clients:
            client.sendall(sent)
        for client in clients:
            client.close()
        before = int(python(folder, "-c", KEPT))
        with connect(server) as connection:  # the same key's batches are routed one after another
            connection.sendall(head("/api/route/batch/", *mine, "Content-Length: 18") + b'{"queries": ["x"]}')
            answer(connection).read()
        assert server.route("the parcel is late")["agents"] == [1]
    finally:
        os.killpg(server.process.pid, signal.SIGTERM)
        server.process.wait(30)
    assert int(python(folder, "-c", KEPT)) - before < 1_000


@pytest.mark.at_length
def test_a_signed_in_person_uploads_where_a_form_takes_a_file(server: Server, stored: Path) -> None:
    session = python(server.folder, "-c", SIGN_IN)
    mine = (f"Cookie: sessionid={session}", "Content-Type: multipart/form-data; boundary=b")
    assert status(server, head("/p/support/labels/", *mine, "Content-Length: 100000000")) == 413
    assert status(server, head("/p/support/import/", *mine, "Content-Length: 1000000000")) == 413
    with connect(server) as connection:
        connection.sendall(head("/p/support/import/", *mine, "Content-Length: 40000000") + b"x" * 1_000_000)
        deadline = time.monotonic() + 20
        while not any_stored(server) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert any_stored(server)
    deadline = time.monotonic() + 20
    while any_stored(server) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any_stored(server), "it is gone with its connection"
    assert list(stored.iterdir()) == []


def any_stored(server: Server) -> bool:
    """Whether the server holds a temporary file; such a one has no name any more."""
    links = [link for pid in server.workers() for link in Path(f"/proc/{pid}/fd").iterdir()]
    found = []
    for link in links:
        try:
            found.append(os.readlink(link))
        except FileNotFoundError:
            continue
    return any("temporary" in name and "(deleted)" in name for name in found)


@pytest.mark.at_length
@pytest.mark.parametrize("kind", stored_by_kind.KINDS)
def test_a_client_that_nobody_knows_makes_the_server_keep_little(
    server: Server, stored: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_by_kind, "SETTLED_SECONDS", 0.5)
    count, port = 20, int(server.address.rsplit(":", 1)[1])
    stored_by_kind.crowd(server.process.pid, stored, port, stored_by_kind.KINDS[kind], 4)
    before = stored_by_kind.held(server.process.pid, stored)
    beside, _after = stored_by_kind.crowd(server.process.pid, stored, port, stored_by_kind.KINDS[kind], count)
    assert (beside.files - before.files) / count < 200
    assert (beside.memory - before.memory) / count < 1_000


def test_answers_come_in_the_order_of_requests_sent_at_once(server: Server) -> None:
    one = b'{"query": "the parcel is late"}'
    route = head(*ROUTE, f"Authorization: Bearer {server.key}", f"Content-Length: {len(one)}") + one
    with connect(server) as connection:
        connection.sendall(route + head("/api/health/", method="GET") + route)
        received = b""
        while received.count(b'"stop_reason"') < 2:
            piece = connection.recv(65536)
            assert piece, received
            received += piece
    first, health, last = received.split(b"HTTP/1.1 200 OK")[1:]
    assert b'"agents":[1]' in first
    assert b'"status"' in health
    assert b'"agents":[1]' in last


@pytest.mark.at_length
@pytest.mark.parametrize("lane", ["0", "1"])
def test_odd_requests_are_answered_the_same_with_and_without_the_fast_lane(
    folder: Path,
    prepared: tuple[Path, str],  # noqa: F811
    lane: str,
) -> None:
    server = Server(folder, prepared[1], FAST_LANE=lane, **SHORT)
    try:
        mine = (f"Authorization: Bearer {server.key}", "Content-Type: application/json")
        body = b'{"query": "the parcel is late"}'
        whole = (*mine, f"Content-Length: {len(body)}")
        assert server.route("the parcel is late")["agents"] == [1]
        assert status(server, head("/api/route/", *whole, "Expect: 100-continue") + body) == 200
        chunked = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
        assert status(server, head("/api/route/", *mine, "Transfer-Encoding: chunked") + chunked) == 200
        assert status(server, head("/api/route/?x=1", *whole) + body) == 422
        assert status(server, head("/api/route/", *whole, "Authorization: Bearer x") + body) == 401
        assert status(server, head("/api/route/", method="GET")) == 405
        assert status(server, head("/api/route/", *mine, "Content-Length: 2") + b"[]") == 400
    finally:
        os.killpg(server.process.pid, signal.SIGKILL)
        server.process.wait(10)
