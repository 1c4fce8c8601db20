"""Indexes for searches of words in texts, on PostgreSQL, where its extension pg_trgm is installed; `migrate` makes those that lack.

Without the extension searches read row by row, and `check --database default` says so. SQLite has none: the texts of 100,000 queries
are read within a tenth of a second, and an index of them would hold what was erased.
"""

import logging
from collections.abc import Sequence
from typing import Any

from django.apps import AppConfig, apps
from django.core.checks import CheckMessage, Tags, Warning, register
from django.db import DatabaseError, connection, models
from django.db.models.signals import post_migrate

from routerweb import state

logger = logging.getLogger(__name__)
#: What to do where PostgreSQL lacks the extension, or the product's user may not create one.
HINT = (
    "Install pg_trgm on the database's server (Debian: postgresql-contrib), have a superuser run CREATE EXTENSION pg_trgm in this "
    "database, then run `migrate` again."
)
_indexed: list[tuple[type[models.Model], str]] = []
state.keep(__name__, "_indexed", "columns whose texts are searched", "those that applications declare")


def index(model: type[models.Model], column: str) -> None:
    """Declare that a column of texts is searched; to be called in `AppConfig.ready`."""
    _indexed.append((model, column))


def are_indexed(model: type[models.Model]) -> bool:
    """Whether searches of that model's texts have their index."""
    if connection.vendor != "postgresql":
        return False
    with connection.cursor() as cursor:
        cursor.execute("SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s)", [_name(model)])
        return cursor.fetchone() == (True,)


def make_all(app_config: AppConfig | None = None, **_signal: Any) -> None:
    """Make the indexes that lack, without holding up those who write; where the extension is missing, none. `migrate` calls it for
    every application, and it works once, for the last."""
    if connection.vendor != "postgresql" or connection.in_atomic_block:
        return
    if app_config is not None and app_config != [one for one in apps.get_app_configs() if one.models_module][-1]:
        return
    lacking = [(model, column) for model, column in _indexed if not are_indexed(model)]
    tables = connection.introspection.table_names() if lacking else []
    lacking = [(model, column) for model, column in lacking if model._meta.db_table in tables]
    if not lacking:
        return
    with connection.cursor() as cursor:
        try:
            cursor.execute("CREATE EXTENSION IF NOT EXISTS pg_trgm")
        except DatabaseError as error:
            reason = str(error).strip().splitlines()[0]
            logger.warning("Searches of words will be slow in large pools: %s. %s", reason, HINT)
            return
        for model, column in lacking:
            name, table = _name(model), model._meta.db_table
            cursor.execute(f"DROP INDEX IF EXISTS {name}")  # what an interrupted `migrate` left
            cursor.execute("SELECT relkind FROM pg_class WHERE oid = to_regclass(%s)", [table])
            beside = (
                "" if cursor.fetchone() == ("p",) else "CONCURRENTLY"
            )  # which PostgreSQL refuses for a table in parts
            cursor.execute(f"CREATE INDEX {beside} {name} ON {table} USING gin (upper({column}) gin_trgm_ops)")
            # How frequent words are in it, without which the index is used for a word that a third of the rows have.
            cursor.execute(f"ANALYZE {table}")


def _name(model: type[models.Model]) -> str:
    return f"{model._meta.db_table}_words"


@register(Tags.database)
def _check(databases: Sequence[str] | None = None, **_options: Any) -> list[CheckMessage]:
    if not databases or connection.vendor != "postgresql":
        return []
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM pg_extension WHERE extname = 'pg_trgm'")
        if cursor.fetchone():
            return []
    tables = connection.introspection.table_names()
    if not any(model._meta.db_table in tables for model, _column in _indexed):
        return []  # the first `migrate` is still to come, and sets it up
    message = "Searches of words are slow in large pools: this database has no pg_trgm."
    return [Warning(message, hint=HINT, id="routerweb.W001")]


post_migrate.connect(make_all, dispatch_uid="routerweb.database.trigrams")
