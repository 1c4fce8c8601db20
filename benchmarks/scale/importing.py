"""`python -m benchmarks.scale.importing [QUERIES] [SECONDS]`: sign-in, labels and routes beside the import of QUERIES.

It starts PostgreSQL, a web server and a worker as real processes, with a pool of ten agents that has a router, 1,000 labeled
queries and 4,000 that wait. Somebody signs in, somebody labels and an application routes, each at a fixed pace: first for SECONDS
alone (60), then while the worker imports the file (300,000 queries), until they are all in the queue. It prints each group's times
and the ratios within this run. Exit status 1 where a request fails or a 99th percentile is more than twice its own alone.
"""

import csv
import http.client
import io
import json
import sys
import tempfile
import threading
import time
import urllib.parse
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import numpy as np
import psycopg

from benchmarks.growth import pools
from benchmarks.machines.site import Machine, Site, wait_for
from benchmarks.pages_beside_files import BOUNDARY, Person
from tests import migrated, on_postgresql

POOL, AGENTS, FIRST, WAITING = "large", 10, 1_000, 4_000
PASSWORD = "only-for-this-benchmark"
#: Seconds between two of a kind. A sign-in costs a tenth of a second of hashing alone, and an address may try 30 times a minute.
PACES = {"sign in": 2.5, "next item": 0.5, "submit a label": 0.0, "route": 0.1}
MOST_TIMES = 2.0
FILLED = ("datasets_app_query", "datasets_app_queueitem")  # by an import
PEOPLE = """
from django.contrib.auth.models import Group, User
from agents_app.access import Role
for name in ("ops", "mia"):
    user = User.objects.create_user(name, name + "@example.org", "PASSWORD", is_superuser=name == "ops")
    user.groups.add(Group.objects.get(name=Role.LABELER))
""".replace("PASSWORD", PASSWORD)


@dataclass
class Times:
    """Milliseconds of each kind of request, and what failed."""

    taken: dict[str, list[float]] = field(default_factory=lambda: {kind: [] for kind in PACES})
    failed: list[str] = field(default_factory=list)

    def timed(self, kind: str, ask: Callable[[], str]) -> None:
        """Asks once; `ask` says what went wrong, "" where nothing did."""
        began = time.perf_counter()
        try:
            wrong = ask()
        except (OSError, http.client.HTTPException, ValueError, KeyError, SystemExit) as error:
            wrong = f"{type(error).__name__}: {error}"
        self.taken[kind].append(1_000 * (time.perf_counter() - began))
        if wrong:
            self.failed.append(f"{kind}: {wrong}")


class Traffic:
    """Three people at work, each in a thread of their own."""

    def __init__(self, web: Machine, key: str, texts: list[str]) -> None:
        self.web, self.key, self.texts = web, key, texts
        self.address = f"http://127.0.0.1:{web.port}"
        self.labeler = Person(self.address, "mia@example.org", PASSWORD)
        self._number = count()

    def during(self, wait: Callable[[], object]) -> Times:
        """What is measured until `wait` returns."""
        times, ended = Times(), threading.Event()

        def again(kind: str, work: Callable[[Times], None]) -> None:
            while not ended.wait(PACES[kind]):
                work(times)

        work = {"sign in": self._sign_in, "next item": self._label, "route": self._route}
        threads = [threading.Thread(target=again, args=each) for each in work.items()]
        for thread in threads:
            thread.start()
        try:
            wait()
        finally:
            ended.set()
            for thread in threads:
                thread.join()
        return times

    def _sign_in(self, times: Times) -> None:
        def ask() -> str:
            Person(self.address, "mia@example.org", PASSWORD)
            return ""

        times.timed("sign in", ask)

    def _label(self, times: Times) -> None:
        found: list[int] = []

        def take() -> str:
            status, answer = self._post(f"/p/{POOL}/label/next/", {})
            if status == 200 and answer.get("query"):
                found.append(int(answer["query"]))
                return ""
            return f"{status} {str(answer)[:200]}"

        def submit() -> str:
            fields = {"asked": ",".join(map(str, range(AGENTS))), "base": "0", "agent": str(found[0] % AGENTS)}
            status, answer = self._post(f"/p/{POOL}/label/{found[0]}/submit/", fields)
            return "" if status == 200 else f"{status} {str(answer)[:200]}"

        times.timed("next item", take)
        if found:
            times.timed("submit a label", submit)

    def _post(self, path: str, fields: dict[str, str]) -> tuple[int, dict]:
        """A form as the page's script sends it."""
        cookies = {cookie.name: str(cookie.value) for cookie in self.labeler.jar}
        headers = {
            "Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json", "Referer": self.address,
            "X-CSRFToken": cookies["csrftoken"], "Cookie": "; ".join(f"{name}={value}" for name, value in cookies.items()),
        }  # fmt: skip
        with closing(http.client.HTTPConnection("127.0.0.1", self.web.port, timeout=60)) as connection:
            connection.request("POST", path, urllib.parse.urlencode(fields), headers)
            answer = connection.getresponse()
            body = answer.read()
        return answer.status, json.loads(body) if body.startswith(b"{") else {}

    def _route(self, times: Times) -> None:
        def ask() -> str:
            text = f"{self.texts[next(self._number) % len(self.texts)]} {next(self._number)}"
            status, answer = self.web.post("/api/route/", self.key, {"query": text})
            return "" if status == 200 else f"{status} {answer}"

        times.timed("route", ask)


def table_of(rows: list[dict[str, str]]) -> bytes:
    """A CSV file."""
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue().encode()


def send(person: Person, name: str, content: bytes) -> None:
    """Upload a file on the import page of the pool."""
    head = (
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="dataset"\r\n\r\nQueries\r\n'
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'
    )
    body = head.encode() + content + f"\r\n--{BOUNDARY}--\r\n".encode()
    status = person.post(f"/p/{POOL}/import/", body, f"multipart/form-data; boundary={BOUNDARY}")
    if status != 200:
        raise SystemExit(f"The import page answered {status}.")


def prepared(site: Site, folder: Path) -> str:
    """Makes people, the pool and its router; a key that routes."""
    site.manage("shell", "-c", PEOPLE)
    agents, examples = pools.pool(FIRST + WAITING, AGENTS, 0)
    listed, labeled, waiting = (folder / f"{name}.csv" for name in ("agents", "labeled", "waiting"))
    listed.write_bytes(table_of([{"name": agent.name, "description": agent.description} for agent in agents]))
    names = {agent.id: agent.name for agent in agents}
    rows = [{"text": e.text, "agents": ";".join(names[a] for a in sorted(e.required)) or "none"} for e in examples]
    labeled.write_bytes(table_of(rows[:FIRST]))
    site.manage("import_agents", str(listed), "--pool", POOL, "--new", "Large")
    waiting.write_bytes(table_of([{"text": e.text} for e in examples[FIRST : FIRST + WAITING]]))
    for file in (labeled, waiting):
        site.manage("import_queries", str(file), "--pool", POOL)
    site.manage("train", "--pool", POOL, "--set", "encoder=linear", "--set", "baselines=false", "--promote")
    return site.key(POOL, "route")


def rows_of(url: str, table: str) -> int:
    """How many rows a table has."""
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
    return int(row[0]) if row else 0


def wait_for_rest(url: str) -> None:
    """Wait until a worker has done what it finds when it starts."""
    jobs = "agents_app_backgroundjob WHERE status"
    wait_for(lambda: rows_of(url, f"{jobs} = 'done'"), "the first job of the worker", 120)
    wait_for(lambda: not rows_of(url, f"{jobs} IN ('queued', 'running')"), "a worker without a job", 300)


def show(alone: Times, beside: Times) -> int:
    """The table; how many of its rows are too slow."""
    print(
        "| | requests | p50, ms: alone, beside | p99, ms: alone, beside | p99, times |\n| --- | --- | --- | --- | --- |"
    )
    slow = 0
    for kind in PACES:
        each = [np.array(times.taken[kind]) for times in (alone, beside)]
        p50, p99 = ([float(np.percentile(taken, share)) for taken in each] for share in (50, 99))
        slow += p99[1] > MOST_TIMES * p99[0]
        sizes = " / ".join(str(len(taken)) for taken in each)
        print(f"| {kind} | {sizes} | {p50[0]:.0f}, {p50[1]:.0f} | {p99[0]:.0f}, {p99[1]:.0f} | {p99[1] / p99[0]:.1f} |")
    return slow


def main(queries: int, seconds: float) -> int:
    """Measure; the exit status."""
    with tempfile.TemporaryDirectory(prefix="routerweb-importing-") as data, on_postgresql.server() as server:
        folder, url = Path(data), migrated.postgresql(server, "importing")
        site = Site(folder, url)
        try:
            key = prepared(site, folder)
            _agents, examples = pools.pool(queries + queries // 20, AGENTS, 1)
            new = list(dict.fromkeys(e.text for e in examples))[:queries]
            web = site.start("web")
            site.start("worker")
            wait_for_rest(url)
            traffic = Traffic(web, key, new[:5_000])
            ops = Person(traffic.address, "ops@example.org", PASSWORD)
            traffic.during(lambda: time.sleep(10))  # what is loaded once
            alone = traffic.during(lambda: time.sleep(seconds))
            began = time.monotonic()
            before = {table: rows_of(url, table) for table in FILLED}

            def imported() -> None:
                send(ops, "new.csv", table_of([{"text": text} for text in new]))
                wait_for(
                    lambda: all(rows_of(url, table) >= before[table] + len(new) for table in FILLED),
                    "the import",
                    3_600,
                    2,
                )

            beside = traffic.during(imported)
            print(f"{len(new):,} queries were imported and stood in the queue after {time.monotonic() - began:.0f} s.")
        finally:
            site.close()
    slow = show(alone, beside)
    print(
        *sorted(set(beside.failed + alone.failed))[:20],
        f"{len(alone.failed + beside.failed)} requests failed",
        sep="\n",
    )
    return 1 if slow or alone.failed or beside.failed else 0


if __name__ == "__main__":
    given = sys.argv[1:]
    sys.exit(main(int(given[0]) if given else 300_000, float(given[1]) if len(given) > 1 else 60.0))
