"""Databases with all migrations applied. That takes most of ten seconds, so it is done once and the result copied; and what `migrate`
has put into them stays there, or is put back, when a test with transactions of its own has ended."""

import contextlib
import os
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import pytest
from django.core.management.color import no_style
from django.core.management.commands import flush
from django.db import connection, models

from tests.made_once import ROOT, TABLES, made_once

#: Which models there are, and what can be done with them: no test writes these.
STAYS = {"django_content_type", "auth_permission"}


def put_back_after_flush(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups and schedules, as they are in the database now, follow each `flush` by two queries instead of some hundred."""
    from django.contrib.auth.models import Group
    from django_q.models import Schedule

    kinds: list[type[models.Model]] = [Group, Group.permissions.through, Schedule]
    rows = {kind: list(kind._default_manager.all()) for kind in kinds}

    def emptied(style: Any, connection: Any, **options: Any) -> list[str]:
        tables = connection.introspection.django_table_names(only_existing=True, include_views=False)
        tables = [table for table in tables if table not in STAYS]
        if connection.vendor != "postgresql" or options["reset_sequences"]:
            return list(connection.ops.sql_flush(style, tables, **options))
        # TRUNCATE makes each table and index anew, whatever is in them; as a replica, DELETE asks nobody else's keys.
        rows_out = "; ".join(f"DELETE FROM {connection.ops.quote_name(table)}" for table in tables)
        return [f"SET LOCAL session_replication_role = replica; {rows_out}"]

    def put_back(*_words: Any) -> None:
        for kind, there in rows.items():
            kind._default_manager.bulk_create(there)
        # A `flush` by name has set the sequences back to one: the next row comes after those that are there again.
        with connection.cursor() as cursor:
            for line in connection.ops.sequence_reset_sql(no_style(), list(rows)):
                cursor.execute(line)

    monkeypatch.setattr(flush, "sql_flush", emptied)
    monkeypatch.setattr(flush, "emit_post_migrate_signal", put_back)


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
