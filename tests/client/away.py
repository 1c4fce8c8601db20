"""Servers that are away, each in its own way, on a port of this machine; `tried` counts who connected."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Away:
    """`url` is where nobody answers. `answer`, once set, is sent in place of what the server did until then, when `may_answer`."""

    url: str
    tried: int = 0
    answer: bytes = b""
    may_answer: threading.Event = field(default_factory=threading.Event)
    held: list[socket.socket] = field(default_factory=list)


def hangs(_connection: socket.socket) -> None:
    """Takes the request and says nothing."""


def refuses(connection: socket.socket) -> None:
    """Closes the connection."""
    connection.close()


def is_busy(connection: socket.socket) -> None:
    """503."""
    connection.sendall(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
    connection.close()


def stops_halfway(connection: socket.socket) -> None:
    """A head and the beginning of a body."""
    connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 200\r\n\r\n{"agents"')


def drips(connection: socket.socket) -> None:
    """A byte of the body now and then."""
    stops_halfway(connection)
    while True:
        time.sleep(0.05)
        connection.sendall(b" ")


def drips_its_head(connection: socket.socket) -> None:
    """A byte of the head now and then."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    while True:
        time.sleep(0.05)
        connection.sendall(b"x")


WAYS = (hangs, refuses, is_busy, stops_halfway, drips, drips_its_head)


@contextmanager
def server(way: Callable[[socket.socket], None]) -> Iterator[Away]:
    """A server that is away in that way, until it is given an answer."""
    listening = socket.create_server(("127.0.0.1", 0))
    away = Away(f"http://127.0.0.1:{listening.getsockname()[1]}")

    away.may_answer.set()

    def serve() -> None:
        while True:
            try:
                connection, _address = listening.accept()
            except OSError:
                return
            away.tried += 1
            away.held.append(connection)
            threading.Thread(target=answer, args=(connection,), daemon=True).start()

    def answer(connection: socket.socket) -> None:
        try:
            connection.recv(65_536)
            if away.answer:
                away.may_answer.wait(60)
                head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(away.answer)}\r\nConnection: close\r\n\r\n"
                connection.sendall(head.encode() + away.answer)
                connection.close()
            else:
                way(connection)
        except OSError:
            return

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield away
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        for connection in away.held:
            connection.close()
        thread.join(10)
