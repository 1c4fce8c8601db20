"""`python -m benchmarks.scale.pages SMALL LARGE` times the pages of two databases that `fill` filled, in turns.

Each page is asked for ROUNDS times in a process per database, through Django's test client: what a browser's connection costs is the
same for both. What a labeler opens is asked for by a labeler, the rest by the admin. Rows read are those of tables and indexes. Exit
status 1 where a page of the large one takes more than RATIO times as long, or its 95th percentile MOST_MS or more.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks.scale.fill import AGENTS

ROUNDS, RATIO, MOST_MS = 20, 1.5, 500
PAGES = {
    "Home": "/p/scale/",
    "Home, seven days": "/p/scale/?hours=168",
    "Queries": "/p/scale/queries/",
    "Queries, by agent": "/p/scale/queries/?q=agent:3",
    "Queries, by state": "/p/scale/queries/?q=state:disagreement",
    "Queries, sorted by state": "/p/scale/queries/?sort=state",
    "Queries, a rare word": "/p/scale/queries/?q=word4999",
    "Queries, a frequent word": "/p/scale/queries/?q=word12",
    "Label": "/p/scale/label/",
    "Own labels": "/p/scale/label/mine/",
    "Review": "/p/scale/review/",
    "Review, unsure": "/p/scale/review/?list=doubts",
    "Review, skipped": "/p/scale/review/?list=skipped",
    "Agreement": "/p/scale/agreement/",
    "Drift": "/p/scale/drift/",
    "Decisions": "/p/scale/decisions/",
    "Decisions, by agent": "/p/scale/decisions/?agent=3",
    "Decisions, a rare word": "/p/scale/decisions/?q=word4999",
    "Decisions, a frequent word": "/p/scale/decisions/?q=word12",
    "Decisions, a failure": "/p/scale/decisions/?outcome=failure",
    "Decision by id": "decision",
    "Next item to label": "/p/scale/label/next/",
    "Submit a label": "/p/scale/label/%d/submit/",
}
#: The pages that a labeler asks for.
POSTED = ("Next item to label", "Submit a label")
LABELERS = {"Label", "Own labels", *POSTED}
#: Rows that were read until now; the statistics of this connection count once they are flushed.
ROWS_READ = "SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) FROM pg_stat_user_tables"


def serve() -> None:
    """Answer each name of a page on standard input with its milliseconds and number of SQL statements."""
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "routerweb.settings")
    django.setup()
    from django.conf import settings
    from django.contrib.auth.models import User
    from django.db import connection, reset_queries
    from django.test import Client
    from django.test.utils import CaptureQueriesContext

    from datasets_app.models import Assignment
    from routerweb.serving import memory
    from training_app.models import Decision

    def client_of(name: str) -> Client:
        client = Client(headers={"host": "127.0.0.1"}, raise_request_exception=True)
        client.force_login(User.objects.get(username=name))
        return client

    def rows_read() -> int:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_stat_force_next_flush()")
            cursor.execute("SELECT pg_stat_clear_snapshot()")
            cursor.execute(ROWS_READ)
            return int(cursor.fetchone()[0])

    asked = ",".join(map(str, range(AGENTS)))

    def posted(page: str) -> Callable[[], Any]:
        """Asks for a new item, not for the one that is held; or submits one."""
        Assignment.objects.filter(person__username="ana", state="held").delete()
        if page == "Next item to label":
            return lambda: labeler.post(PAGES[page])
        query = int(labeler.post(PAGES["Next item to label"]).json()["query"])
        return lambda: labeler.post(PAGES[page] % query, {"asked": asked, "base": "0", "agent": "3"})

    admin, labeler = client_of("admin"), client_of("ana")
    import_module(settings.ROOT_URLCONF)
    memory.settle()  # as the web server does where pages begin
    for line in sys.stdin:
        page = line.strip()
        address, client = PAGES[page], labeler if page in LABELERS else admin
        if address == "decision":
            address = f"/p/scale/decisions/{Decision.objects.order_by('at')[50].pk}/"
        ask = posted(page) if page in POSTED else partial(client.get, address)
        reset_queries()
        read = rows_read()
        with CaptureQueriesContext(connection) as seen:
            began = time.perf_counter()
            answer = ask()
            took = 1000 * (time.perf_counter() - began)
        read = rows_read() - read
        slowest = max(seen.captured_queries, key=lambda query: float(query["time"]), default={"time": 0, "sql": ""})
        measured = {"ms": took, "sql": len(seen), "read": read, "status": answer.status_code, "slowest": slowest}
        print(json.dumps(measured), flush=True)


def _ask(servers: list[subprocess.Popen], page: str) -> Iterator[dict]:
    for server in servers:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(page + "\n")
        server.stdin.flush()
        yield json.loads(server.stdout.readline())


def main(urls: list[str], names: list[str]) -> int:
    """Time the pages; the exit status."""
    command = [sys.executable, "-m", "benchmarks.scale.pages", "serve"]
    servers = [
        subprocess.Popen(command, env={**os.environ, "DATABASE_URL": url}, stdin=-1, stdout=-1, text=True)
        for url in urls
    ]
    failed = 0
    print("| page | SQL | rows read | small, ms | large, ms | times | p95, ms |\n" + "| --- " * 7 + "|")
    for page in names or PAGES:
        rounds = [list(_ask(servers, page)) for _n in range(ROUNDS + 1)][1:]
        small, large = ([one[side]["ms"] for one in rounds] for side in (0, 1))
        ratio, p95 = float(np.median(large) / np.median(small)), float(np.percentile(large, 95))
        expected = {302 if page == "Submit a label" else 200}
        bad = ratio > RATIO or p95 >= MOST_MS or {one["status"] for both in rounds for one in both} != expected
        failed += bad
        sql = f"{rounds[-1][0]['sql']} / {rounds[-1][1]['sql']}"
        read = " / ".join(f"{np.median([one[side]['read'] for one in rounds]):,.0f}" for side in (0, 1))
        print(
            f"| {page} | {sql} | {read} | {np.median(small):.0f} | {np.median(large):.0f} | {ratio:.1f} | {p95:.0f} |",
            flush=True,
        )
        if bad and os.environ.get("SHOW_SLOWEST"):
            print(
                rounds[-1][1]["status"],
                rounds[-1][1]["slowest"]["time"],
                rounds[-1][1]["slowest"]["sql"][:1500],
                flush=True,
            )
    for server in servers:
        server.terminate()
    return 1 if failed else 0


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        serve()
    else:
        sys.exit(main(sys.argv[1:3], sys.argv[3:]))
