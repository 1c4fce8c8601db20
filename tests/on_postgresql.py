"""`python -m tests.on_postgresql [pytest arguments]` starts a PostgreSQL server of its own and runs the tests on it.

The server is a fresh cluster in a temporary folder, reached through a socket and a free port of this machine, and gone afterwards.
Where PostgreSQL is not installed this says so and passes, unless REQUIRE_POSTGRESQL=1 (as in CI).
"""

import contextlib
import glob
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg

from tests import migrated
from tests.made_once import TABLES, made_once


def binary(name: str) -> str | None:
    """The newest installed PostgreSQL's program of that name: on the PATH, or where Debian keeps it."""
    places = sorted(glob.glob(f"/usr/lib/postgresql/*/bin/{name}"), reverse=True)
    return shutil.which(name) or (places[0] if places else None)


def as_other_user() -> list[str]:
    """PostgreSQL refuses to run as root: the words that run a command as a user who is not."""
    if os.geteuid() != 0:
        return []
    user = next(name for name in ("postgres", "nobody") if _exists(name))
    entry = pwd.getpwnam(user)
    return ["setpriv", f"--reuid={entry.pw_uid}", f"--regid={entry.pw_gid}", "--clear-groups"]


def _exists(user: str) -> bool:
    try:
        pwd.getpwnam(user)
    except KeyError:
        return False
    return True


def free_port() -> int:
    """A port of this machine that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Server:
    """A PostgreSQL server of its own below `folder`, on a port of this machine; `url` is its DATABASE_URL.

    `stop` and `start` may follow each other: the data stays. The write-ahead log lies beside the data, not in it, so that the disk
    of the data can be full without the server's end. Raises FileNotFoundError where PostgreSQL is not installed.
    """

    def __init__(self, folder: Path, data: Path | None = None, *options: str) -> None:
        initdb, postgres = binary("initdb"), binary("postgres")
        if not initdb or not postgres:
            raise FileNotFoundError("PostgreSQL is not installed: neither initdb nor postgres was found.")
        folder.chmod(0o777)
        self.folder, self.data, self.port = folder, data or folder / "data", free_port()
        self.url = f"postgresql://routerweb@127.0.0.1:{self.port}/postgres"
        quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "cwd": folder, "text": True}
        made = subprocess.run(
            [
                *as_other_user(), initdb, "-D", str(self.data), "--waldir", str(folder / "log-ahead"), "-U", "routerweb",
                "-A", "trust", "-E", "UTF8", "--no-sync",
            ],
            **quiet,
        )  # fmt: skip
        if made.returncode:
            raise RuntimeError(f"initdb failed: {made.stderr.strip()}")
        given = ("fsync=off", "max_connections=200", f"unix_socket_directories={folder}", *options)
        words = [word for option in given for word in ("-c", option)]
        self._command = [
            *as_other_user(), postgres, "-D", str(self.data), "-h", "127.0.0.1", "-p", str(self.port), *words,
        ]  # fmt: skip
        self._process: subprocess.Popen | None = None

    def start(self) -> None:
        """Start the server and wait until it answers."""
        with open(self.folder / "log", "a") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, cwd=self.folder)
        _await_port(self.port, self._process, self.folder / "log")

    def stop(self, number: int = signal.SIGINT) -> None:
        """Stop it: by SIGINT in order, every connection cut; by SIGQUIT at once, as a crash would."""
        assert self._process is not None
        self._process.send_signal(number)
        self._process.wait(timeout=60)


@contextlib.contextmanager
def server() -> Iterator[str]:
    """A running PostgreSQL server in a temporary folder; yields its DATABASE_URL."""
    with tempfile.TemporaryDirectory(prefix="routerweb-postgresql-", ignore_cleanup_errors=True) as name:
        running = Server(Path(name))
        running.start()
        try:
            yield running.url
        finally:
            running.stop()


def _await_port(port: int, process: subprocess.Popen, log: Path) -> None:
    for _ in range(300):
        if process.poll() is not None:
            raise RuntimeError(f"PostgreSQL did not start:\n{log.read_text()}")
        with contextlib.suppress(psycopg.OperationalError):
            psycopg.connect(host="127.0.0.1", port=port, user="routerweb", dbname="postgres").close()
            return
        time.sleep(0.1)
    raise RuntimeError(f"PostgreSQL did not answer within 30 seconds:\n{log.read_text()}")


def make_template(url: str) -> None:
    """Make the database "migrated", with all migrations applied: from a dump of it where one of today's tables is kept."""
    dump, read = binary("pg_dump"), binary("psql")
    if not dump or not read:
        migrated.postgresql(url, "migrated")
        return
    made = urlunsplit(urlsplit(url)._replace(path="/migrated"))
    fresh = False

    def make(folder: Path) -> None:
        nonlocal fresh
        fresh = True
        migrated.postgresql(url, "migrated")
        subprocess.run([dump, "--no-owner", "--file", str(folder / "dump.sql"), made], check=True)

    version = subprocess.run([dump, "--version"], capture_output=True, text=True, check=True).stdout.split()[2]
    kept = made_once(f"migrated-postgresql-{version}", make, TABLES) / "dump.sql"
    if not fresh:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("CREATE DATABASE migrated")
        words = [read, "--quiet", "--no-psqlrc", "--set", "ON_ERROR_STOP=1", "--file", str(kept), made]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


def main(arguments: list[str]) -> int:
    try:
        with server() as url:
            make_template(url)
            environment = {**os.environ, "DATABASE_URL": url, "MIGRATED_DATABASE": "migrated"}
            # In these the database plays no part: they need not even be imported, with torch.
            without = [
                f"--ignore=tests/{folder}" for folder in ("benchmarks", "browser", "engine", "orchestration_app/engine")
            ]
            return subprocess.run([sys.executable, "-m", "pytest", *without, *arguments], env=environment).returncode
    except FileNotFoundError as error:
        print(f"SKIPPED the tests on PostgreSQL: {error}")
        return 1 if os.environ.get("REQUIRE_POSTGRESQL") == "1" else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
