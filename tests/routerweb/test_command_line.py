"""The command line begins quickly, and a wheel's data lie where a user's data lie."""

import contextlib
import os
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from django.conf import LazySettings
from django.db import OperationalError, ProgrammingError

from routerweb import command_line, paths

pytestmark = pytest.mark.any_database
ROOT = Path(__file__).parents[2]
EVERY_COMMAND = """
import django, sys
django.setup()
from django.core.management import get_commands, load_command_class
for name, app in get_commands().items():
    if app in {"agents_app", "datasets_app", "training_app", "orchestration_app"}:
        load_command_class(app, name).create_parser("manage.py", name)
heavy = {"torch", "sklearn", "scipy", "transformers", "onnxruntime", "openpyxl"}
print(sorted({name.partition(".")[0] for name in sys.modules} & heavy))
"""


def test_no_command_loads_what_only_its_work_needs(tmp_path: Path) -> None:
    environment = {
        **os.environ, "DJANGO_SETTINGS_MODULE": "routerweb.settings", "DEBUG": "1", "DATA_DIR": str(tmp_path),
    }  # fmt: skip
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", EVERY_COMMAND], env=environment, cwd=ROOT, capture_output=True, text=True
    )
    assert (ended.stdout, ended.stderr) == ("[]\n", "")


def test_a_wheels_data_lie_where_a_users_data_lie(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", "relative")
    assert paths.user_data() == tmp_path / ".local" / "share" / "routerweb"
    monkeypatch.setenv("XDG_DATA_HOME", "/srv/people")
    assert paths.user_data() == Path("/srv/people/routerweb")
    monkeypatch.setattr("sys.platform", "darwin")
    assert paths.user_data() == tmp_path / "Library" / "Application Support" / "routerweb"


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[list[str]]:
    """What `routerweb` runs, without running it: each command's words."""
    commands: list[list[str]] = []
    monkeypatch.setattr(command_line, "main", lambda words, program: commands.append([program, *words]))
    monkeypatch.setattr(paths, "DATA_DIR", tmp_path / "data")
    for name in ("SECRET_KEY", "DEBUG", "DATABASE_URL"):
        monkeypatch.delenv(name, raising=False)
    return commands


@pytest.mark.at_length
def test_python_runs_it_where_it_is_not_installed(tmp_path: Path) -> None:
    environment = {**os.environ, "DATA_DIR": str(tmp_path)}
    words = [sys.executable, "-W", "ignore", "-m", "routerweb", "up", "--help"]
    ended = subprocess.run(words, env=environment, cwd=ROOT, capture_output=True, text=True)
    assert ended.stdout.startswith("usage: routerweb up ")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "more", "expected", "kept"),
    [
        (["demo"], {}, [["routerweb", "up", "--demo", "--migrate"]], "key"),
        (["up", "web"], {}, [["routerweb", "up", "web", "--migrate"]], "key"),
        (["up"], {"SECRET_KEY": "mine"}, [["routerweb", "up", "--migrate"]], "folder"),
        (["up"], {"DATABASE_URL": "postgresql://db/routes"}, [["routerweb", "up"]], "nothing"),
        (["up", "--help"], {}, [["routerweb", "up", "--help"]], "nothing"),
        (["train", "--pool", "support"], {}, [["routerweb", "train", "--pool", "support"]], "nothing"),
    ],
)
def test_a_start_sets_up_what_is_missing_and_other_commands_set_up_nothing(
    ran: list[list[str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
    words: list[str], more: dict[str, str], expected: list[list[str]], kept: str,
) -> None:  # fmt: skip
    for name, value in more.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.argv", ["routerweb", *words])
    command_line.installed()
    assert ran == expected
    assert (tmp_path / "data").exists() == (kept != "nothing")
    assert (tmp_path / "data" / "installation.env").exists() == (kept == "key")


@pytest.mark.at_length
@pytest.mark.process
def test_djangos_server_for_development_serves(tmp_path: Path, migrated_sqlite: Path) -> None:
    environment = {
        **os.environ,
        "DEBUG": "1",
        "DATA_DIR": str(tmp_path),
        "DATABASE_URL": f"sqlite:///{migrated_sqlite}",
    }
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ["-W", "ignore", "manage.py", "runserver", "--noreload", str(port)]
    server = subprocess.Popen([sys.executable, *words], env=environment, cwd=ROOT, stdout=subprocess.DEVNULL)
    try:
        answer = None
        while answer is None and server.poll() is None:
            with contextlib.suppress(httpx.TransportError):
                answer = httpx.get(f"http://127.0.0.1:{port}/login/", timeout=60)
        assert answer is not None
        assert answer.status_code in (200, 302)
    finally:
        server.kill()
        server.wait()


def test_a_database_file_that_cannot_be_opened_is_named(settings: LazySettings) -> None:
    said = command_line.what_to_say(OperationalError("unable to open database file"))
    assert said == f"The database file {settings.DATABASES['default']['NAME']} cannot be opened: does its folder exist?"
    assert (
        command_line.what_to_say(OperationalError("disk full\nline 2")) == "The database does not take this: disk full"
    )


@pytest.mark.parametrize(
    "reason",
    [
        'connection failed: connection to server at "127.0.0.1", port 1 failed: FATAL:  password authentication failed for user "r"',
        "failed to resolve host 'db': [Errno -2] Name or service not known",
        "connection timeout expired",
    ],
)
def test_a_database_that_cannot_be_reached_leads_to_its_address(reason: str) -> None:
    said = command_line.what_to_say(OperationalError(reason))
    assert said == f"The database cannot be reached: {reason}. Check that it runs, and DATABASE_URL."
    said = command_line.what_to_say(ProgrammingError('invalid connection option "sslmod"\n'))
    assert said.startswith('DATABASE_URL: invalid connection option "sslmod".')
    assert command_line.what_to_say(ProgrammingError("relation does not exist")) == ""
