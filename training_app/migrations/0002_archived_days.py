"""The manifest of the decision archive."""

import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('agents_app', '0002_archive_days'),
        ('training_app', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='ArchivedDay',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('day', models.DateField(verbose_name='day')),
                ('state', models.CharField(choices=[('writing', 'is being written'), ('kept', 'in use'), ('leaving', 'is being deleted')], db_default='writing', default='writing', max_length=8, verbose_name='state')),
                ('path', models.CharField(max_length=200, unique=True, verbose_name='path in the archive')),
                ('rows', models.PositiveIntegerField(db_default=0, default=0, verbose_name='decisions')),
                ('bytes', models.PositiveBigIntegerField(db_default=0, default=0, verbose_name='bytes')),
                ('sha256', models.CharField(blank=True, db_default='', default='', max_length=64, verbose_name='SHA-256')),
                ('first_id', models.UUIDField(null=True, verbose_name='lowest id')),
                ('last_id', models.UUIDField(null=True, verbose_name='highest id')),
                ('at', models.DateTimeField(auto_now=True, db_default=django.db.models.functions.datetime.Now(), verbose_name='written')),
                ('pool', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='archived_days', to='agents_app.pool')),
            ],
            options={
                'verbose_name': 'archived day of decisions',
                'verbose_name_plural': 'archived days of decisions',
                'constraints': [models.UniqueConstraint(condition=models.Q(('state', 'kept')), fields=('pool', 'day'), name='one_file_of_a_day_is_in_use')],
            },
        ),
    ]
