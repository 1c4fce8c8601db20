"""The index of queries by state has their keys too, so that a list in this order reads no more than it shows."""

from django.db import migrations, models

from routerweb.database.indexes import AddIndexInUse, RemoveIndexInUse


class Migration(migrations.Migration):
    atomic = False  # on PostgreSQL an index that is built while others write cannot be in a transaction

    dependencies = [("datasets_app", "0003_waiting_for_review")]

    operations = [
        AddIndexInUse("query", models.Index(fields=["dataset", "state", "id"], name="queries_by_state")),
        RemoveIndexInUse("query", "datasets_ap_dataset_3faca5_idx"),
    ]
