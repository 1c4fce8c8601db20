"""`python -m benchmarks.soak [--seconds 600] [--database sqlite|postgresql|pgbouncer]`: mixed traffic with training runs beside it.

Two web servers and a worker as real processes answer routes, batches, outcomes and pages, while one run after another is trained, with
`--rest` seconds between them. On
PostgreSQL the database is restarted half-way; through PgBouncer each part in turn every `--every` seconds (600): the web servers, the
worker, PostgreSQL and PgBouncer. Whoever finds a web server gone asks the other, as a load balancer does. Printed are errors, the 99th
percentile of a route, the memory of the web servers in each of their lives against what they had after warming up, and whether each
answer is a decision in the database or was counted as dropped. Exit status 1 where one of them does not hold. Times mean something
only on an idle machine.
"""

import argparse
import contextlib
import http.client
import itertools
import json
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.machines.site import Machine, Site, wait_for
from tests import on_postgresql, pgbouncer
from tests.test_end_to_end import NEEDS, OPENINGS, write_folder

TEXTS = [f"{opening}, {phrase}" for opening in OPENINGS for need in NEEDS.values() for phrase in need]
RUN = {
    "encoder": "linear",
    "folds": 3,
    "max_features": 2000,
    "total_steps": 3000,
    "val_eval_freq": 500,
    "baselines": False,
}
PAGES = ("/", "/p/shop/models/", "/p/shop/decisions/", "/p/shop/queries/", "/p/shop/runs/", "/p/shop/alarms/")
BATCH = 20
#: What must hold: milliseconds of a route at the 99th percentile, and how much memory may grow after warming up.
MOST_MS, MOST_GROWTH = 100.0, 0.05
AWAY_SECONDS = 3.0
#: The parts of a web server's life that are compared: after warming up, and at its end.
WARM, LATE = (0.15, 0.3), (0.85, 1.0)
#: A person's session, and what stands in the database at the end.
SESSION = """
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.models import User
from django.contrib.sessions.backends.db import SessionStore
user = User.objects.create_superuser("soak", "soak@localhost")
store = SessionStore()
store[SESSION_KEY], store[HASH_SESSION_KEY] = str(user.pk), user.get_session_auth_hash()
store[BACKEND_SESSION_KEY] = "agents_app.signin.PasswordBackend"
store.create()
print("session", store.session_key)
"""
COUNT = """
from training_app.models import Decision, Run
print("counted", Decision.objects.count(), *(Run.objects.filter(status=s).count() for s in ("done", "failed")))
"""


@dataclass(frozen=True, slots=True)
class Request:
    """One request: what it was, when it began and ended (monotonic seconds), and its status; 0 is a broken connection."""

    what: str
    began: float
    ended: float
    status: int
    said: str = ""


@dataclass
class Traffic:
    """Everybody who asks, each in a thread with a connection of its own, until `end` is set."""

    machines: list[Machine]
    key: str
    session: str
    requests: list[Request] = field(default_factory=list)
    decided: Counter[str] = field(default_factory=Counter)
    last: str = ""

    def __post_init__(self) -> None:
        self.end = threading.Event()
        turns: list[tuple[Callable[[int], tuple[str, str, str, Any]], float]] = [
            *[(self._route, 0.02)] * 4, (self._batch, 0.25), (self._outcome, 0.1), (self._page, 0.4),
        ]  # fmt: skip
        self._threads = [
            threading.Thread(target=self._go, args=(place, act, pause), daemon=True)
            for place, (act, pause) in enumerate(turns)
        ]

    def _route(self, turn: int) -> tuple[str, str, str, Any]:
        return "route", "POST", "/api/route/", {"query": TEXTS[turn % len(TEXTS)]}

    def _batch(self, turn: int) -> tuple[str, str, str, Any]:
        return "batch", "POST", "/api/route/batch/", {"queries": [TEXTS[(turn + i) % len(TEXTS)] for i in range(BATCH)]}

    def _outcome(self, turn: int) -> tuple[str, str, str, Any]:
        said = {"decision_id": self.last, "success": turn % 3 != 0, "comment": "as it was"}
        return ("outcome", "POST", "/api/outcomes/", said) if self.last else self._route(turn)

    def _page(self, turn: int) -> tuple[str, str, str, Any]:
        return "page", "GET", PAGES[turn % len(PAGES)], None

    def _go(self, place: int, act: Callable[[int], tuple[str, str, str, Any]], pause: float) -> None:
        connections = [http.client.HTTPConnection("127.0.0.1", machine.port, timeout=60) for machine in self.machines]
        connections = connections[place % len(connections) :] + connections[: place % len(connections)]
        for turn in itertools.count(place):
            if self.end.wait(pause):
                return
            what, method, path, body = act(turn)
            headers = {"Cookie": f"sessionid={self.session}"}
            if what != "page":
                headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
            began = time.monotonic()
            # A server's first page brings the code of all: each server gets some in each of its lives.
            order = connections[::-1] if what == "page" and turn % 2 else connections
            # The first try may be on a connection to a server that is gone.
            for connection in [again for each in order for again in (each, each)]:
                try:
                    connection.request(method, path, None if body is None else json.dumps(body), headers)
                    answer = connection.getresponse()
                    content, status = answer.read(), answer.status
                    break
                except (OSError, http.client.HTTPException) as error:
                    content, status = f"{type(error).__name__}: {error}".encode(), 0
                    connection.close()
            ended = time.monotonic()
            good = status in (200, 201)
            self.requests.append(
                Request(what, began, ended, status, "" if good else content.decode(errors="replace")[:200])
            )
            if good and what == "route":
                self.last = json.loads(content)["decision_id"]
            if good and what in ("route", "batch"):
                self.decided[what] += 1 if what == "route" else BATCH

    def __enter__(self) -> "Traffic":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.end.set()
        for thread in self._threads:
            thread.join(timeout=90)


@dataclass
class Life:
    """The memory of one web server from its start to its restart: (monotonic seconds, megabytes) in order."""

    seen: list[tuple[float, float]] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """How long it was looked at."""
        return self.seen[-1][0] - self.seen[0][0] if self.seen else 0.0

    def median(self, part: tuple[float, float]) -> float:
        """Megabytes within this part of the life, such as (0.85, 1.0)."""
        low, high = (self.seen[0][0] + share * self.seconds for share in part)
        return statistics.median(size for at, size in self.seen if low <= at <= high)


def memory(machine: Machine) -> float:
    """Megabytes that the machine's processes hold themselves, pages that a fork shares counted once (Pss_Anon). The pages of program
    files are left out: their share depends on which other processes map them just then."""
    total = 0
    for pid in machine.processes():
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                total += int(line.split()[1]) if line.startswith("Pss_Anon:") else 0
    return total / 1024


def launch(machine: Machine, key: str) -> int:
    """A run of its own, queued; its id."""
    status, run = machine.post("/api/runs/", key, {"pool": "shop", "config": RUN})
    assert status == 201, run
    return int(run["id"])


def first_model(machine: Machine, key: str) -> None:
    """Train one and make it answer."""
    run = launch(machine, key)
    ended = lambda: (found := machine.get(f"/api/runs/{run}/", key)[1])["status"] in ("done", "failed") and found  # noqa: E731
    found = wait_for(ended, "the first model", 300, 0.5)
    assert found["status"] == "done", found
    status, said = machine.post("/api/models/shop-1/promote/", key, {"override": "to answer"})
    assert status == 200, said
    time.sleep(2.5)


@dataclass
class Parts:
    """What is restarted while others ask; `web` holds the web servers of the moment."""

    site: Site
    key: str
    web: list[Machine]
    worker: Machine
    server: on_postgresql.Server | None = None
    bouncer: pgbouncer.PgBouncer | None = None
    #: When the database was away, each time: (left, there again), in monotonic seconds.
    away: list[tuple[float, float]] = field(default_factory=list)
    count: int = 0

    def __post_init__(self) -> None:
        self.lives = [[Life()] for _ in self.web]

    def look(self) -> None:
        """Take the memory of the web servers of the moment."""
        for lives, machine in zip(self.lives, self.web, strict=True):
            lives[-1].seen.append((time.monotonic(), memory(machine)))

    def restart_next(self) -> None:
        """The next part in turn; the database alone where nothing stands in front of it."""
        acts: list[Callable[[], None]] = [self._database]
        if self.bouncer:
            acts = [lambda: self._web(0), lambda: self._web(1), self._worker, self._database, self._bouncer]
        acts[self.count % len(acts)]()
        self.count += 1

    def _web(self, place: int) -> None:
        self.web[place] = self.site.restart(self.web[place])
        self.lives[place].append(Life())

    def _worker(self) -> None:
        self.worker = self.site.restart(self.worker)

    def _database(self) -> None:
        assert self.server is not None
        left = time.monotonic()
        self.server.stop()
        time.sleep(AWAY_SECONDS)
        self.server.start()
        self._there_again(left)

    def _bouncer(self) -> None:
        assert self.bouncer is not None
        left = time.monotonic()
        self.bouncer.stop()
        self.bouncer.start()
        self._there_again(left)

    def _there_again(self, left: float) -> None:
        healthy = lambda: all(m.get("/api/health/", self.key)[1]["database"] == "ok" for m in self.web)  # noqa: E731
        wait_for(healthy, "recovery", 60, 0.1)
        self.away.append((left, time.monotonic()))

    def dropped(self) -> int:
        """Decisions that the web servers of the moment gave up, once they keep none back."""
        asked = lambda: [machine.get("/api/health/", self.key)[1]["decisions"] for machine in self.web]  # noqa: E731
        wait_for(lambda: all(one["waiting"] == 0 for one in asked()), "an empty buffer", 120)
        return sum(one["dropped"] for one in asked())


def soak(seconds: float, database: str, every: float, rest: float) -> int:
    """All of it, in a folder of its own that goes afterwards; the exit status."""
    with tempfile.TemporaryDirectory(prefix="routerweb-soak-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        server = None if database == "sqlite" else on_postgresql.Server(folder)
        bouncer = pgbouncer.PgBouncer(server.url, folder / "pgbouncer") if server and database == "pgbouncer" else None
        for each in (server, bouncer):
            if each:
                each.start()
        url = bouncer.url if bouncer else server.url if server else f"sqlite:///{folder / 'soak.sqlite3'}"
        pooled = str(int(bouncer is not None))
        site = Site(folder, url, ROUTE_RATE_PER_MINUTE="0", DATABASE_TRANSACTION_POOLING=pooled)
        try:
            site.manage("migrate", "--verbosity", "0")
            (folder / "pool").mkdir()
            write_folder(folder / "pool")
            site.manage("load_pool", str(folder / "pool"), "--slug", "shop")
            key = site.key("shop", "route", "ops")
            session = site.manage("shell", "-v", "0", "-c", SESSION).stdout.split("session ")[1].strip()
            parts = Parts(site, key, [site.start("web"), site.start("web")], site.start("worker"), server, bouncer)
            first_model(parts.web[0], key)
            return _measured(parts, session, seconds, every if bouncer else seconds / 2, rest)
        finally:
            site.close()
            for last in (bouncer, server):
                if last:
                    last.stop()


def _measured(parts: Parts, session: str, seconds: float, every: float, rest: float) -> int:
    began = time.monotonic()
    run, runs, free = 0, 0, 0.0
    with Traffic(parts.web, parts.key, session) as traffic:
        while (gone := time.monotonic() - began) < seconds:
            parts.look()
            if parts.server and gone > (parts.count + 1) * every:
                parts.restart_next()
            with contextlib.suppress(OSError, AssertionError):
                if run and parts.web[0].get(f"/api/runs/{run}/", parts.key)[1]["status"] in ("done", "failed"):
                    run, free = 0, gone + rest
                if not run and gone >= free:
                    run, runs = launch(parts.web[0], parts.key), runs + 1
            time.sleep(1)
    dropped = parts.dropped()
    counted = parts.site.manage("shell", "-v", "0", "-c", COUNT).stdout.split("counted")[1].split()
    kept, done, failed = (int(number) for number in counted[:3])
    return _told(traffic, seconds, parts, (kept, dropped), (runs, done, failed))


def _grown(parts: Parts) -> float:
    """How much the web servers grew after warming up: the median over their lives, but those that ended before half of the longest."""
    lives = [life for each in parts.lives for life in each if life.seen]
    longest = max(life.seconds for life in lives)
    grown = []
    for life in (life for life in lives if life.seconds >= longest / 2):
        warm, late = life.median(WARM), life.median(LATE)
        grown.append(late / warm - 1)
        print(f"memory of a web server, {life.seconds / 60:.0f} minutes: {warm:.0f} to {late:.0f} MB, {grown[-1]:+.1%}")
    return statistics.median(grown)


def _told(
    traffic: Traffic, seconds: float, parts: Parts, decisions: tuple[int, int], runs: tuple[int, int, int]
) -> int:
    """Print what was seen; 1 where something does not hold."""
    # A route never needs the database; everything else may say that it is away, while it is.
    errors = [
        one
        for one in traffic.requests
        if one.status not in (200, 201)
        and (
            one.what in ("route", "batch")
            or not any(one.ended >= left and one.began <= there for left, there in parts.away)
        )
    ]
    excused = sum(one.status not in (200, 201) for one in traffic.requests) - len(errors)
    times = sorted(1000 * (one.ended - one.began) for one in traffic.requests if one.what == "route")
    p99 = times[len(times) * 99 // 100]
    growth = _grown(parts)
    answered, (kept, dropped) = traffic.decided.total(), decisions
    counts = Counter(one.what for one in traffic.requests)
    through = "PostgreSQL through PgBouncer" if parts.bouncer else "PostgreSQL" if parts.server else "SQLite"
    print(f"{seconds:.0f} s on {through}, {parts.count} parts restarted: {dict(counts)}")
    print(f"runs beside it: {runs[0]} launched, {runs[1]} done and {runs[2]} failed in all")
    if parts.away:
        longest = max(there - left for left, there in parts.away)
        print(
            f"the database was away {len(parts.away)} times, {longest:.1f} s at most; pages and outcomes failed then: {excused}"
        )
    print(
        f"errors: {len(errors)} {Counter((one.what, one.status) for one in errors) or ''} {[one.said for one in errors[:3]] or ''}"
    )
    print(f"a route: p50 {times[len(times) // 2]:.1f} ms, p99 {p99:.1f} ms (at most {MOST_MS:.0f})")
    print(f"memory of the web servers after warming up: {growth:+.1%} (at most {MOST_GROWTH:+.0%})")
    print(f"decisions: {answered:,} answered, {kept:,} kept + {dropped:,} dropped and counted")
    # A server that ends may have stored an answer that nobody got, and that was asked for once more.
    same = answered <= kept + dropped if parts.bouncer else answered == kept + dropped
    held = not errors and p99 <= MOST_MS and growth <= MOST_GROWTH and same and not runs[2]
    print("holds" if held else "does not hold")
    return 0 if held else 1


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--database", choices=("sqlite", "postgresql", "pgbouncer"), default="sqlite")
    parser.add_argument("--every", type=float, default=600.0, help="seconds between two restarts behind PgBouncer")
    parser.add_argument("--rest", type=float, default=0.0, help="seconds between two training runs")
    options = parser.parse_args()
    return soak(options.seconds, options.database, options.every, options.rest)


if __name__ == "__main__":
    sys.exit(main())
