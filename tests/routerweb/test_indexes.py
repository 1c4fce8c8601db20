"""An index for a table in use is built while others write, and again where that broke off."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import Group
from django.db import NotSupportedError, connection, models
from django.db.migrations.state import ProjectState

from routerweb.database.indexes import AddIndexInUse, RemoveIndexInUse

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both_databases]
NAME, TABLE = "groups_tried", Group._meta.db_table
OPERATION = AddIndexInUse("group", models.Index(fields=["name"], name=NAME))


@pytest.fixture
def states() -> Iterator[tuple[ProjectState, ProjectState]]:
    """The state before and after the operation; the index is dropped in the end."""
    before = ProjectState.from_apps(apps)
    after = before.clone()
    OPERATION.state_forwards("auth", after)
    yield before, after
    with connection.cursor() as cursor:
        cursor.execute(f"DROP INDEX IF EXISTS {NAME}")


def build(states: tuple[ProjectState, ProjectState], atomic: bool = False) -> list[str]:
    """The statements that the operation has the database do."""
    statements: list[str] = []

    def noted(execute: Any, sql: str, *rest: Any) -> Any:
        statements.append(sql.split(NAME)[0].replace('"', "").strip())
        return execute(sql, *rest)

    with connection.execute_wrapper(noted), connection.schema_editor(atomic=atomic) as editor:
        OPERATION.database_forwards("auth", editor, *states)
    return [sql for sql in statements if sql.startswith(("CREATE INDEX", "DROP INDEX"))]


def there() -> bool:
    with connection.cursor() as cursor:
        return NAME in connection.introspection.get_constraints(cursor, TABLE)


def test_it_is_built_once_and_a_migrate_that_broke_off_can_be_repeated(states: Any) -> None:
    assert len(build(states)) == 1
    assert there()
    assert build(states) == []
    with connection.schema_editor(atomic=False) as editor:
        OPERATION.database_backwards("auth", editor, *reversed(states))
    assert not there()


def test_it_is_removed_while_others_read_and_write_and_once_is_enough(states: Any) -> None:
    build(states)
    before, after = states
    removal = RemoveIndexInUse("group", NAME)
    for _time in range(2):
        with connection.schema_editor(atomic=False, collect_sql=False) as editor:
            removal.database_forwards("auth", editor, after, before)
        assert not there()
    if connection.vendor == "postgresql":
        build(states)
        with pytest.raises(NotSupportedError), connection.schema_editor(atomic=True) as editor:
            removal.database_forwards("auth", editor, after, before)


def on_postgresql() -> None:
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has one writer, and builds no index that is not valid.")


def test_one_whose_build_broke_off_is_built_again(states: Any) -> None:
    on_postgresql()
    build(states)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE pg_index SET indisvalid = false WHERE indexrelid = to_regclass(%s)", [NAME])
    assert build(states) == ["DROP INDEX CONCURRENTLY", "CREATE INDEX CONCURRENTLY"]
    assert build(states) == []


def test_an_atomic_migration_is_refused(states: Any) -> None:
    on_postgresql()
    with pytest.raises(NotSupportedError):
        build(states, atomic=True)


def test_others_write_while_it_waits_for_whoever_wrote_before(states: Any) -> None:
    """A plain index would have everybody wait behind it who writes to the table."""
    on_postgresql()
    import psycopg

    def built() -> None:
        try:
            build(states)
        finally:
            connection.close()

    parameters = {**connection.get_connection_params(), "cursor_factory": psycopg.Cursor}
    parameters.pop("context", None)
    with psycopg.connect(**parameters) as slow, psycopg.connect(**parameters, autocommit=True) as other:
        slow.execute("INSERT INTO auth_group (name) VALUES ('slow')")
        thread = threading.Thread(target=built)
        thread.start()
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'CREATE INDEX%' AND wait_event_type = 'Lock'"
        for _n in range(100):
            if other.execute(waiting).fetchone() == (1,):
                break
            time.sleep(0.05)
        assert other.execute(waiting).fetchone() == (1,)
        other.execute("SET lock_timeout = '2s'")
        other.execute("INSERT INTO auth_group (name) VALUES ('quick')")
        slow.rollback()
        thread.join(30)
    assert there()
    assert Group.objects.filter(name="quick").exists()
