"""Schedules and queued messages name their function by its dotted path: these moved into the rooms of this application."""

from django.conf import settings
from django.core.signing import BadSignature
from django.db import migrations

MOVED = {
    f"training_app.{module}.{function}": f"training_app.{room}.{module}.{function}"
    for room, module, function in (
        ("training", "tasks", "execute"),
        ("training", "rules", "evaluate"),
        ("answering", "decisions", "prune"),
        ("answering", "shadowing", "prune"),
        ("answering", "suggesting", "suggest_all"),
        ("rollout", "outcomes", "offer_failures"),
        ("rollout", "outcomes", "offer_unsure"),
        ("versions", "keeping", "look"),
        ("watching", "drift", "look_all"),
    )
}


def rename(apps, schema_editor, names=MOVED):
    """Schedules by one update each; messages are opened, renamed and signed again. One that cannot be opened is left as it is."""
    from django_q.signing import SignedPackage

    database = schema_editor.connection.alias
    schedules = apps.get_model("django_q", "Schedule").objects.using(database)
    for old, new in names.items():
        schedules.filter(func=old).update(func=new)
    for message in apps.get_model("django_q", "OrmQ").objects.using(database).iterator():
        try:
            task = SignedPackage.loads(message.payload)
        except (BadSignature, TypeError, ValueError, EOFError):
            continue
        if isinstance(task, dict) and task.get("func") in names:
            task["func"] = names[task["func"]]
            message.payload = SignedPackage.dumps(task)
            message.save(update_fields=["payload"])


def rename_back(apps, schema_editor):
    rename(apps, schema_editor, {new: old for old, new in MOVED.items()})


class Migration(migrations.Migration):
    dependencies = [
        ("training_app", "0009_attempts_that_died"),
        ("django_q", "0018_task_success_index"),
    ]

    operations = [migrations.RunPython(rename, rename_back)]
