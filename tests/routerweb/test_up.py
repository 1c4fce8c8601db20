"""What `manage.py up` does about a part that ends by itself."""

import contextlib
import io
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from agents_app import clusters
from agents_app.accounts import setup
from routerweb import installation, keeper
from routerweb.keeper import Child
from routerweb.serving import listening
from tests.on_postgresql import free_port
from tests.waiting import until
from training_app.management.commands.up import Command

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.process, pytest.mark.any_database]
LIVING = "import time; time.sleep(60)"


@pytest.fixture
def child() -> Iterator[Callable[..., Child]]:
    made: list[Child] = []

    def start(code: str, name: str = "web server") -> Child:
        one = Child(name, [sys.executable, "-c", code], {})
        one.start()
        made.append(one)
        return one

    yield start
    for one in made:
        if one.process is not None and one.running:
            one.process.kill()
            one.process.wait()


def said(one: Child) -> str:
    return until(one.look, "its end")


def test_one_that_fails_at_its_first_start_is_not_started_again(child: Callable[..., Child]) -> None:
    one = child("raise SystemExit(1)")
    assert said(one) == "The web server ended by itself, with status 1"
    assert one.hopeless


@pytest.mark.parametrize("status", ["os.kill(os.getpid(), 9)", "sys.exit(3)"])
def test_one_that_was_killed_or_asks_for_it_is_started_again(child: Callable[..., Child], status: str) -> None:
    one = child(f"import os, sys; {status}")
    assert said(one)
    assert not one.hopeless
    until(lambda: one.look() == "" and one.process is not None, "its next start")


def test_one_that_keeps_ending_is_started_less_and_less_often(
    child: Callable[..., Child], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = child("import os; os.kill(os.getpid(), 9)")
    pauses = []
    for _turn in range(7):
        said(one)
        pauses.append(one._pause)
        one._at = 0.0
    assert pauses == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    monkeypatch.setattr(keeper, "YOUNG_SECONDS", 0.0)
    said(one)
    assert one._pause == 0.0, "it lived for long"


def test_a_cluster_and_its_successor_share_a_slot(child: Callable[..., Child]) -> None:
    tells = "import os, signal, sys; sys.exit(10 + len(os.environ['ROUTERWEB_CLUSTER']))"
    one = child(tells, "job cluster")
    assert said(one).endswith("with status 22")
    assert one._more["ROUTERWEB_CLUSTER"] != Child("job cluster", [], {})._more["ROUTERWEB_CLUSTER"]
    assert "ROUTERWEB_CLUSTER" not in child(LIVING)._more


def test_a_signal_ends_it_like_any_other(child: Callable[..., Child]) -> None:
    one = child(LIVING)
    assert one.process is not None
    os.kill(one.process.pid, signal.SIGTERM)
    assert said(one).endswith("with status -15")


def test_it_knows_by_what_status_a_cluster_asks_for_another_start() -> None:
    assert keeper.AGAIN == clusters.AGAIN


def test_it_imports_nothing_of_the_product(tmp_path: Path) -> None:
    """`python -I -S` does not even see the product's packages."""
    plan = json.dumps({"children": [["part", [sys.executable, "-c", LIVING], {}]], "setup": None, "welcome": None})
    command = [sys.executable, "-I", "-S", str(keeper.__file__), plan]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as keeping:
        children = Path(f"/proc/{keeping.pid}/task/{keeping.pid}/children")
        started = until(lambda: children.read_text().split() if children.exists() else [], "its child")
        keeping.send_signal(signal.SIGTERM)
        assert keeping.communicate(timeout=30) == ("Routerweb has stopped.\n", "")
    assert keeping.returncode == 0
    assert not Path(f"/proc/{started[0]}").exists()


def test_what_the_demo_says_follows_the_card(tmp_path: Path) -> None:
    log = tmp_path / "demo.log"
    log.write_text("no disk")
    said = {}
    for status in (0, 1):
        code = f"""
import os, sys, time, json, subprocess
setup = subprocess.Popen([sys.executable, "-c", "raise SystemExit({status})"])
welcome = subprocess.Popen([sys.executable, "-c", "print('card', flush=True); raise SystemExit({keeper.SAYS_TRAINING})"])
plan = {{"children": [["part", [sys.executable, "-c", {LIVING!r}], {{}}]], "setup": [setup.pid, {str(log)!r}], "welcome": welcome.pid}}
os.execv(sys.executable, [sys.executable, "-I", "-S", {str(keeper.__file__)!r}, json.dumps(plan)])
"""
        words = [sys.executable, "-c", code]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as keeping:
            assert keeping.stdout is not None
            lines = [keeping.stdout.readline(), keeping.stdout.readline()]
            keeping.send_signal(signal.SIGTERM)
            said[status] = "".join(lines) + keeping.stdout.read()
    assert said[0].startswith("card\n  The first router answers now.")
    assert said[1].startswith("card\nThe demo could not be set up:\nno disk\n")


@pytest.mark.parametrize(
    ("end", "why"),
    [
        (f"raise SystemExit({keeper.NOT_MIGRATED})", "The migration of the database failed"),
        ("import os; os.kill(os.getpid(), 9)", "The setup of the database was killed by signal 9"),
    ],
)
def test_a_database_that_cannot_be_migrated_ends_everything(tmp_path: Path, end: str, why: str) -> None:
    code = f"""
import os, sys, json, subprocess
setup = subprocess.Popen([sys.executable, "-c", {end!r}])
children = [["web server", [sys.executable, "-c", {LIVING!r}], {{}}], ["job cluster", [{str(tmp_path / "never")!r}], {{}}]]
plan = {{"children": children, "setup": [setup.pid, None], "welcome": None}}
os.execv(sys.executable, [sys.executable, "-I", "-S", {str(keeper.__file__)!r}, json.dumps(plan)])
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == f"{why}; its lines above say why.\n"


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Callable[..., tuple[subprocess.Popen[str], str]]]:
    """Starts `manage.py up` with these words in a new data folder; the process, and the address of its web server."""
    started: list[subprocess.Popen[str]] = []
    installation.make_folder(tmp_path)

    def start(*words: str) -> tuple[subprocess.Popen[str], str]:
        port = str(free_port())
        environment = {
            **os.environ, "DJANGO_SETTINGS_MODULE": "routerweb.settings", "DATA_DIR": str(tmp_path), "DATABASE_URL": "",
            "SECRET_KEY": "a-key-of-the-tests-that-start-everything", "PLAIN_HTTP": "1", "PORT": port,
        }  # fmt: skip
        command = [sys.executable, "-W", "ignore", "manage.py", "up", *words]
        output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        started.append(subprocess.Popen(command, cwd=ROOT, env=environment, start_new_session=True, **output))  # type: ignore[call-overload]
        return started[-1], f"http://127.0.0.1:{port}"

    yield start
    for process in started:
        process.kill()  # all others end with it
        process.wait()


@pytest.mark.at_length
def test_it_migrates_an_empty_database_and_the_web_server_waits_for_it(
    up: Callable[..., tuple], tmp_path: Path
) -> None:
    process, address = up("web", "--migrate")
    assert process.stdout.readline() == "\n", "nothing is said before the card, not even by a server without tables"
    assert process.stdout.readline().startswith("  Routerweb is running. Set it up, within a day, at")
    assert httpx.get(f"{address}/api/ready/", timeout=30).status_code == 200
    process.terminate()
    assert process.stdout.read().endswith("Routerweb has stopped.\n")
    assert (tmp_path / "routerweb.sqlite3").stat().st_size > 0


def test_it_says_why_a_database_cannot_be_migrated(up: Callable[..., tuple], tmp_path: Path) -> None:
    (tmp_path / "routerweb.sqlite3").write_text("These are no tables.\n" * 100)
    process, _address = up("--migrate")
    said = process.communicate(timeout=60)[0]
    assert "file is not a database" in said
    assert said.endswith("The migration of the database failed; its lines above say why.\n")
    assert process.returncode == 1


@pytest.mark.at_length
def test_it_starts_nothing_on_a_database_of_an_earlier_version(up: Callable[..., tuple], tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / "routerweb.sqlite3")) as database:
        database.execute("CREATE TABLE agents_app_stamp (id integer PRIMARY KEY, value integer)")
    process, _address = up()
    said = process.communicate(timeout=60)[0]
    assert "The database is of an earlier version: it lacks " in said
    assert said.endswith(" more. Migrate it first: python manage.py migrate\n")
    assert process.returncode == 1


def test_the_link_of_a_new_installation_is_by_its_public_address(
    monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    settings.SITE_URL = "https://routes.example.com"
    monkeypatch.setattr(setup, "is_new", lambda: True)
    assert f"  {settings.SITE_URL}/setup/" in Command()._card()
    monkeypatch.setattr(setup, "is_new", lambda: False)
    assert Command()._card() == "\n  Routerweb is running at https://routes.example.com\n"


def test_it_warns_of_another_web_server_at_its_port(monkeypatch: pytest.MonkeyPatch) -> None:
    said = io.StringIO()
    command = Command(stderr=said, no_color=True)
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        monkeypatch.setattr(listening, "PORT", port)
        listening.check_address()  # beside it one may listen
        command._warn_of_another()
    assert said.getvalue().startswith(f"Something listens at 127.0.0.1:{port} already.")
    said.truncate(0)
    command._warn_of_another()
    assert said.getvalue() == ""
