"""What a worker of the web server listens with."""

import asyncio
import socket

import pytest
from uvicorn import Config

from routerweb import listening, memory, worker

pytestmark = pytest.mark.any_database


def test_a_piece_of_an_answer_waits_for_no_acknowledgement(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nagle's algorithm would hold a body back until the client has acknowledged the head, which it does after 40 ms."""
    monkeypatch.setattr(listening, "PORT", 0)
    monkeypatch.setattr(listening, "LISTEN_HOST", "127.0.0.1")

    async def accepted() -> int:
        loop = asyncio.get_running_loop()
        seen: asyncio.Future[int] = loop.create_future()

        class Looking(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                found = transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
                seen.set_result(found)
                transport.close()

        server = await loop.create_server(Looking, sock=worker.listen())
        _reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
        try:
            return await seen
        finally:
            writer.close()
            server.close()

    assert asyncio.run(accepted())


def test_what_a_crowd_held_is_given_back_once_it_has_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    given_back: list[int] = []
    monkeypatch.setattr(memory, "give_back", lambda: given_back.append(now_open))
    server, now_open = worker.Worker(Config(app=lambda: None)), 0

    async def through(*crowd: int) -> None:
        nonlocal now_open
        for now_open in crowd:
            server.tidy(now_open)
            await asyncio.get_running_loop().run_in_executor(
                None, int
            )  # after which what began before it is done or waits
        await asyncio.get_running_loop().shutdown_default_executor()

    asyncio.run(through(3, worker.MANY_CONNECTIONS - 1, 0))
    assert given_back == [], "a few connections are not worth it"
    asyncio.run(through(worker.MANY_CONNECTIONS, 30, 20, 10, 0))
    assert len(given_back) == 1
