import django.core.validators
import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('training_app', '0007_must_pass_cases'),
    ]

    operations = [
        migrations.AlterField(
            model_name='decision',
            name='model',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='decisions', to='training_app.routermodel'),
        ),
        migrations.AlterField(
            model_name='livesettings',
            name='cold',
            field=models.BooleanField(db_default=False, default=False, help_text='By what their descriptions say, until a model that knows them is promoted.', verbose_name='route to agents that the model has not learnt'),
        ),
        migrations.AlterField(
            model_name='livesettings',
            name='cold_threshold',
            field=models.FloatField(db_default=0.1, default=0.1, help_text='If a query needs an agent with a lower probability, by its description, it is not routed to it. The best set of the others is the answer.', validators=[django.core.validators.MinValueValidator(0.01), django.core.validators.MaxValueValidator(1.0)], verbose_name='least probability'),
        ),
    ]
