# Made by `manage.py makemigrations`.

import django.core.validators
import django.db.models.deletion
import django.db.models.functions.datetime
import django.utils.timezone
import uuid
from django.conf import settings
from django.db import migrations, models

from routerweb.initial import InitialMigration


class Migration(InitialMigration):

    initial = True

    # A database that has applied these has the tables that this migration creates.
    replaces = [
        ('orchestration_app', '0002_answers_composed'),
        ('orchestration_app', '0003_database_defaults'),
        ('orchestration_app', '0004_executors_of_protocols'),
        ('orchestration_app', '0005_readiness_and_spending'),
        ('orchestration_app', '0006_backend_catalog'),
        ('orchestration_app', '0007_learning_from_episodes'),
    ]

    dependencies = [
        ('agents_app', '0001_initial'),
        ('training_app', '0001_initial'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='BackendLoad',
            fields=[
                ('pool', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='+', serialize=False, to='agents_app.pool')),
                ('state', models.JSONField(db_default={}, default=dict)),
            ],
        ),
        migrations.CreateModel(
            name='CallPlaces',
            fields=[
                ('key', models.CharField(max_length=300, primary_key=True, serialize=False)),
                ('at', models.FloatField(db_default=0.0, default=0.0)),
                ('free', models.FloatField(null=True)),
                ('held', models.JSONField(db_default={}, default=dict)),
            ],
        ),
        migrations.CreateModel(
            name='Episode',
            fields=[
                ('attempt', models.UUIDField(editable=False, null=True)),
                ('attempts', models.PositiveIntegerField(db_default=0, default=0, editable=False)),
                ('deliveries', models.PositiveIntegerField(db_default=0, default=0, editable=False)),
                ('delivered_at', models.DateTimeField(blank=True, editable=False, null=True)),
                ('losses', models.PositiveSmallIntegerField(db_default=0, default=0, editable=False)),
                ('worker', models.CharField(blank=True, db_default='', default='', editable=False, max_length=100, verbose_name='worker')),
                ('error', models.TextField(blank=True, db_default='', default='', verbose_name='error')),
                ('created_at', models.DateTimeField(auto_now_add=True, db_default=django.db.models.functions.datetime.Now())),
                ('started_at', models.DateTimeField(blank=True, editable=False, null=True)),
                ('heartbeat_at', models.DateTimeField(blank=True, editable=False, null=True)),
                ('doubted_at', models.DateTimeField(blank=True, editable=False, null=True)),
                ('finished_at', models.DateTimeField(blank=True, editable=False, null=True)),
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('status', models.CharField(choices=[('queued', 'Queued'), ('running', 'Running'), ('waiting', 'Waiting for a person'), ('done', 'Done'), ('partial', 'Partial'), ('failed', 'Failed'), ('cancelled', 'Cancelled')], db_default='queued', default='queued', max_length=9, verbose_name='status')),
                ('policy', models.CharField(help_text="The version that decided, or a baseline's name.", max_length=90, verbose_name='policy')),
                ('idempotency_key', models.CharField(blank=True, db_default='', default='', editable=False, max_length=200)),
                ('request_digest', models.CharField(blank=True, db_default='', default='', editable=False, max_length=64)),
                ('task', models.TextField(verbose_name='task')),
                ('messages', models.JSONField(db_default=[], default=list, verbose_name='messages')),
                ('plan', models.JSONField(db_default={}, default=dict, verbose_name='plan')),
                ('max_steps', models.PositiveSmallIntegerField(db_default=8, default=8, verbose_name='most steps')),
                ('budget', models.FloatField(blank=True, null=True, verbose_name='budget')),
                ('paths', models.PositiveSmallIntegerField(db_default=1, default=1, verbose_name='paths')),
                ('answer', models.TextField(blank=True, db_default='', default='', verbose_name='answer')),
                ('composed', models.CharField(blank=True, db_default='', editable=False, max_length=8, verbose_name='answer made by')),
                ('missing', models.JSONField(db_default=models.Value([], models.JSONField()), default=list, editable=False, verbose_name='missing')),
                ('stop_reason', models.CharField(blank=True, db_default='', default='', max_length=20, verbose_name='stop reason')),
                ('steps', models.PositiveSmallIntegerField(db_default=0, default=0, verbose_name='steps')),
                ('cost', models.FloatField(db_default=0.0, default=0.0, verbose_name='cost')),
                ('tokens', models.PositiveBigIntegerField(db_default=0, default=0, verbose_name='tokens')),
                ('latency', models.FloatField(db_default=0.0, default=0.0, verbose_name='seconds')),
                ('success', models.BooleanField(blank=True, null=True, verbose_name='success')),
                ('rating', models.FloatField(blank=True, null=True, verbose_name='rating')),
                ('judge', models.CharField(blank=True, choices=[('application', 'The application'), ('person', 'A person'), ('llm', 'A language model')], db_default='', default='', max_length=11, verbose_name='judged by')),
                ('judged_at', models.DateTimeField(blank=True, editable=False, null=True)),
                ('comment', models.TextField(blank=True, db_default='', default='', verbose_name='comment')),
                ('redacted', models.BooleanField(db_default=False, default=False, editable=False, help_text='Without what its pool redacts.')),
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
            name='EpisodeLearning',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('exploration', models.FloatField(db_default=0.0, default=0.0, help_text="Share of the set router's episodes, 0 to 0.1, in which one agent is added or left out. 0.02 is enough in most pools.", validators=[django.core.validators.MinValueValidator(0.0), django.core.validators.MaxValueValidator(0.1)], verbose_name='share that is explored')),
                ('judge_a_day', models.PositiveIntegerField(db_default=0, default=0, help_text='Half are drawn at random, half are those that the policy was least sure of. 0: none.', verbose_name='answers that the language model marks in a day')),
                ('judged_on', models.DateField(editable=False, null=True)),
                ('judged', models.PositiveIntegerField(db_default=0, default=0, editable=False)),
                ('pool', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='episode_learning', to='agents_app.pool')),
            ],
            options={
                'verbose_name': 'learning from episodes',
                'verbose_name_plural': 'learning from episodes',
            },
        ),
        migrations.CreateModel(
            name='EpisodeMark',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('judge', models.CharField(max_length=200, verbose_name='judge')),
                ('rubric', models.CharField(max_length=64)),
                ('digest', models.CharField(max_length=64)),
                ('mark', models.FloatField(verbose_name='mark')),
                ('at', models.DateTimeField(auto_now_add=True, db_default=django.db.models.functions.datetime.Now())),
                ('episode', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='marks', to='orchestration_app.episode')),
            ],
            options={
                'ordering': ('-pk',),
            },
        ),
        migrations.CreateModel(
            name='Executor',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('chat', 'Chat completion'), ('webhook', 'Webhook'), ('callable', 'Python function'), ('scripted', 'Scripted'), ('a2a', 'A2A agent'), ('mcp', 'MCP tools'), ('responses', 'Responses API'), ('http', 'HTTP request')], max_length=12, verbose_name='kind')),
                ('active', models.BooleanField(db_default=True, default=True, help_text='Off: the agent is not called.', verbose_name='active')),
                ('address', models.CharField(blank=True, db_default='', default='', max_length=500, verbose_name='address')),
                ('model', models.CharField(blank=True, db_default='', default='', max_length=200, verbose_name='model')),
                ('instruction', models.TextField(blank=True, db_default='', default='', verbose_name='instruction')),
                ('tools', models.JSONField(blank=True, db_default=[], default=list, verbose_name='tools')),
                ('function', models.CharField(blank=True, db_default='', default='', max_length=200, verbose_name='function')),
                ('script', models.JSONField(blank=True, db_default={}, default=dict, verbose_name='script')),
                ('options', models.JSONField(blank=True, db_default={}, default=dict, verbose_name='options')),
                ('reads_others', models.BooleanField(db_default=False, default=False, help_text="It is called after those that do not. Agents that do not need each other's output are called at the same time.", verbose_name="needs other agents' output")),
                ('approval', models.CharField(choices=[('never', 'No'), ('always', 'Every call'), ('above', 'Calls about an amount above the limit')], db_default='never', default='never', max_length=6, verbose_name='a person approves calls first')),
                ('approval_above', models.FloatField(db_default=0.0, default=0.0, help_text='The largest amount in the task decides. A task without one needs approval.', verbose_name='limit')),
                ('secret', models.TextField(blank=True, db_default='', default='', editable=False)),
                ('price_in', models.FloatField(db_default=0.0, default=0.0, verbose_name='price of a million tokens in')),
                ('price_out', models.FloatField(db_default=0.0, default=0.0, verbose_name='price of a million tokens out')),
                ('most_tokens', models.PositiveIntegerField(db_default=1024, default=1024, verbose_name='most tokens of an answer')),
                ('most_cost', models.FloatField(blank=True, help_text="Blank: the agent's cost.", null=True, verbose_name='most that a call costs')),
                ('seconds', models.FloatField(db_default=30.0, default=30.0, verbose_name='seconds for a call')),
                ('retries', models.PositiveSmallIntegerField(db_default=2, default=2, verbose_name='retries of a failed call')),
                ('repeatable', models.BooleanField(db_default=False, default=False, help_text='A call without an answer is made again with the same Idempotency-Key.', verbose_name='may be called again')),
                ('most_kb', models.PositiveIntegerField(db_default=1024, default=1024, verbose_name='largest answer in KiB')),
                ('at_once', models.PositiveIntegerField(db_default=0, default=0, help_text='0: no limit.', verbose_name='calls at once')),
                ('per_minute', models.PositiveIntegerField(db_default=0, default=0, help_text='0: no limit.', verbose_name='calls a minute')),
                ('changed_at', models.DateTimeField(auto_now=True, db_default=django.db.models.functions.datetime.Now())),
                ('agent', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='executor', to='agents_app.agent')),
            ],
            options={
                'verbose_name': 'executor',
                'verbose_name_plural': 'executors',
            },
        ),
        migrations.CreateModel(
            name='ExecutorCheck',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('failure', models.CharField(blank=True, db_default='', default='', max_length=20, verbose_name='failure')),
                ('why', models.CharField(blank=True, db_default='', default='', max_length=400, verbose_name='why')),
                ('seconds', models.FloatField(db_default=0.0, default=0.0, verbose_name='seconds')),
                ('checked_at', models.DateTimeField(auto_now=True, db_default=django.db.models.functions.datetime.Now(), verbose_name='checked')),
                ('executor', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='readiness', to='orchestration_app.executor')),
            ],
        ),
        migrations.CreateModel(
            name='Provider',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=80, verbose_name='name')),
                ('address', models.CharField(blank=True, db_default='', default='', help_text='Of its OpenAI-compatible API.', max_length=500, verbose_name='address')),
                ('secret', models.TextField(blank=True, db_default='', default='', editable=False)),
                ('pool', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='providers', to='agents_app.pool')),
            ],
            options={
                'verbose_name': 'provider',
                'verbose_name_plural': 'providers',
                'ordering': ('pool', 'name'),
            },
        ),
        migrations.CreateModel(
            name='Backend',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('model', models.CharField(max_length=200, verbose_name='model')),
                ('active', models.BooleanField(db_default=True, default=True, verbose_name='active')),
                ('order', models.PositiveSmallIntegerField(db_default=0, default=0, help_text='Among equals, and after a failure, the lowest comes first.', verbose_name='order')),
                ('price_in', models.FloatField(db_default=0.0, default=0.0, validators=[django.core.validators.MinValueValidator(0)], verbose_name='price of a million tokens in')),
                ('price_out', models.FloatField(db_default=0.0, default=0.0, validators=[django.core.validators.MinValueValidator(0)], verbose_name='price of a million tokens out')),
                ('priced_on', models.DateField(blank=True, null=True, verbose_name='prices as of')),
                ('context', models.PositiveIntegerField(db_default=0, default=0, verbose_name='context in tokens')),
                ('tokens_in', models.PositiveIntegerField(db_default=500, default=500, verbose_name='tokens in of a call')),
                ('tokens_out', models.PositiveIntegerField(db_default=300, default=300, verbose_name='tokens out of a call')),
                ('quality', models.FloatField(db_default=0.8, default=0.8, validators=[django.core.validators.MinValueValidator(0), django.core.validators.MaxValueValidator(1)], verbose_name='expected success')),
                ('latency', models.FloatField(db_default=1000.0, default=1000.0, validators=[django.core.validators.MinValueValidator(0)], verbose_name='expected latency in ms')),
                ('requests_per_minute', models.PositiveIntegerField(db_default=0, default=0, verbose_name='requests a minute')),
                ('tokens_per_minute', models.PositiveIntegerField(db_default=0, default=0, verbose_name='tokens a minute')),
                ('at_once', models.PositiveIntegerField(db_default=0, default=0, verbose_name='calls at once')),
                ('health_url', models.URLField(blank=True, db_default='', default='', max_length=500, verbose_name='health check')),
                ('healthy', models.BooleanField(db_default=True, default=True, editable=False, verbose_name='healthy')),
                ('health_said', models.CharField(blank=True, db_default='', default='', editable=False, max_length=200)),
                ('failures', models.PositiveIntegerField(db_default=0, default=0, editable=False, verbose_name='failures in a row')),
                ('cooling_until', models.DateTimeField(editable=False, null=True, verbose_name='cools down until')),
                ('agent', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='backends', to='agents_app.agent')),
                ('provider', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='backends', to='orchestration_app.provider', verbose_name='provider')),
            ],
            options={
                'verbose_name': 'backend',
                'verbose_name_plural': 'backends',
                'ordering': ('agent', 'order', 'pk'),
            },
        ),
        migrations.CreateModel(
            name='SpendLimit',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('most', models.FloatField(verbose_name='most in a month')),
                ('api_key', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='agents_app.apikey')),
                ('pool', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='spend_limits', to='agents_app.pool')),
            ],
            options={
                'verbose_name': 'spend limit',
                'verbose_name_plural': 'spend limits',
            },
        ),
        migrations.CreateModel(
            name='MonthSpend',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('month', models.CharField(max_length=7, verbose_name='month')),
                ('amount', models.FloatField(db_default=0.0, default=0.0, verbose_name='amount')),
                ('limit', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='months', to='orchestration_app.spendlimit')),
            ],
        ),
        migrations.CreateModel(
            name='Step',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('turn', models.PositiveSmallIntegerField(verbose_name='turn')),
                ('path', models.PositiveSmallIntegerField(db_default=0, default=0, verbose_name='path')),
                ('place', models.PositiveSmallIntegerField(db_default=0, default=0)),
                ('number', models.PositiveSmallIntegerField(verbose_name='step')),
                ('call', models.PositiveSmallIntegerField(null=True, verbose_name='call')),
                ('agent', models.PositiveIntegerField(null=True, verbose_name='agent')),
                ('aim', models.CharField(db_default='answer', default='answer', max_length=9)),
                ('reason', models.CharField(blank=True, db_default='', default='', max_length=12, verbose_name='reason')),
                ('state', models.JSONField(db_default={}, default=dict, verbose_name='state')),
                ('candidates', models.JSONField(db_default=[], default=list, verbose_name='candidates')),
                ('probabilities', models.JSONField(db_default=[], default=list, verbose_name='probabilities')),
                ('propensity', models.FloatField(db_default=1.0, default=1.0, verbose_name='propensity')),
                ('worst', models.FloatField(db_default=0.0, default=0.0, verbose_name='set aside')),
                ('status', models.CharField(choices=[('running', 'Running'), ('waiting', 'Waiting for a person'), ('answered', 'Answered, goes on'), ('done', 'Done'), ('failed', 'Failed')], db_default='running', default='running', max_length=8, verbose_name='status')),
                ('call_key', models.CharField(blank=True, db_default='', default='', max_length=64)),
                ('output', models.TextField(blank=True, db_default='', default='', verbose_name='output')),
                ('failure', models.CharField(blank=True, db_default='', default='', max_length=20, verbose_name='failure')),
                ('why', models.CharField(blank=True, db_default='', default='', max_length=400, verbose_name='why')),
                ('cost', models.FloatField(db_default=0.0, default=0.0, verbose_name='cost')),
                ('tokens', models.PositiveIntegerField(db_default=0, default=0, verbose_name='tokens')),
                ('latency', models.FloatField(db_default=0.0, default=0.0, verbose_name='seconds')),
                ('attempts', models.PositiveSmallIntegerField(db_default=0, default=0, verbose_name='attempts')),
                ('metadata', models.JSONField(db_default={}, default=dict, verbose_name='metadata')),
                ('reward', models.FloatField(null=True, verbose_name='reward')),
                ('at', models.DateTimeField(auto_now_add=True, db_default=django.db.models.functions.datetime.Now())),
                ('episode', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='trajectory', to='orchestration_app.episode')),
            ],
            options={
                'verbose_name': 'step',
                'verbose_name_plural': 'steps',
                'ordering': ('episode', 'turn', 'path', 'place'),
            },
        ),
        migrations.CreateModel(
            name='AnswerRule',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('rule', models.CharField(choices=[('joined', "Every agent's output, under headings"), ('last', 'The last output'), ('composer', 'One text, written from all outputs'), ('majority', 'The answer that most paths gave')], db_default='joined', default='joined', max_length=8, verbose_name='answer')),
                ('composer', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='agents_app.agent', verbose_name='written by')),
                ('pool', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='answer_rule', to='agents_app.pool')),
            ],
            options={
                'verbose_name': 'answer rule',
                'verbose_name_plural': 'answer rules',
                'constraints': [models.CheckConstraint(condition=models.Q(('rule__in', ('joined', 'last', 'composer', 'majority'))), name='answer_rule_known')],
            },
        ),
        migrations.CreateModel(
            name='BackendCall',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('decision_id', models.UUIDField(verbose_name='decision')),
                ('agent', models.PositiveIntegerField(verbose_name='agent')),
                ('tokens_in', models.PositiveIntegerField(db_default=0, default=0, verbose_name='tokens in')),
                ('tokens_out', models.PositiveIntegerField(db_default=0, default=0, verbose_name='tokens out')),
                ('cost', models.FloatField(db_default=0.0, default=0.0, verbose_name='cost')),
                ('latency', models.FloatField(null=True, verbose_name='latency in ms')),
                ('success', models.BooleanField(null=True, verbose_name='success')),
                ('failed', models.BooleanField(db_default=False, default=False, verbose_name='the call failed')),
                ('category', models.CharField(blank=True, db_default='', default='', max_length=80, verbose_name='category')),
                ('tool', models.BooleanField(null=True, verbose_name='needed a tool')),
                ('complexity', models.FloatField(null=True, verbose_name='complexity')),
                ('assigned', models.PositiveBigIntegerField(null=True, verbose_name='assigned')),
                ('propensity', models.FloatField(null=True, verbose_name='propensity')),
                ('decided_by', models.CharField(blank=True, db_default='', default='', max_length=8, verbose_name='decided by')),
                ('as_direct', models.BooleanField(null=True, verbose_name='as the direct estimate')),
                ('at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), default=django.utils.timezone.now)),
                ('backend', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='calls', to='orchestration_app.backend')),
                ('pool', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='backend_calls', to='agents_app.pool')),
            ],
            options={
                'indexes': [models.Index(fields=['pool', '-at'], name='orchestrati_pool_id_0924b6_idx')],
                'constraints': [models.UniqueConstraint(fields=('decision_id', 'agent'), name='one_backend_call_per_agent_of_decision')],
            },
        ),
        migrations.CreateModel(
            name='BackendSettings',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('quality', models.FloatField(db_default=0.7, default=0.7, validators=[django.core.validators.MinValueValidator(0)], verbose_name='quality')),
                ('cost', models.FloatField(db_default=0.2, default=0.2, validators=[django.core.validators.MinValueValidator(0)], verbose_name='cost')),
                ('latency', models.FloatField(db_default=0.1, default=0.1, validators=[django.core.validators.MinValueValidator(0)], verbose_name='speed')),
                ('budget', models.FloatField(blank=True, help_text='From 80 % of it on, the cheapest backend is used; once it is spent, none. Blank: no budget.', null=True, validators=[django.core.validators.MinValueValidator(0)], verbose_name='budget of a day')),
                ('spread', models.BooleanField(db_default=False, default=False, help_text='A backend that recently got far more than its share is used less.', verbose_name='spread the load')),
                ('exploration', models.FloatField(db_default=0.0, default=0.0, help_text='Share of the assignments, 0 to 0.1, that go to any allowed backend, so that others are measured too.', validators=[django.core.validators.MinValueValidator(0), django.core.validators.MaxValueValidator(0.1)], verbose_name='share that is explored')),
                ('pairs', models.BooleanField(db_default=False, default=False, help_text='In episodes, a backend that did well after the previous one is used more.', verbose_name='count who works well after whom')),
                ('learner', models.CharField(blank=True, choices=[('ucb1', 'UCB1'), ('thompson', 'Thompson sampling'), ('linucb', 'LinUCB'), ('table', 'Q-table as published')], db_default='', default='', help_text='Learns from reported calls and decides a share of the assignments. Blank: no learner.', max_length=8, verbose_name='learner')),
                ('learning_share', models.FloatField(db_default=0.1, default=0.1, help_text='0 to 0.5. The direct estimate decides the rest, and the learner is compared with it.', validators=[django.core.validators.MinValueValidator(0), django.core.validators.MaxValueValidator(0.5)], verbose_name='share that the learner decides')),
                ('learning_within', models.FloatField(db_default=0.1, default=0.1, help_text="The learner uses no backend whose success is further below that of the direct estimate's choice.", validators=[django.core.validators.MinValueValidator(0), django.core.validators.MaxValueValidator(1)], verbose_name='at most so much below')),
                ('point', models.FloatField(blank=True, help_text="The share of the best single backend's quality that choosing keeps; blank: the weights above.", null=True, validators=[django.core.validators.MinValueValidator(0), django.core.validators.MaxValueValidator(1)], verbose_name='quality at least')),
                ('study', models.JSONField(db_default={}, default=dict, editable=False)),
                ('learning_since', models.DateTimeField(editable=False, null=True)),
                ('learning_stopped', models.DateTimeField(editable=False, null=True)),
                ('learning_said', models.CharField(blank=True, db_default='', default='', editable=False, max_length=200)),
                ('pool', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='backend_settings', to='agents_app.pool')),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(('cost__gte', 0), ('latency__gte', 0), ('quality__gte', 0)), name='backend_weights_not_negative'), models.CheckConstraint(condition=models.Q(('learning_share__gte', 0), ('learning_share__lte', 0.5), ('learning_within__gte', 0), ('learning_within__lte', 1)), name='backend_learning_within_rails'), models.CheckConstraint(condition=models.Q(('exploration__gte', 0), ('exploration__lte', 0.1)), name='backend_exploration_is_small')],
            },
        ),
        migrations.AddIndex(
            model_name='episode',
            index=models.Index(fields=['pool', '-created_at'], name='orchestrati_pool_id_908a30_idx'),
        ),
        migrations.AddIndex(
            model_name='episode',
            index=models.Index(fields=['status', 'created_at'], name='orchestrati_status_e14bd1_idx'),
        ),
        migrations.AddIndex(
            model_name='episode',
            index=models.Index(fields=['model', '-created_at'], name='orchestrati_model_i_ebbc88_idx'),
        ),
        migrations.AddConstraint(
            model_name='episode',
            constraint=models.UniqueConstraint(condition=models.Q(('idempotency_key', ''), _negated=True), fields=('api_key', 'idempotency_key'), name='one_episode_per_idempotency_key'),
        ),
        migrations.AddConstraint(
            model_name='episode',
            constraint=models.CheckConstraint(condition=models.Q(('status__in', ('queued', 'running', 'waiting', 'done', 'partial', 'failed', 'cancelled'))), name='episode_status_known'),
        ),
        migrations.AddConstraint(
            model_name='episode',
            constraint=models.CheckConstraint(condition=models.Q(('rating__isnull', True), models.Q(('rating__gte', 0), ('rating__lte', 1)), _connector='OR'), name='episode_rating_is_a_share'),
        ),
        migrations.AddConstraint(
            model_name='episodelearning',
            constraint=models.CheckConstraint(condition=models.Q(('exploration__gte', 0), ('exploration__lte', 0.1)), name='episode_exploration_is_small'),
        ),
        migrations.AddConstraint(
            model_name='episodemark',
            constraint=models.UniqueConstraint(fields=('episode', 'judge', 'rubric'), name='one_mark_per_judge_and_rubric'),
        ),
        migrations.AddConstraint(
            model_name='episodemark',
            constraint=models.CheckConstraint(condition=models.Q(('mark__gte', 0), ('mark__lte', 1)), name='episode_mark_is_a_share'),
        ),
        migrations.AddConstraint(
            model_name='executor',
            constraint=models.CheckConstraint(condition=models.Q(('kind__in', ('chat', 'webhook', 'callable', 'scripted', 'a2a', 'mcp', 'responses', 'http'))), name='executor_kind_known'),
        ),
        migrations.AddConstraint(
            model_name='executor',
            constraint=models.CheckConstraint(condition=models.Q(('approval__in', ('never', 'always', 'above')), ('approval_above__gte', 0)), name='executor_approval_known'),
        ),
        migrations.AddConstraint(
            model_name='executor',
            constraint=models.CheckConstraint(condition=models.Q(('price_in__gte', 0), ('price_out__gte', 0), ('seconds__gt', 0)), name='executor_numbers_positive'),
        ),
        migrations.AddConstraint(
            model_name='provider',
            constraint=models.UniqueConstraint(fields=('pool', 'name'), name='provider_name_unique_in_pool'),
        ),
        migrations.AddConstraint(
            model_name='backend',
            constraint=models.UniqueConstraint(fields=('agent', 'provider', 'model'), name='backend_unique_of_agent'),
        ),
        migrations.AddConstraint(
            model_name='backend',
            constraint=models.CheckConstraint(condition=models.Q(('latency__gte', 0), ('price_in__gte', 0), ('price_out__gte', 0), ('quality__gte', 0), ('quality__lte', 1)), name='backend_figures_in_range'),
        ),
        migrations.AddConstraint(
            model_name='spendlimit',
            constraint=models.UniqueConstraint(fields=('pool', 'api_key'), name='one_spend_limit_per_key'),
        ),
        migrations.AddConstraint(
            model_name='spendlimit',
            constraint=models.UniqueConstraint(condition=models.Q(('api_key', None)), fields=('pool',), name='one_spend_limit_per_pool'),
        ),
        migrations.AddConstraint(
            model_name='spendlimit',
            constraint=models.CheckConstraint(condition=models.Q(('most__gte', 0)), name='spend_limit_not_negative'),
        ),
        migrations.AddConstraint(
            model_name='monthspend',
            constraint=models.UniqueConstraint(fields=('limit', 'month'), name='one_month_per_spend_limit'),
        ),
        migrations.AddConstraint(
            model_name='step',
            constraint=models.UniqueConstraint(fields=('episode', 'turn', 'path', 'place'), name='one_row_per_call_of_a_turn'),
        ),
        migrations.AddConstraint(
            model_name='step',
            constraint=models.CheckConstraint(condition=models.Q(('status__in', ('running', 'waiting', 'answered', 'done', 'failed'))), name='step_status_known'),
        ),
    ]
