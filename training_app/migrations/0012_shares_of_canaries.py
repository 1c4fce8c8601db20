"""When a canary's share changed is kept, so that its figures compare within periods of one share."""

from django.db import migrations, models


def since_the_start(apps, schema_editor):
    """What is known of canaries so far: their present share, taken to hold since they started."""
    canaries = apps.get_model("training_app", "Canary").objects.using(schema_editor.connection.alias)
    for canary in canaries.filter(shares=[]):
        canary.shares = [[canary.started_at.isoformat(), canary.share]]
        canary.save(update_fields=["shares"])


class Migration(migrations.Migration):
    dependencies = [("training_app", "0011_kinds_of_models")]

    operations = [
        migrations.AddField(
            model_name="canary",
            name="shares",
            field=models.JSONField(default=list, verbose_name="shares over time"),
        ),
        migrations.RunPython(since_the_start, migrations.RunPython.noop),
    ]
