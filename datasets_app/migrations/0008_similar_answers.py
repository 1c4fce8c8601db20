
import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('datasets_app', '0007_newest_labels'),
    ]

    operations = [
        migrations.AddField(
            model_name='submission',
            name='together',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='followers', to='datasets_app.submission'),
        ),
    ]
