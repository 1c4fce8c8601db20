# Made by `manage.py makemigrations`.

import django.core.validators
import django.db.models.deletion
import django.db.models.functions.datetime
import django.db.models.functions.text
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models

from routerweb.initial import InitialMigration


class Migration(InitialMigration):

    initial = True

    # A database that has applied these has the tables that this migration creates.
    replaces = [
        ('datasets_app', '0002_bulk_actions'),
        ('datasets_app', '0003_meanings_of_labels'),
        ('datasets_app', '0004_database_defaults'),
        ('datasets_app', '0005_pool_figures'),
        ('datasets_app', '0006_traces'),
        ('datasets_app', '0007_newest_labels'),
    ]

    dependencies = [
        ('agents_app', '0001_initial'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Gold',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('required', models.JSONField(verbose_name='required agents')),
                ('asked', models.JSONField(verbose_name='asked agents')),
                ('decided_by', models.JSONField(help_text='Agent id → id of the label that says so.', verbose_name='decided by')),
                ('composed_at', models.DateTimeField(auto_now=True, db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                'verbose_name': 'gold label',
                'verbose_name_plural': 'gold labels',
            },
        ),
        migrations.CreateModel(
            name='BulkChange',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('action', models.CharField(help_text='The code of one of `bulk_actions.ACTIONS`.', max_length=20)),
                ('search', models.CharField(blank=True, db_default='', default='', max_length=400)),
                ('total', models.PositiveIntegerField(db_default=0, default=0)),
                ('changed', models.PositiveIntegerField(db_default=0, default=0)),
                ('at', models.DateTimeField(auto_now_add=True, db_default=django.db.models.functions.datetime.Now())),
                ('finished_at', models.DateTimeField(blank=True, null=True)),
                ('undone_at', models.DateTimeField(blank=True, null=True)),
                ('agent', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='agents_app.agent')),
                ('author', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('pool', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='bulk_changes', to='agents_app.pool')),
            ],
            options={
                'verbose_name': 'bulk change',
                'verbose_name_plural': 'bulk changes',
                'ordering': ('-pk',),
            },
        ),
        migrations.CreateModel(
            name='Dataset',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=120, verbose_name='name')),
                ('created_at', models.DateTimeField(auto_now_add=True, db_default=django.db.models.functions.datetime.Now())),
                ('pool', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='datasets', to='agents_app.pool')),
            ],
            options={
                'verbose_name': 'dataset',
                'verbose_name_plural': 'datasets',
                'ordering': ('pool', 'name'),
            },
        ),
        migrations.CreateModel(
            name='GoldAgent',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('agent', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='gold_members', to='agents_app.agent')),
                ('gold', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='members', to='datasets_app.gold')),
            ],
        ),
        migrations.CreateModel(
            name='Import',
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
                ('file_name', models.CharField(max_length=255, verbose_name='file')),
                ('format', models.CharField(choices=[('jsonl', 'JSONL'), ('csv', 'CSV'), ('txt', 'TXT'), ('json', 'JSON'), ('xlsx', 'Excel'), ('zip', 'ZIP')], max_length=5, verbose_name='format')),
                ('reading', models.JSONField(blank=True, db_default={}, default=dict, editable=False, help_text="How a file in another tool's format is read; empty: our own format.")),
                ('split', models.CharField(blank=True, choices=[('train', 'Train'), ('val', 'Validation'), ('test', 'Test')], db_default='', default='', max_length=5, verbose_name='split')),
                ('status', models.CharField(choices=[('choosing', 'Choosing columns'), ('queued', 'Queued'), ('running', 'Running'), ('done', 'Done'), ('failed', 'Failed'), ('cancelled', 'Cancelled')], db_default='queued', default='queued', max_length=9, verbose_name='status')),
                ('cancel_requested', models.BooleanField(db_default=False, default=False, editable=False)),
                ('last_line', models.PositiveIntegerField(db_default=0, default=0, editable=False, help_text='Where the last stored row begins: the next attempt goes on behind it.')),
                ('bytes_total', models.PositiveBigIntegerField(db_default=0, default=0)),
                ('bytes_read', models.PositiveBigIntegerField(db_default=0, default=0)),
                ('rows_read', models.PositiveIntegerField(db_default=0, default=0)),
                ('queries_added', models.PositiveIntegerField(db_default=0, default=0)),
                ('labels_added', models.PositiveIntegerField(db_default=0, default=0)),
                ('unchanged', models.PositiveIntegerField(db_default=0, default=0)),
                ('rejected', models.PositiveIntegerField(db_default=0, default=0)),
                ('suggestions_added', models.PositiveIntegerField(db_default=0, default=0)),
                ('undo', models.JSONField(blank=True, db_default={}, default=dict, editable=False, help_text='What the import made beside queries and labels, by keys, so that all of it can be undone.')),
                ('author', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('dataset', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='imports', to='datasets_app.dataset')),
            ],
            options={
                'verbose_name': 'import',
                'verbose_name_plural': 'imports',
                'ordering': ('-pk',),
            },
        ),
        migrations.CreateModel(
            name='ImportChunk',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('position', models.PositiveIntegerField()),
                ('content', models.BinaryField()),
                ('upload', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='chunks', to='datasets_app.import')),
            ],
            options={
                'ordering': ('upload', 'position'),
            },
        ),
        migrations.CreateModel(
            name='ImportProblem',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('line', models.PositiveIntegerField(verbose_name='line')),
                ('field', models.CharField(blank=True, db_default='', default='', max_length=60, verbose_name='field')),
                ('reason', models.CharField(max_length=400, verbose_name='reason')),
                ('excerpt', models.CharField(blank=True, db_default='', default='', max_length=200, verbose_name='excerpt')),
                ('rejected', models.BooleanField(db_default=True, default=True, verbose_name='left out')),
                ('upload', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='problems', to='datasets_app.import')),
            ],
            options={
                'verbose_name': 'import problem',
                'verbose_name_plural': 'import problems',
                'ordering': ('upload', 'line', 'pk'),
            },
        ),
        migrations.CreateModel(
            name='LabelValue',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('value', models.CharField(help_text='In small letters, white space as one space.', max_length=200, verbose_name='value')),
                ('agents', models.JSONField(blank=True, help_text='Their ids; [] is “none of these”, null leaves a query unlabeled.', null=True, verbose_name='agents')),
                ('pool', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='label_values', to='agents_app.pool')),
                ('upload', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='label_values', to='datasets_app.import')),
            ],
            options={
                'verbose_name': 'meaning of a label',
                'verbose_name_plural': 'meanings of labels',
                'ordering': ('pool', 'value'),
            },
        ),
        migrations.CreateModel(
            name='LlmAnswer',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('key', models.CharField(help_text='SHA-256 of text, model, prompt and roster.', max_length=64, unique=True)),
                ('model', models.CharField(max_length=120)),
                ('required', models.JSONField()),
                ('scores', models.JSONField(db_default={}, default=dict)),
                ('created_at', models.DateTimeField(auto_now_add=True, db_default=django.db.models.functions.datetime.Now())),
                ('pool', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='agents_app.pool')),
            ],
        ),
        migrations.CreateModel(
            name='PoolFigures',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('counts', models.JSONField(db_default={}, default=dict)),
                ('seen', models.JSONField(db_default=[], default=list)),
                ('seconds', models.FloatField(db_default=0.0, default=0.0)),
                ('counted_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), default=django.utils.timezone.now)),
                ('pool', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='figures', to='agents_app.pool')),
            ],
        ),
        migrations.CreateModel(
            name='PromptTemplate',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('version', models.PositiveIntegerField(verbose_name='version')),
                ('text', models.TextField(verbose_name='template')),
                ('created_at', models.DateTimeField(auto_now_add=True, db_default=django.db.models.functions.datetime.Now())),
                ('author', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('pool', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='prompts', to='agents_app.pool')),
            ],
            options={
                'verbose_name': 'prompt',
                'verbose_name_plural': 'prompts',
                'ordering': ('pool', '-version'),
            },
        ),
        migrations.CreateModel(
            name='PrelabelJob',
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
                ('status', models.CharField(choices=[('queued', 'Queued'), ('running', 'Running'), ('paused', 'Paused'), ('done', 'Done'), ('failed', 'Failed'), ('cancelled', 'Cancelled')], db_default='queued', db_index=True, default='queued', max_length=9, verbose_name='status')),
                ('base_url', models.CharField(max_length=400, verbose_name='base URL')),
                ('model', models.CharField(max_length=120, verbose_name='model')),
                ('minimum', models.PositiveSmallIntegerField(db_default=0, default=0, verbose_name='fewest agents')),
                ('maximum', models.PositiveSmallIntegerField(db_default=0, default=0, help_text='0: as many as there are.', verbose_name='most agents')),
                ('batch_size', models.PositiveSmallIntegerField(db_default=1, default=1, validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(50)], verbose_name='queries per call')),
                ('concurrency', models.PositiveSmallIntegerField(db_default=4, default=4, validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(64)], verbose_name='calls at once')),
                ('temperature', models.FloatField(db_default=0.0, default=0.0, verbose_name='temperature')),
                ('fallback', models.CharField(choices=[('skip', 'Leave it without a suggestion'), ('keyword', 'Suggest by keywords'), ('all-agents', 'Suggest all agents')], db_default='skip', default='skip', max_length=10, verbose_name='when an answer cannot be read')),
                ('price_in', models.FloatField(db_default=0.0, default=0.0, verbose_name='price of a million input tokens')),
                ('price_out', models.FloatField(db_default=0.0, default=0.0, verbose_name='price of a million output tokens')),
                ('wish', models.CharField(blank=True, db_default='', default='', editable=False, max_length=6)),
                ('calls', models.PositiveIntegerField(db_default=0, default=0)),
                ('tokens_in', models.PositiveBigIntegerField(db_default=0, default=0)),
                ('tokens_out', models.PositiveBigIntegerField(db_default=0, default=0)),
                ('settled_before', models.PositiveIntegerField(db_default=0, default=0, editable=False)),
                ('author', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('pool', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='prelabel_jobs', to='agents_app.pool')),
                ('prompt', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='datasets_app.prompttemplate')),
            ],
            options={
                'verbose_name': 'pre-labeling job',
                'verbose_name_plural': 'pre-labeling jobs',
                'ordering': ('-pk',),
            },
        ),
        migrations.CreateModel(
            name='Query',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('external_id', models.CharField(blank=True, db_default='', default='', max_length=200, verbose_name='id in its source')),
                ('text', models.TextField(verbose_name='text')),
                ('messages', models.JSONField(blank=True, help_text='What was said before in its conversation.', null=True, verbose_name='messages before')),
                ('conversation', models.CharField(blank=True, db_default='', default='', max_length=200, verbose_name='conversation')),
                ('turn', models.PositiveSmallIntegerField(editable=False, help_text='How many messages were said before; empty for a text of no conversation.', null=True)),
                ('text_hash', models.CharField(editable=False, max_length=64)),
                ('state', models.CharField(choices=[('unlabeled', 'Unlabeled'), ('draft', 'Draft'), ('labeled', 'Labeled'), ('disagreement', 'Disagreement'), ('gold', 'Gold')], db_default='unlabeled', db_index=True, default='unlabeled', max_length=12, verbose_name='state')),
                ('origin', models.CharField(blank=True, db_default='', default='', help_text='Where the query came from.', max_length=60, verbose_name='origin')),
                ('extra', models.JSONField(blank=True, db_default={}, default=dict, help_text='What else stood in its row of the file; exported again.', verbose_name='other keys')),
                ('created_at', models.DateTimeField(auto_now_add=True, db_default=django.db.models.functions.datetime.Now())),
                ('updated_at', models.DateTimeField(auto_now=True, db_default=django.db.models.functions.datetime.Now(), db_index=True)),
                ('deleted_at', models.DateTimeField(blank=True, editable=False, null=True)),
                ('erased_at', models.DateTimeField(blank=True, editable=False, null=True)),
                ('dataset', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='queries', to='datasets_app.dataset')),
            ],
            options={
                'verbose_name': 'query',
                'verbose_name_plural': 'queries',
                'ordering': ('pk',),
            },
        ),
        migrations.CreateModel(
            name='PrelabelItem',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('status', models.CharField(choices=[('waiting', 'Waiting'), ('answered', 'Answered'), ('cached', 'Answered before'), ('fallback', 'Fallback'), ('failed', 'Failed')], db_default='waiting', default='waiting', max_length=8)),
                ('error', models.CharField(blank=True, db_default='', default='', max_length=300)),
                ('call', models.UUIDField(editable=False, help_text='The call that asks about it, until that is answered.', null=True)),
                ('job', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='items', to='datasets_app.prelabeljob')),
                ('query', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='prelabel_items', to='datasets_app.query')),
            ],
        ),
        migrations.CreateModel(
            name='PeersSeen',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), default=django.utils.timezone.now)),
                ('person', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('query', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='datasets_app.query')),
            ],
        ),
        migrations.CreateModel(
            name='Label',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('source', models.CharField(choices=[('import', 'Import'), ('llm', 'LLM'), ('human', 'Human'), ('adjudication', 'Adjudication')], max_length=12, verbose_name='source')),
                ('required', models.JSONField(help_text='Sorted agent ids; [] is “none of these”.', verbose_name='required agents')),
                ('asked', models.JSONField(help_text='Sorted ids of the agents that the label speaks of.', verbose_name='asked agents')),
                ('scores', models.JSONField(blank=True, help_text='Agent id → probability, where there are any.', null=True, verbose_name='scores')),
                ('partial', models.BooleanField(db_default=False, default=False, help_text='Speaks of its agents beside what the same source or person said before; the rest of that stands.', verbose_name='partial')),
                ('unsure', models.BooleanField(db_default=False, default=False, verbose_name='unsure')),
                ('reason', models.CharField(blank=True, db_default='', default='', max_length=200, verbose_name='reason')),
                ('note', models.CharField(blank=True, db_default='', default='', help_text='What its author wants reviewers to know. It can be changed.', max_length=500, verbose_name='note')),
                ('provenance', models.JSONField(db_default={}, default=dict, help_text='Model and prompt version, import file and line, or what was kept and changed.', verbose_name='provenance')),
                ('created_at', models.DateTimeField(auto_now_add=True, db_default=django.db.models.functions.datetime.Now())),
                ('superseded_at', models.DateTimeField(blank=True, editable=False, null=True)),
                ('author', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='labels', to=settings.AUTH_USER_MODEL)),
                ('superseded_by', models.ForeignKey(blank=True, editable=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='supersedes', to='datasets_app.label')),
                ('query', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='labels', to='datasets_app.query')),
            ],
            options={
                'verbose_name': 'label',
                'verbose_name_plural': 'labels',
                'ordering': ('pk',),
            },
        ),
        migrations.AddField(
            model_name='gold',
            name='query',
            field=models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='gold', to='datasets_app.query'),
        ),
        migrations.CreateModel(
            name='Draft',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('required', models.JSONField(db_default=[], default=list)),
                ('none', models.BooleanField(db_default=False, default=False, help_text='“None of these” was chosen.')),
                ('unsure', models.BooleanField(db_default=False, default=False)),
                ('note', models.CharField(blank=True, db_default='', default='', max_length=500)),
                ('version', models.PositiveIntegerField(db_default=1, default=1)),
                ('writer', models.CharField(blank=True, db_default='', default='', max_length=40)),
                ('step', models.PositiveIntegerField(db_default=0, default=0)),
                ('saved_at', models.DateTimeField(auto_now=True, db_default=django.db.models.functions.datetime.Now())),
                ('agent', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='agents_app.agent')),
                ('person', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='drafts', to=settings.AUTH_USER_MODEL)),
                ('query', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='drafts', to='datasets_app.query')),
            ],
            options={
                'verbose_name': 'draft',
                'verbose_name_plural': 'drafts',
            },
        ),
        migrations.CreateModel(
            name='BulkChangeEntry',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('before', models.JSONField(null=True)),
                ('change', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='entries', to='datasets_app.bulkchange')),
                ('query', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='datasets_app.query')),
            ],
        ),
        migrations.CreateModel(
            name='QueueItem',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('wanted', models.BooleanField(db_default=True, default=True)),
                ('decided', models.BooleanField(db_default=False, default=False, help_text="A reviewer's decision has closed it.")),
                ('needed', models.PositiveSmallIntegerField(db_default=1, default=1)),
                ('extra', models.PositiveSmallIntegerField(db_default=0, default=0, help_text="Answers that were asked for beyond the settings'.")),
                ('taken', models.PositiveSmallIntegerField(db_default=0, default=0)),
                ('rank', models.FloatField(db_default=0.0, default=0.0, help_text='The lowest is asked first.')),
                ('random_key', models.FloatField(db_default=0.0, default=0.0)),
                ('overlap_lot', models.PositiveSmallIntegerField(db_default=0, default=0)),
                ('blind_lot', models.PositiveSmallIntegerField(db_default=0, default=0)),
                ('evaluation_lot', models.PositiveSmallIntegerField(db_default=0, default=0)),
                ('uncertainty', models.FloatField(blank=True, null=True, verbose_name='uncertainty')),
                ('novelty', models.FloatField(blank=True, null=True, verbose_name='novelty')),
                ('disagreement', models.FloatField(db_default=0.0, default=0.0, help_text='Mean MASI distance between people.', verbose_name='disagreement')),
                ('llm_disagreement', models.FloatField(db_default=0.0, default=0.0, verbose_name='LLM disagreement')),
                ('note', models.CharField(blank=True, db_default='', default='', help_text='Shown to labelers, except on blind items.', max_length=300, verbose_name='why it is asked')),
                ('agent', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='reask_items', to='agents_app.agent')),
                ('pool', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='queue_items', to='agents_app.pool')),
                ('query', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='queue_items', to='datasets_app.query')),
            ],
            options={
                'verbose_name': 'queue item',
                'verbose_name_plural': 'queue items',
            },
        ),
        migrations.CreateModel(
            name='Assignment',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('state', models.CharField(choices=[('held', 'Held'), ('done', 'Done'), ('skipped', 'Skipped')], db_default='held', default='held', max_length=7, verbose_name='state')),
                ('taken_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), default=django.utils.timezone.now)),
                ('leased_until', models.DateTimeField()),
                ('ended_at', models.DateTimeField(blank=True, null=True)),
                ('reason', models.CharField(blank=True, db_default='', default='', max_length=200, verbose_name='reason')),
                ('drawn', models.BooleanField(db_default=False, default=False, verbose_name='of the evaluation sample')),
                ('blind', models.BooleanField(db_default=False, default=False, verbose_name='blind')),
                ('shown', models.JSONField(db_default=[], default=list, help_text='The suggestions that this person was shown, as they were.')),
                ('person', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='assignments', to=settings.AUTH_USER_MODEL)),
                ('item', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='assignments', to='datasets_app.queueitem')),
            ],
            options={
                'verbose_name': 'assignment',
                'verbose_name_plural': 'assignments',
            },
        ),
        migrations.CreateModel(
            name='QueueSettings',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('order', models.CharField(choices=[('random', 'Random'), ('oldest', 'Oldest first'), ('disagreement', 'LLM and people disagree'), ('uncertainty', 'The model is least certain'), ('novelty', 'Least like what is labeled'), ('diverse', 'Uncertain and varied batches')], db_default='diverse', default='diverse', max_length=12, verbose_name='order')),
                ('seed', models.PositiveIntegerField(db_default=0, default=0, help_text='Another seed, another random order.', verbose_name='seed')),
                ('overlap', models.PositiveSmallIntegerField(db_default=2, default=2, validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(10)], verbose_name='labelers per overlapping query')),
                ('overlap_share', models.FloatField(db_default=0.1, default=0.1, help_text='The share of queries that several people label independently, so that agreement can be measured.', validators=[django.core.validators.MinValueValidator(0.0), django.core.validators.MaxValueValidator(1.0)], verbose_name='overlapping share')),
                ('blind_share', models.FloatField(db_default=0.1, default=0.1, help_text='The share of queries shown without suggestions, so that accepting them unread would show.', validators=[django.core.validators.MinValueValidator(0.0), django.core.validators.MaxValueValidator(1.0)], verbose_name='blind share')),
                ('evaluation_share', models.FloatField(db_default=0.1, default=0.1, help_text='The share of queries drawn at random whatever the order: only these are a fair sample to measure on.', validators=[django.core.validators.MinValueValidator(0.0), django.core.validators.MaxValueValidator(1.0)], verbose_name='evaluation share')),
                ('idle_minutes', models.PositiveSmallIntegerField(db_default=5, default=5, help_text='After this idle time, a query is free for others again.', verbose_name='idle minutes')),
                ('filled_to', models.PositiveBigIntegerField(db_default=0, default=0, editable=False)),
                ('changed_at', models.DateTimeField(auto_now=True, db_default=django.db.models.functions.datetime.Now())),
                ('order_agent', models.ForeignKey(blank=True, help_text='Least certain about this agent alone; empty: about the whole set.', null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='agents_app.agent', verbose_name='uncertain about')),
                ('pool', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='queue_settings', to='agents_app.pool')),
            ],
            options={
                'verbose_name': 'queue settings',
                'verbose_name_plural': 'queue settings',
            },
        ),
        migrations.CreateModel(
            name='Snapshot',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('number', models.PositiveIntegerField(verbose_name='number')),
                ('digest', models.CharField(help_text="SHA-256 over the roster and each row's own SHA-256, in order.", max_length=64, verbose_name='digest')),
                ('roster', models.JSONField(verbose_name='roster')),
                ('rows', models.PositiveIntegerField(verbose_name='rows')),
                ('split_sizes', models.JSONField(verbose_name='split sizes')),
                ('judges', models.JSONField(db_default={}, default=dict, editable=False, help_text='Split → who said what its queries need (people, import, llm) → how many queries.', verbose_name='who judged')),
                ('erased_rows', models.PositiveIntegerField(db_default=0, default=0, editable=False, help_text='Rows whose text was erased since: with any, equal data is another snapshot.')),
                ('note', models.CharField(blank=True, db_default='', default='', max_length=200, verbose_name='note')),
                ('created_at', models.DateTimeField(auto_now_add=True, db_default=django.db.models.functions.datetime.Now())),
                ('author', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('pool', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='snapshots', to='agents_app.pool')),
            ],
            options={
                'verbose_name': 'snapshot',
                'verbose_name_plural': 'snapshots',
                'ordering': ('pool', '-number'),
            },
        ),
        migrations.CreateModel(
            name='SnapshotContent',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('rows_gzip', models.BinaryField()),
                ('snapshot', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='content', to='datasets_app.snapshot')),
            ],
        ),
        migrations.CreateModel(
            name='SpanBatch',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('received_at', models.DateTimeField()),
                ('spans', models.JSONField()),
                ('pool', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='agents_app.pool')),
            ],
        ),
        migrations.CreateModel(
            name='SpanProblem',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('reason', models.CharField(max_length=200, verbose_name='reason')),
                ('count', models.PositiveBigIntegerField(db_default=0, default=0, verbose_name='spans')),
                ('last_at', models.DateTimeField(verbose_name='last')),
                ('pool', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='span_problems', to='agents_app.pool')),
            ],
            options={
                'verbose_name': 'spans left out',
                'verbose_name_plural': 'spans left out',
                'ordering': ('-count',),
            },
        ),
        migrations.CreateModel(
            name='SplitGroup',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('key', models.CharField(max_length=64)),
                ('split', models.CharField(blank=True, choices=[('train', 'Train'), ('val', 'Validation'), ('test', 'Test')], db_default='', default='', max_length=5)),
                ('pool', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='split_groups', to='agents_app.pool')),
            ],
        ),
        migrations.AddField(
            model_name='query',
            name='group',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='queries', to='datasets_app.splitgroup'),
        ),
        migrations.CreateModel(
            name='Submission',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('key', models.CharField(max_length=64, unique=True)),
                ('at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), default=django.utils.timezone.now)),
                ('undone_at', models.DateTimeField(blank=True, null=True)),
                ('item', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='submissions', to='datasets_app.queueitem')),
                ('label', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='submissions', to='datasets_app.label')),
                ('person', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='submissions', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'verbose_name': 'submission',
                'verbose_name_plural': 'submissions',
            },
        ),
        migrations.CreateModel(
            name='Suggestion',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('version', models.CharField(help_text="The model's name.", max_length=120)),
                ('required', models.JSONField(db_default=[], default=list)),
                ('scores', models.JSONField(db_default={}, default=dict, help_text='Agent id → probability.')),
                ('made_at', models.DateTimeField(auto_now=True, db_default=django.db.models.functions.datetime.Now())),
                ('query', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='suggestion', to='datasets_app.query')),
            ],
            options={
                'verbose_name': 'suggestion',
                'verbose_name_plural': 'suggestions',
            },
        ),
        migrations.CreateModel(
            name='TracedTurn',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('trace', models.CharField(max_length=64)),
                ('place', models.CharField(help_text='What tells the turns of one trace apart.', max_length=64)),
                ('source', models.CharField(max_length=120, verbose_name='source')),
                ('conversation', models.CharField(blank=True, db_default='', default='', max_length=200, verbose_name='conversation')),
                ('joined', models.BooleanField(db_default=False, default=False, help_text='Its trace had the last message alone; the turns before it are those of its conversation.')),
                ('answer', models.TextField(blank=True, db_default='', default='', verbose_name='answer')),
                ('names', models.JSONField(db_default=[], default=list, verbose_name='who answered')),
                ('agents', models.JSONField(db_default=[], default=list, verbose_name='agents')),
                ('success', models.BooleanField(null=True, verbose_name='success')),
                ('at', models.DateTimeField(verbose_name='time')),
                ('created_at', models.DateTimeField(auto_now_add=True, db_default=django.db.models.functions.datetime.Now())),
                ('pool', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='traced_turns', to='agents_app.pool')),
                ('query', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='traced_turns', to='datasets_app.query')),
                ('upload', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='traced_turns', to='datasets_app.import')),
            ],
            options={
                'verbose_name': 'traced turn',
                'verbose_name_plural': 'traced turns',
                'ordering': ('-pk',),
            },
        ),
        migrations.AddConstraint(
            model_name='dataset',
            constraint=models.UniqueConstraint(models.F('pool'), django.db.models.functions.text.Lower('name'), name='dataset_name_unique_in_pool'),
        ),
        migrations.AddConstraint(
            model_name='goldagent',
            constraint=models.UniqueConstraint(fields=('gold', 'agent'), name='gold_agent_unique'),
        ),
        migrations.AddConstraint(
            model_name='import',
            constraint=models.CheckConstraint(condition=models.Q(('status__in', ('choosing', 'queued', 'running', 'done', 'failed', 'cancelled'))), name='import_status_known'),
        ),
        migrations.AddConstraint(
            model_name='import',
            constraint=models.CheckConstraint(condition=models.Q(('format__in', ('jsonl', 'csv', 'txt', 'json', 'xlsx', 'zip'))), name='import_format_known'),
        ),
        migrations.AddConstraint(
            model_name='import',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('status', 'running'), _negated=True), ('attempt__isnull', False), _connector='OR'), name='running_import_has_attempt'),
        ),
        migrations.AddConstraint(
            model_name='importchunk',
            constraint=models.UniqueConstraint(fields=('upload', 'position'), name='import_chunk_unique'),
        ),
        migrations.AddConstraint(
            model_name='labelvalue',
            constraint=models.UniqueConstraint(fields=('pool', 'value'), name='label_value_unique_in_pool'),
        ),
        migrations.AddConstraint(
            model_name='prompttemplate',
            constraint=models.UniqueConstraint(fields=('pool', 'version'), name='prompt_version_unique_in_pool'),
        ),
        migrations.AddConstraint(
            model_name='prelabeljob',
            constraint=models.CheckConstraint(condition=models.Q(('status__in', ('queued', 'running', 'paused', 'done', 'failed', 'cancelled'))), name='prelabel_status_known'),
        ),
        migrations.AddIndex(
            model_name='prelabelitem',
            index=models.Index(fields=['job', 'status', 'id'], name='datasets_ap_job_id_c540e0_idx'),
        ),
        migrations.AddConstraint(
            model_name='prelabelitem',
            constraint=models.UniqueConstraint(fields=('job', 'query'), name='prelabel_item_unique_in_job'),
        ),
        migrations.AddConstraint(
            model_name='peersseen',
            constraint=models.UniqueConstraint(fields=('query', 'person'), name='peers_seen_once'),
        ),
        migrations.AddIndex(
            model_name='label',
            index=models.Index(condition=models.Q(('source', 'human'), ('superseded_at', None)), fields=['-id'], name='labels_of_people'),
        ),
        migrations.AddConstraint(
            model_name='label',
            constraint=models.CheckConstraint(condition=models.Q(('source__in', ('import', 'llm', 'human', 'adjudication'))), name='label_source_known'),
        ),
        migrations.AddConstraint(
            model_name='label',
            constraint=models.UniqueConstraint(condition=models.Q(('partial', False), ('superseded_at__isnull', True), models.Q(('source', 'human'), _negated=True)), fields=('query', 'source'), name='one_whole_label_per_source'),
        ),
        migrations.AddConstraint(
            model_name='label',
            constraint=models.UniqueConstraint(condition=models.Q(('partial', False), ('source', 'human'), ('superseded_at__isnull', True)), fields=('query', 'author'), name='one_whole_label_per_person'),
        ),
        migrations.AddConstraint(
            model_name='label',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('source', 'human'), _negated=True), ('author__isnull', False), _connector='OR'), name='human_label_has_author'),
        ),
        migrations.AddIndex(
            model_name='gold',
            index=models.Index(fields=['-composed_at'], name='gold_by_age'),
        ),
        migrations.AddConstraint(
            model_name='draft',
            constraint=models.UniqueConstraint(condition=models.Q(('agent__isnull', True)), fields=('query', 'person'), name='one_draft_per_query_and_person'),
        ),
        migrations.AddConstraint(
            model_name='draft',
            constraint=models.UniqueConstraint(condition=models.Q(('agent__isnull', False)), fields=('query', 'person', 'agent'), name='one_draft_per_query_person_and_agent'),
        ),
        migrations.AddConstraint(
            model_name='bulkchangeentry',
            constraint=models.UniqueConstraint(fields=('change', 'query'), name='bulk_change_touches_a_query_once'),
        ),
        migrations.AddIndex(
            model_name='queueitem',
            index=models.Index(condition=models.Q(('taken__lt', models.F('needed'))), fields=['pool', 'agent', 'rank', 'id'], name='queue_open_by_rank'),
        ),
        migrations.AddIndex(
            model_name='queueitem',
            index=models.Index(condition=models.Q(('agent__isnull', True), ('taken__lt', models.F('needed'))), fields=['pool', 'random_key'], name='queue_open_at_random'),
        ),
        migrations.AddIndex(
            model_name='queueitem',
            index=models.Index(condition=models.Q(('agent__isnull', True), ('disagreement__gt', 0)), fields=['pool', '-disagreement', 'query'], name='queue_by_disagreement'),
        ),
        migrations.AddConstraint(
            model_name='queueitem',
            constraint=models.UniqueConstraint(condition=models.Q(('agent__isnull', True)), fields=('query',), name='one_queue_item_per_query'),
        ),
        migrations.AddConstraint(
            model_name='queueitem',
            constraint=models.UniqueConstraint(condition=models.Q(('agent__isnull', False)), fields=('query', 'agent'), name='one_queue_item_per_query_and_agent'),
        ),
        migrations.AddConstraint(
            model_name='queueitem',
            constraint=models.CheckConstraint(condition=models.Q(('taken__gte', 0)), name='queue_item_taken_not_negative'),
        ),
        migrations.AddIndex(
            model_name='assignment',
            index=models.Index(condition=models.Q(('state', 'held')), fields=['leased_until'], name='leases_by_end'),
        ),
        migrations.AddIndex(
            model_name='assignment',
            index=models.Index(fields=['person', 'state', '-ended_at'], name='datasets_ap_person__7efa48_idx'),
        ),
        migrations.AddConstraint(
            model_name='assignment',
            constraint=models.UniqueConstraint(fields=('item', 'person'), name='one_assignment_per_item_and_person'),
        ),
        migrations.AddConstraint(
            model_name='assignment',
            constraint=models.CheckConstraint(condition=models.Q(('state__in', ('held', 'done', 'skipped'))), name='assignment_state_known'),
        ),
        migrations.AddConstraint(
            model_name='queuesettings',
            constraint=models.CheckConstraint(condition=models.Q(('overlap__gte', 1)), name='overlap_at_least_one'),
        ),
        migrations.AddConstraint(
            model_name='queuesettings',
            constraint=models.CheckConstraint(condition=models.Q(('blind_share__range', (0, 1)), ('evaluation_share__range', (0, 1)), ('overlap_share__range', (0, 1))), name='queue_shares_are_shares'),
        ),
        migrations.AddConstraint(
            model_name='snapshot',
            constraint=models.UniqueConstraint(fields=('pool', 'number'), name='snapshot_number_unique_in_pool'),
        ),
        migrations.AddConstraint(
            model_name='snapshot',
            constraint=models.UniqueConstraint(condition=models.Q(('erased_rows', 0)), fields=('pool', 'digest'), name='whole_snapshot_digest_unique_in_pool'),
        ),
        migrations.AddConstraint(
            model_name='spanproblem',
            constraint=models.UniqueConstraint(fields=('pool', 'reason'), name='span_problem_once'),
        ),
        migrations.AddIndex(
            model_name='splitgroup',
            index=models.Index(fields=['pool', 'split'], name='datasets_ap_pool_id_e80cf6_idx'),
        ),
        migrations.AddConstraint(
            model_name='splitgroup',
            constraint=models.UniqueConstraint(fields=('pool', 'key'), name='split_group_unique_in_pool'),
        ),
        migrations.AddConstraint(
            model_name='splitgroup',
            constraint=models.CheckConstraint(condition=models.Q(('split__in', ('', 'train', 'val', 'test'))), name='split_known'),
        ),
        migrations.AddIndex(
            model_name='query',
            index=models.Index(fields=['dataset', 'state'], name='datasets_ap_dataset_3faca5_idx'),
        ),
        migrations.AddIndex(
            model_name='query',
            index=models.Index(fields=['dataset', 'external_id'], name='datasets_ap_dataset_9314ce_idx'),
        ),
        migrations.AddIndex(
            model_name='query',
            index=models.Index(condition=models.Q(('turn__isnull', False)), fields=['dataset', 'conversation'], name='query_by_conversation'),
        ),
        migrations.AddConstraint(
            model_name='query',
            constraint=models.UniqueConstraint(fields=('dataset', 'text_hash'), name='query_text_unique_in_dataset'),
        ),
        migrations.AddConstraint(
            model_name='query',
            constraint=models.CheckConstraint(condition=models.Q(('state__in', ('unlabeled', 'draft', 'labeled', 'disagreement', 'gold'))), name='query_state_known'),
        ),
        migrations.AddIndex(
            model_name='submission',
            index=models.Index(fields=['person', '-at'], name='datasets_ap_person__7d5ebc_idx'),
        ),
        migrations.AddIndex(
            model_name='tracedturn',
            index=models.Index(fields=['pool', '-at'], name='traced_turn_by_time'),
        ),
        migrations.AddIndex(
            model_name='tracedturn',
            index=models.Index(fields=['pool', 'conversation'], name='traced_turn_by_conversation'),
        ),
        migrations.AddConstraint(
            model_name='tracedturn',
            constraint=models.UniqueConstraint(fields=('pool', 'trace', 'place'), name='traced_turn_once'),
        ),
    ]
