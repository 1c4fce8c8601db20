"""`kill -9` of each kind of process during each kind of job: nothing is lost, done twice, or unfinished after a minute.

The minute is one in which processors were free for the installation (`available`): what else the machine does fails nobody.
CI tries one for each process and one for each job, one of these on PostgreSQL too; CHAOS=full all of them twice. CHAOS_REPORT names
a file that gets a line of JSON for each that was tried, with the seconds after the kill that passed and that were available.
"""

import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from tests import orchestration
from tests.chaos.conftest import environment_of
from tests.chaos.installation import EPISODES, MONITOR, PUSHER, SENTINEL, UP, WEB, WORKER, Installation
from tests.llm_server import Server
from tests.test_end_to_end import write_folder

pytestmark = [
    pytest.mark.process,
    pytest.mark.both_databases,
    pytest.mark.skipif(sys.platform != "linux", reason="finds the processes in /proc, which only Linux has"),
]
A_MINUTE = 60
IDLE, BUSY = "idle worker", "busy worker"
PROCESSES = (IDLE, BUSY, MONITOR, PUSHER, SENTINEL, WEB, UP)
JOBS = (
    "training", "sweep", "import", "pre-labeling", "bulk change", "merge", "erase", "promotion", "backup", "retention",
)  # fmt: skip
if orchestration.INSTALLED:
    JOBS = (*JOBS, EPISODES)
IN_TRAINING = ("training", "sweep")
SOME = (
    [(SENTINEL, "import"), (UP, "pre-labeling")]
    + [(what, "merge") for what in PROCESSES]
    + [(BUSY, job) for job in JOBS if job != "merge"]
)


def tried() -> Iterator[Any]:
    """The pairs of a process and a job; `make test` leaves them out."""
    if os.environ.get("CHAOS") == "full":
        for turn in (1, 2):
            yield from (pytest.param(what, job, id=f"{what}-{job}-{turn}") for job in JOBS for what in PROCESSES)
        return
    for what, job in SOME:
        yield pytest.param(what, job, id=f"{what}-{job}", marks=pytest.mark.at_length)


def _agents() -> AbstractContextManager[Any]:
    """Agents that are called, where orchestration is installed."""
    if not orchestration.INSTALLED:
        return nullcontext(SimpleNamespace(url="", delay=0.0))
    from tests.orchestration_app.crew import Served

    return Served()


class World:
    """An installation with a pool for each kind of job, an LLM and agents that it calls."""

    def __init__(self, installation: Installation, llm: Server, agents: Any, key: str) -> None:
        self.installation, self.llm, self.agents, self.key = installation, llm, agents, key
        self.names = count(1)
        self.waited = installation.clock()

    def kill(self, what: str, cluster: str) -> None:
        """`kill -9` of a process of that kind; `up` is started again once every process has ended."""
        self.installation.kill(what, cluster)
        if what == UP:
            self.installation.until(lambda: not self.installation.left(), "the end of every process", A_MINUTE)
            self.installation.up()

    def late(self, condition: Callable[[], bool], seconds: float = A_MINUTE) -> list[str]:
        """What is wrong where a job does not end within so many available seconds from now; `waited` is the clock of that."""
        self.waited = self.installation.clock()
        try:
            self.installation.until(condition, "its end", seconds, self.waited)
        except AssertionError as error:
            return [f"unfinished after a minute: {error}"]
        return []

    def promote(self, version: int) -> bool:
        """Ask for it over HTTP until there is an answer; whether it answers from now on."""
        headers = {"Authorization": f"Bearer {self.key}"}
        address = f"{self.installation.address}/api/models/shop-{version}/promote/"
        try:
            answer = httpx.post(address, json={"override": "to see it"}, headers=headers, timeout=20)
        except httpx.TransportError:
            return False
        return answer.status_code == 200 or "active already" in answer.text


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, migrated_sqlite: Path) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("chaos")
    (folder / "shop").mkdir()
    write_folder(folder / "shop")
    environment = environment_of(folder, migrated_sqlite) | {"INTERNAL_HOSTS": "127.0.0.1"}
    with Server(delay=0.15) as llm, _agents() as agents:
        llm.honours_keys, agents.delay = True, 0.4
        installation = Installation(environment, folder)
        try:
            key = installation.act("furnish", str(folder / "shop"), llm.url, agents.url)
            installation.up()
            yield World(installation, llm, agents, key)
        finally:
            installation.close()


@pytest.mark.parametrize(("what", "job"), list(tried()))
def test_whatever_is_killed_every_job_is_done_once(
    world: World, what: str, job: str, record_property: Callable[[str, object], None]
) -> None:
    world.installation.whole()
    found = promotions(world, what) if job == "promotion" else a_job(world, what, job)
    figures = {"seconds": round(world.waited.passed, 1), "available": round(world.waited.available, 1)}
    record_property("figures", figures)
    report({"process": what, "job": job, **figures, "faults": found})
    assert found == []


def a_job(world: World, what: str, job: str) -> list[str]:
    """Begin a job, kill a process while it is under way, wait for its end; what is wrong then."""
    act, name = world.installation.act, f"job{next(world.names)}"
    cluster = "training" if job in IN_TRAINING else "jobs"
    if job == EPISODES and what in (IDLE, BUSY):  # no worker of a cluster does them, but a process of their own
        cluster = EPISODES
    if what == IDLE:
        world.kill(WORKER, cluster)
    key = act("begin", job, name)
    began = f"the beginning of {job}"
    world.installation.until(lambda: act("under_way", job, key) or act("ended", job, key), began, 2 * A_MINUTE)
    if what != IDLE:
        world.kill(WORKER if what == BUSY else what, cluster)
    if late := world.late(lambda: act("ended", job, key)):
        act("stop_commands")
        return late
    found: list[str] = act("faults", job, key)
    if job == "pre-labeling" and max(world.llm.charged.values()) > 1:
        found.append("the LLM charged for a question twice")
    if job == "episodes" and world.agents.counts()["worked_twice"]:
        found.append("an agent did a call twice")
    return found


def promotions(world: World, what: str) -> list[str]:
    """Promote two models in turns while a process is killed; each is promoted once and the last one answers."""
    before = world.installation.act("promotions")
    asked = [3 - before[-1] if n % 2 == 0 else before[-1] for n in range(6)]
    done: list[int] = []

    def promote() -> None:
        for version in asked:
            promoted = f"the promotion of version {version}"
            world.installation.until(lambda version=version: world.promote(version), promoted, A_MINUTE)
            done.append(version)

    asking = threading.Thread(target=promote)
    asking.start()
    world.installation.until(lambda: done, "the first promotion", 2 * A_MINUTE)
    world.kill({IDLE: WORKER, BUSY: WORKER}.get(what, what), "jobs")
    late = world.late(lambda: not asking.is_alive(), A_MINUTE * len(asked))
    made = world.installation.act("promotions")[len(before) :]
    return late if made == asked else [*late, f"asked for {asked}, promoted {made}"]


def report(told: dict[str, object]) -> None:
    if file := os.environ.get("CHAOS_REPORT"):
        database = "postgresql" if os.environ.get("DATABASE_URL", "").startswith("postgres") else "sqlite"
        with open(file, "a") as out:
            out.write(json.dumps({"database": database, **told}) + "\n")
