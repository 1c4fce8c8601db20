"""The four roles as groups. Their permissions follow after every migrate, see agents_app/roles.py."""

from django.db import migrations

ROLES = ("labeler", "reviewer", "ops", "admin")


def make_groups(apps, schema_editor):
    groups = apps.get_model("auth", "Group").objects.using(schema_editor.connection.alias)
    for name in ROLES:
        groups.get_or_create(name=name)


class Migration(migrations.Migration):
    dependencies = [
        ("agents_app", "0001_initial"),
        ("auth", "0012_alter_user_first_name_max_length"),
    ]

    # Going back leaves the groups: people are in them.
    operations = [migrations.RunPython(make_groups, migrations.RunPython.noop)]
