"""How routes fare beside clients that hang; see README.md beside this file.

In turns on one server: some routes alone, then as many beside connections that withhold, drip or do not read, on pages and on the API.
"""

import argparse
import http.client
import itertools
import json
import os
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from benchmarks.http.run import ROOT, wait_until_it_answers

#: After so long all that was asked is answered, as far as the clients read, and they do nothing but hang.
SETTLED_SECONDS = 5.0
KINDS = ("partial head", "withheld body", "dripping body", "unread answer")
PAGE = ("/login/", "application/x-www-form-urlencoded", "Cookie: csrftoken=" + "a" * 32)
CALL = ("/api/outcomes/", "application/json", "Authorization: Bearer rw_made_up")


def hang(port: int, kind: str, address: tuple[str, str, str]) -> socket.socket:
    """A connection that does what its kind does."""
    path, media, header = address
    connection = socket.socket()
    if kind == "unread answer":
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    connection.connect(("127.0.0.1", port))
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {media}\r\n{header}\r\nContent-Length: 5000\r\n\r\n"
    )
    if kind == "partial head":
        connection.sendall(head[:40].encode())
    elif kind == "unread answer":
        read = "/login/" if address is PAGE else "/api/schema/"
        connection.sendall(f"GET {read} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    else:
        connection.sendall(head.encode() + b"a=")
    return connection


@contextmanager
def hanging(port: int, each: int) -> Iterator[int]:
    """So many connections of each kind, on pages and on the API, for as long as the block lasts; yields how many in all."""
    opened: dict[str, list[socket.socket]] = {kind: [] for kind in KINDS}
    for kind, address, _ in itertools.product(KINDS, (PAGE, CALL), range(each)):
        opened[kind].append(hang(port, kind, address))
    ended = threading.Event()

    def drip() -> None:
        """A byte of each connection's every half second, as clients that know nothing of each other would send them."""
        for connection in itertools.cycle(opened["dripping body"]):
            if ended.wait(0.5 / len(opened["dripping body"])):
                return
            with suppress(OSError):
                connection.send(b"x")

    dripping = threading.Thread(target=drip)
    dripping.start()
    try:
        yield sum(map(len, opened.values()))
    finally:
        ended.set()
        dripping.join()
        for connection in itertools.chain(*opened.values()):
            connection.close()


def routes(port: int, key: str, bodies: Iterator[bytes], count: int) -> tuple[list[float], int]:
    """Milliseconds of so many routes one after another, and how many failed."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    taken, failed = [], 0
    for body in itertools.islice(bodies, count):
        began = time.perf_counter()
        try:
            connection.request("POST", "/api/route/", body, headers)
            answer = connection.getresponse()
            answer.read()
            failed += answer.status != 200
        except OSError:
            failed += 1
            connection.close()
        taken.append((time.perf_counter() - began) * 1000)
    connection.close()
    return taken, failed


def main() -> None:
    """Start the server, measure it in turns, print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", required=True, help='a JSONL file whose lines hold "text"')
    parser.add_argument("--key", required=True, help="an API key with the scope route")
    parser.add_argument(
        "--each", type=int, default=200, help="connections of each kind, on pages and on the API (default 200)"
    )
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument(
        "--routes", type=int, default=1000, help="routes with and without, in all rounds (default 1000)"
    )
    parser.add_argument("--port", type=int, default=8765)
    options = parser.parse_args()
    texts = [json.loads(line)["text"] for line in Path(options.queries).read_text("utf-8").splitlines() if line.strip()]
    bodies = itertools.cycle([json.dumps({"query": text}).encode() for text in texts])
    environment = {**os.environ, "PORT": str(options.port), "OPENBLAS_NUM_THREADS": "1"}
    server = subprocess.Popen([sys.executable, "-m", "routerweb.serving.server"], env=environment, cwd=ROOT)
    try:
        wait_until_it_answers(server, f"http://127.0.0.1:{options.port}")
        alone: list[float] = []
        beside: list[float] = []
        failures, count = 0, options.routes // options.rounds
        routes(options.port, options.key, bodies, 200)
        for _ in range(options.rounds):
            taken, failed = routes(options.port, options.key, bodies, count)
            alone, failures = alone + taken, failures + failed
            with hanging(options.port, options.each) as connections:
                time.sleep(SETTLED_SECONDS)
                taken, failed = routes(options.port, options.key, bodies, count)
                beside, failures = beside + taken, failures + failed
            time.sleep(1)
        print("| routes | median ms | slowest ms |\n| --- | --- | --- |")
        print(f"| {len(alone)} alone | {statistics.median(alone):.2f} | {max(alone):.1f} |")
        print(f"| {len(beside)} beside {connections} that hang | {statistics.median(beside):.2f} | {max(beside):.1f} |")
        print(f"failed: {failures}; slowest beside against slowest alone: {max(beside) / max(alone):.2f}")
    finally:
        server.terminate()
        server.wait(timeout=20)


if __name__ == "__main__":
    main()
