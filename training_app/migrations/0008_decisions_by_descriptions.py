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
            field=models.FloatField(db_default=0.1, default=0.1, help_text='An agent that a query needs with less probability, by its description, is not routed to. Among the others the best set decides.', validators=[django.core.validators.MinValueValidator(0.01), django.core.validators.MaxValueValidator(1.0)], verbose_name='least probability'),
        ),
    ]
