"""In which order the queue asks: each order is one number per item, the lowest first, kept where the queue's index finds it.

Orders that choose (uncertain, novel, varied) see only what a model has scored; the rest follows at random. A share of the items is
drawn at random whatever the order, because what was chosen is a biased sample: only that share is fair to measure on.
"""

from collections.abc import Sequence
from itertools import islice
from zlib import crc32

import numpy as np
from django.db.models import F, QuerySet, Value
from django.db.models.functions import Coalesce
from numpy.typing import NDArray

from datasets_app.labels import queue, talks
from datasets_app.labels.disagreement import CHANCE
from datasets_app.labels.suggestions import uncertainty
from datasets_app.models import QueueItem, QueueSettings, Suggestion

BATCH = 1_000
POOLED = 2_000  # the most uncertain items that the varied order chooses from
FEATURES = 512
Floats = NDArray[np.float64]
Order = QueueSettings.Order


def arrange(settings: QueueSettings) -> None:
    """Bring every open item's rank in line with the settings; one UPDATE where the database can say it."""
    items = QueueItem.objects.filter(pool=settings.pool, agent__isnull=True)
    _shuffle(settings, items)
    if settings.order == Order.RANDOM:
        items.update(rank=F("random_key"))
    elif settings.order == Order.OLDEST:
        items.update(rank=F("query_id"))
    elif settings.order == Order.DISAGREEMENT:
        items.update(rank=F("random_key") * CHANCE - F("llm_disagreement"))
    elif settings.order == Order.NOVELTY:
        items.update(rank=_behind(F("novelty")))
    elif settings.order == Order.UNCERTAINTY and settings.order_agent is None:
        items.update(rank=_behind(F("uncertainty")))
    elif settings.order == Order.UNCERTAINTY:
        _by_agent(settings, items)
    else:
        _varied(settings, items)


def _behind(column: F) -> Coalesce:
    """The highest first, and what has no value after all of them, at random."""
    return Coalesce(Value(0.0) - column, F("random_key") + 1.0)


def _shuffle(settings: QueueSettings, items: "QuerySet[QueueItem]") -> None:
    """Draw the random order of this seed, where it is another one."""
    first = items.order_by("pk").select_related("query__group").first()
    if first is None or first.random_key == _place(
        settings, first.query.text_hash, first.query.turn, first.query.group.key
    ):
        return
    rows = items.order_by("pk").values_list("pk", "query__text_hash", "query__turn", "query__group__key")
    last = 0
    # Page by page: on SQLite a write beside an open read fails once another process has written.
    while batch := list(rows.filter(pk__gt=last)[:BATCH]):
        last = batch[-1][0]
        drawn = [
            QueueItem(pk=key, random_key=_place(settings, text_hash, turn, group))
            for key, text_hash, turn, group in batch
        ]
        QueueItem.objects.bulk_update(drawn, ["random_key"])


def _place(settings: QueueSettings, text_hash: str, turn: int | None, group: str) -> float:
    return queue.lots(settings.seed, talks.drawn_by(text_hash, turn, group))[0]


def _rank(items: "QuerySet[QueueItem]", ranks: Sequence[tuple[int, float]]) -> None:
    """Give these items (by key) their ranks, and all others one behind them."""
    items.update(rank=F("random_key") + 1.0)
    pairs = iter(ranks)
    while batch := list(islice(pairs, BATCH)):
        QueueItem.objects.bulk_update([QueueItem(pk=key, rank=rank) for key, rank in batch], ["rank"])


def _by_agent(settings: QueueSettings, items: "QuerySet[QueueItem]") -> None:
    assert settings.order_agent is not None
    number = settings.order_agent.number
    scores = Suggestion.objects.filter(query__queue_items__in=items.filter(queue.OPEN)).values_list(
        "query_id", "scores"
    )
    key_of = dict(items.filter(queue.OPEN).values_list("query_id", "pk"))
    ranks = []
    for query, of in scores.iterator(chunk_size=BATCH):
        if str(number) in of:
            ranks.append((key_of[query], -uncertainty({number: float(of[str(number)])})))
    _rank(items, ranks)


def _varied(settings: QueueSettings, items: "QuerySet[QueueItem]") -> None:
    scored = items.filter(queue.OPEN, uncertainty__isnull=False).order_by("-uncertainty", "random_key")[:POOLED]
    rows = list(scored.values_list("pk", "uncertainty", "query__text"))
    if not rows:
        items.update(rank=F("random_key"))
        return
    order = diverse([text for _key, _doubt, text in rows], np.array([doubt for _key, doubt, _text in rows]))
    _rank(items, [(rows[place][0], float(rank) - len(order)) for rank, place in enumerate(order)])


def features(texts: Sequence[str]) -> Floats:
    """Texts as unit vectors of hashed character trigrams, (N, 512): near enough to tell like from unlike, in numpy alone."""
    found = np.zeros((len(texts), FEATURES))
    for row, text in enumerate(texts):
        padded = f"  {text.casefold()[:500]} "
        for at in range(len(padded) - 2):
            found[row, crc32(padded[at : at + 3].encode()) % FEATURES] += 1
    found = np.sqrt(found)
    norms = np.linalg.norm(found, axis=1, keepdims=True)
    return found / np.where(norms == 0, 1, norms)


def diverse(texts: Sequence[str], doubt: Floats, weight: float = 0.5) -> list[int]:
    """Indices in an order in which every beginning is both uncertain and varied.

    Greedy maximal marginal relevance (Carbonell and Goldstein 1998, SIGIR): next comes the text with the highest
    (1 − w)·doubt − w·(likeness to the nearest that was taken); doubt is scaled to 0 to 1.
    """
    vectors = features(texts)
    scale = doubt.max() or 1.0
    near = np.zeros(len(texts))
    left = np.ones(len(texts), dtype=bool)
    order = []
    for _turn in range(len(texts)):
        worth = np.where(left, (1 - weight) * doubt / scale - weight * near, -np.inf)
        best = int(worth.argmax())
        order.append(best)
        left[best] = False
        near = np.maximum(near, vectors @ vectors[best])
    return order
