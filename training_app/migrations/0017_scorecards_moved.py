"""What `0016` copied is kept in its own tables alone. A separate migration: PostgreSQL alters no table with checks still pending."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("training_app", "0016_scorecards")]

    operations = [
        # A default, so that the way back can add the column again.
        migrations.AlterField("routermodel", "roster", models.JSONField(verbose_name="roster", default=list)),
        migrations.RemoveField("routermodel", "roster"),
        migrations.RemoveField("routermodel", "scorecard"),
    ]
