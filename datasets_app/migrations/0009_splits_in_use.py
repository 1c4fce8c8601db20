"""Bring what is stored in line with four rules: a split that a snapshot used is for ever; signs that nobody sees make no difference
between two texts; a decision's mark on its queue item; the number of a snapshot's erased rows."""

import gzip
import io
import json
import re

from django.db import migrations
from django.db.models import Exists, OuterRef

from training_app.engine.data.examples import UNSEEN

BATCH = 1_000
#: Texts without any of these have the key that they had: variation selectors and their like, and format characters.
TOUCHED = re.compile("[" + "".join(sorted(UNSEEN)) + "\u00ad\u0600-\u0605\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\U000e0001-\U000e007f]")


def splits_that_snapshots_used(apps, schema_editor):
    Query, SplitGroup = apps.get_model("datasets_app", "Query"), apps.get_model("datasets_app", "SplitGroup")
    Snapshot = apps.get_model("datasets_app", "Snapshot")
    for content in apps.get_model("datasets_app", "SnapshotContent").objects.order_by("snapshot__number").iterator(chunk_size=1):
        erased, used = 0, {}
        with gzip.GzipFile(fileobj=io.BytesIO(bytes(content.rows_gzip))) as lines:
            for line in lines:
                row = json.loads(line)
                erased += not row["text"]
                used[row["query"]] = row["split"]
        if erased:
            Snapshot.objects.filter(pk=content.snapshot_id).update(erased_rows=erased)
        keys = list(used)
        for start in range(0, len(keys), BATCH):
            unsplit = Query.objects.filter(pk__in=keys[start : start + BATCH], group__split="")
            for query, group in list(unsplit.values_list("pk", "group")):
                SplitGroup.objects.filter(pk=group, split="").update(split=used[query])


def group_anew(apps, schema_editor):
    from datasets_app.models.queries import group_hash

    Query, SplitGroup = apps.get_model("datasets_app", "Query"), apps.get_model("datasets_app", "SplitGroup")
    last = 0
    rows = Query.objects.filter(erased_at__isnull=True).order_by("pk")
    while batch := list(rows.filter(pk__gt=last).values_list("pk", "text", "group__pool", "group__key", "group__split")[:BATCH]):
        last = batch[-1][0]
        for query, text, pool, key, split in batch:
            if not TOUCHED.search(text) or (new := group_hash(text)) == key:
                continue
            group, _made = SplitGroup.objects.get_or_create(pool_id=pool, key=new, defaults={"split": split})
            if split and not group.split:
                SplitGroup.objects.filter(pk=group.pk, split="").update(split=split)
            elif split and group.split != split:
                continue  # both splits are in use: each text stays where it is
            Query.objects.filter(pk=query).update(group=group)


def marks_of_decisions(apps, schema_editor):
    QueueItem, Label = apps.get_model("datasets_app", "QueueItem"), apps.get_model("datasets_app", "Label")
    Assignment = apps.get_model("datasets_app", "Assignment")
    decisions = Label.objects.filter(
        query=OuterRef("query"), source="adjudication", provenance__via="review", superseded_at__isnull=True
    )
    closed = QueueItem.objects.filter(Exists(decisions), agent__isnull=True, wanted=False, query__erased_at__isnull=True)
    keys = list(closed.values_list("pk", flat=True))
    for start in range(0, len(keys), BATCH):
        items = QueueItem.objects.filter(pk__in=keys[start : start + BATCH])
        # What somebody was asked about was wanted before the decision closed it.
        items.filter(Exists(Assignment.objects.filter(item=OuterRef("pk")))).update(wanted=True)
        items.update(decided=True)


class Migration(migrations.Migration):
    dependencies = [("datasets_app", "0008_what_people_said")]

    operations = [
        migrations.RunPython(splits_that_snapshots_used, migrations.RunPython.noop),
        migrations.RunPython(group_anew, migrations.RunPython.noop),
        migrations.RunPython(marks_of_decisions, migrations.RunPython.noop),
    ]
