"""Eight processes submit, import and merge in one pool at once: nobody waits in a circle. `TOGETHER_SECONDS=120` takes two minutes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.db import connection

from agents_app.models import Agent, Pool
from datasets_app.labels import labels, queue
from datasets_app.models import Dataset, Query, QueueSettings, SplitGroup, group_hash, text_hash

WORKERS = [
    ("submit", 0),
    ("submit", 1),
    ("submit", 2),
    ("import", 0),
    ("import", 1),
    ("import", 2),
    ("merge", 0),
    ("merge", 1),
]


@pytest.mark.process
@pytest.mark.both_databases
@pytest.mark.django_db(transaction=True)
def test_submits_imports_and_merges_at_once_do_not_deadlock() -> None:
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has one writer at a time")
    pool = Pool.objects.create(slug="together", name="Together", next_agent_number=8)
    Agent.objects.bulk_create(Agent(pool=pool, number=n, code=f"A{n}", name=f"Agent {n}") for n in range(8))
    QueueSettings.objects.create(pool=pool, order=QueueSettings.Order.DISAGREEMENT, overlap=3, overlap_share=1.0)
    dataset = Dataset.objects.create(pool=pool, name="Queries")
    made = []
    for n in range(200):
        group = SplitGroup.objects.create(pool=pool, key=group_hash(f"query {n}"))
        text = f"query {n}"
        made.append(Query.objects.create(dataset=dataset, text=text, text_hash=text_hash(text), group=group))
    labels.record_many([labels.NewLabel(query.pk, "import", [query.pk % 8], range(8)) for query in made])
    queue.fill(pool)
    for n in range(3):
        User.objects.create_user(f"labeler {n}")

    at = connection.settings_dict
    url = f"postgresql://{at['USER']}:{at['PASSWORD']}@{at['HOST']}:{at['PORT']}/{at['NAME']}"
    seconds = os.environ.get("TOGETHER_SECONDS", "10")
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.datasets_app.together", work, str(number), seconds],
            cwd=Path(__file__).parents[2],
            env={**os.environ, "DATABASE_URL": url},
            stdout=subprocess.PIPE,
            text=True,
        )
        for work, number in WORKERS
    ]
    answers = [worker.communicate()[0] for worker in running]
    assert [worker.returncode for worker in running] == [0] * len(running)
    found = [json.loads(answer) for answer in answers]
    print(list(zip(WORKERS, found, strict=True)))
    assert all(one["done"] for one in found)
    assert sum(one["deadlocks"] for one in found) == 0
