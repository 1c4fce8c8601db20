"""Databases with all migrations applied. That takes most of ten seconds, so it is done once and the result copied."""

import contextlib
import os
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from tests.made_once import ROOT, TABLES, made_once


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


def sqlite() -> Path:
    """An SQLite file with all migrations applied: to be copied."""
    return made_once("migrated", _make, TABLES) / "migrated.sqlite3"


def _make(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as data:
        made = Path(data) / "made.sqlite3"
        migrate(f"sqlite:///{made}", Path(data))
        copy(made, folder / "migrated.sqlite3")


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
