"""Answers that were given together with another one's."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("datasets_app", "0001_initial")]

    operations = [
        migrations.AddField(
            "submission",
            "together",
            models.ForeignKey(
                "datasets_app.submission", django.db.models.deletion.CASCADE, blank=True, null=True, related_name="followers"
            ),
        ),
    ]
