"""Django's `migrate`, which on an empty database migrates other packages' applications before it creates most of ours.

Each change of a model that leads to a user has Django build every model again that leads to users. Django's order is the alphabet's,
so the sign-in's migrations would build a hundred of our models forty times: a third of the time of a first `migrate`.
"""

from collections.abc import Sequence
from typing import Any

from django.core.management.commands import migrate
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.migration import Migration

#: Ours. What others depend on, the user's model, still comes when they need it.
LAST = {"agents_app", "datasets_app", "training_app", "orchestration_app"}


class OursLast(MigrationExecutor):
    """Plans what is to be migrated; dependencies come first in any case."""

    def migration_plan(
        self, targets: Sequence[tuple[str, str | None]] | set[tuple[str, str]], clean_start: bool = False
    ) -> list[tuple[Migration, bool]]:
        """The migrations to apply or to take back, in their order."""
        return super().migration_plan(sorted(targets, key=lambda target: target[0] in LAST), clean_start)


class Command(migrate.Command):
    help = "Create or update the tables of the database. Example: python manage.py migrate"

    def handle(self, *args: Any, **options: Any) -> None:
        migrate.MigrationExecutor = OursLast  # type: ignore[attr-defined]  # Django has no other place to name one
        super().handle(*args, **options)
