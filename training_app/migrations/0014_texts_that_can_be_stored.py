"""Texts from before they were checked at the door: what only SQLite would keep is mended, and told line by line."""

from typing import Any

from django.db import migrations


def mend(apps: Any, schema_editor: Any) -> None:
    from agents_app import mending

    for mended in mending.mend(apps.get_models(include_auto_created=True)):
        print(f"  mended: {mended}")


class Migration(migrations.Migration):
    dependencies = [
        ("agents_app", "0007_merged_at"),
        ("datasets_app", "0012_evaluation_sample"),
        ("training_app", "0013_packed_decisions"),
    ]

    operations = [migrations.RunPython(mend, migrations.RunPython.noop, elidable=True)]
