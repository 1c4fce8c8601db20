"""SCIM tokens have the fields that API keys have: what forms and pages say of them changes, no column does."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('agents_app', '0019_scim'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AlterField(
            model_name='scimtoken',
            name='created_by',
            field=models.ForeignKey(blank=True, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AlterField(
            model_name='scimtoken',
            name='old_until',
            field=models.DateTimeField(blank=True, editable=False, null=True, verbose_name='old secret ends'),
        ),
        migrations.AlterField(
            model_name='scimtoken',
            name='revoked_at',
            field=models.DateTimeField(blank=True, editable=False, null=True, verbose_name='revoked'),
        ),
    ]
