# Made by `manage.py makemigrations`.

import django.core.validators
import django.db.models.deletion
import django.db.models.functions.datetime
import django.db.models.functions.text
import django.utils.timezone
import uuid
from django.conf import settings
from django.core.management import call_command
from django.db import migrations, models

from routerweb.initial import InitialMigration

#: As settings.CACHES names it: failed sign-ins are counted in it across processes.
CACHE_TABLE = "routerweb_cache"
#: Their permissions follow after every migrate, see agents_app/accounts/roles.py.
ROLES = ("labeler", "reviewer", "ops", "admin")


def make_cache_table(apps, schema_editor):
    call_command("createcachetable", CACHE_TABLE, database=schema_editor.connection.alias, verbosity=0)


def make_groups(apps, schema_editor):
    groups = apps.get_model("auth", "Group").objects.using(schema_editor.connection.alias)
    for name in ROLES:
        groups.get_or_create(name=name)


class Migration(InitialMigration):

    initial = True

    # A database that has applied these has the tables that this migration creates.
    replaces = [
        ('agents_app', '0002_llm_connection'),
        ('agents_app', '0003_database_defaults'),
        ('agents_app', '0004_allowed_sets'),
        ('agents_app', '0005_how_sources_are_called'),
    ]

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ('auth', '0012_alter_user_first_name_max_length'),
    ]

    operations = [
        migrations.RunPython(make_cache_table, migrations.RunPython.noop),
        migrations.RunPython(make_groups, migrations.RunPython.noop),
        migrations.CreateModel(
            name='ClusterSign',
            fields=[
                ('slot', models.CharField(max_length=40, primary_key=True, serialize=False)),
                ('queue', models.CharField(max_length=20)),
                ('machine', models.CharField(max_length=100)),
                ('guarded_at', models.DateTimeField()),
                ('executed_at', models.DateTimeField(null=True)),
                ('busy', models.PositiveSmallIntegerField(db_default=0, default=0)),
                ('restarted_at', models.DateTimeField(null=True)),
                ('why', models.CharField(blank=True, db_default='', default='', max_length=300)),
            ],
            options={
                'verbose_name': 'job cluster',
                'verbose_name_plural': 'job clusters',
                'ordering': ('queue', 'slot'),
            },
        ),
        migrations.CreateModel(
            name='Pool',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('slug', models.SlugField(help_text="The pool's name in URLs, commands and the API.", unique=True, verbose_name='slug')),
                ('name', models.CharField(max_length=120, verbose_name='name')),
                ('description', models.TextField(blank=True, db_default='', default='', verbose_name='description')),
                ('guidelines', models.TextField(blank=True, db_default='', default='', help_text='Markdown, shown beside every query that is labeled.', verbose_name='labeling guidelines')),
                ('currency', models.CharField(db_default='USD', default='USD', help_text='The currency of all costs in this pool, as a three-letter code.', max_length=3, validators=[django.core.validators.RegexValidator('^[A-Z]{3}$', 'Three capital letters, such as USD.')], verbose_name='currency')),
                ('four_eyes', models.BooleanField(db_default=False, default=False, help_text='A promotion by one person takes effect after another person has approved it.', verbose_name='promotions need a second person')),
                ('allowed_sets', models.JSONField(blank=True, db_default={}, default=dict, editable=False, help_text='What agents require and exclude, by their ids.', verbose_name='allowed sets')),
                ('next_agent_number', models.PositiveIntegerField(db_default=0, default=0, editable=False)),
                ('created_at', models.DateTimeField(auto_now_add=True, db_default=django.db.models.functions.datetime.Now())),
                ('archived_at', models.DateTimeField(blank=True, editable=False, null=True, verbose_name='archived')),
                ('deleted_at', models.DateTimeField(blank=True, editable=False, null=True, verbose_name='deleted')),
            ],
            options={
                'verbose_name': 'pool',
                'verbose_name_plural': 'pools',
                'ordering': ('name',),
            },
        ),
        migrations.CreateModel(
            name='Agent',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('number', models.PositiveIntegerField(help_text="The agent's id in this pool; it never changes meaning.", verbose_name='id')),
                ('code', models.CharField(help_text='Two letters that stand for the agent on screen and on the keyboard.', max_length=2, validators=[django.core.validators.RegexValidator('^[A-Z0-9]{2}$', 'Two capital letters or digits.')], verbose_name='code')),
                ('key', models.CharField(editable=False, help_text="The agent's name in programs, made from its first name; it stays when the agent is renamed.", max_length=60, validators=[django.core.validators.RegexValidator('^(?=.*[a-z])[a-z0-9][a-z0-9_-]*\\Z', 'Small letters, digits, - and _, a letter among them.')], verbose_name='key')),
                ('name', models.CharField(max_length=120, verbose_name='name')),
                ('description', models.TextField(blank=True, db_default='', default='', verbose_name='description')),
                ('keywords', models.JSONField(blank=True, db_default=[], default=list, verbose_name='keywords')),
                ('cost', models.FloatField(db_default=0.0, default=0.0, help_text='Cost of one call, in any unit that the pool shares.', verbose_name='cost')),
                ('state', models.CharField(choices=[('active', 'Active'), ('retired', 'Retired')], db_default='active', default='active', max_length=8, verbose_name='state')),
                ('available', models.BooleanField(db_default=True, default=True, help_text='If off, no query is routed to it.', verbose_name='available')),
                ('unavailable_since', models.DateTimeField(blank=True, editable=False, null=True, verbose_name='unavailable since')),
                ('unavailable_why', models.CharField(blank=True, db_default='', default='', editable=False, max_length=200, verbose_name='why it is unavailable')),
                ('paused_by_check', models.BooleanField(db_default=False, default=False, editable=False, help_text='Paused by its health check, which also resumes it.')),
                ('cold', models.CharField(choices=[('pool', 'As the pool says'), ('always', 'Always'), ('never', 'Never')], db_default='pool', default='pool', help_text='By its description, until a model that was trained on it is promoted.', max_length=6, verbose_name='routed before a model is trained on it')),
                ('merged_at', models.DateTimeField(blank=True, editable=False, null=True)),
                ('created_at', models.DateTimeField(auto_now_add=True, db_default=django.db.models.functions.datetime.Now())),
                ('retired_at', models.DateTimeField(blank=True, editable=False, null=True)),
                ('merged_into', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='merged_from', to='agents_app.agent')),
                ('pool', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='agents', to='agents_app.pool')),
            ],
            options={
                'verbose_name': 'agent',
                'verbose_name_plural': 'agents',
                'ordering': ('pool', 'number'),
            },
        ),
        migrations.CreateModel(
            name='ApiKey',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=120, verbose_name='name')),
                ('prefix', models.CharField(editable=False, max_length=12)),
                ('digest', models.CharField(editable=False, max_length=64, unique=True)),
                ('old_digest', models.CharField(editable=False, max_length=64, null=True, unique=True)),
                ('old_until', models.DateTimeField(blank=True, editable=False, null=True, verbose_name='old secret ends')),
                ('created_at', models.DateTimeField(auto_now_add=True, db_default=django.db.models.functions.datetime.Now())),
                ('revoked_at', models.DateTimeField(blank=True, editable=False, null=True, verbose_name='revoked')),
                ('scopes', models.JSONField(db_default=[], default=list, verbose_name='scopes')),
                ('expires_at', models.DateTimeField(blank=True, null=True, verbose_name='expires')),
                ('rotated_at', models.DateTimeField(blank=True, editable=False, null=True, verbose_name='rotated')),
                ('old_prefix', models.CharField(blank=True, db_default='', default='', editable=False, max_length=12)),
                ('monthly_queries', models.PositiveBigIntegerField(blank=True, null=True, verbose_name='queries a month')),
                ('monthly_characters', models.PositiveBigIntegerField(blank=True, null=True, verbose_name='characters a month')),
                ('created_by', models.ForeignKey(blank=True, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('person', models.ForeignKey(blank=True, editable=False, help_text='The person whose labels are made with this key: the one who created it.', null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL, verbose_name='labels as')),
                ('pools', models.ManyToManyField(related_name='api_keys', to='agents_app.pool', verbose_name='pools')),
            ],
            options={
                'verbose_name': 'API key',
                'verbose_name_plural': 'API keys',
                'ordering': ('name', 'pk'),
                'abstract': False,
            },
        ),
        migrations.CreateModel(
            name='BackgroundJob',
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
                ('work', models.CharField(max_length=100, verbose_name='work')),
                ('key', models.CharField(blank=True, db_default='', default='', max_length=120, verbose_name='key')),
                ('status', models.CharField(choices=[('queued', 'Queued'), ('running', 'Running'), ('done', 'Done'), ('failed', 'Failed')], db_default='queued', db_index=True, default='queued', max_length=9, verbose_name='status')),
                ('arguments', models.JSONField(db_default={}, default=dict, verbose_name='arguments')),
                ('progress', models.JSONField(db_default={}, default=dict, verbose_name='progress')),
                ('result', models.CharField(blank=True, db_default='', default='', max_length=400, verbose_name='result')),
            ],
            options={
                'verbose_name': 'background job',
                'verbose_name_plural': 'background jobs',
                'ordering': ('-pk',),
                'constraints': [models.UniqueConstraint(condition=models.Q(('key', ''), _negated=True), fields=('work', 'key'), name='background_job_is_one_of_its_key')],
            },
        ),
        migrations.CreateModel(
            name='HealthCheck',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('url', models.URLField(max_length=500, verbose_name='address')),
                ('failures', models.PositiveIntegerField(db_default=0, default=0, verbose_name='failures in a row')),
                ('checked_at', models.DateTimeField(null=True)),
                ('ok', models.BooleanField(null=True)),
                ('said', models.CharField(blank=True, db_default='', default='', max_length=200, verbose_name='what it said')),
                ('agent', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='health', to='agents_app.agent')),
            ],
        ),
        migrations.CreateModel(
            name='LlmConnection',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('base_url', models.CharField(max_length=400, verbose_name='address')),
                ('model', models.CharField(max_length=120, verbose_name='model')),
                ('secret', models.TextField(blank=True, db_default='', default='', editable=False)),
                ('own_network', models.BooleanField(db_default=False, default=False, help_text='Allows plain http and addresses such as http://127.0.0.1:11434, for this server alone.', verbose_name='a server of our own network')),
                ('price_in', models.FloatField(db_default=0.0, default=0.0, verbose_name='price of a million input tokens')),
                ('price_out', models.FloatField(db_default=0.0, default=0.0, verbose_name='price of a million output tokens')),
                ('updated_at', models.DateTimeField(auto_now=True, db_default=django.db.models.functions.datetime.Now())),
                ('updated_by', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'verbose_name': 'LLM',
                'verbose_name_plural': 'LLMs',
            },
        ),
        migrations.CreateModel(
            name='AuditEntry',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.DateTimeField(auto_now_add=True, db_default=django.db.models.functions.datetime.Now(), db_index=True)),
                ('actor_name', models.CharField(help_text="Kept when the account is deleted; for commands, the command's name.", max_length=150)),
                ('action', models.CharField(db_index=True, max_length=60)),
                ('target', models.CharField(blank=True, db_default='', default='', max_length=200)),
                ('detail', models.JSONField(db_default={}, default=dict)),
                ('actor', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('pool', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='agents_app.pool')),
            ],
            options={
                'verbose_name': 'audit entry',
                'verbose_name_plural': 'audit trail',
                'ordering': ('-at', '-pk'),
            },
        ),
        migrations.CreateModel(
            name='PoolRole',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('role', models.CharField(choices=[('labeler', 'Labeler'), ('reviewer', 'Reviewer'), ('ops', 'Ops')], max_length=8, verbose_name='role')),
                ('pool', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='roles', to='agents_app.pool')),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='pool_roles', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'verbose_name': 'role in a pool',
                'verbose_name_plural': 'roles in pools',
                'ordering': ('pool__name',),
            },
        ),
        migrations.CreateModel(
            name='Privacy',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kinds', models.JSONField(blank=True, db_default=[], default=list, verbose_name='what is redacted')),
                ('patterns', models.JSONField(blank=True, db_default=[], default=list, verbose_name='own patterns')),
                ('decision_days', models.PositiveIntegerField(blank=True, null=True, validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(3650)], verbose_name='days that decisions are kept')),
                ('episode_days', models.PositiveIntegerField(blank=True, null=True, validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(3650)], verbose_name='days that episodes are kept')),
                ('pool', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='privacy', to='agents_app.pool')),
            ],
            options={
                'verbose_name': 'privacy of a pool',
                'verbose_name_plural': 'privacy of pools',
            },
        ),
        migrations.CreateModel(
            name='ScimPerson',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('uid', models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                ('external_id', models.CharField(blank=True, db_default='', db_index=True, default='', max_length=255)),
                ('attributes', models.JSONField(db_default={}, default=dict)),
                ('granted', models.JSONField(db_default={}, default=dict)),
                ('linked_at', models.DateTimeField(null=True)),
                ('removed_at', models.DateTimeField(null=True)),
                ('created_at', models.DateTimeField(auto_now_add=True, db_default=django.db.models.functions.datetime.Now())),
                ('changed_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), default=django.utils.timezone.now)),
                ('user', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='scim', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'verbose_name': 'person by SCIM',
                'verbose_name_plural': 'people by SCIM',
                'ordering': ('pk',),
            },
        ),
        migrations.CreateModel(
            name='ScimGroup',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('uid', models.UUIDField(default=uuid.uuid4, editable=False, unique=True)),
                ('name', models.CharField(max_length=200, verbose_name='name')),
                ('external_id', models.CharField(blank=True, db_default='', db_index=True, default='', max_length=255)),
                ('role', models.CharField(blank=True, choices=[('labeler', 'Labeler'), ('reviewer', 'Reviewer'), ('ops', 'Ops'), ('admin', 'Admin')], db_default='', default='', max_length=8, verbose_name='role')),
                ('created_at', models.DateTimeField(auto_now_add=True, db_default=django.db.models.functions.datetime.Now())),
                ('changed_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), default=django.utils.timezone.now)),
                ('pool', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='agents_app.pool')),
                ('members', models.ManyToManyField(related_name='groups', to='agents_app.scimperson')),
            ],
            options={
                'verbose_name': 'group by SCIM',
                'verbose_name_plural': 'groups by SCIM',
                'ordering': ('name', 'pk'),
            },
        ),
        migrations.CreateModel(
            name='ScimToken',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=120, verbose_name='name')),
                ('digest', models.CharField(editable=False, max_length=64, unique=True)),
                ('old_digest', models.CharField(editable=False, max_length=64, null=True, unique=True)),
                ('old_until', models.DateTimeField(blank=True, editable=False, null=True, verbose_name='old secret ends')),
                ('created_at', models.DateTimeField(auto_now_add=True, db_default=django.db.models.functions.datetime.Now())),
                ('revoked_at', models.DateTimeField(blank=True, editable=False, null=True, verbose_name='revoked')),
                ('prefix', models.CharField(editable=False, max_length=16)),
                ('used_at', models.DateTimeField(editable=False, null=True, verbose_name='last used')),
                ('created_by', models.ForeignKey(blank=True, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'verbose_name': 'SCIM token',
                'verbose_name_plural': 'SCIM tokens',
                'ordering': ('name', 'pk'),
                'abstract': False,
            },
        ),
        migrations.CreateModel(
            name='Stamp',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('value', models.PositiveBigIntegerField(db_default=0, default=0)),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(('id', 1)), name='stamp_is_one_row')],
            },
        ),
        migrations.CreateModel(
            name='KeyMonth',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('month', models.DateField(help_text='Its first day.', verbose_name='month')),
                ('queries', models.PositiveBigIntegerField(db_default=0, default=0, verbose_name='queries')),
                ('characters', models.PositiveBigIntegerField(db_default=0, default=0, verbose_name='characters')),
                ('shares', models.JSONField(db_default={}, default=dict)),
                ('api_key', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='months', to='agents_app.apikey')),
            ],
            options={
                'verbose_name': 'month of a key',
                'verbose_name_plural': 'months of keys',
                'ordering': ('-month',),
                'constraints': [models.UniqueConstraint(fields=('api_key', 'month'), name='one_row_a_key_and_month')],
            },
        ),
        migrations.CreateModel(
            name='AgentSource',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('a2a', 'Agent card'), ('mcp', 'MCP server')], max_length=3, verbose_name='kind')),
                ('address', models.CharField(max_length=500, verbose_name='address')),
                ('secret', models.TextField(blank=True, db_default='', default='', editable=False)),
                ('taken', models.JSONField(blank=True, db_default={}, default=dict)),
                ('offered', models.JSONField(blank=True, null=True)),
                ('calling', models.JSONField(blank=True, db_default={}, default=dict, editable=False)),
                ('signature', models.CharField(choices=[('none', 'Not signed'), ('valid', 'Signature holds'), ('unknown', 'Signature could not be checked')], db_default='none', default='none', max_length=7)),
                ('signer', models.CharField(blank=True, db_default='', default='', max_length=300)),
                ('problem', models.CharField(blank=True, db_default='', default='', max_length=300)),
                ('checked_at', models.DateTimeField(null=True)),
                ('agent', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='sources', to='agents_app.agent')),
                ('pool', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='agent_sources', to='agents_app.pool')),
            ],
            options={
                'verbose_name': 'source of agents',
                'verbose_name_plural': 'sources of agents',
                'ordering': ('pool', 'address'),
                'constraints': [models.UniqueConstraint(fields=('pool', 'address'), name='source_address_unique_in_pool')],
            },
        ),
        migrations.AddConstraint(
            model_name='agent',
            constraint=models.UniqueConstraint(fields=('pool', 'number'), name='agent_number_unique_in_pool'),
        ),
        migrations.AddConstraint(
            model_name='agent',
            constraint=models.UniqueConstraint(fields=('pool', 'code'), name='agent_code_unique_in_pool'),
        ),
        migrations.AddConstraint(
            model_name='agent',
            constraint=models.UniqueConstraint(fields=('pool', 'key'), name='agent_key_unique_in_pool'),
        ),
        migrations.AddConstraint(
            model_name='agent',
            constraint=models.UniqueConstraint(models.F('pool'), django.db.models.functions.text.Lower('name'), name='agent_name_unique_in_pool'),
        ),
        migrations.AddConstraint(
            model_name='agent',
            constraint=models.CheckConstraint(condition=models.Q(('state__in', ('active', 'retired'))), name='agent_state_known'),
        ),
        migrations.AddConstraint(
            model_name='agent',
            constraint=models.CheckConstraint(condition=models.Q(('cost__gte', 0)), name='agent_cost_not_negative'),
        ),
        migrations.AddConstraint(
            model_name='agent',
            constraint=models.CheckConstraint(condition=models.Q(('cold__in', ('pool', 'always', 'never'))), name='agent_cold_routing_known'),
        ),
        migrations.AddConstraint(
            model_name='agent',
            constraint=models.CheckConstraint(condition=models.Q(('merged_into__isnull', True), ('state', 'retired'), _connector='OR'), name='merged_agent_is_retired'),
        ),
        migrations.AddConstraint(
            model_name='poolrole',
            constraint=models.UniqueConstraint(fields=('user', 'pool'), name='one_role_in_a_pool'),
        ),
        migrations.AddConstraint(
            model_name='poolrole',
            constraint=models.CheckConstraint(condition=models.Q(('role__in', ('labeler', 'reviewer', 'ops'))), name='pool_role_known'),
        ),
        migrations.AddConstraint(
            model_name='scimgroup',
            constraint=models.UniqueConstraint(django.db.models.functions.text.Lower('name'), name='one_scim_group_of_a_name'),
        ),
        migrations.AddConstraint(
            model_name='scimgroup',
            constraint=models.CheckConstraint(condition=models.Q(('pool', None), models.Q(('role', 'admin'), _negated=True), _connector='OR'), name='scim_admin_is_of_all_pools'),
        ),
    ]
