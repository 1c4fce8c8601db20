from django.db import migrations

from routerweb.columns import AddDatabaseDefaults


class Migration(migrations.Migration):

    dependencies = [
        ('agents_app', '0002_llm_connection'),
    ]

    operations = [
        AddDatabaseDefaults(),
    ]
