"""`python -m tests.on_postgresql [pytest arguments]` starts a PostgreSQL server of its own and runs the tests on it.

The server is a fresh cluster in a temporary folder, reached through a socket and a free port of this machine, and gone afterwards.
Where PostgreSQL is not installed this says so and passes, unless REQUIRE_POSTGRESQL=1 (as in CI).
"""

import contextlib
import glob
import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path


def binary(name: str) -> str | None:
    """The newest installed PostgreSQL's program of that name: on the PATH, or where Debian keeps it."""
    places = sorted(glob.glob(f"/usr/lib/postgresql/*/bin/{name}"), reverse=True)
    return shutil.which(name) or (places[0] if places else None)


def _as_other_user() -> list[str]:
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


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def server() -> Iterator[str]:
    """A running PostgreSQL server; yields its DATABASE_URL. Raises FileNotFoundError where none is installed."""
    initdb, postgres = binary("initdb"), binary("postgres")
    if not initdb or not postgres:
        raise FileNotFoundError("PostgreSQL is not installed: neither initdb nor postgres was found.")
    other = _as_other_user()
    with tempfile.TemporaryDirectory(prefix="routerweb-postgresql-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o777)
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "cwd": folder, "text": True}
        made = subprocess.run(
            [*other, initdb, "-D", folder / "data", "-U", "routerweb", "-A", "trust", "-E", "UTF8", "--no-sync"],
            **quiet,
        )
        if made.returncode:
            raise RuntimeError(f"initdb failed: {made.stderr.strip()}")
        port = _free_port()
        options = ["-c", "fsync=off", "-c", "max_connections=200", "-c", f"unix_socket_directories={folder}"]
        with open(folder / "log", "w") as log:
            process = subprocess.Popen(
                [*other, postgres, "-D", folder / "data", "-h", "127.0.0.1", "-p", str(port), *options],
                stdout=log, stderr=log, cwd=folder,
            )  # fmt: skip
        try:
            _await_port(port, process, folder / "log")
            yield f"postgresql://routerweb@127.0.0.1:{port}/postgres"
        finally:
            process.terminate()
            process.wait(timeout=30)


def _await_port(port: int, process: subprocess.Popen, log: Path) -> None:
    import psycopg

    for _ in range(300):
        if process.poll() is not None:
            raise RuntimeError(f"PostgreSQL did not start:\n{log.read_text()}")
        with contextlib.suppress(psycopg.OperationalError):
            psycopg.connect(host="127.0.0.1", port=port, user="routerweb", dbname="postgres").close()
            return
        time.sleep(0.1)
    raise RuntimeError(f"PostgreSQL did not answer within 30 seconds:\n{log.read_text()}")


def main(arguments: list[str]) -> int:
    try:
        with server() as url:
            environment = {**os.environ, "DATABASE_URL": url}
            return subprocess.run([sys.executable, "-m", "pytest", *arguments], env=environment).returncode
    except FileNotFoundError as error:
        print(f"SKIPPED the tests on PostgreSQL: {error}")
        return 1 if os.environ.get("REQUIRE_POSTGRESQL") == "1" else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
