"""Threads of a web server that share connections to PostgreSQL."""

import threading
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
from django.db import connection
from django.db.utils import ConnectionHandler

from routerweb import background
from routerweb.settings import database

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both_databases]
NAME, CONNECTIONS = "routerweb-pool", 4


@pytest.fixture
def shared() -> Iterator[ConnectionHandler]:
    """The tests' database, by a pool of its own."""
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has no server whose connections could be shared.")
    own = connection.settings_dict
    query = urlencode({"application_name": NAME})
    handler = ConnectionHandler(
        {
            "default": database(
                f"postgresql://{own['USER']}@{own['HOST']}:{own['PORT']}/{own['NAME']}?{query}", pool=CONNECTIONS
            )
        }
    )
    yield handler
    handler["default"].close()
    handler["default"].close_pool()


def server_connections() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE application_name = %s", [NAME])
        return int(cursor.fetchone()[0])


def test_more_threads_than_connections_all_have_their_turn(shared: ConnectionHandler) -> None:
    answers, seen = [], []

    def request() -> None:
        with shared["default"].cursor() as cursor:
            cursor.execute("SELECT pg_sleep(0.05), 7")
            answers.append(cursor.fetchone()[1])
        shared["default"].close()  # as Django does after a request

    threads = [threading.Thread(target=request) for _n in range(5 * CONNECTIONS)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        seen.append(server_connections())
        time.sleep(0.01)
    assert answers == [7] * len(threads)
    assert 1 <= max(seen) <= CONNECTIONS


def test_a_background_thread_holds_none_while_it_rests(
    shared: ConnectionHandler, monkeypatch: Any, settings: Any
) -> None:
    monkeypatch.setitem(settings.DATABASES, "default", shared.settings["default"])
    monkeypatch.setattr(background, "connections", shared)
    turns: list[int] = []

    def turn() -> float:
        with shared["default"].cursor() as cursor:
            cursor.execute("SELECT 1")
        turns.append(1)
        return 60.0

    threads = [background.Background(f"pooled {n}", turn, always=True) for n in range(CONNECTIONS + 2)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 30
    while len(turns) < len(threads) and time.monotonic() < deadline:
        time.sleep(0.02)
    for thread in threads:
        thread.stop()
    assert len(turns) == len(threads)
