"""Approvals, orchestrators on trial, marks of episodes, answers kept for their keys."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('agents_app', '0016_four_eyes'),
        ('training_app', '0024_steps_found_by_their_place'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='KeptAnswer',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('key', models.CharField(max_length=200)),
                ('digest', models.CharField(max_length=64)),
                ('status', models.PositiveSmallIntegerField(default=0)),
                ('body', models.TextField(default='')),
                ('at', models.DateTimeField(auto_now_add=True, db_index=True)),
                ('api_key', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='agents_app.apikey')),
            ],
            options={
                'verbose_name': 'kept answer',
                'verbose_name_plural': 'kept answers',
                'constraints': [models.UniqueConstraint(fields=('api_key', 'key'), name='one_answer_per_idempotency_key')],
            },
        ),
        migrations.RemoveConstraint(
            model_name='canary',
            name='one_canary_per_pool',
        ),
        migrations.AddField(
            model_name='canary',
            name='kind',
            field=models.CharField(default='set_router', max_length=30, verbose_name='kind'),
        ),
        migrations.AddConstraint(
            model_name='canary',
            constraint=models.UniqueConstraint(condition=models.Q(('ended_at__isnull', True)), fields=('pool', 'kind'), name='one_canary_per_pool_and_kind'),
        ),
        migrations.AlterField(
            model_name='episode',
            name='judge',
            field=models.CharField(blank=True, choices=[('application', 'The application'), ('person', 'A person'), ('llm', 'A language model')], max_length=11, verbose_name='judged by'),
        ),
        migrations.CreateModel(
            name='EpisodeMark',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('judge', models.CharField(max_length=200, verbose_name='judge')),
                ('rubric', models.CharField(max_length=64)),
                ('digest', models.CharField(max_length=64)),
                ('mark', models.FloatField(verbose_name='mark')),
                ('at', models.DateTimeField(auto_now_add=True)),
                ('episode', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='marks', to='training_app.episode')),
            ],
            options={
                'ordering': ('-pk',),
                'constraints': [models.UniqueConstraint(fields=('episode', 'judge', 'rubric'), name='one_mark_per_judge_and_rubric'), models.CheckConstraint(condition=models.Q(('mark__gte', 0), ('mark__lte', 1)), name='episode_mark_is_a_share')],
            },
        ),
        migrations.AddField(
            model_name='backendcall',
            name='complexity',
            field=models.FloatField(null=True, verbose_name='complexity'),
        ),
        migrations.AddField(
            model_name='backendcall',
            name='tool',
            field=models.BooleanField(null=True, verbose_name='needed a tool'),
        ),
        migrations.AlterField(
            model_name='alarm',
            name='kind',
            field=models.CharField(choices=[('drift', 'Drift'), ('runs', 'Runs fail'), ('queue', 'Jobs wait'), ('dropped', 'Decisions were dropped'), ('workers', 'Workers are missing'), ('refused', 'A model cannot be loaded'), ('labeling', 'Labeling queue'), ('approval', 'A promotion waits for approval')], max_length=8, verbose_name='kind'),
        ),
        migrations.AlterField(
            model_name='alarmmute',
            name='kind',
            field=models.CharField(choices=[('drift', 'Drift'), ('runs', 'Runs fail'), ('queue', 'Jobs wait'), ('dropped', 'Decisions were dropped'), ('workers', 'Workers are missing'), ('refused', 'A model cannot be loaded'), ('labeling', 'Labeling queue'), ('approval', 'A promotion waits for approval')], max_length=8),
        ),
        migrations.CreateModel(
            name='PromotionRequest',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('state', models.CharField(choices=[('waiting', 'Waiting'), ('approved', 'Approved'), ('declined', 'Declined'), ('withdrawn', 'Withdrawn'), ('lapsed', 'Lapsed')], default='waiting', max_length=9, verbose_name='state')),
                ('author_name', models.CharField(help_text="Kept when the account is gone; a command's or a key's own name.", max_length=150)),
                ('reason', models.CharField(blank=True, max_length=400, verbose_name='reason')),
                ('override', models.CharField(blank=True, max_length=400, verbose_name='reason for the override')),
                ('asked_at', models.DateTimeField(auto_now_add=True)),
                ('decided_by_name', models.CharField(blank=True, max_length=150)),
                ('decided_at', models.DateTimeField(null=True)),
                ('note', models.CharField(blank=True, max_length=400, verbose_name='what was said to it')),
                ('against', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='training_app.routermodel')),
                ('author', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('decided_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('model', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='promotion_requests', to='training_app.routermodel')),
                ('pool', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='promotion_requests', to='agents_app.pool')),
                ('promotion', models.OneToOneField(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='request', to='training_app.promotion')),
            ],
            options={
                'verbose_name': 'request for a promotion',
                'verbose_name_plural': 'requests for promotions',
                'ordering': ('-pk',),
                'constraints': [models.UniqueConstraint(condition=models.Q(('state', 'waiting')), fields=('model',), name='one_waiting_request_per_model'), models.CheckConstraint(condition=models.Q(('state__in', ('waiting', 'approved', 'declined', 'withdrawn', 'lapsed'))), name='promotion_request_state_known')],
            },
        ),
        migrations.AddField(
            model_name='episode',
            name='redacted',
            field=models.BooleanField(default=False, editable=False, help_text='What its pool redacts was taken out.'),
        ),
    ]
