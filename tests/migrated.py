"""Databases with all migrations applied. That takes most of ten seconds, so it is done once and the result copied."""

import contextlib
import fcntl
import hashlib
import os
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

ROOT = Path(__file__).parent.parent
ROOMS = ("routerweb", "agents_app", "datasets_app", "training_app")


def migrate(url: str, data: Path) -> None:
    """Apply all migrations, as an installation of its own does, to the database at this address."""
    environment = {
        **os.environ,
        "DATABASE_URL": url,
        "DATA_DIR": str(data),
        "SECRET_KEY": "migrated",
        "PLAIN_HTTP": "1",
    }
    environment["DJANGO_SETTINGS_MODULE"] = "routerweb.settings"
    words = [sys.executable, "manage.py", "migrate", "--verbosity", "0"]
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def _digest() -> str:
    """Of all that a migrated database may follow from: the code and the pinned packages."""
    found = hashlib.sha256((ROOT / "requirements.txt").read_bytes())
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            found.update(path.read_bytes())
    return found.hexdigest()[:16]


def sqlite(folder: Path) -> Path:
    """A migrated SQLite file in `folder`, made where that of today's code is not there yet; other processes wait for it."""
    path = folder / f"{_digest()}.sqlite3"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            for old in folder.glob("*.sqlite3"):
                old.unlink()
            with tempfile.TemporaryDirectory() as data:
                made = Path(data) / "made.sqlite3"
                migrate(f"sqlite:///{made}", Path(data))
                copy(made, path.with_suffix(".part"))
            path.with_suffix(".part").rename(path)
    return path


def copy(source: Path, target: Path) -> None:
    """The database in another file, whatever its write-ahead log still holds."""
    with contextlib.closing(sqlite3.connect(source)) as read, contextlib.closing(sqlite3.connect(target)) as written:
        read.backup(written)


def postgresql(url: str, name: str) -> str:
    """The address of a new database on the server at `url`: a copy of the one that `python -m tests.on_postgresql` has
    migrated, or migrated here."""
    import psycopg

    template = os.environ.get("MIGRATED_DATABASE")
    made = urlunsplit(urlsplit(url)._replace(path=f"/{name}"))
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}" + (f" TEMPLATE {template}" if template else ""))
    if not template:
        with tempfile.TemporaryDirectory() as data:
            migrate(made, Path(data))
    return made
