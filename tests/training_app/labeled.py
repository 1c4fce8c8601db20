"""72 labeled queries of three agents: what the runs' tests train on."""

from agents_app.models import Pool
from datasets_app.labels import labels
from datasets_app.models import Dataset, Query, SplitGroup, group_hash, text_hash

NEEDS = {0: ("refund", "invoice"), 1: ("parcel", "courier"), 2: ("crash", "error")}
SPLITS = ("train", "train", "train", "train", "train", "val", "test", "test")


def label(pool: Pool, variants: int = 8, source: str = "import", splits: tuple[str, ...] = SPLITS) -> None:
    dataset = Dataset.objects.create(pool=pool, name="Tickets")
    rows: list[tuple[str, list[int], str]] = []
    for variant in range(variants):
        split = splits[variant % len(splits)]
        rows += [(f"{words} {variant}", [], split) for words in ("what a nice day", "tell me a joke", "who won match")]
        for first, words in NEEDS.items():
            second = (first + 1) % 3
            rows.append((f"about my {words[variant % 2]} number {variant}", [first], split))
            both = f"my {words[variant % 2]} and the {NEEDS[second][variant % 2]} of order {variant}"
            rows.append((both, sorted((first, second)), split))
    groups = SplitGroup.objects.bulk_create(
        [SplitGroup(pool=pool, key=group_hash(text), split=split) for text, _, split in rows]
    )
    queries = Query.objects.bulk_create(
        [
            Query(dataset=dataset, text=text, text_hash=text_hash(text), group=group)
            for (text, _, _), group in zip(rows, groups, strict=True)
        ]
    )
    labels.record_many(
        labels.NewLabel(query_id=query.pk, source=source, required=required, asked=[0, 1, 2])
        for query, (_, required, _) in zip(queries, rows, strict=True)
    )
