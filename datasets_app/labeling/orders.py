"""In which order the queue asks: each order is one number per item, the lowest first, kept where the queue's index finds it.

Orders that choose (uncertain, novel, varied) see only what a model has scored; the rest follows at random. A share of the items is
drawn at random whatever the order, because what was chosen is a biased sample: only that share is fair to measure on.
"""

from collections.abc import Sequence
from itertools import islice

from django.db.models import F, QuerySet, Value
from django.db.models.functions import Coalesce

from agents_app.models import Pool
from datasets_app.labeling import queue, talks
from datasets_app.labels.disagreement import CHANCE
from datasets_app.labels.suggestions import uncertainty
from datasets_app.models import Query, QueueItem, QueueSettings, Suggestion
from training_app.engine.judging import asking_order

BATCH = 1_000
POOLED = 2_000  # the most uncertain items that the varied order chooses from, and the newest labeled ones that they are to be unlike
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


def renew(pool: Pool) -> None:
    """Bring a varied order in line with what a model has just said: which query comes when depends on all of them."""
    settings = QueueSettings.objects.filter(pool=pool, order=Order.DIVERSE).first()
    if settings is not None:
        arrange(settings)


def _varied(settings: QueueSettings, items: "QuerySet[QueueItem]") -> None:
    scored = items.filter(queue.OPEN, uncertainty__isnull=False).order_by("-uncertainty", "random_key")[:POOLED]
    rows = list(scored.values_list("pk", "query__text", "query__suggestion__scores"))
    if not rows:
        items.update(rank=F("random_key"))
        return
    gold = Query.objects.filter(dataset__pool=settings.pool, state=Query.State.GOLD).order_by("-pk")
    labeled = asking_order.features(list(gold.values_list("text", flat=True)[:POOLED]))
    doubt = asking_order.of_scores([scores or {} for _key, _text, scores in rows])
    order = asking_order.varied(asking_order.features([text for _key, text, _scores in rows]), doubt, labeled)
    _rank(items, [(rows[place][0], float(rank) - len(order)) for rank, place in enumerate(order)])
