"""What a page costs a database in tests that count its queries and the rows that it reads."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from django.db import connection
from django.test.utils import CaptureQueriesContext

#: Steps of SQLite's virtual machine between two counts.
STEPS = 100


def queries(count: int) -> int:
    """So many queries of a page, and on PostgreSQL the three by which its statements get their limit (`routerweb.pages.page_time`)."""
    return count + (3 if connection.vendor == "postgresql" else 0)


@dataclass
class Cost:
    """What a page took."""

    statements: int = 0
    read: int = 0


@contextmanager
def counted() -> Iterator[Cost]:
    """What is read within it: rows on PostgreSQL, steps of the virtual machine on SQLite."""
    cost = Cost()
    before = _rows_read() if connection.vendor == "postgresql" else 0

    def step() -> int:
        cost.read += STEPS
        return 0

    if connection.vendor == "sqlite":
        connection.connection.set_progress_handler(step, STEPS)
    try:
        with CaptureQueriesContext(connection) as made:
            yield cost
    finally:
        if connection.vendor == "sqlite":
            connection.connection.set_progress_handler(None, 0)
    cost.statements = len(made)
    if connection.vendor == "postgresql":
        cost.read = _rows_read() - before


def _rows_read() -> int:
    """Rows that this transaction has read so far, by scans of tables and by indexes."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT sum(pg_stat_get_xact_tuples_returned(oid) + pg_stat_get_xact_tuples_fetched(oid)) FROM pg_class "
            "WHERE relkind IN ('r', 'i') AND relname !~ '^(pg_|django_)'"
        )
        return int(cursor.fetchone()[0] or 0)
