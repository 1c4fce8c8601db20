"""A call that waits for a place is `queued`."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('orchestration_app', '0001_initial'),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name='step',
            name='step_status_known',
        ),
        migrations.AlterField(
            model_name='step',
            name='status',
            field=models.CharField(choices=[('queued', 'Waiting for a place'), ('running', 'Running'), ('waiting', 'Waiting for a person'), ('answered', 'Answered, goes on'), ('done', 'Done'), ('failed', 'Failed')], db_default='running', default='running', max_length=8, verbose_name='status'),
        ),
        migrations.AddConstraint(
            model_name='step',
            constraint=models.CheckConstraint(condition=models.Q(('status__in', ('queued', 'running', 'waiting', 'answered', 'done', 'failed'))), name='step_status_known'),
        ),
    ]
