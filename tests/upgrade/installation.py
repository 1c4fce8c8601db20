"""`python -m tests.upgrade.installation` makes an installation of an earlier version in an empty database, and upgrades it.

`tests.upgrade.baseline` wrote what the earlier version held. `earlier/` is its backup, unpacked: `manifest.json` names the tables,
their columns and the migrations that had made them, and `tables/NAME.jsonl` has a row a line (an empty table has no file).
`answers.json` is what it answered over HTTP, and the messages in its queue. The tables are made by the migrations that the backup
names, filled, and then all later migrations are applied. What there is afterwards is printed as JSON.
"""

import json
from pathlib import Path
from typing import Any

import django

HERE = Path(__file__).parent
EARLIER = HERE / "earlier"


def _lines(table: str) -> bytes:
    """The rows of a table, a JSON list a line."""
    file = EARLIER / "tables" / f"{table}.jsonl"
    return file.read_bytes() if file.exists() else b""


def fill() -> dict[str, Any]:
    """Make the earlier version's tables and rows; the backup's manifest."""
    from django.core.management.color import no_style
    from django.db import connection, transaction
    from django.db.migrations.executor import MigrationExecutor

    from agents_app import backups

    manifest = json.loads((EARLIER / "manifest.json").read_text())
    executor = MigrationExecutor(connection)
    replaced = {key for one in executor.loader.replacements.values() for key in one.replaces}
    applied = {(app, name) for app, name in manifest["migrations"]}
    last = sorted(dict(sorted(applied - replaced)).items())
    executor.migrate(last)
    state = MigrationExecutor(connection).loader.project_state(last)
    models = {model._meta.db_table: model for model in state.apps.get_models(include_auto_created=True)}
    with transaction.atomic(), connection.cursor() as cursor:
        for name in manifest["tables"]:
            cursor.execute(f"DELETE FROM {connection.ops.quote_name(name)}")
        for name, told in manifest["tables"].items():
            fields = {field.column: field for field in models[name]._meta.concrete_fields}
            table = backups.Table(models[name], tuple(fields[column] for column in told["columns"]))
            backups._insert(cursor, table, map(json.loads, _lines(name).splitlines()), told["rows"], None)
        for message in json.loads((HERE / "answers.json").read_text())["messages"]:
            models["django_q_ormq"].objects.create(key=message["key"], payload=message["payload"])
        made = [models[name] for name in manifest["tables"]]
        for statement in connection.ops.sequence_reset_sql(no_style(), made):
            cursor.execute(statement)
    return dict(manifest)


def changed(manifest: dict[str, Any]) -> list[str]:
    """Every row that is gone and every value that is another, in the columns that are still there: "table.column"."""
    from agents_app import backups

    differ = set()
    tables = {table.name: table for table in backups.tables()}
    for name, told in manifest["tables"].items():
        if name not in tables:
            differ.add(f"{name} is gone")
            continue
        columns = [field.column for field in tables[name].columns]
        key = columns.index(tables[name].model._meta.pk.column)
        now = {row[key]: dict(zip(columns, row, strict=True)) for row in backups._rows(tables[name])}
        for line in _lines(name).decode().splitlines():
            before = dict(zip(told["columns"], json.loads(line), strict=True))
            after = now.get(before[columns[key]])
            if after is None:
                differ.add(f"{name} lost a row")
                continue
            differ |= {f"{name}.{c}" for c in before.keys() & after.keys() if before[c] != after[c]}
    return sorted(differ)


def told() -> dict[str, Any]:
    """What the upgraded installation says of itself."""
    from django.test import Client
    from django.utils.module_loading import import_string
    from django_q.models import OrmQ, Schedule

    from agents_app.models import Pool
    from training_app.answering import replays, serving
    from training_app.models import Decision, RouterModel, Run
    from training_app.training import runs
    from training_app.versions import gate, headlines, registry

    known = json.loads((HERE / "answers.json").read_text())
    client = Client(headers={"authorization": f"Bearer {known['key']}"})
    answers = []
    for text in known["texts"]:
        body = client.post("/api/route/", {"pool": "support", "query": text}, content_type="application/json").json()
        body.pop("decision_id", None)
        answers.append(body)
    pool = Pool.objects.get(slug="support")
    messages = [message.task for message in OrmQ.objects.all()]
    models = list(RouterModel.objects.select_related("pool").order_by("version"))
    again = [replays.replay(row, serving.router_of(row.model)).identical for row in Decision.objects.order_by("at")]
    back = registry.rollback_target(pool)
    return {
        "answers": answers,
        "replayed": again,
        "functions": [callable(import_string(func)) for func in Schedule.objects.values_list("func", flat=True)],
        "messages": [callable(import_string(task["func"])) for task in messages],
        "waiting": [(kind, runs.claim(key) is not None) for kind, key, *_rest in (task["args"] for task in messages)],
        "models": [(model.name, model.state, model.kind) for model in models],
        "jaccard": {model.name: headlines.headline(model)["jaccard"] for model in models},
        "knows": {model.name: [agent["name"] for agent in model.roster] for model in models},
        "verdict": gate.judge(models[2]).clean,
        "back": back.name if back else None,
        "runs": sorted(Run.objects.values_list("status", "kind")),
    }


if __name__ == "__main__":
    django.setup()
    from django.conf import settings
    from django.core.management import call_command

    settings.ALLOWED_HOSTS.append("testserver")
    settings.BACKGROUND_THREADS = False
    earlier = fill()
    call_command("migrate", verbosity=0)
    print(json.dumps({"changed": changed(earlier), **told()}))
