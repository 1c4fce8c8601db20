"""Indexes that migrations add to tables that are in use, and remove from them."""

from typing import Any

from django.contrib.postgres.operations import AddIndexConcurrently, RemoveIndexConcurrently
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

BROKEN = "SELECT 1 FROM pg_index WHERE indexrelid = to_regclass(%s) AND NOT indisvalid"


class AddIndexInUse(migrations.AddIndex):
    """`AddIndex` that lets others write to the table while PostgreSQL builds the index; SQLite, with one writer, gets a plain one.

    Its migration needs `atomic = False`, and may break off between two of its indexes, or while one is built: PostgreSQL keeps that
    one, not valid. So that `migrate` can be repeated, an index that stands is left, and a broken one is built again. Raises
    NotSupportedError in a migration that is atomic, on PostgreSQL.
    """

    atomic = False

    def database_forwards(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, from_state: Any, to_state: Any
    ) -> None:
        """Build the index."""
        model = to_state.apps.get_model(app_label, self.model_name)
        if not schema_editor.collect_sql and self._stands(schema_editor, model._meta.db_table):
            return
        if schema_editor.connection.vendor == "postgresql":
            concurrently = AddIndexConcurrently(self.model_name, self.index)
            concurrently.database_forwards(app_label, schema_editor, from_state, to_state)
        else:
            super().database_forwards(app_label, schema_editor, from_state, to_state)

    def _stands(self, schema_editor: BaseDatabaseSchemaEditor, table: str) -> bool:
        """Whether the index is there and can be used; one that is broken is dropped."""
        connection = schema_editor.connection
        with connection.cursor() as cursor:
            if self.index.name not in connection.introspection.get_constraints(cursor, table):
                return False
            if connection.vendor != "postgresql":
                return True
            cursor.execute(BROKEN, [self.index.name])
            if cursor.fetchone() is None:
                return True
        schema_editor.execute(f"DROP INDEX CONCURRENTLY {schema_editor.quote_name(self.index.name)}", params=None)
        return False

    def database_backwards(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, from_state: Any, to_state: Any
    ) -> None:
        """Drop the index."""
        if schema_editor.connection.vendor == "postgresql":
            concurrently = AddIndexConcurrently(self.model_name, self.index)
            concurrently.database_backwards(app_label, schema_editor, from_state, to_state)
        else:
            super().database_backwards(app_label, schema_editor, from_state, to_state)


class RemoveIndexInUse(migrations.RemoveIndex):
    """`RemoveIndex` that on PostgreSQL keeps nobody waiting, however long others have been reading; an index that is gone is no error.

    Its migration needs `atomic = False`. Raises NotSupportedError in one that is atomic, on PostgreSQL.
    """

    atomic = False

    def database_forwards(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, from_state: Any, to_state: Any
    ) -> None:
        """Drop the index."""
        connection, table = (
            schema_editor.connection,
            from_state.apps.get_model(app_label, self.model_name)._meta.db_table,
        )
        with connection.cursor() as cursor:
            if self.name not in connection.introspection.get_constraints(cursor, table):
                return
        if connection.vendor == "postgresql":
            concurrently = RemoveIndexConcurrently(self.model_name, self.name)
            concurrently.database_forwards(app_label, schema_editor, from_state, to_state)
        else:
            super().database_forwards(app_label, schema_editor, from_state, to_state)
