"""`python -m benchmarks.scale [--queries 1000 300000] [--database sqlite postgresql] [--times 5]`: what pages cost in a large pool.

Makes a pool of each size in a database of its own and opens the pages of a day in each role through Django, without a network: Home,
the labeling page, the next item, lists and searches, the queue's settings, and the queue's refill after an import of 1,000. Prints for
each the median of some times in milliseconds and the queries to the database, and the ratio of the largest to the smallest pool.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests import migrated, on_postgresql

#: Queries that an import brings before the queue is filled again.
IMPORTED = 1_000
#: A step that takes this long is measured once, not `times` times.
LONG_SECONDS = 10.0

#: A name → milliseconds, and queries to the database.
Figures = dict[str, tuple[float, int]]


def measured(work: Callable[[], object], times: int, before: Callable[[], object] | None = None) -> tuple[float, int]:
    """The median milliseconds of some calls after a first one, whose queries are counted. `before` runs ahead of each, untimed."""
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    found: list[float] = []
    with CaptureQueriesContext(connection) as queries:
        if before:
            before()
        first = len(queries)
        began = time.perf_counter()
        work()
        took = time.perf_counter() - began
        count = len(queries) - first
    if took > LONG_SECONDS:
        return took * 1000, count
    for _n in range(times):
        if before:
            before()
        began = time.perf_counter()
        work()
        found.append(time.perf_counter() - began)
    return statistics.median(found) * 1000, count


def steps(count: int, decisions: int) -> Iterator[tuple[str, Callable[[], object], Callable[[], object] | None]]:
    """Everything that is measured in a pool of so many queries: a name, the step, and what is done before each time of it."""
    from django.test import Client

    from benchmarks.scale import made
    from datasets_app.labels import places, queue
    from datasets_app.models import Query, QueueItem

    pool, people = (it := made.pool_of(count, decisions)).pool, it.people
    clients = {}
    for name, person in people.items():
        clients[name] = Client(raise_request_exception=True)
        clients[name].force_login(person, "agents_app.signin.PasswordBackend")

    def get(role: str, path: str) -> Callable[[], object]:
        def opened() -> None:
            answer = clients[role].get(path.format(pool=f"/p/{pool.slug}"))
            assert answer.status_code == 200, (path, answer.status_code)

        return opened

    def take() -> None:
        answer = clients["labeler"].post(
            f"/p/{pool.slug}/label/next/", {"beside": ""}, headers={"accept": "application/json"}
        )
        assert answer.status_code == 200, answer.status_code

    def free() -> None:
        queue.release(pool, people["labeler"])

    for role in ("labeler", "reviewer", "ops"):
        yield f"Home, {role}", get(role, "/"), None
    yield "Home of one pool, ops", get("ops", "{pool}/"), None
    yield "take the next item, labeler", take, free
    yield "Label, labeler holds one", get("labeler", "{pool}/label/"), take
    yield "My labels, who labeled half", get("labeled", "{pool}/label/mine/"), None
    yield "Queries, first page", get("ops", "{pool}/queries/"), None
    yield "Queries, by text", get("ops", "{pool}/queries/?sort=text"), None
    yield "Queries, search a rare word", get("ops", "{pool}/queries/?q=17"), None
    yield "Queries, search a frequent word", get("ops", "{pool}/queries/?q=parcel"), None
    yield "Queries, one agent's", get("ops", "{pool}/queries/?q=agent:0"), None
    yield "Queries, open ones", get("ops", "{pool}/queries/?q=is:open"), None
    yield (
        "one query",
        get("ops", f"{{pool}}/queries/{Query.objects.of(pool).values_list('pk', flat=True).first()}/"),
        None,
    )
    yield "Review, reviewer", get("reviewer", "{pool}/review/"), None
    yield "Decisions, first page", get("ops", "{pool}/decisions/"), None
    yield "Decisions, one agent's", get("ops", "{pool}/decisions/?agent=0"), None
    yield "settings of the queue, ops", get("ops", "{pool}/settings/queue/"), None
    at = iter(range(count + 1, 10**9, IMPORTED))
    dataset = pool.datasets.get()
    yield (
        f"refill after an import of {IMPORTED:,}", lambda: queue.fill(pool),
        lambda: made.add_queries(pool, dataset, next(at), IMPORTED),
    )  # fmt: skip
    yield "refill, nothing is missing", lambda: queue.fill(pool, everything=True), None
    few = Query.objects.filter(pk__in=list(Query.objects.of(pool).values_list("pk", flat=True)[:100]))
    yield "send 100 queries to the queue", lambda: places.send(few, pool), lambda: places.drop(few, pool)
    free()
    QueueItem.objects.filter(pool=pool).update(needed=0)
    made.analyze()
    yield "take, nothing is left", take, None


def child(count: int, decisions: int, times: int) -> Figures:
    """What a pool of that size costs, in this process and the database of its environment."""
    import django

    django.setup()
    from django.conf import settings

    settings.ALLOWED_HOSTS = ["*"]
    found: Figures = {}
    began = time.perf_counter()
    for name, work, before in steps(count, decisions):
        if not found:
            print(f"  {count:,} queries made in {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
        found[name] = measured(work, times, before)
        print(f"  {name}: {found[name][0]:.1f} ms, {found[name][1]} queries", file=sys.stderr, flush=True)
    return found


def in_database(url: str, count: int, decisions: int, times: int, folder: Path) -> Figures:
    """The same in a process of its own, on a fresh database at this address."""
    migrated.migrate(url, folder)
    (folder / "static").mkdir()
    environment = os.environ | {
        "DATABASE_URL": url, "DATA_DIR": str(folder), "SECRET_KEY": "only for this benchmark, which serves nobody", "PLAIN_HTTP": "1",
        "DJANGO_SETTINGS_MODULE": "routerweb.settings",
    }  # fmt: skip
    words = [sys.executable, "-m", "benchmarks.scale", "--child", "--queries", str(count), "--times", str(times)]
    done = subprocess.run([*words, "--decisions", str(decisions)], env=environment, stdout=subprocess.PIPE, check=True)
    return {name: (ms, queries) for name, (ms, queries) in json.loads(done.stdout).items()}


def compared(database: str, sizes: list[int], decisions: int | None, times: int) -> dict[int, Figures]:
    """The figures of each size on one kind of database."""
    found = {}
    for count in sizes:
        print(f"{database}, {count:,} queries", file=sys.stderr, flush=True)
        traffic = count if decisions is None else decisions
        with tempfile.TemporaryDirectory() as folder:
            if database == "sqlite":
                url = f"sqlite:///{folder}/scale.sqlite3"
                found[count] = in_database(url, count, traffic, times, Path(folder))
                continue
            with on_postgresql.server() as url:
                found[count] = in_database(url, count, traffic, times, Path(folder))
    return found


def table(database: str, found: dict[int, Figures]) -> str:
    """One row a step: milliseconds and queries to the database at each size, and the largest size's time in the smallest's."""
    small, large = min(found), max(found)
    heads = [f"{count:,}: ms | queries" for count in found]
    lines = [f"| {database} | " + " | ".join(heads) + " | ratio |", "| --- |" + " --- | --- |" * len(found) + " --- |"]
    for name in found[small]:
        cells = [f"{found[count][name][0]:,.1f} | {found[count][name][1]}" for count in found]
        ratio = found[large][name][0] / found[small][name][0]
        lines.append(f"| {name} | " + " | ".join(cells) + f" | {ratio:.1f} |")
    return "\n".join(lines)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="benchmarks.scale", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--queries", type=int, nargs="+", default=[1_000, 300_000])
    parser.add_argument("--decisions", type=int, help="rows of traffic; as many as queries where it is not given")
    parser.add_argument("--database", nargs="+", choices=("sqlite", "postgresql"), default=["sqlite", "postgresql"])
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(child(options.queries[0], options.decisions, options.times)))
        return
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}"
    )
    for database in options.database:
        found: dict[int, Any] = compared(database, options.queries, options.decisions, options.times)
        print("\n" + table(database, found), flush=True)


if __name__ == "__main__":
    main()
