"""How long a server goes on computing for clients that have left; see README.md beside this file.

Five batches of the largest allowed size are sent at once, each by a client that leaves. From then on the CPU time of the server's
processes is read, until they use none, and the same key's next long route is timed beside its time on an idle server.
"""

import argparse
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from benchmarks.http.run import ROOT, processes, wait_until_it_answers

WORDS = ("refund", "invoice", "parcel", "late", "app", "crashes", "login", "password", "charged", "twice")
RUSSIAN = ("верните", "деньги", "посылка", "опоздала", "приложение", "падает", "пароль", "списали", "дважды", "где")
BATCHES = 5
#: Between two readings of the CPU time, and what of such a stretch an idle server may use.
WINDOW_SECONDS, IDLE_SHARE = 0.05, 0.1
GIVEN_UP_SECONDS = 120.0
COLUMNS = ("one answered", "idle again", "cpu after", "next route", "idle route")


def texts(count: int, characters: int, words: Sequence[str]) -> list[str]:
    """So many made-up queries of that length."""
    chance = random.Random(7)
    return [" ".join(chance.choices(words, k=characters))[:characters] for _ in range(count)]


def bodies() -> dict[str, bytes]:
    """The largest batches, by their names; the last is refused, for all that it holds."""
    talks = [{"messages": [{"role": "user", "content": text}] * 20} for text in texts(1_000, 50, WORDS)]
    made: dict[str, list[object]] = {
        "1,000 queries of 1,000 characters": list(texts(1_000, 1_000, WORDS)),
        "the same in Russian": list(texts(1_000, 1_000, RUSSIAN)),
        "50 queries of 20,000 characters": list(texts(50, 20_000, WORDS)),
        "1,000 conversations of 20 messages": list(talks),
        "refused: 1,000 queries of 12,000 Russian characters": list(texts(1_000, 12_000, RUSSIAN)),
    }
    return {name: json.dumps({"queries": queries}, ensure_ascii=False).encode() for name, queries in made.items()}


def cpu_seconds(leader: int) -> float:
    """The CPU time of a server's processes so far."""
    # All threads': the file of the process itself tells of its first thread alone.
    files = (file for pid in processes(leader) for file in Path(f"/proc/{pid}/task").glob("*/schedstat"))
    return sum(int(file.read_text().split()[0]) for file in files) / 1e9


def until_idle(leader: int, since: float) -> float:
    """Seconds from `since` to the first stretch in which the server uses next to no CPU time."""
    used = cpu_seconds(leader)
    while time.perf_counter() - since < GIVEN_UP_SECONDS:
        began = time.perf_counter()
        time.sleep(WINDOW_SECONDS)
        before, used = used, cpu_seconds(leader)
        if used - before < IDLE_SHARE * WINDOW_SECONDS:
            return began - since
    return GIVEN_UP_SECONDS


def send(address: tuple[str, int], key: str, body: bytes) -> socket.socket:
    """A connection on which a batch was sent whole."""
    connection = socket.create_connection(address)
    head = (
        f"POST /api/route/batch/ HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {key}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    connection.sendall(head.encode() + body)
    return connection


def route_seconds(address: tuple[str, int], key: str, query: str) -> float:
    """How long one route takes."""
    request = urllib.request.Request(
        f"http://{address[0]}:{address[1]}/api/route/",
        json.dumps({"query": query}).encode(),
        {"Authorization": f"Bearer {key}", "Content-Type": "application/json"},
    )
    began = time.perf_counter()
    with urllib.request.urlopen(request, timeout=GIVEN_UP_SECONDS) as answer:
        answer.read()
    return time.perf_counter() - began


def measure(leader: int, address: tuple[str, int], key: str, body: bytes, stay: float) -> dict[str, float]:
    """Five clients that leave: until the server is idle, the CPU time it took after they left, and the key's next long route."""
    long_query = texts(1, 8_000, WORDS)[0]
    idle = statistics.median(route_seconds(address, key, long_query) for _ in range(9))
    began = time.perf_counter()
    with send(address, key, body) as connection:
        connection.recv(1)
    found: dict[str, float] = {"idle route": idle, "one answered": time.perf_counter() - began}
    for what in ("idle again", "next route"):
        until_idle(leader, time.perf_counter())
        sent = [send(address, key, body) for _ in range(BATCHES)]
        time.sleep(stay)
        for connection in sent:
            connection.close()
        left, used = time.perf_counter(), cpu_seconds(leader)
        if what == "idle again":
            found[what] = until_idle(leader, left)
            found["cpu after"] = cpu_seconds(leader) - used
        else:
            time.sleep(0.1)
            found[what] = route_seconds(address, key, long_query)
    return found


def main() -> None:
    """Start the server and print a table of every kind of batch."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--key", required=True, help="an API key with the scope route")
    parser.add_argument("--stay", type=float, default=0.05, help="seconds after which the clients leave (default 0.05)")
    parser.add_argument("--port", type=int, default=8765)
    options = parser.parse_args()
    address = ("127.0.0.1", options.port)
    environment = {**os.environ, "PORT": str(options.port)}
    server = subprocess.Popen([sys.executable, "-m", "routerweb.server"], env=environment, cwd=ROOT)
    try:
        wait_until_it_answers(server, f"http://127.0.0.1:{options.port}")
        print(
            "| five batches of | one answered, ms | idle again, ms | CPU after, ms | next route, ms | when idle, ms |"
        )
        print("| --- | --- | --- | --- | --- | --- |")
        for name, body in bodies().items():
            found = measure(server.pid, address, options.key, body, options.stay)
            print(f"| {name} | " + " | ".join(f"{found[what] * 1_000:.0f}" for what in COLUMNS) + " |", flush=True)
    finally:
        server.terminate()
        server.wait(timeout=60)


if __name__ == "__main__":
    main()
