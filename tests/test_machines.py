"""The instruments that several machines are measured with: they would see what they are there to see."""

import os
import socket
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from benchmarks.machines.bench import SMALL
from benchmarks.machines.site import Answered, Machine, Site, owner_of_port, tree, wait_for
from benchmarks.machines.traffic import staleness
from tests import on_postgresql, pgbouncer
from tests.test_end_to_end import write_folder

pytestmark = pytest.mark.any_database
#: A was active from the beginning until between 10.0 and 10.2, B until between 20.0 and 20.1, then A again.
SPANS = [("A", 0.0, 0.0), ("B", 10.0, 10.2), ("A", 20.0, 20.1)]


def answered(model: str, began: float, ended: float) -> Answered:
    return Answered(began, ended, 200, model, "", "web-1")


@pytest.mark.parametrize(
    ("model", "began", "ended", "seconds"),
    [
        ("A", 5.0, 5.1, 0.0),
        ("A", 10.1, 10.3, 0.0),  # it may still have been active
        ("A", 13.2, 13.3, 3.0),
        ("A", 25.0, 25.1, 0.0),
        ("B", 21.6, 21.7, 1.5),
        ("B", 9.0, 9.5, float("inf")),  # before it ever was active
        ("C", 5.0, 5.1, float("inf")),
    ],
)
def test_an_answer_is_as_stale_as_its_model_was_replaced_long_ago(
    model: str, began: float, ended: float, seconds: float
) -> None:
    assert staleness(answered(model, began, ended), SPANS) == pytest.approx(seconds)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc, which only Linux has")
def test_the_process_that_holds_a_connection_is_found_among_its_parents_children() -> None:
    code = (
        "import socket, sys; s = socket.create_connection(('127.0.0.1', int(sys.argv[1]))); "
        "print(s.getsockname()[1], flush=True); input()"
    )
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        command = [sys.executable, "-c", code, port]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            local = int(child.stdout.readline())
            assert child.pid in tree(os.getpid())
            assert owner_of_port(local, tree(os.getpid())) == child.pid
            assert owner_of_port(local, []) is None
            child.communicate("\n")


@pytest.mark.process
@pytest.mark.at_length
@pytest.mark.skipif(sys.platform != "linux", reason="PostgreSQL is started as Debian has it")
@pytest.mark.parametrize("pooled", [False, True], ids=["directly", "through PgBouncer"])
def test_two_machines_share_nothing_but_the_database(tmp_path: Path, pooled: bool) -> None:
    """Two web servers and two workers, each with a data folder of its own: a model that either trains is answered by both."""
    if on_postgresql.binary("initdb") is None and os.environ.get("REQUIRE_POSTGRESQL") != "1":
        pytest.skip("PostgreSQL is not installed")
    if pooled and pgbouncer.program() is None and os.environ.get("REQUIRE_PGBOUNCER") != "1":
        pytest.skip("PgBouncer is not installed")
    with on_postgresql.server() as server, pgbouncer.in_front_of(server) if pooled else nullcontext(server) as url:
        site = Site(
            tmp_path, url, DJANGO_SETTINGS_MODULE="routerweb.settings", DATABASE_TRANSACTION_POOLING=str(int(pooled))
        )
        try:
            site.manage("migrate", "--verbosity", "0")
            (tmp_path / "pool").mkdir()
            write_folder(tmp_path / "pool")
            site.manage("load_pool", str(tmp_path / "pool"), "--slug", "shop")
            key = site.key("shop", "route", "ops")
            webs = [site.start("web"), site.start("web")]
            workers = [site.start("worker"), site.start("worker")]

            def answered(machine: Machine) -> str:
                status, said = machine.post("/api/route/", key, {"query": "where is my parcel"})
                return str(said["model"]) if status == 200 else f"{status}"

            runs = [web.post("/api/runs/", key, {"pool": "shop", "config": SMALL})[1]["id"] for web in webs]
            for web, run in zip(reversed(webs), runs, strict=True):  # each is asked about the other's
                wait_for(lambda w=web, r=run: w.get(f"/api/runs/{r}/", key)[1]["status"] == "done", f"run {run}")
            for version, web in ((1, webs[0]), (2, webs[1]), (1, webs[0])):
                status, said = web.post(f"/api/models/shop-{version}/promote/", key, {"override": "to see it spread"})
                assert status == 200, said
                for other in webs:
                    wait_for(
                        lambda o=other, v=version: answered(o) == f"shop-{v}", f"shop-{version} at {other.name}", 30
                    )
            assert all(machine.process.poll() is None for machine in (*webs, *workers))
            for machine in site.machines:
                files = [path.name for path in (tmp_path / machine.name).rglob("*") if path.is_file()]
                left = [
                    name for name in files if not name.endswith(".tally")
                ]  # processes of one machine count together
                assert left == [], f"{machine.name} keeps files of its own"
        finally:
            site.close()
