"""A folder of labeled queries becomes a route: real commands, a real worker process, a real web server, real HTTP.

Nothing here runs inside the test's own process or database: each test has an installation of its own in a temporary folder, on
SQLite, or on a fresh database of the PostgreSQL server that the tests run on.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests import migrated
from tests.on_postgresql import free_port
from tests.waiting import until

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.process

NEEDS = {
    0: ("refund my last invoice", "why was i charged twice", "the payment failed", "cancel the subscription bill"),
    1: ("the parcel is late", "where is my delivery", "change the shipping address", "the courier lost the box"),
    2: ("the app crashes at start", "error 500 on login", "the api returns nothing", "install fails on linux"),
}
OPENINGS = ("hello", "hi there", "please help", "hey team", "good morning", "quick question", "urgent", "as a customer")


def write_folder(folder: Path) -> None:
    """A small pool that a minute of training learns: three needs, alone, in pairs, or none."""
    agents = [(0, "Billing", "invoices, payments"), (1, "Shipping", "parcels"), (2, "Technical", "bugs")]
    rows: list[tuple[str, list[int]]] = []
    for opening in OPENINGS:
        for first, phrases in NEEDS.items():
            for number, phrase in enumerate(phrases):
                rows.append((f"{opening}, {phrase}", [first]))
                second = (first + 1) % 3
                rows.append((f"{opening}, {phrase} and also {NEEDS[second][number]}", sorted([first, second])))
        rows += [(f"{opening}, {chat}", []) for chat in ("what a nice day", "who won the match", "tell me a joke")]
    write_lines(folder / "agents.jsonl", [{"id": i, "name": n, "description": d} for i, n, d in agents])
    splits = {"train": rows[0::5] + rows[1::5] + rows[2::5], "val": rows[3::5], "test": rows[4::5]}
    for split, part in splits.items():
        write_lines(
            folder / f"{split}.jsonl",
            [{"id": f"{split}-{n}", "text": text, "required_agents": ids} for n, (text, ids) in enumerate(part)],
        )


def write_lines(path: Path, rows: list[dict]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def environment(tmp_path: Path, request: pytest.FixtureRequest) -> dict[str, str]:
    """The environment of a fresh installation, its database migrated."""
    values = {
        **{name: os.environ[name] for name in ("PATH", "HOME", "LANG", "ORCHESTRATION") if name in os.environ},
        "DATA_DIR": str(tmp_path / "data"),
        "SECRET_KEY": "a-key-of-the-tests-from-end-to-end",
        "PLAIN_HTTP": "1",
        "PORT": str(free_port()),
        "HEARTBEAT_SECONDS": "1",
        "DEAD_AFTER_SECONDS": "4",
        "OMP_NUM_THREADS": "1",
    }
    (tmp_path / "data").mkdir()
    if os.environ.get("DATABASE_URL", "").startswith("postgres"):
        values["DATABASE_URL"] = migrated.postgresql(os.environ["DATABASE_URL"], f"e2e_{values['PORT']}")
    else:
        migrated.copy(request.getfixturevalue("migrated_sqlite"), tmp_path / "data" / "routerweb.sqlite3")
    return values


def manage(environment: dict[str, str], *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, f"manage.py {' '.join(arguments)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture
def start(environment: dict[str, str], tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen]]:
    """Start a child process in its own process group; all are killed with the test."""
    children: list[subprocess.Popen] = []

    def start(*arguments: str, **more: str) -> subprocess.Popen:
        log = (tmp_path / f"log-{len(children)}").open("w")
        child = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=ROOT,
            env=environment | more,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        children.append(child)
        return child

    yield start
    for child in children:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def healthy(address: str) -> bool:
    try:
        return httpx.get(f"{address}/api/health/", timeout=2).status_code == 200
    except httpx.TransportError:
        return False


class Site:
    """An installation with a pool "shop", its web server and a key that may do all, spoken to over HTTP."""

    def __init__(self, environment: dict[str, str], start: Callable[..., subprocess.Popen], folder: Path) -> None:
        write_folder(folder)
        manage(environment, "load_pool", str(folder), "--slug", "shop", "--name", "Shop")
        scopes = ("--scope", "route", "--scope", "ops")
        key = re.search(r"rw_\S+", manage(environment, "create_api_key", "app", "--pool", "shop", *scopes))
        assert key
        address = f"http://127.0.0.1:{environment['PORT']}"
        start("-m", "routerweb.serving.server")
        until(lambda: healthy(address), "the web server's first answer")
        self.client = httpx.Client(base_url=address, headers={"Authorization": f"Bearer {key[0]}"}, timeout=60)

    def route(self, query: str) -> httpx.Response:
        return self.client.post("/api/route/", json={"query": query})

    def run(self) -> dict:
        """The newest run."""
        found: dict = self.client.get("/api/runs/", params={"pool": "shop", "limit": "1"}).json()["runs"][0]
        return found

    def await_status(self, *wanted: str) -> None:
        # A training worker gives way to all that runs beside it.
        until(lambda: self.run()["status"] in wanted, f"a run that is {' or '.join(wanted)}", 300)


@pytest.fixture
def site(environment: dict[str, str], start: Callable[..., subprocess.Popen], tmp_path: Path) -> Site:
    return Site(environment, start, tmp_path)


def test_a_folder_becomes_a_route(
    site: Site, environment: dict[str, str], start: Callable[..., subprocess.Popen]
) -> None:
    untrained = site.route("where is my parcel")
    assert (untrained.status_code, untrained.json()["model"]) == (200, "descriptions")

    start("manage.py", "run_cluster", Q_CLUSTER_NAME="train")
    manage(environment, "train", "--pool", "shop", "--queue", "--promote", "--set", "encoder=linear")
    site.await_status("done", "failed")
    assert site.run()["status"] == "done"

    def answered() -> dict | None:
        answer = site.route("hello, the parcel is late and also error 500 on login")
        return answer.json() if answer.status_code == 200 and answer.json()["model"] != "descriptions" else None

    route = until(answered, "an answer by the promoted model")
    assert route is not None
    assert set(route["agents"]) == {1, 2}
    assert set(route["agent_names"]) == {"Shipping", "Technical"}
    assert route["model"] == "shop-1"
    assert set(route["scores"]) == {"0", "1", "2"}
    none = site.route("good morning, tell me a joke").json()
    assert none["agents"] == []
    assert none["stop_reason"] in ("none", "abstained")


@pytest.mark.at_length
def test_a_killed_worker_is_noticed_and_its_run_goes_on_with_another(
    site: Site, environment: dict[str, str], start: Callable[..., subprocess.Popen]
) -> None:
    worker = start("manage.py", "run_cluster", Q_CLUSTER_NAME="train")
    long = ("--set", "encoder=linear", "--set", "decision=ddqn", "--set", "total_steps=2000000")
    manage(environment, "train", "--pool", "shop", "--queue", *long)
    site.await_status("running")
    os.killpg(worker.pid, signal.SIGKILL)
    site.await_status("queued")

    start("manage.py", "run_cluster", Q_CLUSTER_NAME="train")
    site.await_status("running")
    assert site.client.post(f"/api/runs/{site.run()['id']}/cancel/").json()["status"] == "cancelled"
    assert site.run()["status"] == "cancelled"
