"""For how long a pool keeps archived decisions."""

import django.core.validators
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('agents_app', '0001_initial'),
    ]

    operations = [
        migrations.AddField(
            model_name='privacy',
            name='archive_days',
            field=models.PositiveIntegerField(blank=True, null=True, validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(3650)], verbose_name='days that archived decisions are kept'),
        ),
    ]
