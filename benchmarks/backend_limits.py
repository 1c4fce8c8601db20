"""Limits of backends under load: `python -m benchmarks.backend_limits [sqlite|postgresql] [SECONDS] [PROCESSES]`.

Real processes choose backends as fast as a paced application asks, on one database. What each took is written down with its time, and
read afterwards: the busiest minute of each limit, the most calls in flight, and how evenly equals and processes were given work. Exit
status 1 where a limit was exceeded or a share is further than a tenth from the mean.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

REQUESTS, TOKENS, AT_ONCE = 480, 240_000, 5
CALL_TOKENS = 800
PACE = 0.25  # seconds between two rounds of a process
WORK = 0.4  # seconds of a call


def busiest_minute(taken: Sequence[tuple[float, float]]) -> float:
    """The largest sum of amounts over any 60 seconds; `taken` are (time, amount)."""
    some = sorted(taken)
    most = total = 0.0
    first = 0
    for at, amount in some:
        total += amount
        while some[first][0] <= at - 60:
            total -= some[first][1]
            first += 1
        most = max(most, total)
    return most


def most_in_flight(calls: Sequence[tuple[float, float]]) -> int:
    """The most calls at one time; `calls` are (begin, end)."""
    edges = sorted([(begin, 1) for begin, _end in calls] + [(end, -1) for _begin, end in calls])
    most = now = 0
    for _at, step in edges:
        now += step
        most = max(most, now)
    return most


def furthest(counts: Sequence[int]) -> float:
    """How far the furthest is from the mean, as a share of it."""
    mean = sum(counts) / max(len(counts), 1)
    return max((abs(count - mean) / mean for count in counts), default=0.0) if mean else 0.0


def work(name: str, seconds: float, begin: float, path: str) -> None:
    """One process: rounds until the time is up; what it took, as JSON lines."""
    import django

    django.setup()
    from agents_app.models import Pool
    from orchestration_app.backends import calls, choosing
    from orchestration_app.engine.backends.choosing import PRESETS
    from training_app.answering import serving

    pool = Pool.objects.get(slug="limits")
    serving.served()
    time.sleep(max(begin - time.time(), 0))
    kept: list[dict[str, Any]] = []
    end = begin + seconds
    while time.time() < end:
        started = time.time()
        for agent in (0, 1):
            given = choosing.assign(pool.pk, "query", [agent], PRESETS["best"])
            at = time.time()
            assert given is not None
            if given[0].backend is not None:
                kept.append({"agent": agent, "backend": given[0].backend.name, "at": at, "by": name})
        with contextlib.suppress(calls.NoBackend):
            line = calls.line(pool, 2, preference=PRESETS["best"])
            at = time.time()
            assert line is not None
            time.sleep(WORK)
            ended = time.time()
            calls.report(pool, uuid.uuid4(), line.served(2, latency=WORK * 1000, success=True))
            kept.append({"agent": 2, "backend": line.model, "at": at, "end": ended, "by": name})
        time.sleep(max(started + PACE - time.time(), 0))
    Path(path).write_text("".join(json.dumps(row) + "\n" for row in kept))
    serving.forget()


def prepared() -> None:
    """A pool: agent 0 with a limit of requests and two equals, 1 with a limit of tokens, 2 with one of calls at once."""
    import django

    django.setup()
    from agents_app import pools
    from orchestration_app import providers

    pool = pools.create_pool("Limits", "limits")
    agents = [pools.add_agent(pool, f"Agent {number}") for number in range(3)]
    provider = providers.save_provider(pool, "acme", actor=None)

    def made(agent: int, model: str, **values: float) -> None:
        same = {"tokens_in": CALL_TOKENS - 300, "tokens_out": 300}
        providers.save(agents[agent], provider, {"model": model, **same, **values}, actor=None)

    made(0, "limited", quality=0.9, requests_per_minute=REQUESTS)
    made(0, "equal-1", quality=0.8)
    made(0, "equal-2", quality=0.8)
    made(1, "tokens", tokens_per_minute=TOKENS)
    made(2, "places", at_once=AT_ONCE)


def figures(rows: Sequence[dict[str, Any]], processes: int) -> list[tuple[str, float, float, bool]]:
    """(what, measured, at most, whether it holds)."""

    def taken(model: str) -> list[dict[str, Any]]:
        return [row for row in rows if row["backend"].endswith(model)]

    limited, tokens, places = taken("limited"), taken("tokens"), taken("places")
    by_process = Counter(row["by"] for row in limited)
    found: list[tuple[str, float, float]] = [
        ("requests in the busiest minute", busiest_minute([(row["at"], 1) for row in limited]), REQUESTS),
        ("tokens in the busiest minute", busiest_minute([(row["at"], CALL_TOKENS) for row in tokens]), TOKENS),
        ("calls in flight at most", most_in_flight([(row["at"], row["end"]) for row in places]), AT_ONCE),
        ("equals: furthest from the mean", furthest([len(taken("equal-1")), len(taken("equal-2"))]), 0.1),
        (
            "processes' parts of the limit: furthest from the mean",
            furthest([by_process[str(number)] for number in range(processes)]), 0.1,
        ),
    ]  # fmt: skip
    return [(what, value, most, value <= most) for what, value, most in found]


def environment(folder: str, url: str) -> dict[str, str]:
    """Of a process on that database."""
    return os.environ | {
        "DATABASE_URL": url, "DATA_DIR": folder, "PLAIN_HTTP": "1", "SECRET_KEY": "only for this benchmark, which serves nobody",
        "DJANGO_SETTINGS_MODULE": "routerweb.settings",
    }  # fmt: skip


@contextlib.contextmanager
def database(kind: str, folder: str) -> Iterator[str]:
    """The address of a fresh database of that kind."""
    if kind == "sqlite":
        yield f"sqlite:///{folder}/db.sqlite3"
        return
    from tests import on_postgresql

    server = on_postgresql.Server(Path(folder))
    server.start()
    try:
        yield server.url
    finally:
        server.stop()


def main(kind: str, seconds: float, processes: int) -> int:
    """Run it and print what was seen."""
    with (
        tempfile.TemporaryDirectory(prefix="routerweb-limits-", ignore_cleanup_errors=True) as folder,
        database(kind, folder) as url,
    ):
        os.chmod(folder, 0o755)
        env = environment(folder, url)
        subprocess.run([sys.executable, "manage.py", "migrate", "--verbosity", "0"], env=env, check=True)
        subprocess.run([sys.executable, "-m", "benchmarks.backend_limits", "prepare"], env=env, check=True)
        begin = time.time() + 5 + 3 * processes
        words = [sys.executable, "-m", "benchmarks.backend_limits", "work"]
        running = [
            subprocess.Popen([*words, str(number), str(seconds), str(begin), f"{folder}/{number}.jsonl"], env=env)
            for number in range(processes)
        ]
        faults = sum(process.wait() != 0 for process in running)
        rows = [
            json.loads(line)
            for number in range(processes)
            for line in Path(f"{folder}/{number}.jsonl").read_text().splitlines()
        ]
    print(f"{kind}, {processes} processes, {seconds:.0f} s, {len(rows):,} assignments, {faults} processes failed")
    found = figures(rows, processes)
    for what, value, most, holds in found:
        print(f"{what:<56} {value:>10,.3g} of {most:>10,.6g} {'holds' if holds else 'EXCEEDED'}")
    return int(faults > 0 or not all(holds for *_rest, holds in found))


if __name__ == "__main__":
    if sys.argv[1:2] == ["work"]:
        work(sys.argv[2], float(sys.argv[3]), float(sys.argv[4]), sys.argv[5])
    elif sys.argv[1:2] == ["prepare"]:
        prepared()
    else:
        given = [*sys.argv[1:], *("sqlite", "120", "8")[len(sys.argv) - 1 :]]
        sys.exit(main(given[0], float(given[1]), int(given[2])))
