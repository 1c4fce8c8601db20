"""What clients that nobody knows make the server hold, a connection; see README.md beside this file.

Many connections of each kind send as much as the server takes and hang, in rounds. Its memory, its temporary files and the kernel's
buffers are read before, beside them and once they are closed: what a round left behind would grow with the next.
"""

import argparse
import itertools
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from benchmarks.http.run import ROOT, megabytes, processes, wait_until_it_answers

PAGE = ("/login/", "Content-Type: application/x-www-form-urlencoded", "Cookie: csrftoken=" + "a" * 32)
FILE = ("/login/", "Content-Type: multipart/form-data; boundary=b", "Cookie: csrftoken=" + "a" * 32)
CALL = ("/api/outcomes/", "Content-Type: application/json", "Authorization: Bearer rw_made_up")
#: So much of each kind is sent, as far as the server reads it: far more than it should keep.
SENT = 4_000_000
#: After so long the server has read what it reads, and waits.
SETTLED_SECONDS = 3.0


class Held(NamedTuple):
    """What a server holds, in kB: resident memory, temporary files, and the kernel's buffers of all sockets on the machine."""

    memory: float
    files: float
    kernel: float


def head(address: tuple[str, ...], *headers: str, method: str = "POST") -> bytes:
    """A request's head."""
    return "\r\n".join([f"{method} {address[0]} HTTP/1.1", "Host: 127.0.0.1", *address[1:], *headers, "", ""]).encode()


KINDS: dict[str, Callable[[tuple[str, ...]], bytes]] = {
    "head of 60 kB, not ended": lambda to: head(to, "X-Long: " + "x" * 60_000)[:-4],
    "body of 60 kB, one byte withheld": lambda to: head(to, "Content-Length: 60001") + b"x" * 60_000,
    "body of 4 MB announced": lambda to: head(to, f"Content-Length: {SENT + 1}") + b"x" * SENT,
    "chunks without end": lambda to: (
        head(to, "Transfer-Encoding: chunked") + (b"2000\r\n" + b"x" * 0x2000 + b"\r\n") * (SENT // 0x2000)
    ),
    "bytes dripping in chunks": lambda to: head(to, "Transfer-Encoding: chunked") + b"1\r\nx\r\n" * 2_000,
    "requests ahead, answers not read": lambda to: head(("/login/",), method="GET") * 16,
}


def hang(port: int, sent: bytes) -> socket.socket:
    """A connection that has sent as much of that as the server and the kernel took within a moment, and reads nothing."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)  # what waits on this side is not the server's
    connection.connect(("127.0.0.1", port))
    connection.settimeout(0.05)
    with suppress(OSError):
        connection.sendall(sent)
    return connection


def held(pid: int, folder: Path) -> Held:
    """What the server and its processes hold now. A temporary file may have no name any more."""
    files = {file.stat().st_ino: file.stat().st_size for file in folder.rglob("*") if file.is_file()}
    for link in (link for one in processes(pid) for link in Path(f"/proc/{one}/fd").iterdir()):
        with suppress(OSError):
            if os.readlink(link).startswith(str(folder)):
                files[link.stat().st_ino] = link.stat().st_size
    words = next(
        line for line in Path("/proc/net/sockstat").read_text().splitlines() if line.startswith("TCP:")
    ).split()
    pages = int(words[words.index("mem") + 1])
    return Held(sum(megabytes(pid)) * 1024, sum(files.values()) / 1024, pages * os.sysconf("SC_PAGE_SIZE") / 1024)


def main() -> None:
    """Measure each kind, on a server of its own, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--each", type=int, default=200, help="connections of each kind, half on pages (default 200)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--port", type=int, default=8765)
    options = parser.parse_args()
    print("| kind | memory, kB a connection | files | kernel | left when closed: memory | files |")
    print("| --- | --- | --- | --- | --- | --- |")
    for kind, made in KINDS.items():
        with tempfile.TemporaryDirectory() as name:
            environment = {**os.environ, "PORT": str(options.port), "TMPDIR": name}
            # Else the first are ended while the last are opened, on a busy machine.
            environment |= {"KEEP_ALIVE_SECONDS": "60", "BODY_SECONDS": "60", "ANSWER_SECONDS": "60"}
            server = subprocess.Popen([sys.executable, "-m", "routerweb.serving.server"], env=environment, cwd=ROOT)
            try:
                wait_until_it_answers(server, f"http://127.0.0.1:{options.port}")
                most, left = measured(server.pid, Path(name), made, options)
            finally:
                server.terminate()
                server.wait(timeout=20)
        figures = [*most, left.memory, left.files]
        print(f"| {kind} | {' | '.join(f'{one / options.each:.0f}' for one in figures)} |", flush=True)


def measured(
    pid: int, folder: Path, made: Callable[[tuple[str, ...]], bytes], options: argparse.Namespace
) -> tuple[Held, Held]:
    """(what the server holds most in any round, what it holds after the last) beyond what it held when everything was loaded."""
    crowd(pid, folder, options.port, made, options.each // 10)
    began = held(pid, folder)
    rounds = [crowd(pid, folder, options.port, made, options.each) for _ in range(options.rounds)]
    most = Held(*(max(values) for values in zip(*(beside for beside, _after in rounds), strict=True)))
    return _beyond(most, began), _beyond(rounds[-1][1], began)


def crowd(pid: int, folder: Path, port: int, made: Callable[[tuple[str, ...]], bytes], count: int) -> tuple[Held, Held]:
    """What the server holds beside so many connections, and once they are closed."""
    places = itertools.cycle((PAGE, CALL, FILE, CALL))
    opened = [hang(port, made(address)) for _number, address in zip(range(count), places, strict=False)]
    time.sleep(SETTLED_SECONDS)
    beside = held(pid, folder)
    for connection in opened:
        connection.close()
    time.sleep(SETTLED_SECONDS)
    return beside, held(pid, folder)


def _beyond(now: Held, then: Held) -> Held:
    return Held(*(a - b for a, b in zip(now, then, strict=True)))


if __name__ == "__main__":
    main()
