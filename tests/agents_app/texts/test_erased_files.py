"""What is erased leaves the files of a SQLite database too, not only its tables."""

import sqlite3
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.db import connection, transaction

from agents_app.accounts import personal
from agents_app.texts import personal_data
from agents_app.texts.matching import Terms
from datasets_app.labels import erased_queries
from datasets_app.models import Query, text_hash
from routerweb.erasing import empty_log
from tests.agents_app.texts.made_rows import row

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.any_database,
    pytest.mark.skipif("connection.vendor != 'sqlite'", reason="PostgreSQL's vacuum frees what is erased"),
]
NAME = "Quillfeatherstone"


def in_files(name: str) -> set[str]:
    """The ends of the names of the database's files in which these bytes stand."""
    database = Path(str(connection.settings_dict["NAME"]))
    files = database.parent.glob(f"{database.name}*")
    return {file.name.removeprefix(database.name) for file in files if name.encode() in file.read_bytes()}


def letters(count: int = 40) -> list[Query]:
    texts = [f"letter {number} of {NAME}" for number in range(count)]
    return [row(Query, text=text, text_hash=text_hash(text)) for text in texts]  # type: ignore[misc]


def test_an_erased_customer_leaves_no_bytes() -> None:
    letters()
    assert in_files(NAME)
    assert personal_data.erase(Terms([NAME]), None) == []
    assert in_files(NAME) == set()


def test_an_erased_query_leaves_no_bytes() -> None:
    query = letters(1)[0]
    assert in_files(NAME)
    erased_queries.erase(query)
    assert in_files(NAME) == set()


def test_an_erased_member_leaves_no_bytes() -> None:
    member = User.objects.create_user(f"{NAME}@example.com", last_name=NAME)
    assert in_files(NAME)
    personal.erase(member, None)
    assert in_files(NAME) == set()


def test_the_log_stays_while_somebody_reads_and_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("routerweb.erasing.LOG_TRIES", 1)
    letters(1)
    reader = sqlite3.connect(str(connection.settings_dict["NAME"]), isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM datasets_app_query").fetchone()
    letters(1)
    assert not empty_log()
    reader.execute("COMMIT")
    reader.close()
    assert empty_log()


def test_within_a_transaction_nothing_is_done() -> None:
    with transaction.atomic():
        assert not empty_log()
