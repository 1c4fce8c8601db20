"""Each alert of `monitoring/alerts.yml` fires on a real fault and ends with it: a real installation on a PostgreSQL server of its own,
and a real Prometheus that follows those rules, with a second where they say a minute."""

import contextlib
import itertools
import os
import re
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import httpx
import pytest
import yaml

from tests import on_postgresql, prometheus_server
from tests.chaos.conftest import environment_of
from tests.chaos.installation import UP, WORKER, Installation
from tests.prometheus_server import PLACE, RULES, Prometheus
from tests.test_end_to_end import write_folder

pytestmark = [
    pytest.mark.at_length,
    pytest.mark.process,
    pytest.mark.any_database,
    pytest.mark.skipif(sys.platform != "linux", reason="finds the processes in /proc, which only Linux has"),
]
#: Ages in seconds that rules compare with. An idle cluster does something every 15 seconds, so three minutes become 30 seconds.
AGES = {"> 180": "> 30", "> 900": "> 15"}
BUFFER, BATCH = 6_000, 1_000
KNOWN, UNSURE = "hello, refund the invoice", "invoice parcel app"
#: The processor is taken from the web server for the first of these seconds and given back for the second, again and again.
TAKEN, GIVEN = 0.4, 0.2
#: They ask all the time meanwhile, so that in each of these gaps somebody's text is being read.
CLIENTS = 8


def quick(rules: str) -> str:
    """The rules with each minute made a second."""

    def seconds(duration: re.Match[str]) -> str:
        return f"{duration[1]}{int(duration[2]) * {'m': 1, 'h': 60}[duration[3]]}s"

    for long, short in AGES.items():
        assert long in rules
        rules = rules.replace(long, short)
    return re.sub(r"(\[|for: )(\d+)([mh])\b", seconds, rules)


@dataclass
class Watched:
    """The installation, its database and the Prometheus that reads it."""

    installation: Installation
    database: on_postgresql.Server
    prometheus: Prometheus
    key: str
    ops: str
    numbers: Iterator[int] = field(default_factory=itertools.count)
    client: httpx.Client = field(default_factory=lambda: httpx.Client(timeout=60))

    def route(self, query: str) -> int:
        """The status of an answer, 0 where nobody answers."""
        return self._post("/api/route/", {"pool": "shop", "query": query})

    def route_many(self, queries: list[str]) -> int:
        return self._post("/api/route/batch/", {"pool": "shop", "queries": queries})

    def decisions(self) -> int:
        """The status of a list that is read off the database, 0 where nobody answers."""
        address, headers = (
            f"{self.installation.address}/api/decisions/?pool=shop",
            {"Authorization": f"Bearer {self.ops}"},
        )
        with contextlib.suppress(httpx.TransportError):
            return httpx.get(address, headers=headers, timeout=60).status_code
        return 0

    def _post(self, path: str, body: dict[str, Any]) -> int:
        headers = {"Authorization": f"Bearer {self.key}"}
        with contextlib.suppress(httpx.TransportError):
            return self.client.post(f"{self.installation.address}{path}", json=body, headers=headers).status_code
        return 0


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory, migrated_sqlite: Path) -> Iterator[Watched]:
    folder = tmp_path_factory.mktemp("alerts")
    (folder / "shop").mkdir()
    write_folder(folder / "shop")
    if on_postgresql.binary("initdb") is None and os.environ.get("REQUIRE_POSTGRESQL") != "1":
        pytest.skip("PostgreSQL is not installed.")  # `make test` is to run without it; CI asks for it
    with contextlib.ExitStack() as stack:
        # Not in pytest's folder, which PostgreSQL's user may not enter.
        place = stack.enter_context(tempfile.TemporaryDirectory(prefix="routerweb-alerts-", ignore_cleanup_errors=True))
        database = on_postgresql.Server(Path(place))
        database.start()
        stack.callback(database.stop)
        on_postgresql.make_template(database.url)
        environment = environment_of(folder, migrated_sqlite) | {
            "METRICS": "1", "WEB_WORKERS": "1", "DECISION_BUFFER": str(BUFFER), "RUN_RETRIES": "0",
            "DECISION_ARCHIVE": str(folder / "archive"),
            "DATABASE_URL": urlunsplit(urlsplit(database.url)._replace(path="/migrated")),
        }  # fmt: skip
        installation = Installation(environment, folder)
        stack.callback(installation.close)
        route, ops = installation.act("furnish_watched", str(folder / "shop"))
        installation.up()
        rules = quick((PLACE / RULES).read_text("utf-8"))
        prometheus = stack.enter_context(prometheus_server.reading(installation.address, ops, folder, rules))
        made = Watched(installation, database, prometheus, route, ops)
        installation.until(lambda: prometheus.value('up{job="routerweb"}') == 1, "a first reading")
        yield made


@contextlib.contextmanager
def database_away(watched: Watched) -> Iterator[Callable[[], object]]:
    """Its server ends while applications and people go on; more answers wait than the buffer holds."""
    watched.decisions()
    watched.database.stop()
    try:
        for _batch in range(BUFFER // BATCH + 2):
            assert watched.route_many([KNOWN] * BATCH) == 200
        yield lambda: (watched.decisions(), watched.route(KNOWN))
    finally:
        watched.database.start()


@contextlib.contextmanager
def all_killed(watched: Watched) -> Iterator[Callable[[], object]]:
    """The machine is gone, until somebody starts everything again."""
    watched.installation.kill(UP)
    watched.installation.until(lambda: not watched.installation.left(), "the end of every process")
    yield lambda: None
    watched.installation.up()


@contextlib.contextmanager
def cluster_still(watched: Watched) -> Iterator[Callable[[], object]]:
    """No process of the cluster of jobs goes on, its guard included, while somebody uploads a file."""
    stopped = watched.installation.family("jobs").values()
    for process in stopped:
        os.kill(process, signal.SIGSTOP)
    try:
        watched.installation.act("begin", "import", f"file{next(watched.numbers)}")
        yield lambda: None
    finally:
        for process in stopped:
            os.kill(process, signal.SIGCONT)


@contextlib.contextmanager
def trainer_killed(watched: Watched) -> Iterator[Callable[[], object]]:
    """A worker is killed while it trains, as for a lack of memory, and RUN_RETRIES is 0."""
    act = watched.installation.act
    key = act("begin", "training", "run")
    watched.installation.until(lambda: act("under_way", "training", key), "the training", 120)
    watched.installation.kill(WORKER, "training")
    yield lambda: None


@contextlib.contextmanager
def archive_away(watched: Watched) -> Iterator[Callable[[], object]]:
    """Where the folder of the archive should be nobody can write, and retention has something to archive."""
    act, archive = watched.installation.act, watched.installation.folder / "archive"
    archive.write_text("no folder")
    act("old_decision")
    act("retention_due")
    yield lambda: None
    archive.unlink()
    act("retention_due")


@contextlib.contextmanager
def other_traffic(watched: Watched) -> Iterator[Callable[[], object]]:
    """Half of the queries are of a kind that the model does not know."""
    yield lambda: watched.route_many([KNOWN, UNSURE] * 10)
    for _batch in range(3):
        watched.route_many([KNOWN] * BATCH)


@contextlib.contextmanager
def processors_taken(watched: Watched) -> Iterator[Callable[[], object]]:
    """Most of the time the web server gets no processor, and texts are long."""
    ended, web = threading.Event(), watched.installation.web()

    def take() -> None:
        while not ended.is_set():
            os.kill(web, signal.SIGSTOP)
            time.sleep(TAKEN)
            os.kill(web, signal.SIGCONT)
            time.sleep(GIVEN)

    taking = threading.Thread(target=take)
    taking.start()
    try:
        with ThreadPoolExecutor(CLIENTS) as clients:

            def ask(_turn: int) -> int:  # never the same text twice, which is read once
                return watched.route(f"{KNOWN} {next(watched.numbers)} " * 500)

            yield lambda: list(clients.map(ask, range(20 * CLIENTS)))
    finally:
        ended.set()
        taking.join()


#: Each fault and the alerts that it brings about.
FAULTS: dict[Callable[[Watched], contextlib.AbstractContextManager[Callable[[], object]]], set[str]] = {
    database_away: {
        "RouterwebDatabaseAway", "RouterwebErrorsFast", "RouterwebErrorsSlow", "RouterwebDecisionsWaiting",
        "RouterwebDecisionsDropped",
    },
    all_killed: {"RouterwebAway"},
    cluster_still: {"RouterwebWorkersStill", "RouterwebJobsWait"},
    trainer_killed: {"RouterwebRunFailed"},
    archive_away: {"RouterwebScheduledJobFails"},
    other_traffic: {"RouterwebAbstains"},
    processors_taken: {"RouterwebRoutesSlow", "RouterwebAnswersSlow"},
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_alerts_fire_on_a_fault_and_end_with_it(
    watched: Watched,
    fault: Callable[[Watched], contextlib.AbstractContextManager[Callable[[], object]]],
    record_property: Callable[[str, object], None],
) -> None:
    fired: dict[str, float] = {}
    ended: dict[str, float] = {}
    _until(lambda: _quiet(watched, FAULTS[fault]), lambda: "it fires before the fault")
    began = time.monotonic()
    with fault(watched) as meanwhile:

        def all_fire() -> bool:
            meanwhile()
            for name in watched.prometheus.firing() & FAULTS[fault]:
                fired.setdefault(name, round(time.monotonic() - began, 1))
            return fired.keys() == FAULTS[fault]

        _until(all_fire, lambda: f"{FAULTS[fault] - fired.keys()} did not fire")
    mended = time.monotonic()

    def none_fires() -> bool:
        watched.decisions()
        watched.route(KNOWN)
        firing = watched.prometheus.firing()
        for name in FAULTS[fault] - firing:
            ended.setdefault(name, round(time.monotonic() - mended, 1))
        return not firing & FAULTS[fault]

    _until(none_fires, lambda: f"{watched.prometheus.firing() & FAULTS[fault]} did not end")
    record_property("figures", {"fired after": fired, "ended after": ended})
    print(f"\n{fault.__name__}: fired after {fired}, ended after {ended}")


def test_each_alert_has_a_fault() -> None:
    rules = yaml.safe_load((PLACE / RULES).read_text("utf-8"))["groups"][0]["rules"]
    assert set().union(*FAULTS.values()) == {rule["alert"] for rule in rules}


def test_a_minute_of_the_rules_is_a_second_here() -> None:
    assert "[10s]" in quick((PLACE / RULES).read_text("utf-8"))
    assert quick("a[1h] > 180 and b[5m] > 900\nfor: 2m") == "a[60s] > 30 and b[5s] > 15\nfor: 2s"


def _quiet(watched: Watched, alerts: set[str]) -> bool:
    """Whether none of these fires. Clusters that have just started make up for what the clock asked of them first; what failed by an
    earlier fault gets another turn."""
    if not watched.prometheus.firing() & alerts:
        return True
    watched.installation.act("failing_due")
    return False


def _until(condition: Callable[[], bool], wrong: Callable[[], str]) -> None:
    end = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < end, wrong()
        time.sleep(0.2)
