"""How far apart the answers to one query are: MASI distances between sets, kept with the queue's items to sort by."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from itertools import combinations, islice

import numpy as np
from numpy.typing import NDArray

from agents_app.models import Pool
from datasets_app.labels import voices
from datasets_app.labels.voices import VoiceSets, answer, by_person
from datasets_app.models import Label, QueueItem, QueueSettings

BATCH = 1_000
CHANCE = 1e-6  # how much the random order weighs among equals


def jaccard(a: Collection[int], b: Collection[int]) -> float:
    """|A ∩ B| / |A ∪ B|; 1 for two empty sets."""
    first, second = frozenset(a), frozenset(b)
    union = first | second
    return len(first & second) / len(union) if union else 1.0


def masi(a: Collection[int], b: Collection[int]) -> float:
    """The MASI distance of two sets, 0 to 1: 1 − Jaccard × monotonicity (Passonneau 2006, LREC).

    Monotonicity is 1 for equal sets, 2/3 where one holds the other, 1/3 where they only overlap, 0 where they share nothing.
    """
    first, second = frozenset(a), frozenset(b)
    if first == second:
        return 0.0
    if not first & second:
        return 1.0
    monotonicity = 2 / 3 if first <= second or second <= first else 1 / 3
    return 1.0 - jaccard(first, second) * monotonicity


def masi_distances(sets: Sequence[frozenset[int]]) -> NDArray[np.float64]:
    """`masi` of each two of V sets: (V, V)."""
    members = sorted(frozenset[int]().union(*sets))
    holds = np.array([[member in one for member in members] for one in sets], np.float64).reshape(
        len(sets), len(members)
    )
    common, sizes = holds @ holds.T, holds.sum(axis=1)
    union = sizes[:, None] + sizes - common
    first_holds, second_holds = common == sizes, common == sizes[:, None]
    monotonicity = np.select([first_holds & second_holds, first_holds | second_holds], [1.0, 2 / 3], 1 / 3)
    return 1.0 - np.divide(common, union, out=np.ones_like(union), where=union > 0) * monotonicity


def between(a: VoiceSets, b: VoiceSets) -> float | None:
    """The MASI distance of two answers on the agents that both were asked about; None where there is no such agent."""
    both = a.asked & b.asked
    return masi(a.required & both, b.required & both) if both else None


def _mean(distances: Sequence[float | None]) -> float:
    measured = [distance for distance in distances if distance is not None]
    return sum(measured) / len(measured) if measured else 0.0


def measure_pool(pool: Pool) -> None:
    """Measure all of a pool's items again, as after a merge of agents."""
    keys = iter(list(QueueItem.objects.filter(pool=pool, agent__isnull=True).values_list("query_id", flat=True)))
    while batch := list(islice(keys, BATCH)):
        measure(batch)


def measure(query_ids: Collection[int]) -> None:
    """Keep with each query's queue item how far apart its people are, and the LLM from them, or from an import where no person has
    spoken; the order that asks for it follows. Adjudicated queries are at rest. 1,000 keys at most."""
    items = list(QueueItem.objects.filter(query__in=query_ids, agent__isnull=True))
    if not items:
        return
    by_query: dict[int, list[Label]] = defaultdict(list)
    for label in Label.objects.current().filter(query__in=query_ids):
        by_query[label.query_id].append(label)
    ordering = QueueSettings.objects.filter(order=QueueSettings.Order.DISAGREEMENT)
    ordered = set(ordering.filter(pool__in={item.pool_id for item in items}).values_list("pool_id", flat=True))
    before = [(item.disagreement, item.llm_disagreement, item.rank) for item in items]
    merged = voices.merges({item.pool_id for item in items})
    for item in items:
        of = defaultdict(list)
        for label in by_query[item.query_id]:
            of[label.source].append(label)
        steps = merged[item.pool_id]
        people = [answer(labels_of_person, steps) for labels_of_person in by_person(of[Label.Source.HUMAN]).values()]
        machine = [answer([label], steps) for label in of[Label.Source.LLM]]
        judged = people or [answer([label], steps) for label in of[Label.Source.IMPORT]]
        item.disagreement = 0.0
        if not of[Label.Source.ADJUDICATION]:
            item.disagreement = _mean([between(a, b) for a, b in combinations(people, 2)])
        item.llm_disagreement = _mean([between(a, b) for a in machine for b in judged])
        if item.pool_id in ordered:
            item.rank = item.random_key * CHANCE - item.llm_disagreement
    now = ((item.disagreement, item.llm_disagreement, item.rank) for item in items)
    changed = [item for item, old, new in zip(items, before, now, strict=True) if old != new]
    QueueItem.objects.bulk_update(changed, ["disagreement", "llm_disagreement", "rank"])
