from django.db import migrations

from routerweb.columns import AddDatabaseDefaults


class Migration(migrations.Migration):

    dependencies = [
        ('training_app', '0004_what_processes_hold'),
    ]

    operations = [
        AddDatabaseDefaults(),
    ]
