"""`python -m benchmarks.scale.upkeep [DECISIONS [SECONDS [ROUNDS]]]`: routes beside archiving, searching and erasing of old decisions.

It starts PostgreSQL with so many decisions of ten days (2,000,000) and a web server with a router of ten agents. Eight connections
route at half of their full rate. In each round (5) they do so for SECONDS (20) alone and for as long while a process works without a
pause, as a worker would: it archives a day and drops it, searches all archived days for a word that no text has, and finds and
erases one person. Printed are the routes of both, their ratios, and how often each work was done. Exit status 1 where a route
fails or the median of a route over the rounds is more than 10 % slower.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.growth import pools
from benchmarks.machines.site import ROOT, Site
from benchmarks.scale.importing import AGENTS, prepared
from benchmarks.scale.spans import Routes
from tests import migrated, on_postgresql

DAYS, MOST = 10, 1.10
#: Prints a line for each piece of work: what it was, and its seconds.
WORK = """
import json, sys, time
import django
django.setup()
from django.utils import timezone
from agents_app.audit import Actor
from agents_app.models import Pool
from agents_app.texts import personal_data
from agents_app.texts.matching import Terms
from training_app.answering import decisions
from training_app.decision_archive import reading
from training_app.models import Decision
pool, person = Pool.objects.get(slug="scale"), Terms(["ana@example.com"])
def archive():
    oldest = Decision.objects.filter(pool=pool).order_by("at").first()
    if (days := (timezone.now() - oldest.at).days - 1) > 0:
        decisions.prune(days)
def search():
    after = ""
    while after := reading.part(pool, reading.Search(words="nowhere"), after, 50).next:
        pass
def erase():
    newest = Decision.objects.filter(pool=pool).order_by("-at")[0]
    Decision.objects.filter(pk=newest.pk).update(text="write to ana@example.com")
    assert personal_data.find(person)
    personal_data.erase(person, Actor("benchmark"))
print("ready", flush=True)
sys.stdin.readline()
while True:
    for work in (archive, search, erase):
        began = time.perf_counter()
        work()
        print(json.dumps([work.__name__, time.perf_counter() - began]), flush=True)
"""


def filled(site: Site, decisions: int) -> None:
    """Put the decisions into the database of this site, and make the indexes of words."""
    environment = {**site.environment, "DJANGO_SETTINGS_MODULE": "routerweb.settings"}
    command = [sys.executable, "-m", "benchmarks.scale.fill", "1000", str(decisions), "--parted", f"--days={DAYS}"]
    subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=sys.stderr)
    site.manage("migrate", "--verbosity", "0")


class Worked:
    """The process that works during the block; `done` has (what, seconds) of each piece of work."""

    def __init__(self, site: Site) -> None:
        environment = {**site.environment, "DJANGO_SETTINGS_MODULE": "routerweb.settings"}
        self.process = subprocess.Popen(
            [sys.executable, "-c", WORK],
            cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        assert self.process.stdout
        assert self.process.stdout.readline() == "ready\n", "the process of the work did not start"
        self.done: list[tuple[str, float]] = []

    def __enter__(self) -> "Worked":
        assert self.process.stdin
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self

    def __exit__(self, *_error: object) -> None:
        assert self.process.poll() is None, "the process of the work ended"
        self.process.terminate()
        self.done += [tuple(json.loads(line)) for line in self.process.communicate()[0].splitlines() if line]


def main(decisions: int, seconds: float, rounds: int) -> int:
    """Measure and print; the exit status."""
    sides: dict[str, list[Routes]] = {"alone": [], "beside": []}
    done: list[tuple[str, float]] = []
    with tempfile.TemporaryDirectory(prefix="routerweb-upkeep-") as data, on_postgresql.server() as server:
        folder, url = Path(data), migrated.postgresql(server, "upkeep")
        site = Site(folder, url, DECISION_ARCHIVE=str(folder / "archive"), WEB_WORKERS="1")
        try:
            filled(site, decisions)
            key = prepared(site, folder)
            texts = list(dict.fromkeys(e.text for e in pools.pool(40_000, AGENTS, 1)[1]))
            web = site.start("web")
            for wait in (5, seconds / 2):  # the first brings what is loaded once
                with Routes(web, key, texts) as full:
                    time.sleep(wait)
            rate = len(full.taken) / (seconds / 2) / 2
            for _round in range(rounds):
                with Routes(web, key, texts, rate) as alone:
                    time.sleep(seconds)
                worked = Worked(site)
                with Routes(web, key, texts, rate) as beside, worked:
                    time.sleep(seconds)
                sides["alone"].append(alone)
                sides["beside"].append(beside)
                done += worked.done
        finally:
            site.close()
    return shown(rate, sides, done)


def shown(rate: float, sides: dict[str, list[Routes]], done: list[tuple[str, float]]) -> int:
    """Print what was seen; the exit status."""
    figures: dict[str, Any] = {
        side: np.array([np.percentile(one.taken, [50, 99]) for one in seen]) for side, seen in sides.items()
    }
    failed = sum(one.failed for seen in sides.values() for one in seen)
    print(f"{rate:.0f} routes a second\n\n| round | p50, ms: alone, beside | times | p99, ms: alone, beside | times |")
    print("| --- | --- | --- | --- | --- |")
    for number, (alone, beside) in enumerate(zip(figures["alone"], figures["beside"], strict=True), 1):
        cells = [f"{alone[i]:.2f}, {beside[i]:.2f} | {beside[i] / alone[i]:.2f}" for i in (0, 1)]
        print(f"| {number} | {cells[0]} | {cells[1]} |")
    ratios = np.median(figures["beside"] / figures["alone"], axis=0)
    print(f"\nmedians of the rounds: p50 {ratios[0]:.2f} times, p99 {ratios[1]:.2f} times; {failed} routes failed")
    for what in ("archive", "search", "erase"):
        took = [s for name, s in done if name == what]
        print(f"{what}: {len(took)} times, median {np.median(took):.2f} s" if took else f"{what}: not once")
    return int(failed > 0 or ratios[0] > MOST)


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "routerweb.settings")
    given = [float(word) for word in sys.argv[1:]]
    numbers = given + [2_000_000, 20, 5][len(given) :]
    sys.exit(main(int(numbers[0]), numbers[1], int(numbers[2])))
