"""Initial migrations that create the tables of an application at once."""

from itertools import groupby
from typing import Any

from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState

#: What only adds to the tables that the same migration creates.
CREATING = (migrations.CreateModel, migrations.AddField, migrations.AddIndex, migrations.AddConstraint)


class InitialMigration(migrations.Migration):
    """A migration that creates each table as it is after its last operation.

    Django applies one operation after another, and after each builds every related model again: where a hundred tables lead to the
    same user, that is most of the time of a `migrate`. Here the models are built once, and each table comes with all of its columns,
    indexes and constraints.
    """

    def apply(
        self, project_state: ProjectState, schema_editor: BaseDatabaseSchemaEditor, collect_sql: bool = False
    ) -> ProjectState:
        """Apply all operations, those that follow each other and only create at once."""
        if collect_sql:
            return super().apply(project_state, schema_editor, collect_sql)
        for creating, operations in groupby(self.operations, key=lambda operation: isinstance(operation, CREATING)):
            if creating:
                self._create(list(operations), project_state, schema_editor)
                continue
            for operation in operations:
                before = project_state.clone()
                operation.state_forwards(self.app_label, project_state)
                operation.database_forwards(self.app_label, schema_editor, before, project_state)
        return project_state

    def _create(
        self, operations: list[Operation], project_state: ProjectState, schema_editor: BaseDatabaseSchemaEditor
    ) -> None:
        project_state.__dict__.pop("apps", None)  # or each operation would build the models that it touches again
        for operation in operations:
            operation.state_forwards(self.app_label, project_state)
        created: list[Any] = [
            operation.name for operation in operations if isinstance(operation, migrations.CreateModel)
        ]
        for name in created:
            model = project_state.apps.get_model(self.app_label, name)
            if not model._meta.proxy and not model._meta.swapped and model._meta.managed:
                schema_editor.create_model(model)
