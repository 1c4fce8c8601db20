"""PgBouncer in transaction mode in front of a PostgreSQL server of the tests: each transaction gets a connection of its choice."""

import contextlib
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg

from tests.on_postgresql import as_other_user, free_port

#: Connections to the server that all clients share.
CONNECTIONS = 6


def program() -> str | None:
    """Where PgBouncer is installed; None where it is not."""
    return shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")


class PgBouncer:
    """A PgBouncer with its settings below `folder`; `url` is the DATABASE_URL that goes through it. `stop` and `start` may follow each
    other. Raises FileNotFoundError where it is not installed."""

    def __init__(self, url: str, folder: Path) -> None:
        binary = program()
        if binary is None:
            raise FileNotFoundError("PgBouncer is not installed.")
        server, port = urlsplit(url), free_port()
        folder.mkdir(exist_ok=True)
        folder.chmod(0o755)
        users, settings = folder / "users", folder / "pgbouncer.ini"
        users.write_text(f'"{server.username}" ""\n')
        settings.write_text(
            f"[databases]\npostgres = host=127.0.0.1 port={server.port} dbname=postgres user={server.username}\n"
            f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n"
            f"unix_socket_dir =\nauth_type = any\nauth_file = {users}\npool_mode = transaction\n"
            f"default_pool_size = {CONNECTIONS}\nmax_client_conn = 200\nserver_login_retry = 1\n"
        )
        for path in (users, settings):
            path.chmod(0o644)
        self.url = urlunsplit(server._replace(netloc=f"{server.username}@127.0.0.1:{port}"))
        self._command = [*as_other_user(), binary, "-q", str(settings)]
        self._process: subprocess.Popen | None = None

    def start(self) -> None:
        """Start it and wait until it answers."""
        self._process = subprocess.Popen(self._command, stderr=subprocess.PIPE)
        _await(self.url, self._process)

    def stop(self) -> None:
        """End it, every connection cut."""
        assert self._process is not None
        self._process.terminate()
        self._process.wait(10)


@contextlib.contextmanager
def in_front_of(url: str) -> Iterator[str]:
    """A running PgBouncer; yields the DATABASE_URL that goes through it. Raises FileNotFoundError where it is not installed."""
    with tempfile.TemporaryDirectory(prefix="routerweb-pgbouncer-") as name:
        running = PgBouncer(url, Path(name))
        running.start()
        try:
            yield running.url
        finally:
            running.stop()


def _await(url: str, process: subprocess.Popen) -> None:
    for _n in range(100):
        if process.poll() is not None:
            raise RuntimeError(f"PgBouncer did not start: {process.stderr.read().decode() if process.stderr else ''}")
        with contextlib.suppress(psycopg.OperationalError):
            psycopg.connect(url).close()
            return
        time.sleep(0.1)
    raise RuntimeError("PgBouncer did not answer within 10 seconds.")
