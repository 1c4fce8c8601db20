"""What each page of a pool costs the database: SQL statements, and rows read, in a small pool and in a large one.

The pool has one query and one decision, then PAGE_ROWS (1,000) more; 100000 takes an hour, and `-s` shows what each page read.
"""

import os
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.urls import reverse
from django.utils import timezone

from agents_app.models import Pool
from datasets_app.labeling import queue
from datasets_app.labels import labels
from datasets_app.models import Dataset, Query, SplitGroup, group_hash, text_hash
from tests import orchestration
from tests.clients import signed_in
from tests.page_cost import Cost, counted, queries
from tests.training_app.answering.test_decisions import pending
from training_app.answering import decisions
from training_app.models import Decision, Outcome, RouterModel
from training_app.rollout import traffic_hours

pytestmark = [pytest.mark.both_databases, pytest.mark.at_length, orchestration.needed]

#: What a page may cost, by its address below the pool's: SQL statements; with ROWS queries and decisions, steps of SQLite's virtual
#: machine, about ten for each row that is read, and rows that PostgreSQL reads, tables and indexes together.
BUDGETS = {
    "": (46, 200_000, 12_000),
    "queries/": (16, 34_000, 7_500),
    "label/": (24, 19_000, 1_400),
    "label/mine/": (12, 2_000, 100),
    "review/": (20, 26_000, 2_900),
    "agreement/": (12, 37_000, 4_300),
    "drift/": (16, 13_000, 2_600),
    "models/": (24, 2_500, 100),
    "runs/": (8, 2_000, 100),
    "decisions/": (14, 33_000, 4_100),
    "traffic/": (17, 21_000, 100),
    "proposals/": (10, 2_000, 100),
    "agents/": (9, 2_000, 100),
    "cases/": (10, 2_000, 100),
    "alarms/": (16, 2_000, 100),
    "episodes/": (9, 2_000, 100),
    "settings/": (7, 2_000, 100),
    "playground/": (9, 2_000, 100),
}
ROWS = 1_000
PAGE_ROWS = int(os.environ.get("PAGE_ROWS", str(ROWS)))


def grow(pool: Pool, model: RouterModel, people: list[User], first: int, rows: int) -> None:
    """Queries from number `first` on: of twenty, ten labeled by an import, two by one person, one by two who differ; and decisions."""
    dataset, _made = Dataset.objects.get_or_create(pool=pool, name="Tickets")
    texts = [f"my parcel number {n} has not come" for n in range(first, first + rows)]
    groups = SplitGroup.objects.bulk_create(
        [SplitGroup(pool=pool, key=group_hash(text), split="train") for text in texts]
    )
    made = Query.objects.bulk_create(
        [
            Query(dataset=dataset, text=text, text_hash=text_hash(text), group=group)
            for text, group in zip(texts, groups, strict=True)
        ]
    )
    said = []
    for n, query in enumerate(made):
        if n % 20 < 10:
            said.append(labels.NewLabel(query.pk, "import", [n % 3], [0, 1, 2]))
        elif n % 20 < 13:
            said.append(labels.NewLabel(query.pk, "human", [n % 3], [0, 1, 2], author=people[0]))
        if n % 20 == 12:
            said.append(labels.NewLabel(query.pk, "human", [(n + 1) % 3], [0, 1, 2], author=people[1]))
    labels.record_many(said)
    queue.fill(pool)
    now = timezone.now()
    answers = []
    for n in range(rows):
        at = (now - timedelta(minutes=1 + n * 20_000 / rows)).timestamp()
        answers.append(pending(model, texts[n])._replace(id=decisions.new_id(at), at=at))
    for start in range(0, rows, 500):
        decisions.insert(answers[start : start + 500])
    reported = Decision.objects.filter(text__in=texts[::10][:5_000]).values_list("pk", flat=True)
    Outcome.objects.bulk_create(
        [Outcome(decision_id=key, pool=pool, success=n % 4 > 0) for n, key in enumerate(reported)]
    )
    traffic_hours.count_all()
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")


def test_pages_hold_to_their_budgets(fresh_process, pool, model, person) -> None:
    browser = signed_in(User.objects.create_superuser("admin"))

    def cost_of(name: str) -> Cost:
        address = reverse("pool_home", args=[pool.slug]) + name
        browser.get(address)  # what a process keeps of it is in memory then
        with counted() as cost:
            assert browser.get(address).status_code == 200
        return cost

    people = [person("labeler"), person("reviewer")]
    grow(pool, model, people, 0, 1)
    one = {name: cost_of(name) for name in BUDGETS}
    grow(pool, model, people, 1, PAGE_ROWS)
    table = {name: (one[name], cost_of(name)) for name in BUDGETS}
    print("| page | statements: one query, many | read: one query, many |\n| --- | --- | --- |")
    for name, costs in table.items():
        print(
            f"| {name or 'Home'} | {', '.join(str(c.statements) for c in costs)} | {', '.join(f'{c.read:,}' for c in costs)} |"
        )
    over = {
        name: costs
        for name, costs in table.items()
        if max(cost.statements for cost in costs) > queries(BUDGETS[name][0])
        or (
            PAGE_ROWS == ROWS
            and max(cost.read for cost in costs) > BUDGETS[name][1 + (connection.vendor == "postgresql")]
        )
    }
    assert over == {}
