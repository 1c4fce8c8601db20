"""Episodes, backends and conversations, and what alarms tell whom."""

import django.db.models.deletion
import django.utils.timezone
import uuid
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    replaces = [
        ('training_app', '0018_episodes'),
        ('training_app', '0019_backends'),
        ('training_app', '0020_conversations'),
        ('training_app', '0021_channels_that_are_told'),
    ]

    dependencies = [
        ('agents_app', '0009_backends'),
        ('training_app', '0017_scorecards_moved'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='CallPlaces',
            fields=[
                ('key', models.CharField(max_length=300, primary_key=True, serialize=False)),
                ('at', models.FloatField(default=0.0)),
                ('free', models.FloatField(null=True)),
                ('held', models.JSONField(default=dict)),
            ],
        ),
        migrations.CreateModel(
            name='Episode',
            fields=[
                ('attempt', models.UUIDField(editable=False, null=True)),
                ('attempts', models.PositiveIntegerField(default=0, editable=False)),
                ('deliveries', models.PositiveIntegerField(default=0, editable=False)),
                ('delivered_at', models.DateTimeField(blank=True, editable=False, null=True)),
                ('losses', models.PositiveSmallIntegerField(default=0, editable=False)),
                ('worker', models.CharField(blank=True, editable=False, max_length=100, verbose_name='worker')),
                ('error', models.TextField(blank=True, verbose_name='error')),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('started_at', models.DateTimeField(blank=True, editable=False, null=True)),
                ('heartbeat_at', models.DateTimeField(blank=True, editable=False, null=True)),
                ('doubted_at', models.DateTimeField(blank=True, editable=False, null=True)),
                ('finished_at', models.DateTimeField(blank=True, editable=False, null=True)),
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('status', models.CharField(choices=[('queued', 'Queued'), ('running', 'Running'), ('done', 'Done'), ('failed', 'Failed'), ('cancelled', 'Cancelled')], default='queued', max_length=9, verbose_name='status')),
                ('policy', models.CharField(help_text="The version that decided, or a baseline's name.", max_length=90, verbose_name='policy')),
                ('idempotency_key', models.CharField(blank=True, editable=False, max_length=200)),
                ('request_digest', models.CharField(blank=True, editable=False, max_length=64)),
                ('task', models.TextField(verbose_name='task')),
                ('messages', models.JSONField(default=list, verbose_name='messages')),
                ('plan', models.JSONField(default=dict, verbose_name='plan')),
                ('max_steps', models.PositiveSmallIntegerField(default=8, verbose_name='most steps')),
                ('budget', models.FloatField(blank=True, null=True, verbose_name='budget')),
                ('paths', models.PositiveSmallIntegerField(default=1, verbose_name='paths')),
                ('answer', models.TextField(blank=True, verbose_name='answer')),
                ('stop_reason', models.CharField(blank=True, max_length=20, verbose_name='stop reason')),
                ('steps', models.PositiveSmallIntegerField(default=0, verbose_name='steps')),
                ('cost', models.FloatField(default=0.0, verbose_name='cost')),
                ('tokens', models.PositiveBigIntegerField(default=0, verbose_name='tokens')),
                ('latency', models.FloatField(default=0.0, verbose_name='seconds')),
                ('success', models.BooleanField(blank=True, null=True, verbose_name='success')),
                ('rating', models.FloatField(blank=True, null=True, verbose_name='rating')),
                ('judge', models.CharField(blank=True, choices=[('application', 'The application'), ('person', 'A person')], max_length=11, verbose_name='judged by')),
                ('judged_at', models.DateTimeField(blank=True, editable=False, null=True)),
                ('comment', models.TextField(blank=True, verbose_name='comment')),
                ('api_key', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='agents_app.apikey')),
                ('author', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('judged_by', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('model', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='episodes', to='training_app.routermodel', verbose_name='model')),
                ('pool', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='episodes', to='agents_app.pool')),
            ],
            options={
                'verbose_name': 'episode',
                'verbose_name_plural': 'episodes',
                'ordering': ('-created_at',),
            },
        ),
        migrations.CreateModel(
            name='Step',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('turn', models.PositiveSmallIntegerField(verbose_name='turn')),
                ('path', models.PositiveSmallIntegerField(default=0, verbose_name='path')),
                ('place', models.PositiveSmallIntegerField(default=0)),
                ('number', models.PositiveSmallIntegerField(verbose_name='step')),
                ('call', models.PositiveSmallIntegerField(null=True, verbose_name='call')),
                ('agent', models.PositiveIntegerField(null=True, verbose_name='agent')),
                ('aim', models.CharField(default='answer', max_length=9)),
                ('reason', models.CharField(blank=True, max_length=12, verbose_name='reason')),
                ('state', models.JSONField(default=dict, verbose_name='state')),
                ('candidates', models.JSONField(default=list, verbose_name='candidates')),
                ('probabilities', models.JSONField(default=list, verbose_name='probabilities')),
                ('propensity', models.FloatField(default=1.0, verbose_name='propensity')),
                ('worst', models.FloatField(default=0.0, verbose_name='set aside')),
                ('status', models.CharField(choices=[('running', 'Running'), ('done', 'Done'), ('failed', 'Failed')], default='running', max_length=7, verbose_name='status')),
                ('call_key', models.CharField(blank=True, max_length=64)),
                ('output', models.TextField(blank=True, verbose_name='output')),
                ('failure', models.CharField(blank=True, max_length=20, verbose_name='failure')),
                ('why', models.CharField(blank=True, max_length=400, verbose_name='why')),
                ('cost', models.FloatField(default=0.0, verbose_name='cost')),
                ('tokens', models.PositiveIntegerField(default=0, verbose_name='tokens')),
                ('latency', models.FloatField(default=0.0, verbose_name='seconds')),
                ('attempts', models.PositiveSmallIntegerField(default=0, verbose_name='attempts')),
                ('metadata', models.JSONField(default=dict, verbose_name='metadata')),
                ('reward', models.FloatField(null=True, verbose_name='reward')),
                ('at', models.DateTimeField(auto_now_add=True)),
                ('episode', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='trajectory', to='training_app.episode')),
            ],
            options={
                'verbose_name': 'step',
                'verbose_name_plural': 'steps',
                'ordering': ('episode', 'turn', 'path', 'place'),
            },
        ),
        migrations.AddIndex(
            model_name='episode',
            index=models.Index(fields=['pool', '-created_at'], name='training_ap_pool_id_fd4fae_idx'),
        ),
        migrations.AddIndex(
            model_name='episode',
            index=models.Index(fields=['status', 'created_at'], name='training_ap_status_9a49da_idx'),
        ),
        migrations.AddIndex(
            model_name='episode',
            index=models.Index(fields=['model', '-created_at'], name='training_ap_model_i_623b3c_idx'),
        ),
        migrations.AddConstraint(
            model_name='episode',
            constraint=models.UniqueConstraint(condition=models.Q(('idempotency_key', ''), _negated=True), fields=('api_key', 'idempotency_key'), name='one_episode_per_idempotency_key'),
        ),
        migrations.AddConstraint(
            model_name='episode',
            constraint=models.CheckConstraint(condition=models.Q(('status__in', ('queued', 'running', 'done', 'failed', 'cancelled'))), name='episode_status_known'),
        ),
        migrations.AddConstraint(
            model_name='episode',
            constraint=models.CheckConstraint(condition=models.Q(('rating__isnull', True), models.Q(('rating__gte', 0), ('rating__lte', 1)), _connector='OR'), name='episode_rating_is_a_share'),
        ),
        migrations.AddConstraint(
            model_name='step',
            constraint=models.UniqueConstraint(fields=('episode', 'turn', 'path', 'place'), name='one_row_per_call_of_a_turn'),
        ),
        migrations.AddConstraint(
            model_name='step',
            constraint=models.CheckConstraint(condition=models.Q(('status__in', ('running', 'done', 'failed'))), name='step_status_known'),
        ),
        migrations.CreateModel(
            name='BackendLoad',
            fields=[
                ('pool', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='+', serialize=False, to='agents_app.pool')),
                ('state', models.JSONField(default=dict)),
            ],
        ),
        migrations.CreateModel(
            name='BackendCall',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('decision_id', models.UUIDField(verbose_name='decision')),
                ('agent', models.PositiveIntegerField(verbose_name='agent')),
                ('tokens_in', models.PositiveIntegerField(default=0, verbose_name='tokens in')),
                ('tokens_out', models.PositiveIntegerField(default=0, verbose_name='tokens out')),
                ('cost', models.FloatField(default=0.0, verbose_name='cost')),
                ('latency', models.FloatField(null=True, verbose_name='latency in ms')),
                ('success', models.BooleanField(null=True, verbose_name='success')),
                ('failed', models.BooleanField(default=False, verbose_name='the call failed')),
                ('category', models.CharField(blank=True, max_length=80, verbose_name='category')),
                ('assigned', models.PositiveBigIntegerField(null=True, verbose_name='assigned')),
                ('propensity', models.FloatField(null=True, verbose_name='propensity')),
                ('at', models.DateTimeField(default=django.utils.timezone.now)),
                ('backend', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='calls', to='agents_app.backend')),
                ('pool', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='backend_calls', to='agents_app.pool')),
            ],
            options={
                'indexes': [models.Index(fields=['pool', '-at'], name='training_ap_pool_id_1abd89_idx')],
                'constraints': [models.UniqueConstraint(fields=('decision_id', 'agent'), name='one_backend_call_per_agent_of_decision')],
            },
        ),
        migrations.AddField(
            model_name='decision',
            name='messages',
            field=models.JSONField(help_text='What was said before the query in its conversation.', null=True, verbose_name='messages before'),
        ),
        migrations.AlterField(
            model_name='alarm',
            name='kind',
            field=models.CharField(choices=[('drift', 'Drift'), ('runs', 'Runs fail'), ('queue', 'Jobs wait'), ('dropped', 'Decisions were dropped'), ('workers', 'Workers are missing'), ('refused', 'A model cannot be loaded'), ('labeling', 'Labeling queue')], max_length=8, verbose_name='kind'),
        ),
        migrations.AlterField(
            model_name='alarmmute',
            name='kind',
            field=models.CharField(choices=[('drift', 'Drift'), ('runs', 'Runs fail'), ('queue', 'Jobs wait'), ('dropped', 'Decisions were dropped'), ('workers', 'Workers are missing'), ('refused', 'A model cannot be loaded'), ('labeling', 'Labeling queue')], max_length=8),
        ),
        migrations.AlterField(
            model_name='alarmreceiver',
            name='kind',
            field=models.CharField(choices=[('webhook', 'Webhook'), ('email', 'E-mail'), ('slack', 'Slack or Mattermost'), ('teams', 'Microsoft Teams')], max_length=7),
        ),
    ]
