"""Indexes by which Review finds unsure and skipped queries."""

from django.db import migrations, models

from routerweb.database.indexes import AddIndexInUse


class Migration(migrations.Migration):
    atomic = False  # on PostgreSQL an index that is built while others write cannot be in a transaction

    dependencies = [("datasets_app", "0002_similar_answers")]

    operations = [
        AddIndexInUse(
            "label",
            models.Index(
                fields=["query"],
                condition=models.Q(source="human", superseded_at=None, unsure=True),
                name="labels_unsure",
            ),
        ),
        AddIndexInUse(
            "assignment",
            models.Index(fields=["item"], condition=models.Q(state="skipped"), name="items_skipped"),
        ),
    ]
