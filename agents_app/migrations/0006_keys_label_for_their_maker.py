import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models
from django.db.models import F


def label_for_the_maker(apps, schema_editor):
    """Keys that ops made to label as somebody else label for who made them from now on."""
    keys = apps.get_model("agents_app", "ApiKey").objects.using(schema_editor.connection.alias)
    of_others = keys.filter(person__isnull=False, created_by__isnull=False).exclude(person=F("created_by"))
    of_others.update(person=F("created_by"))


class Migration(migrations.Migration):

    dependencies = [
        ("agents_app", "0005_key_labels_as"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AlterField(
            model_name="apikey",
            name="person",
            field=models.ForeignKey(
                blank=True,
                editable=False,
                help_text="Whose labels they are that are made with this key: its maker's.",
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
                verbose_name="labels as",
            ),
        ),
        migrations.RunPython(label_for_the_maker, migrations.RunPython.noop, elidable=True),
    ]
