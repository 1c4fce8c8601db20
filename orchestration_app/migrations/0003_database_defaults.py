from django.db import migrations

from routerweb.columns import AddDatabaseDefaults


class Migration(migrations.Migration):

    dependencies = [
        ('orchestration_app', '0002_answers_composed'),
    ]

    operations = [
        AddDatabaseDefaults(),
    ]
