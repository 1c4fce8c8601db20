"""What the migrations do to rows of before: each is called on rows as an older version left them."""

import gzip
import io
import json
from collections.abc import Callable
from importlib import import_module

from django.apps import apps
from django.contrib.auth.models import User

from agents_app import audit, pools
from agents_app.models import Agent, Pool
from datasets_app.labels import adjudication, labels, queue, snapshots
from datasets_app.models import Query, QueueItem, Snapshot, SnapshotContent, SplitGroup, group_hash

SPLITS = import_module("datasets_app.migrations.0009_splits_in_use")
MERGES = import_module("agents_app.migrations.0007_merged_at")
EVERY = range(4)


def test_texts_are_grouped_anew_without_changing_a_split(pool: Pool, add_query: Callable[..., Query]) -> None:
    plain = add_query("hi ❤", "train")
    unsplit, test = add_query("hi there ❤"), add_query("so ❤", "test")
    old = [
        (add_query("hi ❤\ufe0f"), ""),  # its like has a split: it takes it
        (add_query("hi there ❤\ufe0f"), "val"),  # it has one: its like takes it
        (add_query("so ❤\ufe0f"), "train"),  # both have one: each keeps its own
        (add_query("❤\ufe0f"), "test"),  # two texts that were wrongly one: both keep the split
        (add_query("☀\ufe0f"), "test"),
    ]
    wrongly_one = SplitGroup.objects.create(pool=pool, key="1" * 64, split="test")
    for query, split in old:
        own = (
            wrongly_one if split == "test" else SplitGroup.objects.create(pool=pool, key=f"{query.pk:064}", split=split)
        )
        Query.objects.filter(pk=query.pk).update(group=own)
    SplitGroup.objects.filter(key__in=[group_hash("❤"), group_hash("☀")]).delete()

    SPLITS.group_anew(apps, None)

    def of(query: Query) -> tuple[str, str]:
        return Query.objects.values_list("group__key", "group__split").get(pk=query.pk)

    assert of(old[0][0]) == of(plain) == (group_hash("hi ❤"), "train")
    assert of(old[1][0]) == of(unsplit) == (group_hash("hi there ❤"), "val")
    assert [of(old[2][0])[1], of(test)[1]] == ["train", "test"]
    assert of(old[3][0]) == (group_hash("❤"), "test")
    assert of(old[4][0]) == (group_hash("☀"), "test")


def test_a_split_that_a_snapshot_used_is_given(pool: Pool, add_query: Callable[..., Query]) -> None:
    query, erased = add_query("where is my parcel"), add_query("where is my money")
    for one in (query, erased):
        labels.record(one, source="llm", required=[0], asked=EVERY)
    taken = snapshots.take(pool, include_llm=True)
    snapshots.erase(erased)
    SplitGroup.objects.update(split="")
    Snapshot.objects.update(erased_rows=0)
    SPLITS.splits_that_snapshots_used(apps, None)
    assert set(SplitGroup.objects.values_list("split", flat=True)) == {"train"}
    taken.refresh_from_db()
    assert taken.erased_rows == 1
    packed = SnapshotContent.objects.get(snapshot=taken).rows_gzip
    rows = [json.loads(line) for line in gzip.GzipFile(fileobj=io.BytesIO(bytes(packed)))]
    assert [row["text"] for row in rows] == ["where is my parcel", ""]


def test_a_decision_marks_its_item(pool: Pool, add_query: Callable[..., Query], person: Callable[..., User]) -> None:
    asked, imported = add_query("where is my parcel"), add_query("where is my money")
    ana, rita = person("ana"), person("rita", "reviewer")
    queue.fill(pool)
    queue.open_item(asked, ana, pool)
    for query in (asked, imported):
        adjudication.decide(pool, query, author=rita, required=frozenset({1}), took="edit", reason="mistake")
    QueueItem.objects.update(decided=False, wanted=False, needed=0)
    SPLITS.marks_of_decisions(apps, None)
    assert QueueItem.objects.values_list("wanted", "decided").get(query=asked) == (True, True)
    assert QueueItem.objects.values_list("wanted", "decided").get(query=imported) == (False, True)


def test_a_chain_of_merges_gets_its_steps_back(pool: Pool) -> None:
    agents = list(pool.agents.order_by("number"))
    pools.merge(agents[0], agents[1], None)
    pools.merge(agents[1], agents[2], None)
    pools.merge(agents[3], agents[2], None)
    # As an older version left them: each at the end of the chain, and of one merge nothing in the trail.
    Agent.objects.filter(merged_into__isnull=False).update(merged_into=agents[2], merged_at=None)
    audit.AuditEntry.objects.filter(action="agent.merged", detail__id=3).delete()
    MERGES.steps_as_they_were_made(apps, None)
    found = {agent.number: agent for agent in pool.agents.select_related("merged_into")}
    assert {n: agent.merged_into.number for n, agent in found.items() if agent.merged_into} == {0: 1, 1: 2, 3: 2}
    assert found[0].merged_at < found[1].merged_at
    assert found[3].merged_at == found[3].retired_at
