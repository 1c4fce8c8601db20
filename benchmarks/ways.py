"""What each way into the router adds to a route, in turns on one core: the answer alone, the fast lane, the DRF view.

    DATA_DIR=… python -m benchmarks.ways [POOL] [--rounds 40] [--queries FILE]

Needs an installation whose pool has an active model: `make run` once makes the demo pool. All ways run in this process, without a
socket, on one core, and take turns of BLOCK requests, so that a machine whose speed changes is the same for all. Decisions are made
and not written. It prints the median and the 99th percentile of the thread's processor time in microseconds, so that whoever else is
on the machine counts little, and what is above the bare route: the median over the rounds of the blocks' difference, with its
quartiles. The texts are 200 test queries of the pool, which the router remembers; with --queries those of a file of
`benchmarks.new_queries`, none of which is routed twice.
"""

import argparse
import io
import json
import os
import statistics
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import django

BLOCK, WARM = 25, 200

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "routerweb.settings")
os.environ["DECISION_BUFFER"] = "0"


def main() -> None:
    """Measure and print."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("pool", nargs="?", default="support")
    arguments.add_argument("--rounds", type=int, default=40)
    arguments.add_argument("--queries", type=Path, help="a JSONL file of texts, each of which is routed once")
    options = arguments.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    ways, texts = contestants(options.pool)
    new = iter(())
    if options.queries:
        new = iter([json.loads(row)["text"] for row in options.queries.read_text("utf-8").splitlines()])
    for route in ways.values():
        for text in islice(new, WARM) if options.queries else texts:
            route(text)
    taken: dict[str, list[float]] = {name: [] for name in ways}
    above: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(options.rounds):
        block = [texts[(turn * BLOCK + place) % len(texts)] for place in range(BLOCK)]
        medians = {}
        for name, route in ways.items():
            times = [_timed(route, text) for text in (islice(new, BLOCK) if options.queries else block)]
            if not times:
                raise SystemExit(f"{options.queries} has too few queries for {options.rounds} rounds.")
            taken[name] += times
            medians[name] = statistics.median(times)
        for name, median in medians.items():
            above[name].append(median - medians["route"])
    print(f"{'new' if options.queries else len(texts)} texts, {options.rounds} rounds of {BLOCK}, one core")
    for name in ways:
        quarters = statistics.quantiles(above[name], n=4)
        print(
            f"{name:8} {statistics.median(taken[name]):7.0f} µs, p99 {statistics.quantiles(taken[name], n=100)[98]:.0f} µs, "
            f"above the route {statistics.median(above[name]):6.0f} µs ({quarters[0]:.0f} to {quarters[2]:.0f})"
        )


def contestants(pool_slug: str) -> tuple[dict[str, Callable[[str], Any]], list[str]]:
    """Each way as a function of a text, and the texts: those of the pool's test queries."""
    django.setup()

    from agents_app.keys import create_key
    from agents_app.models import Pool
    from datasets_app.models import Query
    from routerweb import wsgi
    from training_app.answering import answer, serving
    from training_app.answering.answered import answer_as_json
    from training_app.api import fast_lane

    pool = Pool.objects.get(slug=pool_slug)
    key, secret = create_key("benchmark of the ways", [pool], ["route"])
    texts = list(Query.objects.filter(dataset__pool=pool, group__split="test").values_list("text", flat=True)[:200])
    serving.refresh()
    loaded = serving.served().pools[pool_slug]
    router = answer.model_of(loaded).router
    key.delete()  # what is in memory still knows it until the next look, which this process does not take
    serving.watch_once = lambda: 60.0
    headers = [
        (b"host", b"127.0.0.1"), (b"authorization", b"Bearer " + secret.encode()), (b"content-type", b"application/json"),
    ]  # fmt: skip

    def lane(text: str) -> None:
        body = json.dumps({"query": text}).encode()
        sent = [*headers, (b"content-length", str(len(body)).encode())]
        assert fast_lane.answer(b"POST", b"/api/route/", sent, body, "http")

    def view(text: str) -> None:
        body = json.dumps({"query": text}).encode()
        environ = {
            "REQUEST_METHOD": "POST", "PATH_INFO": "/api/route/", "SCRIPT_NAME": "", "QUERY_STRING": "",
            "CONTENT_TYPE": "application/json", "CONTENT_LENGTH": str(len(body)), "HTTP_HOST": "127.0.0.1",
            "HTTP_AUTHORIZATION": f"Bearer {secret}", "SERVER_NAME": "127.0.0.1", "SERVER_PORT": "80",
            "wsgi.url_scheme": "http", "wsgi.input": io.BytesIO(body), "wsgi.errors": io.StringIO(),
        }  # fmt: skip
        status: list[str] = []
        found = wsgi.application(environ, lambda line, _headers, *_: status.append(line))
        b"".join(found)
        close = getattr(found, "close", None)
        if close:
            close()
        assert status == ["200 OK"], status

    ways: dict[str, Callable[[str], Any]] = {
        "route": lambda text: router.route(text, loaded.available),
        "answer": lambda text: answer_as_json(answer.answer(loaded, text)),
        "lane": lane,
        "DRF": view,
    }
    return ways, texts


def _timed(route: Callable[[str], Any], text: str) -> float:
    began = time.thread_time_ns()
    route(text)
    return (time.thread_time_ns() - began) / 1000


if __name__ == "__main__":
    main()
