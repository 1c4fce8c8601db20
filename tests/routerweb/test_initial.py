"""Initial migrations create their tables at once, and the same tables as one operation after another would."""

from typing import Any

import pytest
from django.apps import apps
from django.core.management import call_command
from django.db import migrations
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.db.utils import ConnectionHandler

from agents_app.management.commands.migrate import LAST, OursLast
from routerweb.initial import InitialMigration

OURS = sorted(config.label for config in apps.get_app_configs() if config.name.endswith("_app"))


@pytest.mark.any_database
@pytest.mark.parametrize("app", OURS)
def test_an_initial_migration_creates_at_once(app: str) -> None:
    """`makemigrations` writes `migrations.Migration`; the base is put in by hand."""
    migration = MigrationLoader(None).disk_migrations[app, "0001_initial"]
    assert isinstance(migration, InitialMigration), (
        f"class Migration(InitialMigration) in {app}/migrations/0001_initial.py"
    )


def schema(executors: type[MigrationExecutor] = MigrationExecutor) -> dict[str, list[Any]]:
    """What migrating makes of an empty database in memory: by table its columns, indexes and foreign keys."""
    handler = ConnectionHandler({"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}})
    connection = handler["default"]
    executor = executors(connection)
    executor.migrate(executor.loader.graph.leaf_nodes())
    made = {}
    with connection.cursor() as cursor:
        cursor.execute("SELECT type, name, tbl_name, sql FROM sqlite_master")
        for kind, name, table, sql in cursor.fetchall():
            if kind == "index":
                made[f"index {name}"] = [table, sql]
                continue
            for what in ("table_info", "foreign_key_list"):
                cursor.execute(f"PRAGMA {what}('{name}')")
                made[f"{what} {name}"] = sorted(
                    str(row[1:] if what == "table_info" else row[2:]) for row in cursor.fetchall()
                )
            made[f"checks {name}"] = sorted(part.split(" CHECK ")[0] for part in (sql or "").split("CONSTRAINT ")[1:])
    connection.close()
    return made


@pytest.mark.at_length
@pytest.mark.django_db
@pytest.mark.any_database
def test_the_tables_are_those_of_one_operation_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    at_once = schema()
    assert at_once == schema(OursLast), "the order of the applications makes no difference"
    monkeypatch.setattr(InitialMigration, "apply", migrations.Migration.apply)
    assert at_once == schema()


@pytest.mark.any_database
def test_other_packages_are_migrated_before_most_of_ours() -> None:
    executor = OursLast(None)
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes(), clean_start=True)
    order = [migration.app_label for migration, _backwards in plan]
    assert set(order[order.index("datasets_app") :]) == set(OURS) - {"agents_app"}
    assert set(OURS) == LAST & set(order)


@pytest.mark.django_db
@pytest.mark.any_database
def test_the_command_migrates_in_this_order(monkeypatch: pytest.MonkeyPatch) -> None:
    planned: list[object] = []

    def plan(_executor: OursLast, targets: list[object], **_more: object) -> list[object]:
        planned.extend(targets)
        return []

    monkeypatch.setattr(OursLast, "migration_plan", plan)
    call_command("migrate", verbosity=0)
    assert planned
