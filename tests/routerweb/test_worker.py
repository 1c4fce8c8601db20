"""A process of the web server ends without losing a request: its clients are told to close their connections first."""

import asyncio
import json
import os
import shutil
import signal
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from routerweb.serving import client_limits
from routerweb.serving.client_limits import ClientLimits
from tests.routerweb.test_server import Server, prepared  # noqa: F401
from tests.waiting import until

pytestmark = pytest.mark.any_database
CLIENTS = 12


@pytest.fixture
def server(tmp_path: Path, prepared: tuple[Path, str]) -> Iterator[Server]:  # noqa: F811
    started = Server(Path(shutil.copytree(prepared[0], tmp_path / "installation")), prepared[1])
    yield started
    if started.process.poll() is None:
        os.killpg(started.process.pid, signal.SIGKILL)
        started.process.wait(10)


@dataclass
class KeepAliveClient:
    """Sends one route after another over one connection until an answer closes it."""

    server: Server
    answered: int = 0
    lost: list[str] = field(default_factory=list)
    told: bool = False

    def run(self) -> None:
        """Requests until the connection ends; whatever was sent and not answered is `lost`."""
        host, port = self.server.address.removeprefix("http://").split(":")
        body = json.dumps({"query": "the parcel is late"}).encode()
        sent = (
            f"POST /api/route/ HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {self.server.key}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        ).encode() + body
        with (
            socket.create_connection((host, int(port)), timeout=30) as connection,
            connection.makefile("rb") as answers,
        ):
            while not self.told:
                try:
                    connection.sendall(sent)
                    line = answers.readline()
                    headers = dict(one.lower().split(b":", 1) for one in iter(answers.readline, b"\r\n") if b":" in one)
                    whole = answers.read(int(headers.get(b"content-length", b"0")))
                except OSError as error:
                    self.lost.append(repr(error))
                    return
                if b" 200 " not in line or b'"agents":[1]' not in whole:
                    self.lost.append(repr(line + whole))
                    return
                self.answered += 1
                self.told = headers.get(b"connection", b"").strip() == b"close"


@pytest.mark.at_length
@pytest.mark.process
def test_no_client_that_keeps_its_connection_loses_a_request(server: Server) -> None:
    clients = [KeepAliveClient(server) for _ in range(CLIENTS)]
    running = [threading.Thread(target=client.run) for client in clients]
    for thread in running:
        thread.start()
    until(lambda: all(client.answered > 5 for client in clients), "traffic")
    server.process.terminate()
    for thread in running:
        thread.join(60)
    assert [client.lost for client in clients] == [[]] * CLIENTS
    assert all(client.told for client in clients)
    assert server.process.wait(30) == 0


@pytest.mark.at_length
@pytest.mark.process
def test_a_request_that_is_being_answered_is_answered_to_its_end(server: Server) -> None:
    texts = ["the parcel is late " * 200] * 60
    body = json.dumps({"queries": texts}).encode()
    host, port = server.address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(
            f"POST /api/route/batch/ HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {server.key}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        server.process.terminate()
        received = b""
        while piece := connection.recv(65536):
            received += piece
    assert received.startswith(b"HTTP/1.1 200")
    assert received.count(b'"stop_reason"') == len(texts)
    assert server.process.wait(30) == 0


# --- The middleware alone -----------------------------------------------------------------------------------------


def exchanged(limits: ClientLimits, *messages: Any, headers: Any = (), wait: bool = False) -> list[dict[str, Any]]:
    """What a client gets that sends those messages and, with `wait`, nothing more."""
    sent: list[dict[str, Any]] = []
    coming = iter(messages)

    async def receive() -> dict[str, Any]:
        for message in coming:
            return message
        await asyncio.sleep(3600 if wait else 0)
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {
        "type": "http", "method": "POST", "path": "/", "raw_path": b"/", "query_string": b"", "headers": list(headers)
    }  # fmt: skip
    asyncio.run(limits(scope, receive, send))
    return sent


async def echo(scope: Any, receive: Any, send: Any) -> None:
    message = await receive()
    while message.get("more_body"):
        message = await receive()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"done"})


def test_a_body_that_does_not_come_is_answered_with_408() -> None:
    limits = ClientLimits(echo, body_seconds=0.01, answer_seconds=1)
    piece = {"type": "http.request", "body": b"x", "more_body": True}
    start, body = exchanged(limits, piece, wait=True)
    assert start["status"] == 408
    assert client_limits.CLOSE in start["headers"]
    assert b"too long" in body["body"]


def test_a_head_over_the_limit_is_answered_with_431() -> None:
    limits = ClientLimits(echo, body_seconds=1, answer_seconds=1)
    whole = {"type": "http.request", "body": b"", "more_body": False}
    most = client_limits.MAX_HEAD_BYTES - len("POST / HTTP/1.1\r\nx: \r\n\r\n")
    assert exchanged(limits, whole, headers=[(b"x", b"y" * most)])[0]["status"] == 200
    assert exchanged(limits, whole, headers=[(b"x", b"y" * (most + 1))])[0]["status"] == 431


def test_once_it_ends_every_answer_closes_its_connection() -> None:
    limits = ClientLimits(echo, body_seconds=1, answer_seconds=1)
    whole = {"type": "http.request", "body": b"", "more_body": False}
    assert exchanged(limits, whole)[0]["headers"] == []
    asyncio.run(limits.end(quiet_seconds=0, seconds=1))
    assert exchanged(limits, whole)[0]["headers"] == [client_limits.CLOSE]
