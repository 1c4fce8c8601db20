import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models
from django.db.models import OuterRef, Subquery


def draw_blind_lots(apps, _schema_editor):
    """Questions about one agent are blind where the whole query is: they take its lot."""
    items = apps.get_model("datasets_app", "QueueItem").objects
    whole = items.filter(query=OuterRef("query"), agent__isnull=True).values("blind_lot")[:1]
    known = items.filter(agent__isnull=False, query__queue_items__agent__isnull=True)
    known.update(blind_lot=Subquery(whole))


class Migration(migrations.Migration):
    dependencies = [
        ("agents_app", "0004_health_and_cold"),
        ("datasets_app", "0002_labeling"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name="draft",
            name="one_draft_per_query_and_person",
        ),
        migrations.AddField(
            model_name="draft",
            name="agent",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="+",
                to="agents_app.agent",
            ),
        ),
        migrations.AddConstraint(
            model_name="draft",
            constraint=models.UniqueConstraint(
                condition=models.Q(("agent__isnull", True)),
                fields=("query", "person"),
                name="one_draft_per_query_and_person",
            ),
        ),
        migrations.AddConstraint(
            model_name="draft",
            constraint=models.UniqueConstraint(
                condition=models.Q(("agent__isnull", False)),
                fields=("query", "person", "agent"),
                name="one_draft_per_query_person_and_agent",
            ),
        ),
        migrations.RunPython(draw_blind_lots, migrations.RunPython.noop),
    ]
