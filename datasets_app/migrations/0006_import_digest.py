from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('datasets_app', '0005_written_queries'),
    ]

    operations = [
        migrations.AddField(
            model_name='import',
            name='digest',
            field=models.CharField(blank=True, db_default='', default='', editable=False, help_text='SHA-256 of the file, so that one that comes again is known; empty for a file that a command read.', max_length=64),
        ),
    ]
