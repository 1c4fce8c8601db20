"""The examples that approved cards name, for routing by descriptions; those approved before are taken over."""

from typing import Any

from django.db import migrations, models


def take_over(apps: Any, _editor: Any) -> None:
    """What was decided on last was approved, as far as anybody can tell now."""
    sources = apps.get_model("agents_app", "AgentSource").objects.filter(agent__isnull=False)
    for source in sources.iterator():
        if texts := source.taken.get("examples"):
            source.examples = texts
            source.save(update_fields=["examples"])


class Migration(migrations.Migration):

    dependencies = [
        ("agents_app", "0002_archive_days"),
    ]

    operations = [
        migrations.AddField(
            model_name="agentsource",
            name="examples",
            field=models.JSONField(
                blank=True, db_default=models.Value([], models.JSONField()), default=list, editable=False
            ),
        ),
        migrations.RunPython(take_over, migrations.RunPython.noop),
    ]
