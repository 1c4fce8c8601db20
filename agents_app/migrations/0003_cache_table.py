"""The table of Django's database cache, in which failed sign-ins are counted across processes."""

from django.core.management import call_command
from django.db import migrations

TABLE = "routerweb_cache"


def make(apps, schema_editor):
    call_command("createcachetable", TABLE, database=schema_editor.connection.alias, verbosity=0)


class Migration(migrations.Migration):
    dependencies = [("agents_app", "0002_roles")]

    operations = [migrations.RunPython(make, migrations.RunPython.noop)]
