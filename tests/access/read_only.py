"""A connection that refuses writes, and remembers what was refused."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import DatabaseError, connection, transaction

#: How the databases say it.
REFUSALS = re.compile("readonly database|read-only transaction")


@contextmanager
def read_only() -> Iterator[list[str]]:
    """The statements that the database refuses within it, because they write."""
    refused: list[str] = []

    def noted(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
        try:
            return execute(sql, params, many, context)
        except DatabaseError as error:
            if REFUSALS.search(str(error)):
                refused.append(sql)
            raise

    sqlite = connection.vendor == "sqlite"
    connection.ensure_connection()
    if sqlite:
        connection.connection.execute("PRAGMA query_only = ON")
    try:
        with transaction.atomic(), connection.execute_wrapper(noted):
            if not sqlite:  # until the savepoint is rolled back
                connection.cursor().execute("SET TRANSACTION READ ONLY")
            yield refused
            transaction.set_rollback(True)
    finally:
        if sqlite:
            connection.connection.execute("PRAGMA query_only = OFF")
