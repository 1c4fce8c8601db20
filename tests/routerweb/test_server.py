"""The real web server: PORT honoured, models loaded before traffic, Ctrl-C ends it cleanly and no decision is lost."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests import migrated
from tests.made_once import ALL, made_once
from tests.training_app import trained

ROOT = Path(__file__).parents[2]

PREPARE = """
import django
django.setup()
from agents_app import keys, pools
from training_app.versions import registry
pool = pools.create_pool("Support", "support")
for name in ("Billing", "Shipping", "Technical"):
    pools.add_agent(pool, name)
registry.promote(registry.register(None, pool, open("model.zip", "rb").read(), {}), actor=None)
print(keys.create_key("test", [pool], ["route"])[1])
"""
KEPT = "import django; django.setup(); from training_app.models import Decision; print(Decision.objects.count())"


def environment(folder: Path, **more: str) -> dict[str, str]:
    """That of an installation whose data lie in `folder`."""
    return {
        **os.environ, "DJANGO_SETTINGS_MODULE": "routerweb.settings", "DATA_DIR": str(folder),
        "PLAIN_HTTP": "1", "DATABASE_URL": f"sqlite:///{folder / 'web.sqlite3'}", "PYTHONPATH": str(ROOT), **more,
    }  # fmt: skip


def python(folder: Path, *words: str) -> str:
    """What Python prints there."""
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", *words],
        env=environment(folder), cwd=folder, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()


@pytest.fixture(scope="module")
def prepared() -> tuple[Path, str]:
    """The folder of an installation with an active model, and a key: to be copied, since making it takes seconds."""
    folder = made_once("prepared", _prepare, ALL)
    return folder, (folder / "key").read_text()


def _prepare(folder: Path) -> None:
    migrated.copy(migrated.sqlite(), folder / "web.sqlite3")
    (folder / "model.zip").write_bytes(trained.result().artifact)
    (folder / "key").write_text(python(folder, "-c", PREPARE))


class Server:
    """A server started in `folder`: its process group, address, key and what it printed."""

    def __init__(self, folder: Path, key: str, **more: str) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = str(probe.getsockname()[1])
        self.folder, self.key, self.address = folder, key, f"http://127.0.0.1:{port}"
        self.log = folder / "log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-W", "ignore", "-m", "routerweb.serving.server"],
                env=environment(folder, PORT=port, **more), cwd=ROOT, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        self.await_answer()

    def await_answer(self) -> dict:
        for _ in range(600):
            try:
                with urllib.request.urlopen(f"{self.address}/api/health/", timeout=5) as answer:
                    return json.load(answer)
            except (urllib.error.URLError, ConnectionError):
                assert self.process.poll() is None, self.log.read_text()
                time.sleep(0.1)
        raise AssertionError(f"no answer within a minute: {self.log.read_text()}")

    def route(self, query: str) -> dict:
        request = urllib.request.Request(
            f"{self.address}/api/route/",
            json.dumps({"query": query}).encode(),
            {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)

    def workers(self) -> list[int]:
        pid = self.process.pid
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.fixture
def server(tmp_path: Path, prepared: tuple[Path, str]) -> Iterator[Server]:
    folder, key = prepared
    started = Server(Path(shutil.copytree(folder, tmp_path / "installation")), key)
    yield started
    if started.process.poll() is None:
        os.killpg(started.process.pid, signal.SIGKILL)
        started.process.wait(10)


def ctrl_c(server: Server) -> None:
    """What a terminal does: all processes hear it at once."""
    os.killpg(server.process.pid, signal.SIGINT)


def hang_up(server: Server) -> None:
    """What a terminal does that is closed."""
    os.killpg(server.process.pid, signal.SIGHUP)


def terminate(server: Server) -> None:
    """What a supervisor does."""
    server.process.terminate()


@pytest.mark.process
@pytest.mark.any_database
@pytest.mark.parametrize(
    "end", [ctrl_c, *(pytest.param(one, marks=pytest.mark.at_length) for one in (hang_up, terminate))]
)
def test_serves_until_it_is_ended_and_keeps_every_decision(server: Server, end: Callable[[Server], None]) -> None:
    assert server.await_answer() == {"status": "ok"}
    for _ in range(5):
        assert set(server.route("refund the invoice and the app crashes")["agents"]) == {0, 2}
    end(server)
    assert server.process.wait(30) == 0
    assert server.log.read_text() == ""
    assert python(server.folder, "-c", KEPT) == "5"


@pytest.mark.at_length
@pytest.mark.process
@pytest.mark.any_database
@pytest.mark.skipif(sys.platform != "linux", reason="finds the server's workers in /proc, which only Linux has")
def test_a_worker_that_dies_is_replaced(server: Server) -> None:
    first = server.workers()
    assert "_granian" in Path(f"/proc/{first[0]}/maps").read_text()
    # Nor anything else that only workers need.
    assert "_granian" not in Path(f"/proc/{server.process.pid}/maps").read_text()
    os.kill(first[0], signal.SIGKILL)
    for _ in range(300):
        if server.workers() not in ([], first):
            break
        time.sleep(0.1)
    server.await_answer()
    assert set(server.route("the parcel is late")["agents"]) == {1}


def cpu_seconds(server: Server) -> float:
    """What all threads of the server's processes have computed so far."""
    folders = (f"/proc/{pid}/task" for pid in (server.process.pid, *server.workers()))
    files = (file for folder in folders for file in Path(folder).glob("*/schedstat"))
    return sum(int(file.read_text().split()[0]) for file in files) / 1e9


def send_batch(server: Server, body: bytes) -> socket.socket:
    """A connection on which a batch was sent whole."""
    address, _colon, port = server.address.removeprefix("http://").partition(":")
    connection = socket.create_connection((address, int(port)))
    connection.sendall(
        f"POST /api/route/batch/ HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {server.key}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        + body
    )
    return connection


@pytest.mark.at_length
@pytest.mark.process
@pytest.mark.any_database
@pytest.mark.skipif(sys.platform != "linux", reason="reads the server's CPU time in /proc, which only Linux has")
def test_batches_whose_clients_leave_cost_a_part_of_what_they_would(server: Server) -> None:
    """In CPU time, which a busy machine does not stretch."""
    body = json.dumps({"queries": ["refund the invoice, the app crashes " * 27] * 1_000}).encode()
    answered = send_batch(server, body)  # the first call also loads what later ones use
    assert answered.recv(1 << 16).startswith(b"HTTP/1.1 200")
    answered.close()
    before = cpu_seconds(server)
    answered = send_batch(server, body)
    assert answered.recv(1 << 16).startswith(b"HTTP/1.1 200")
    answered.close()
    whole, before = cpu_seconds(server) - before, cpu_seconds(server)
    for connection in [send_batch(server, body) for _ in range(10)]:
        connection.close()
    assert set(server.route("refund the invoice, the app crashes " * 200)["agents"]) == {0, 2}  # it waits for no batch
    for _ in range(600):
        earlier = cpu_seconds(server)
        time.sleep(0.2)
        if cpu_seconds(server) - earlier < 0.02:
            break
    assert cpu_seconds(server) - before < 5 * whole
    assert server.log.read_text() == ""
