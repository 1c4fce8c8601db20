"""Near-duplicates across splits: held-out queries that say almost the same words as a training query, and so flatter the figures.

Two texts are near when the Jaccard of their sets of words is at least NEAR. All pairs of a sample are found (`alike.nearest`).

Words decide, and not the sentence encoder: to it texts that differ in the one thing that counts ("turn on the light", "turn off
the light") are nearer than most that say the same in other words.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from django.db.models import Count, Max

from agents_app.models import Pool
from datasets_app.labels import snapshots
from datasets_app.models import Gold, Snapshot, Split
from training_app.engine.data.conversations import from_json, transcript
from training_app.engine.judging import alike
from training_app.engine.reading.languages import RUN

NEAR = 0.8
#: Most held-out queries that are looked at, and most training queries that they are held against.
HELD_OUT, TRAINING = 2_000, 20_000
SHOWN = 5


@dataclass(frozen=True, slots=True)
class NearDuplicates:
    """What was found: how many of the `checked` held-out queries are near one of `against` training queries, how many held-out and
    training queries there are in all, and examples (held-out text, training text, Jaccard), nearest first."""

    count: int
    checked: int
    against: int
    held_out: int
    training: int
    examples: tuple[tuple[str, str, float], ...]


def across_splits(pool: Pool, snapshot: Snapshot | None = None) -> NearDuplicates:
    """Near-duplicates between the training and the held-out queries of a snapshot, or of the pool's gold as it is now.

    Looked for once for what has not changed since, in this process.
    """
    if snapshot:
        return _of_snapshot(snapshot.pk, snapshot.digest, _erased(snapshot))
    gold = Gold.objects.of(pool)
    state = gold.aggregate(count=Count("pk"), newest=Max("composed_at"))
    return _of_gold(pool.pk, state["count"], state["newest"])


def _erased(snapshot: Snapshot) -> int:
    # Erasing blanks a text within a snapshot: what was found before must not show it any longer.
    return snapshot.pool.datasets.filter(queries__erased_at__isnull=False).count()


@lru_cache(maxsize=16)
def _of_gold(pool_id: int, _count: int, _newest: object) -> NearDuplicates:
    gold = Gold.objects.of(pool_id)
    texts = {
        # A group's key is a hash of its text, so that the first of them are a sample.
        held: [
            transcript(from_json(*columns))
            for columns in gold.filter(query__group__split__in=names)
            .order_by("query__group__key")
            .values_list("query__text", "query__messages")[:limit]
        ]
        for held, names, limit in ((True, (Split.VAL, Split.TEST), HELD_OUT), (False, (Split.TRAIN,), TRAINING))
    }
    sizes = dict(gold.values_list("query__group__split").annotate(Count("pk")).order_by())
    return find(
        texts[True], texts[False], sizes.get(Split.VAL, 0) + sizes.get(Split.TEST, 0), sizes.get(Split.TRAIN, 0)
    )


@lru_cache(maxsize=16)
def _of_snapshot(snapshot_id: int, _digest: str, _erased: int) -> NearDuplicates:
    held: list[str] = []
    training: list[str] = []
    for row in snapshots.rows(Snapshot.objects.get(pk=snapshot_id)):
        (training if row["split"] == Split.TRAIN else held).append(
            transcript(from_json(row["text"], row.get("messages")))
        )
    # Every so many rows of it, as the rows stand in the order in which they came.
    some = [
        texts[:: max(1, math.ceil(len(texts) / limit))] for texts, limit in ((held, HELD_OUT), (training, TRAINING))
    ]
    return find(some[0], some[1], len(held), len(training))


def find(
    held: Sequence[str], training: Sequence[str], all_held: int | None = None, all_training: int | None = None
) -> NearDuplicates:
    """The held-out texts that are near a training text; each counts once, with its nearest."""
    texts, sets = ([frozenset(RUN.findall(text.lower())) for text in some] for some in (held, training))
    pairs = [
        (likeness, text, training[place])
        for text, (likeness, place) in zip(held, alike.nearest(texts, sets, NEAR), strict=True)
        if likeness >= NEAR
    ]
    pairs.sort(key=lambda pair: -pair[0])
    examples = tuple((text, near, likeness) for likeness, text, near in pairs[:SHOWN])
    return NearDuplicates(
        len(pairs),
        len(held),
        len(training),
        len(held) if all_held is None else all_held,
        len(training) if all_training is None else all_training,
        examples,
    )
