# Made by `manage.py makemigrations`.

import django.core.validators
import django.db.models.deletion
import django.db.models.functions.datetime
import django.utils.timezone
import training_app.models.live
import uuid
from django.conf import settings
from django.db import migrations, models

from routerweb.initial import InitialMigration


class Migration(InitialMigration):

    initial = True

    # A database that has applied these has the tables that this migration creates.
    replaces = [
        ('training_app', '0002_one_decisions_table'),
        ('training_app', '0003_kind_of_a_rule'),
        ('training_app', '0004_what_processes_hold'),
        ('training_app', '0005_database_defaults'),
        ('training_app', '0006_promises_and_checks'),
        ('training_app', '0007_must_pass_cases'),
        ('training_app', '0008_decisions_by_descriptions'),
        ('training_app', '0009_ask_cost'),
        ('training_app', '0010_agent_proposals'),
        ('training_app', '0011_traffic_hours'),
        ('training_app', '0012_standings'),
        ('training_app', '0013_answers_of_standings'),
        ('training_app', '0014_webhooks_of_decisions'),
    ]

    dependencies = [
        ('agents_app', '0001_initial'),
        ('datasets_app', '0001_initial'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='KeyMinute',
            fields=[
                ('api_key', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='+', serialize=False, to='agents_app.apikey')),
                ('at', models.FloatField(db_default=0.0, default=0.0)),
                ('free', models.JSONField(db_default=[], default=list)),
                ('shares', models.JSONField(db_default={}, default=dict)),
            ],
        ),
        migrations.CreateModel(
            name='ProcessSign',
            fields=[
                ('name', models.CharField(max_length=120, primary_key=True, serialize=False)),
                ('part', models.CharField(max_length=20)),
                ('machine', models.CharField(max_length=100)),
                ('started_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), default=django.utils.timezone.now)),
                ('at', models.DateTimeField(db_index=True)),
                ('waiting', models.PositiveIntegerField(db_default=0, default=0, verbose_name='decisions waiting')),
                ('dropped', models.PositiveBigIntegerField(db_default=0, default=0, verbose_name='decisions dropped')),
                ('dropped_at', models.DateTimeField(null=True, verbose_name='last dropped')),
                ('problems', models.JSONField(db_default={}, default=dict)),
                ('memory', models.PositiveBigIntegerField(db_default=0, default=0, verbose_name='bytes of memory')),
                ('loaded', models.JSONField(db_default=[], default=list)),
                ('state', models.JSONField(db_default=[], default=list)),
            ],
            options={
                'ordering': ('part', 'machine', 'name'),
            },
        ),
        migrations.CreateModel(
            name='Alarm',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('drift', 'Drift'), ('promise', 'Quality is below its promise'), ('runs', 'Runs fail'), ('queue', 'Jobs wait'), ('dropped', 'Decisions were dropped'), ('workers', 'Workers are missing'), ('cluster', 'A job cluster stands still'), ('refused', 'A model cannot be loaded'), ('labeling', 'Labeling queue'), ('approval', 'A promotion or a canary waits for approval'), ('keys', 'An API key expires'), ('quota', "A key's month is nearly used up"), ('spent', "A key's month is used up")], max_length=8, verbose_name='kind')),
                ('sentence', models.CharField(max_length=500, verbose_name='what')),
                ('evidence', models.JSONField(db_default=[], default=list, help_text='Rows of a name and a value.', verbose_name='evidence')),
                ('opened_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), default=django.utils.timezone.now)),
                ('seen_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), default=django.utils.timezone.now, verbose_name='last seen')),
                ('resolved_at', models.DateTimeField(blank=True, null=True)),
                ('pool', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='alarms', to='agents_app.pool')),
            ],
            options={
                'verbose_name': 'alarm',
                'verbose_name_plural': 'alarms',
                'ordering': ('-opened_at', '-pk'),
            },
        ),
        migrations.CreateModel(
            name='AlarmMute',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('drift', 'Drift'), ('promise', 'Quality is below its promise'), ('runs', 'Runs fail'), ('queue', 'Jobs wait'), ('dropped', 'Decisions were dropped'), ('workers', 'Workers are missing'), ('cluster', 'A job cluster stands still'), ('refused', 'A model cannot be loaded'), ('labeling', 'Labeling queue'), ('approval', 'A promotion or a canary waits for approval'), ('keys', 'An API key expires'), ('quota', "A key's month is nearly used up"), ('spent', "A key's month is used up")], max_length=8)),
                ('until', models.DateTimeField()),
                ('author', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('pool', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='agents_app.pool')),
            ],
        ),
        migrations.CreateModel(
            name='AlarmReceiver',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('webhook', 'Webhook'), ('email', 'E-mail'), ('slack', 'Slack or Mattermost'), ('teams', 'Microsoft Teams'), ('unsure', 'Webhook for unsure decisions')], max_length=7)),
                ('address', models.CharField(max_length=500, verbose_name='address')),
                ('nonce', models.CharField(blank=True, db_default='', default='', editable=False, max_length=32)),
                ('created_at', models.DateTimeField(auto_now_add=True, db_default=django.db.models.functions.datetime.Now())),
                ('removed_at', models.DateTimeField(null=True)),
                ('looked_until', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), default=django.utils.timezone.now, editable=False)),
                ('created_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('pool', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='alarm_receivers', to='agents_app.pool')),
            ],
            options={
                'ordering': ('pk',),
            },
        ),
        migrations.CreateModel(
            name='AlarmDelivery',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('decision_id', models.UUIDField(editable=False, null=True, verbose_name='decision')),
                ('event', models.CharField(max_length=20)),
                ('body', models.TextField()),
                ('status', models.CharField(choices=[('waiting', 'Waiting'), ('delivered', 'Delivered'), ('failed', 'Given up')], db_default='waiting', default='waiting', max_length=9)),
                ('attempts', models.PositiveSmallIntegerField(db_default=0, default=0)),
                ('next_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), default=django.utils.timezone.now)),
                ('log', models.JSONField(db_default=[], default=list)),
                ('created_at', models.DateTimeField(auto_now_add=True, db_default=django.db.models.functions.datetime.Now())),
                ('alarm', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='deliveries', to='training_app.alarm')),
                ('receiver', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='deliveries', to='training_app.alarmreceiver')),
            ],
            options={
                'ordering': ('-created_at',),
            },
        ),
        migrations.CreateModel(
            name='KeptAnswer',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('key', models.CharField(max_length=200)),
                ('digest', models.CharField(max_length=64)),
                ('status', models.PositiveSmallIntegerField(db_default=0, default=0)),
                ('body', models.TextField(db_default='', default='')),
                ('at', models.DateTimeField(auto_now_add=True, db_default=django.db.models.functions.datetime.Now(), db_index=True)),
                ('api_key', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='agents_app.apikey')),
            ],
            options={
                'verbose_name': 'kept answer',
                'verbose_name_plural': 'kept answers',
            },
        ),
        migrations.CreateModel(
            name='LaunchRule',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=80, verbose_name='name')),
                ('model_kind', models.CharField(db_default='set_router', default='set_router', editable=False, max_length=30, verbose_name='kind of model')),
                ('trigger', models.CharField(choices=[('nightly', 'Every night'), ('labels', 'After new gold labels'), ('drift', 'When drift is found')], db_default='nightly', default='nightly', max_length=7, verbose_name='when')),
                ('hour', models.PositiveSmallIntegerField(db_default=2, default=2, help_text='Of the day, 0 to 23, in the time zone of this installation. For every night.', validators=[django.core.validators.MaxValueValidator(23)], verbose_name='hour')),
                ('labels', models.PositiveIntegerField(db_default=100, default=100, help_text='For “after new gold labels”: the number of new or changed gold labels since the last launch.', validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(1000000)], verbose_name='new labels')),
                ('rest_hours', models.PositiveSmallIntegerField(db_default=12, default=12, help_text='For new labels and drift: the shortest time between two launches.', validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(720)], verbose_name='rest in hours')),
                ('only_new', models.BooleanField(db_default=True, default=True, help_text='Nights without a new or changed gold label are skipped.', verbose_name='only where gold changed')),
                ('include_llm', models.BooleanField(db_default=False, default=False, verbose_name='with LLM labels that nobody reviewed')),
                ('config', models.JSONField(db_default={}, default=dict, help_text='The settings that differ from the defaults.', verbose_name='config')),
                ('promote', models.BooleanField(db_default=False, default=False, verbose_name='promote when the gate passes')),
                ('active', models.BooleanField(db_default=True, default=True, verbose_name='on')),
                ('created_at', models.DateTimeField(auto_now_add=True, db_default=django.db.models.functions.datetime.Now())),
                ('last_fired_at', models.DateTimeField(editable=False, null=True)),
                ('passed_at', models.DateTimeField(editable=False, help_text='The last night that was skipped.', null=True)),
                ('last_reason', models.CharField(blank=True, db_default='', default='', editable=False, max_length=300, verbose_name='why it launched last')),
                ('problem', models.CharField(blank=True, db_default='', default='', editable=False, max_length=400, verbose_name='why it could not launch')),
                ('author', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('pool', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='rules', to='agents_app.pool')),
            ],
            options={
                'verbose_name': 'launch rule',
                'verbose_name_plural': 'launch rules',
                'ordering': ('pool', 'name'),
            },
        ),
        migrations.CreateModel(
            name='LiveSettings',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('salt', models.CharField(default=training_app.models.live.new_salt, editable=False, max_length=16)),
                ('exploration', models.FloatField(db_default=0.0, default=0.0, help_text='Share of the answers, 0 to 0.1, in which one agent is added or left out at random. Such answers are marked.', validators=[django.core.validators.MinValueValidator(0.0), django.core.validators.MaxValueValidator(0.1)], verbose_name='share that is explored')),
                ('cold', models.BooleanField(db_default=False, default=False, help_text='By what their descriptions say, until a model that knows them is promoted.', verbose_name='route to agents that the model has not learnt')),
                ('cold_threshold', models.FloatField(db_default=0.1, default=0.1, help_text='If a query needs an agent with a lower probability, by its description, it is not routed to it. The best set of the others is the answer.', validators=[django.core.validators.MinValueValidator(0.01), django.core.validators.MaxValueValidator(1.0)], verbose_name='least probability')),
                ('ask_cost', models.FloatField(blank=True, help_text='In wrong answers: at 0.2, one wrong answer costs as much as five questions. Where asking is worth more, an answer has a question for the user. Empty: never ask.', null=True, validators=[django.core.validators.MinValueValidator(0.01), django.core.validators.MaxValueValidator(1.0)], verbose_name='cost of asking the user')),
                ('failures', models.BooleanField(db_default=False, default=False, help_text='Queries that applications report as failed go to the labeling queue, with their comment.', verbose_name='send failures to labeling')),
                ('failures_per_day', models.PositiveIntegerField(db_default=50, default=50, validators=[django.core.validators.MaxValueValidator(10000)], verbose_name='at most a day')),
                ('pool', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='live', to='agents_app.pool')),
            ],
        ),
        migrations.CreateModel(
            name='MustPassCase',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('text', models.TextField(verbose_name='query')),
                ('messages', models.JSONField(blank=True, help_text='What was said before the query in its conversation.', null=True, verbose_name='messages before')),
                ('text_hash', models.CharField(editable=False, max_length=64)),
                ('required', models.JSONField(help_text='Sorted agent ids; [] is “none of these”.', verbose_name='required agents')),
                ('reason', models.CharField(max_length=400, verbose_name='reason')),
                ('source', models.CharField(choices=[('query', 'Query'), ('decision', 'Decision'), ('dispute', 'Dispute'), ('outcome', 'Outcome'), ('written', 'Written by hand')], db_default='written', default='written', max_length=8, verbose_name='made from')),
                ('owner_name', models.CharField(max_length=150, verbose_name='owner')),
                ('created_at', models.DateTimeField(auto_now_add=True, db_default=django.db.models.functions.datetime.Now())),
                ('owner', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('pool', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='cases', to='agents_app.pool')),
            ],
            options={
                'verbose_name': 'must-pass case',
                'verbose_name_plural': 'must-pass cases',
                'ordering': ('pk',),
            },
        ),
        migrations.CreateModel(
            name='Outcome',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('decision_id', models.UUIDField(unique=True, verbose_name='decision')),
                ('success', models.BooleanField(verbose_name='success')),
                ('agents_used', models.JSONField(null=True, verbose_name='agents used')),
                ('rating', models.FloatField(null=True, verbose_name='rating')),
                ('comment', models.TextField(blank=True, db_default='', default='', verbose_name='comment')),
                ('asked', models.BooleanField(db_default=False, default=False, editable=False, help_text='Whether the failure went to the labeling queue.')),
                ('at', models.DateTimeField(auto_now=True, db_default=django.db.models.functions.datetime.Now())),
                ('api_key', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='agents_app.apikey')),
                ('pool', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='outcomes', to='agents_app.pool')),
            ],
        ),
        migrations.CreateModel(
            name='Promotion',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('first', 'First promotion'), ('promotion', 'Promotion'), ('rollback', 'Roll-back')], db_default='promotion', default='promotion', max_length=9, verbose_name='kind')),
                ('model_kind', models.CharField(db_default='set_router', default='set_router', max_length=30, verbose_name='kind of model')),
                ('reason', models.CharField(blank=True, db_default='', default='', max_length=400, verbose_name='reason')),
                ('at', models.DateTimeField(auto_now_add=True, db_default=django.db.models.functions.datetime.Now())),
                ('author', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('pool', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='promotions', to='agents_app.pool')),
            ],
            options={
                'verbose_name': 'promotion',
                'verbose_name_plural': 'promotions',
                'ordering': ('-pk',),
            },
        ),
        migrations.CreateModel(
            name='Judgement',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('passed', models.BooleanField(verbose_name='passed')),
                ('findings', models.JSONField(db_default=[], default=list, verbose_name='findings')),
                ('override', models.CharField(blank=True, db_default='', default='', max_length=400, verbose_name='reason for the override')),
                ('promotion', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='judgement', to='training_app.promotion')),
            ],
        ),
        migrations.CreateModel(
            name='RouterModel',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(db_default='set_router', default='set_router', max_length=30, verbose_name='kind')),
                ('version', models.PositiveIntegerField(verbose_name='version')),
                ('state', models.CharField(choices=[('candidate', 'Candidate'), ('shadow', 'Shadow'), ('active', 'Active'), ('retired', 'Retired')], db_default='candidate', default='candidate', max_length=9, verbose_name='state')),
                ('artifact_digest', models.CharField(max_length=64, verbose_name='artifact SHA-256')),
                ('artifact_bytes', models.PositiveBigIntegerField(verbose_name='artifact size in bytes')),
                ('pinned', models.BooleanField(db_default=False, default=False, help_text='Its artifact is never pruned.', verbose_name='pinned')),
                ('prune_at', models.DateTimeField(editable=False, help_text='When its artifact is pruned, where that is announced.', null=True)),
                ('pruned_at', models.DateTimeField(editable=False, null=True)),
                ('created_at', models.DateTimeField(auto_now_add=True, db_default=django.db.models.functions.datetime.Now())),
                ('pool', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='models', to='agents_app.pool')),
            ],
            options={
                'verbose_name': 'model',
                'verbose_name_plural': 'models',
                'ordering': ('pool', '-version'),
            },
        ),
        migrations.CreateModel(
            name='PromotionRequest',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('share', models.FloatField(help_text='Share of the traffic, for a canary; empty for all of it.', null=True, verbose_name='share')),
                ('state', models.CharField(choices=[('waiting', 'Waiting'), ('approved', 'Approved'), ('declined', 'Declined'), ('withdrawn', 'Withdrawn'), ('lapsed', 'Lapsed')], db_default='waiting', default='waiting', max_length=9, verbose_name='state')),
                ('author_name', models.CharField(help_text='Kept when the account is deleted; for commands and keys, their name.', max_length=150)),
                ('reason', models.CharField(blank=True, db_default='', default='', max_length=400, verbose_name='reason')),
                ('override', models.CharField(blank=True, db_default='', default='', max_length=400, verbose_name='reason for the override')),
                ('asked_at', models.DateTimeField(auto_now_add=True, db_default=django.db.models.functions.datetime.Now())),
                ('decided_by_name', models.CharField(blank=True, db_default='', default='', max_length=150)),
                ('decided_at', models.DateTimeField(null=True)),
                ('note', models.CharField(blank=True, db_default='', default='', max_length=400, verbose_name='what was said to it')),
                ('author', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('decided_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('pool', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='promotion_requests', to='agents_app.pool')),
                ('promotion', models.OneToOneField(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='request', to='training_app.promotion')),
                ('against', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='training_app.routermodel')),
                ('model', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='promotion_requests', to='training_app.routermodel')),
            ],
            options={
                'verbose_name': 'request for a promotion',
                'verbose_name_plural': 'requests for promotions',
                'ordering': ('-pk',),
            },
        ),
        migrations.AddField(
            model_name='promotion',
            name='model',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='promotions', to='training_app.routermodel'),
        ),
        migrations.AddField(
            model_name='promotion',
            name='previous',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='training_app.routermodel'),
        ),
        migrations.CreateModel(
            name='LiveTally',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('shadow', 'Shadow'), ('canary', 'Canary')], max_length=6)),
                ('done', models.PositiveBigIntegerField(db_default=0, default=0)),
                ('errors', models.PositiveBigIntegerField(db_default=0, default=0)),
                ('skipped', models.PositiveBigIntegerField(db_default=0, default=0)),
                ('last_error', models.CharField(blank=True, db_default='', default='', max_length=300)),
                ('last_error_at', models.DateTimeField(null=True)),
                ('model', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='tallies', to='training_app.routermodel')),
            ],
        ),
        migrations.CreateModel(
            name='LearntRoster',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('agents', models.JSONField(db_default=[], default=list, verbose_name='roster')),
                ('model', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='learnt', to='training_app.routermodel')),
            ],
        ),
        migrations.CreateModel(
            name='DriftReference',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('source', models.CharField(choices=[('snapshot', "The snapshot's validation and test queries"), ('decisions', "The model's first decisions"), ('accepted', 'Traffic that was accepted as the new reference')], max_length=9)),
                ('texts', models.PositiveIntegerField(verbose_name='texts')),
                ('counts', models.JSONField(db_default={}, default=dict)),
                ('means', models.JSONField(db_default={}, default=dict)),
                ('words', models.BinaryField(db_default=b'', default=bytes)),
                ('grams', models.BinaryField(db_default=b'', default=bytes)),
                ('at', models.DateTimeField(auto_now=True, db_default=django.db.models.functions.datetime.Now())),
                ('model', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='drift_reference', to='training_app.routermodel')),
            ],
        ),
        migrations.CreateModel(
            name='DriftPoint',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), default=django.utils.timezone.now)),
                ('since', models.DateTimeField(verbose_name='oldest decision')),
                ('texts', models.PositiveIntegerField(verbose_name='texts')),
                ('measures', models.JSONField(db_default={}, default=dict)),
                ('words', models.JSONField(db_default=[], default=list)),
                ('drifts', models.BooleanField(db_default=False, default=False)),
                ('model', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='drift_points', to='training_app.routermodel')),
            ],
            options={
                'ordering': ('-at',),
            },
        ),
        migrations.CreateModel(
            name='Decision',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('text', models.TextField(verbose_name='query')),
                ('messages', models.JSONField(help_text='What was said before the query in its conversation.', null=True, verbose_name='messages before')),
                ('agents', models.JSONField(verbose_name='agents')),
                ('scores', models.JSONField(verbose_name='scores')),
                ('confidence', models.FloatField(verbose_name='confidence')),
                ('steps', models.PositiveSmallIntegerField(verbose_name='steps')),
                ('stop_reason', models.CharField(max_length=12, verbose_name='stop reason')),
                ('abstained', models.BooleanField(db_default=False, default=False, verbose_name='abstained')),
                ('microseconds', models.PositiveIntegerField(verbose_name='time in µs')),
                ('propensity', models.FloatField(help_text='The probability of exactly this set, if the pool explored; else empty.', null=True, verbose_name='propensity')),
                ('detail', models.JSONField(help_text='What else influenced the set: a canary, an explored agent, cold agents.', null=True, verbose_name='detail')),
                ('at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), default=django.utils.timezone.now)),
                ('api_key', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='agents_app.apikey')),
                ('pool', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='decisions', to='agents_app.pool')),
                ('model', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='decisions', to='training_app.routermodel')),
            ],
            options={
                'verbose_name': 'decision',
                'verbose_name_plural': 'decisions',
                'ordering': ('-at',),
            },
        ),
        migrations.CreateModel(
            name='Comparison',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('queries', models.PositiveIntegerField(verbose_name='queries')),
                ('figures', models.JSONField(help_text='By measure: ours, theirs and the difference, each a mean with its 95 % interval.', verbose_name='figures')),
                ('at', models.DateTimeField(auto_now_add=True, db_default=django.db.models.functions.datetime.Now())),
                ('snapshot', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='datasets_app.snapshot')),
                ('against', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='training_app.routermodel')),
                ('model', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='comparisons', to='training_app.routermodel')),
            ],
        ),
        migrations.CreateModel(
            name='CheckedAnswer',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('round', models.PositiveIntegerField(verbose_name='round')),
                ('decision_id', models.UUIDField(verbose_name='decision')),
                ('answered', models.JSONField(verbose_name='agents that were answered')),
                ('decided_at', models.DateTimeField()),
                ('drawn_at', models.DateTimeField(auto_now_add=True, db_default=django.db.models.functions.datetime.Now())),
                ('required', models.JSONField(null=True, verbose_name='agents that are needed')),
                ('checked_at', models.DateTimeField(null=True)),
                ('author', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('pool', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='checked_answers', to='agents_app.pool')),
                ('model', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='checked_answers', to='training_app.routermodel')),
            ],
            options={
                'ordering': ('pk',),
            },
        ),
        migrations.CreateModel(
            name='Canary',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(db_default='set_router', default='set_router', max_length=30, verbose_name='kind')),
                ('share', models.FloatField(verbose_name='share')),
                ('shares', models.JSONField(db_default=[], default=list, verbose_name='shares over time')),
                ('reason', models.CharField(blank=True, db_default='', default='', max_length=400, verbose_name='reason')),
                ('passed', models.BooleanField(verbose_name='passed the gate')),
                ('findings', models.JSONField(db_default=[], default=list, verbose_name='findings')),
                ('override', models.CharField(blank=True, db_default='', default='', max_length=400, verbose_name='reason for the override')),
                ('started_at', models.DateTimeField(auto_now_add=True, db_default=django.db.models.functions.datetime.Now())),
                ('ended_at', models.DateTimeField(null=True)),
                ('ended', models.CharField(blank=True, choices=[('stopped', 'Stopped'), ('promoted', 'Promoted'), ('other', 'Another model was promoted'), ('rollback', 'Rolled back')], db_default='', default='', max_length=8, verbose_name='ended')),
                ('author', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('pool', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='canaries', to='agents_app.pool')),
                ('against', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='training_app.routermodel')),
                ('model', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='canaries', to='training_app.routermodel')),
            ],
            options={
                'verbose_name': 'canary',
                'verbose_name_plural': 'canaries',
                'ordering': ('-pk',),
            },
        ),
        migrations.CreateModel(
            name='Artifact',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('content', models.BinaryField()),
                ('model', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='artifact', to='training_app.routermodel')),
            ],
        ),
        migrations.CreateModel(
            name='Run',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
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
                ('status', models.CharField(choices=[('queued', 'Queued'), ('running', 'Running'), ('done', 'Done'), ('failed', 'Failed'), ('cancelled', 'Cancelled')], db_default='queued', db_index=True, default='queued', max_length=9, verbose_name='status')),
                ('kind', models.CharField(db_default='set_router', default='set_router', help_text='What it trains.', max_length=30, verbose_name='kind')),
                ('config', models.JSONField(db_default={}, default=dict, help_text='Every setting of the engine, defaults included.', verbose_name='config')),
                ('seed', models.PositiveIntegerField(db_default=0, default=0, verbose_name='seed')),
                ('promote', models.BooleanField(db_default=False, default=False, verbose_name='promote when done')),
                ('phase', models.CharField(blank=True, db_default='', default='', max_length=40, verbose_name='phase')),
                ('step', models.PositiveIntegerField(db_default=0, default=0)),
                ('total', models.PositiveIntegerField(db_default=0, default=0)),
                ('metrics', models.JSONField(db_default={}, default=dict, verbose_name='latest metrics')),
                ('author', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('pool', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='runs', to='agents_app.pool')),
                ('rule', models.ForeignKey(editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='runs', to='training_app.launchrule')),
                ('snapshot', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='runs', to='datasets_app.snapshot')),
            ],
            options={
                'verbose_name': 'run',
                'verbose_name_plural': 'runs',
                'ordering': ('-pk',),
            },
        ),
        migrations.AddField(
            model_name='routermodel',
            name='run',
            field=models.OneToOneField(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='model', to='training_app.run'),
        ),
        migrations.CreateModel(
            name='Checkpoint',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('step', models.PositiveIntegerField()),
                ('content', models.BinaryField()),
                ('saved_at', models.DateTimeField(auto_now=True, db_default=django.db.models.functions.datetime.Now())),
                ('run', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='checkpoint', to='training_app.run')),
            ],
        ),
        migrations.CreateModel(
            name='RunEvent',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), default=django.utils.timezone.now)),
                ('phase', models.CharField(blank=True, db_default='', default='', max_length=40)),
                ('step', models.PositiveIntegerField(db_default=0, default=0)),
                ('message', models.CharField(blank=True, db_default='', default='', max_length=500)),
                ('metrics', models.JSONField(db_default={}, default=dict)),
                ('run', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='events', to='training_app.run')),
            ],
            options={
                'ordering': ('run', 'pk'),
            },
        ),
        migrations.CreateModel(
            name='Scorecard',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('content', models.JSONField(db_default={}, default=dict, verbose_name='scorecard')),
                ('jaccard', models.FloatField(null=True)),
                ('f1', models.FloatField(null=True)),
                ('exact', models.FloatField(null=True)),
                ('validation', models.FloatField(null=True)),
                ('model', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='measured', to='training_app.routermodel')),
            ],
        ),
        migrations.CreateModel(
            name='ShadowScore',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('decision_id', models.UUIDField(verbose_name='decision')),
                ('agents', models.JSONField(verbose_name='its agents')),
                ('answered', models.JSONField(verbose_name='agents that were answered')),
                ('abstained', models.BooleanField(db_default=False, default=False)),
                ('microseconds', models.PositiveIntegerField(verbose_name='its time in µs')),
                ('answered_in', models.PositiveIntegerField(verbose_name='time of the answer in µs')),
                ('at', models.DateTimeField()),
                ('against', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='training_app.routermodel')),
                ('model', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='shadow_scores', to='training_app.routermodel')),
            ],
        ),
        migrations.CreateModel(
            name='Standing',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('queries', models.PositiveIntegerField(verbose_name='queries')),
                ('answers', models.JSONField(db_default=[], default=list)),
                ('required', models.JSONField(db_default=[], default=list)),
                ('figures', models.JSONField(db_default={}, default=dict, verbose_name='figures')),
                ('stamp', models.CharField(max_length=64)),
                ('at', models.DateTimeField(auto_now_add=True, db_default=django.db.models.functions.datetime.Now())),
                ('against', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='training_app.routermodel')),
                ('model', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='standing', to='training_app.routermodel')),
            ],
        ),
        migrations.CreateModel(
            name='Sweep',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('method', models.CharField(choices=[('grid', 'Every combination'), ('random', 'Drawn at random')], db_default='grid', default='grid', max_length=6, verbose_name='method')),
                ('base', models.JSONField(db_default={}, default=dict, verbose_name='settings of every run')),
                ('space', models.JSONField(db_default={}, default=dict, verbose_name='settings that vary')),
                ('created_at', models.DateTimeField(auto_now_add=True, db_default=django.db.models.functions.datetime.Now())),
                ('author', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('pool', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='sweeps', to='agents_app.pool')),
                ('snapshot', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='sweeps', to='datasets_app.snapshot')),
            ],
            options={
                'verbose_name': 'sweep',
                'verbose_name_plural': 'sweeps',
                'ordering': ('-pk',),
            },
        ),
        migrations.AddField(
            model_name='run',
            name='sweep',
            field=models.ForeignKey(editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='runs', to='training_app.sweep'),
        ),
        migrations.CreateModel(
            name='TrafficHour',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('hour', models.DateTimeField()),
                ('answers', models.PositiveBigIntegerField(db_default=0, default=0)),
                ('abstained', models.PositiveBigIntegerField(db_default=0, default=0)),
                ('none', models.PositiveBigIntegerField(db_default=0, default=0)),
                ('unsure', models.PositiveBigIntegerField(db_default=0, default=0)),
                ('outcomes', models.PositiveBigIntegerField(db_default=0, default=0)),
                ('successes', models.PositiveBigIntegerField(db_default=0, default=0)),
                ('pool', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='traffic_hours', to='agents_app.pool')),
            ],
        ),
        migrations.CreateModel(
            name='TrafficLook',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('figures', models.JSONField(db_default={}, default=dict)),
                ('at', models.DateTimeField(auto_now=True, db_default=django.db.models.functions.datetime.Now())),
                ('model', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='traffic_look', to='training_app.routermodel')),
            ],
        ),
        migrations.CreateModel(
            name='WatchTurn',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('next_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), default=django.utils.timezone.now)),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(('id', 1)), name='watch_turn_is_one_row')],
            },
        ),
        migrations.CreateModel(
            name='AgentProposal',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('missing', 'Missing agent'), ('overlap', 'Overlapping agents'), ('unused', 'Nobody asks for it'), ('together', 'Always together'), ('attracts', 'Attracts what it does not answer')], max_length=8)),
                ('name', models.CharField(blank=True, db_default='', default='', max_length=120, verbose_name='name')),
                ('agents', models.JSONField(db_default=[], default=list)),
                ('decisions', models.JSONField(db_default=[], default=list)),
                ('keys', models.JSONField(db_default=[], default=list)),
                ('size', models.PositiveIntegerField(db_default=0, default=0, verbose_name='queries')),
                ('figures', models.JSONField(db_default={}, default=dict)),
                ('state', models.CharField(choices=[('open', 'Open'), ('accepted', 'Accepted'), ('declined', 'Declined')], db_default='open', default='open', max_length=8)),
                ('created_at', models.DateTimeField(auto_now_add=True, db_default=django.db.models.functions.datetime.Now())),
                ('decided_at', models.DateTimeField(null=True)),
                ('decided_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('pool', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='agent_proposals', to='agents_app.pool')),
            ],
            options={
                'ordering': ('pk',),
                'indexes': [models.Index(fields=['pool', 'state'], name='training_ap_pool_id_243fd7_idx')],
            },
        ),
        migrations.AddConstraint(
            model_name='alarm',
            constraint=models.UniqueConstraint(condition=models.Q(('resolved_at__isnull', True)), fields=('pool', 'kind'), name='one_open_alarm_per_pool_and_kind'),
        ),
        migrations.AddConstraint(
            model_name='alarm',
            constraint=models.UniqueConstraint(condition=models.Q(('pool__isnull', True), ('resolved_at__isnull', True)), fields=('kind',), name='one_open_alarm_of_the_site'),
        ),
        migrations.AddConstraint(
            model_name='alarmreceiver',
            constraint=models.UniqueConstraint(condition=models.Q(('removed_at__isnull', True)), fields=('pool', 'kind', 'address'), name='one_receiver_per_address'),
        ),
        migrations.AddIndex(
            model_name='alarmdelivery',
            index=models.Index(fields=['status', 'next_at'], name='training_ap_status_5ceb32_idx'),
        ),
        migrations.AddConstraint(
            model_name='alarmdelivery',
            constraint=models.UniqueConstraint(condition=models.Q(('decision_id__isnull', False)), fields=('receiver', 'decision_id'), name='one_delivery_per_decision'),
        ),
        migrations.AddConstraint(
            model_name='keptanswer',
            constraint=models.UniqueConstraint(fields=('api_key', 'key'), name='one_answer_per_idempotency_key'),
        ),
        migrations.AddConstraint(
            model_name='launchrule',
            constraint=models.UniqueConstraint(fields=('pool', 'name'), name='rule_name_unique_in_pool'),
        ),
        migrations.AddConstraint(
            model_name='launchrule',
            constraint=models.CheckConstraint(condition=models.Q(('trigger__in', ('nightly', 'labels', 'drift'))), name='rule_trigger_known'),
        ),
        migrations.AddConstraint(
            model_name='launchrule',
            constraint=models.CheckConstraint(condition=models.Q(('hour__lte', 23)), name='rule_hour_of_the_day'),
        ),
        migrations.AddConstraint(
            model_name='launchrule',
            constraint=models.CheckConstraint(condition=models.Q(('rest_hours__gte', 1)), name='rule_rests'),
        ),
        migrations.AddConstraint(
            model_name='livesettings',
            constraint=models.CheckConstraint(condition=models.Q(('exploration__gte', 0), ('exploration__lte', 0.1)), name='exploration_is_small'),
        ),
        migrations.AddConstraint(
            model_name='livesettings',
            constraint=models.CheckConstraint(condition=models.Q(('cold_threshold__gt', 0), ('cold_threshold__lte', 1)), name='cold_threshold_is_a_likeness'),
        ),
        migrations.AddConstraint(
            model_name='livesettings',
            constraint=models.CheckConstraint(condition=models.Q(('ask_cost__gt', 0), ('ask_cost__lte', 1)), name='ask_cost_is_in_wrong_answers'),
        ),
        migrations.AddConstraint(
            model_name='mustpasscase',
            constraint=models.UniqueConstraint(fields=('pool', 'text_hash'), name='one_case_per_text'),
        ),
        migrations.AddConstraint(
            model_name='mustpasscase',
            constraint=models.CheckConstraint(condition=models.Q(('source__in', ('query', 'decision', 'dispute', 'outcome', 'written'))), name='case_source_known'),
        ),
        migrations.AddIndex(
            model_name='outcome',
            index=models.Index(fields=['pool', '-at'], name='training_ap_pool_id_912574_idx'),
        ),
        migrations.AddConstraint(
            model_name='judgement',
            constraint=models.CheckConstraint(condition=models.Q(('passed', True), models.Q(('override', ''), _negated=True), _connector='OR'), name='override_has_a_reason'),
        ),
        migrations.AddConstraint(
            model_name='promotionrequest',
            constraint=models.UniqueConstraint(condition=models.Q(('state', 'waiting')), fields=('model',), name='one_waiting_request_per_model'),
        ),
        migrations.AddConstraint(
            model_name='promotionrequest',
            constraint=models.CheckConstraint(condition=models.Q(('state__in', ('waiting', 'approved', 'declined', 'withdrawn', 'lapsed'))), name='promotion_request_state_known'),
        ),
        migrations.AddConstraint(
            model_name='promotion',
            constraint=models.CheckConstraint(condition=models.Q(('kind__in', ('first', 'promotion', 'rollback'))), name='promotion_kind_known'),
        ),
        migrations.AddConstraint(
            model_name='promotion',
            constraint=models.UniqueConstraint(condition=models.Q(('kind', 'first')), fields=('pool', 'model_kind'), name='one_first_promotion_per_kind'),
        ),
        migrations.AddConstraint(
            model_name='livetally',
            constraint=models.UniqueConstraint(fields=('model', 'kind'), name='one_tally_per_model_and_kind'),
        ),
        migrations.AddConstraint(
            model_name='livetally',
            constraint=models.CheckConstraint(condition=models.Q(('kind__in', ('shadow', 'canary'))), name='tally_kind_known'),
        ),
        migrations.AddIndex(
            model_name='driftpoint',
            index=models.Index(fields=['model', '-at'], name='training_ap_model_i_a8085c_idx'),
        ),
        migrations.AddIndex(
            model_name='decision',
            index=models.Index(fields=['pool', '-at'], name='training_ap_pool_id_4fbf82_idx'),
        ),
        migrations.AddIndex(
            model_name='decision',
            index=models.Index(fields=['model', '-at'], name='training_ap_model_i_bfd59a_idx'),
        ),
        migrations.AddConstraint(
            model_name='comparison',
            constraint=models.UniqueConstraint(fields=('model', 'against', 'snapshot'), name='one_comparison_of_two_models'),
        ),
        migrations.AddIndex(
            model_name='checkedanswer',
            index=models.Index(fields=['model', 'checked_at'], name='training_ap_model_i_66dd44_idx'),
        ),
        migrations.AddConstraint(
            model_name='checkedanswer',
            constraint=models.UniqueConstraint(fields=('pool', 'decision_id'), name='one_check_per_decision'),
        ),
        migrations.AddConstraint(
            model_name='canary',
            constraint=models.UniqueConstraint(condition=models.Q(('ended_at__isnull', True)), fields=('pool', 'kind'), name='one_canary_per_pool_and_kind'),
        ),
        migrations.AddConstraint(
            model_name='canary',
            constraint=models.CheckConstraint(condition=models.Q(('share__gt', 0), ('share__lte', 0.5)), name='canary_share_up_to_half'),
        ),
        migrations.AddConstraint(
            model_name='canary',
            constraint=models.CheckConstraint(condition=models.Q(('passed', True), models.Q(('override', ''), _negated=True), _connector='OR'), name='canary_override_has_a_reason'),
        ),
        migrations.AddConstraint(
            model_name='routermodel',
            constraint=models.UniqueConstraint(fields=('pool', 'version'), name='model_version_unique_in_pool'),
        ),
        migrations.AddConstraint(
            model_name='routermodel',
            constraint=models.UniqueConstraint(condition=models.Q(('state', 'active')), fields=('pool', 'kind'), name='one_active_model_per_kind'),
        ),
        migrations.AddConstraint(
            model_name='routermodel',
            constraint=models.CheckConstraint(condition=models.Q(('state__in', ('candidate', 'shadow', 'active', 'retired'))), name='model_state_known'),
        ),
        migrations.AddIndex(
            model_name='shadowscore',
            index=models.Index(fields=['model', 'against', '-at'], name='training_ap_model_i_21d8c7_idx'),
        ),
        migrations.AddIndex(
            model_name='shadowscore',
            index=models.Index(fields=['at'], name='training_ap_at_739705_idx'),
        ),
        migrations.AddConstraint(
            model_name='shadowscore',
            constraint=models.UniqueConstraint(fields=('model', 'decision_id'), name='one_shadow_score_per_decision'),
        ),
        migrations.AddConstraint(
            model_name='sweep',
            constraint=models.CheckConstraint(condition=models.Q(('method__in', ('grid', 'random'))), name='sweep_method_known'),
        ),
        migrations.AddConstraint(
            model_name='run',
            constraint=models.CheckConstraint(condition=models.Q(('status__in', ('queued', 'running', 'done', 'failed', 'cancelled'))), name='run_status_known'),
        ),
        migrations.AddConstraint(
            model_name='run',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('status', 'running'), _negated=True), ('attempt__isnull', False), _connector='OR'), name='running_run_has_attempt'),
        ),
        migrations.AddConstraint(
            model_name='traffichour',
            constraint=models.UniqueConstraint(fields=('pool', 'hour'), name='one_traffic_row_per_hour'),
        ),
    ]
