"""Eight processes submit, import and merge in one pool at once, four in `make test`: nobody waits in a circle. `TOGETHER_SECONDS=120`
takes two minutes."""

import io
import json
import os
import subprocess
import sys
from collections import Counter
from itertools import groupby
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.db import connection

from agents_app.models import Agent, Pool
from datasets_app.files import imports
from datasets_app.labeling import queue
from datasets_app.labels import labels
from datasets_app.models import Dataset, Label, Query, QueueSettings, SplitGroup, group_hash, text_hash
from tests.thorough import EVERYTHING

LENGTH = os.environ.get("TOGETHER_SECONDS", "10" if EVERYTHING else "2")
FEW = [("submit", 0), ("submit", 1), ("import", 0), ("merge", 0)]
MORE = [("submit", 2), ("import", 1), ("import", 2), ("merge", 1)]
WORKERS = FEW + MORE if EVERYTHING or "TOGETHER_SECONDS" in os.environ else FEW


@pytest.mark.at_length
@pytest.mark.process
@pytest.mark.both_databases
@pytest.mark.django_db(transaction=True)
def test_submits_imports_and_merges_at_once_do_not_deadlock() -> None:
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has one writer at a time: nothing happens at once there, and nothing can deadlock")
    pool = Pool.objects.create(slug="together", name="Together", next_agent_number=8)
    Agent.objects.bulk_create(
        Agent(pool=pool, number=n, code=f"A{n}", key=f"agent-{n}", name=f"Agent {n}") for n in range(8)
    )
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
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.datasets_app.together", work, str(number), LENGTH],
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


@pytest.mark.process
@pytest.mark.both_databases
@pytest.mark.django_db(transaction=True)
@pytest.mark.at_length
def test_twenty_people_label_a_hundred_conversations_twice_each_and_nothing_is_lost() -> None:
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has one writer at a time: nothing happens at once there, and nothing can deadlock")
    pool = Pool.objects.create(slug="together", name="Together", next_agent_number=2)
    Agent.objects.bulk_create(
        Agent(pool=pool, number=n, code=f"A{n}", key=f"agent-{n}", name=f"Agent {n}") for n in range(2)
    )
    QueueSettings.objects.create(pool=pool, overlap=2, overlap_share=1.0)
    dataset = Dataset.objects.create(pool=pool, name="Talks")
    rows = []
    for talk in range(100):
        said: list[dict[str, str]] = []
        for turn in range(3):
            said = [*said, {"role": "user", "content": f"talk {talk}, turn {turn}"}]
            rows.append({"id": f"{talk}-{turn}", "conversation_id": f"talk {talk}", "messages": said})
            said = [*said, {"role": "assistant", "content": f"answer {turn}"}]
    content = "".join(json.dumps(row) + "\n" for row in rows).encode()
    imports.read_file(dataset, io.BytesIO(content), "jsonl")
    for n in range(20):
        User.objects.create_user(f"talker {n}")

    at = connection.settings_dict
    url = f"postgresql://{at['USER']}:{at['PASSWORD']}@{at['HOST']}:{at['PORT']}/{at['NAME']}"
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.datasets_app.talking", str(first), "5"],
            cwd=Path(__file__).parents[2],
            env={**os.environ, "DATABASE_URL": url},
            stdout=subprocess.PIPE,
            text=True,
        )
        for first in (0, 5, 10, 15)
    ]
    answers = [worker.communicate()[0] for worker in running]
    assert [worker.returncode for worker in running] == [0] * len(running)
    done: dict[str, list[str]] = {}
    for answer in answers:
        done |= json.loads(answer)
    counts = Counter(one for labeled in done.values() for one in labeled)
    assert set(counts) == {row["id"] for row in rows}
    assert set(counts.values()) == {2}
    assert Label.objects.current().filter(source=Label.Source.HUMAN).count() == 600
    assert all(len(set(labeled)) == len(labeled) for labeled in done.values())
    # Nearly all have whole conversations in one go, from the first turn on: there are two hundred, and the last ones are shared.
    goes = [
        list(turns) for labeled in done.values() for _talk, turns in groupby(labeled, key=lambda one: one.split("-")[0])
    ]
    assert sum(len(turns) == 3 and turns == sorted(turns) for turns in goes) > 120
