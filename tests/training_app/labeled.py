"""72 labeled queries of three agents: what the runs' tests train on."""

from agents_app.models import Pool
from datasets_app.labels import labels
from datasets_app.models import Dataset, Query, SplitGroup, group_hash, text_hash

NEEDS = {0: ("refund", "invoice"), 1: ("parcel", "courier"), 2: ("crash", "error")}


def label(pool: Pool, variants: int = 8) -> None:
    dataset = Dataset.objects.create(pool=pool, name="Tickets")
    split_of = ("train", "train", "train", "train", "train", "val", "test", "test")
    statements = []
    for variant in range(variants):
        rows: list[tuple[str, list[int]]] = [(f"what a nice day {variant}", []), (f"tell me a joke {variant}", [])]
        rows.append((f"who won match {variant}", []))
        for first, words in NEEDS.items():
            second = (first + 1) % 3
            rows.append((f"about my {words[variant % 2]} number {variant}", [first]))
            both = f"my {words[variant % 2]} and the {NEEDS[second][variant % 2]} of order {variant}"
            rows.append((both, sorted((first, second))))
        for text, required in rows:
            group = SplitGroup.objects.create(pool=pool, key=group_hash(text), split=split_of[variant % 8])
            query = Query.objects.create(dataset=dataset, text=text, text_hash=text_hash(text), group=group)
            statements.append(labels.NewLabel(query_id=query.pk, source="import", required=required, asked=[0, 1, 2]))
    labels.record_many(statements)
