from django.db import migrations

from routerweb.columns import AddDatabaseDefaults


class Migration(migrations.Migration):

    dependencies = [
        ('datasets_app', '0003_meanings_of_labels'),
    ]

    operations = [
        AddDatabaseDefaults(),
    ]
