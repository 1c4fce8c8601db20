"""`python -m tests.upgrade.baseline` writes the baseline of the upgrade test anew, from the code as it is now.

Run it after a release, or after migrations were squashed: upgrades are tested from that version on. It fills a new SQLite database
with two people, four agents, labeled queries, three trained models (one active, one retired, one a shadow), a failed run, a run that
waits in the queue, a launch rule and decisions. `earlier/` becomes its backup, unpacked; `answers.json` holds what it answered over
HTTP, and the messages in its queue.
"""

import json
import os
import shutil
import tempfile
import zipfile
from pathlib import Path

import django

HERE = Path(__file__).parent
EARLIER = HERE / "earlier"

TEXTS = (
    "refund my invoice please",
    "hello there, where is my parcel and show me the error",
    "sing me a song",
    "the app had a crash 7",
    "I was charged twice. the courier lost the box",
    "qwertz",
)
#: Small and quick: the test is about what survives, not about how well it routes.
SETTINGS = {"total_steps": 400, "folds": 3, "val_eval_freq": 50, "encoder": "linear", "max_features": 400}


def fill() -> None:
    """Make the installation in the empty database."""
    from django.contrib.auth.models import Group, User

    from agents_app import pools
    from agents_app.access import Role
    from agents_app.audit import Actor
    from agents_app.models import Pool
    from datasets_app.labels import snapshots
    from tests.training_app.labeled import label
    from training_app.models import LaunchRule, RouterModel, Run
    from training_app.rollout import trials
    from training_app.training import rules, runs, tasks
    from training_app.versions import registry

    by = Actor("baseline")
    for role in (Role.OPS, Role.LABELER):
        user = User.objects.create_user(f"{role}@routerweb.local", is_staff=True)
        user.groups.add(Group.objects.get(name=role))
    pool = Pool.objects.create(slug="support", name="Support")
    for name in ("Billing", "Shipping", "Technical", "Weather"):
        pools.add_agent(pool, actor=by, name=name, description=f"{name} questions", keywords=[name.lower()])
    label(pool)
    snapshot = snapshots.take(pool)
    for seed in (1, 2, 3):
        run = runs.launch(pool, snapshot=snapshot, config={**SETTINGS, "seed": seed}, queue=False)
        attempt = runs.claim(run.pk)
        assert attempt is not None
        assert tasks.work(run.pk, attempt) == "done", Run.objects.get(pk=run.pk).error
    first, second, third = RouterModel.objects.order_by("version")
    registry.promote(first, actor=by)
    registry.promote(second, actor=by)
    trials.start_shadow(third, actor=by)
    failed = runs.launch(pool, snapshot=snapshot, config={**SETTINGS, "seed": 4}, queue=False)
    attempt = runs.claim(failed.pk)
    assert attempt is not None
    runs.fail(failed.pk, attempt, "the worker's disk is full")
    runs.launch(pool, snapshot=snapshot, config={**SETTINGS, "seed": 5})
    rules.save(LaunchRule(pool=pool, name="Nightly", trigger="nightly", hour=3, config={"seed": 6}), actor=by)


def describe() -> dict[str, object]:
    """What the installation answers, with the key that it answers to, and what waits in its queue."""
    from django.contrib.auth.models import User
    from django.test import Client
    from django_q.models import OrmQ

    from agents_app import keys
    from agents_app.models import ApiKey, Pool
    from training_app.answering import decisions
    from training_app.models import RouterModel
    from training_app.versions import headlines

    user = User.objects.get(username__startswith="ops")
    _, secret = keys.create_key("shop", [Pool.objects.get()], [ApiKey.Scope.ROUTE], created_by=user)
    client = Client(headers={"authorization": f"Bearer {secret}"})
    answers = []
    for text in TEXTS:
        body = client.post("/api/route/", {"pool": "support", "query": text}, content_type="application/json").json()
        body.pop("decision_id")
        answers.append(body)
    assert decisions.write_once()
    assert not decisions.buffer
    models = RouterModel.objects.order_by("version")
    return {
        "key": secret,
        "texts": TEXTS,
        "answers": answers,
        "messages": [{"key": message.key, "payload": message.payload} for message in OrmQ.objects.all()],
        "jaccard": {model.name: headlines.headline(model)["jaccard"] for model in models},
    }


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ |= {
            "DJANGO_SETTINGS_MODULE": "routerweb.settings", "DATA_DIR": name, "PLAIN_HTTP": "1",
            "SECRET_KEY": "upgraded", "DATABASE_URL": f"sqlite:///{folder / 'earlier.sqlite3'}",
        }  # fmt: skip
        django.setup()
        from django.conf import settings
        from django.core.management import call_command

        from agents_app import backups

        settings.ALLOWED_HOSTS.append("testserver")
        settings.BACKGROUND_THREADS = False
        call_command("migrate", verbosity=0)
        fill()
        described = describe()
        backups.write(folder / "backup.zip")
        shutil.rmtree(EARLIER, ignore_errors=True)
        with zipfile.ZipFile(folder / "backup.zip") as archive:
            for member in archive.infolist():
                if member.file_size:
                    archive.extract(member, EARLIER)
        (HERE / "answers.json").write_text(json.dumps(described, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
