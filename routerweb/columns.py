"""Every column that Django gives a default has the same default in the database.

While an upgrade is rolled out, web processes of the version before go on writing into the new schema. Their INSERTs leave out columns
that they do not know, so the database has to fill these in. `derive` reads a model's fields once its class is prepared, so that nobody
has to write a default twice; `makemigrations` writes what was derived into the migration of a new column. Migrations from before that
have `AddDatabaseDefaults`.
"""

import enum
from typing import Any

from django.db import models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState
from django.db.models import Field
from django.db.models.functions import Now
from django.utils import timezone

PACKAGES = ("agents_app", "datasets_app", "training_app", "orchestration_app")


def derive(sender: type[models.Model], **_signal: Any) -> None:
    """Give each column of this model its default in the database. Connected to Django's `class_prepared`."""
    if sender._meta.app_label in PACKAGES and sender.__module__ != "__fake__":  # migrations have models of their own
        for field in sender._meta.local_concrete_fields:
            give_default(field)


def give_default(field: "Field[Any, Any]") -> bool:
    """Give a column in the database the default that Django gives it; whether it got one.

    A text that may be blank defaults to "", and a time that Django sets to the present. What only Python can make, such as a random
    id, has none: a column like that can only be added nullable.
    """
    if field.primary_key or field.has_db_default():
        return False
    if _is_blank_text(field) and not field.has_default():
        field.default = ""
    if getattr(field, "auto_now", False) or getattr(field, "auto_now_add", False) or field.default is timezone.now:
        field.db_default = Now()
    elif field.default in (list, dict, bytes) or (field.has_default() and not callable(field.default)):
        value = field.get_default()
        field.db_default = value.value if isinstance(value, enum.Enum) else value
    return field.has_db_default()


def _is_blank_text(field: "Field[Any, Any]") -> bool:
    return isinstance(field, models.CharField | models.TextField) and field.blank and not field.null


class AddDatabaseDefaults(Operation):
    """Give every column that the application has at this point its default in the database.

    On SQLite nothing is written: only processes of one version use such a database, and to give one column a default there is to write
    its table again.
    """

    reduces_to_sql = True
    reversible = True

    def state_forwards(self, app_label: str, state: ProjectState) -> None:
        for (label, _name), model in list(state.models.items()):
            if label != app_label:
                continue
            for field_name, field in list(model.fields.items()):
                copy = field.clone()
                if not copy.many_to_many and give_default(copy):
                    model.fields[field_name] = copy
        # All at once, when they are next asked for: to reload one draws anew whatever refers to it, which took half of a `migrate`.
        state.__dict__.pop("apps", None)

    def database_forwards(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, from_state: ProjectState, to_state: ProjectState
    ) -> None:
        if schema_editor.connection.vendor != "sqlite":
            self._alter(app_label, schema_editor, from_state, to_state)

    def database_backwards(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, from_state: ProjectState, to_state: ProjectState
    ) -> None:
        if schema_editor.connection.vendor != "sqlite":
            self._alter(app_label, schema_editor, from_state, to_state)

    def _alter(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, from_state: ProjectState, to_state: ProjectState
    ) -> None:
        """One ALTER TABLE for each table, which reads and writes no row."""
        for model in to_state.apps.get_app_config(app_label).get_models():
            before = from_state.apps.get_model(app_label, model.__name__)._meta
            changes: list[str] = []
            parameters: list[Any] = []
            for field in model._meta.local_concrete_fields:
                had = before.get_field(field.name).has_db_default()
                if field.has_db_default() == had:
                    continue
                column = schema_editor.quote_name(str(field.column))
                if had:
                    changes.append(f"ALTER COLUMN {column} DROP DEFAULT")
                    continue
                default, values = schema_editor.db_default_sql(field)
                changes.append(f"ALTER COLUMN {column} SET DEFAULT {default}")
                parameters += values
            if changes:
                table = schema_editor.quote_name(model._meta.db_table)
                schema_editor.execute(f"ALTER TABLE {table} {', '.join(changes)}", parameters)

    def describe(self) -> str:
        return "Give every column its default in the database"
