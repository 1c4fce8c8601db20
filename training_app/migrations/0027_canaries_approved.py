"""A canary may wait for a second person, as a promotion does: the share that was asked for."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('training_app', '0026_alarms_of_keys'),
    ]

    operations = [
        migrations.AddField(
            model_name='promotionrequest',
            name='share',
            field=models.FloatField(help_text='Of the traffic, for a canary; all of it where there is none.', null=True, verbose_name='share'),
        ),
    ]
