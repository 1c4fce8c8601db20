"""Queries come into the queue: window by window of their keys, each in a transaction of its own, one filler of a pool at a time.

What a window costs does not depend on how large the pool is. Whoever waits for a page fills a few items; importers fill what they
brought, and the rest is filled by the clock.
"""

import hashlib
from collections.abc import Collection, Iterator, Sequence

from django.db import transaction
from django.db.models import Exists, Max, OuterRef, QuerySet

from agents_app.background_work import unhurried
from agents_app.models import Pool
from datasets_app.labeling import talks
from datasets_app.labels import disagreement
from datasets_app.models import Label, Query, QueueItem, QueueSettings, TracedTurn

#: Keys that one transaction looks at, and items that it makes at most.
WINDOW, BATCH = 5_000, 1_000
#: Keys below the last one filled that are looked at again: an importer that commits late may have taken them.
LOOK_BACK = 10_000


def settings_of(pool: Pool) -> QueueSettings:
    """The pool's queue settings; the defaults, not stored, where there are none yet."""
    stored = QueueSettings.objects.select_related("pool", "order_agent").filter(pool=pool).first()
    return stored or QueueSettings(pool=pool)


def stored_settings(pool: Pool) -> QueueSettings:
    """The pool's queue settings, stored where they were not yet."""
    return QueueSettings.objects.select_related("pool", "order_agent").get_or_create(pool=pool)[0]


def lots(seed: int, text: str) -> tuple[float, int, int, int]:
    """The place in the random order (0 to 1) and the overlap, blind and evaluation lots (0 to 9,999) of a query.

    A pure function of the text's hash, and for the order of the seed: the same on every machine, and independent of each other.
    """
    digest = hashlib.sha256(text.encode()).digest()
    order = hashlib.sha256(f"{seed}:{text}".encode()).digest()
    numbers = [int.from_bytes(digest[i : i + 4], "big") % 10_000 for i in (0, 4, 8)]
    return int.from_bytes(order[:6], "big") / 2**48, numbers[0], numbers[1], numbers[2]


def needed(settings: QueueSettings, overlap_lot: int) -> int:
    """How many people are to answer an item of that lot."""
    return settings.overlap if overlap_lot < round(settings.overlap_share * 10_000) else 1


def fill(
    pool: Pool,
    *,
    everything: bool = False,
    look_back: bool = False,
    limit: int | None = None,
    wait: bool = True,
    settings: QueueSettings | None = None,
) -> int:
    """Put queries that have no item yet into the queue; returns how many came in.

    A query that came with its gold, or as a trace, is not asked about until somebody sends it. Looked at are the queries newer than
    the last that came in; with `look_back` LOOK_BACK keys before it too, and with `everything` all of them. `limit`: about how many
    items at most, for somebody who waits. Then, and without `wait`, it ends where somebody else fills.
    """
    settings = settings or stored_settings(pool)
    newest = Query.objects.aggregate(newest=Max("pk"))["newest"] or 0
    if newest <= settings.filled_to and not (everything or look_back):
        return 0
    at = 0 if everything else max(0, settings.filled_to - LOOK_BACK) if look_back else settings.filled_to
    windows = _windows(settings, at, newest, limit=limit, wait=wait)
    return sum(unhurried.each(windows) if limit is None else windows)  # with a limit somebody waits


def fill_all() -> int:
    """Every pool's new queries, for the clock; how many came in."""
    newest = Query.objects.aggregate(newest=Max("pk"))["newest"] or 0
    behind = Pool.objects.in_use().filter(queue_settings__filled_to__lt=newest)
    return sum(fill(pool, look_back=True, wait=False) for pool in behind)


def fill_all_again() -> int:
    """Look at every query of every pool, for the clock: what an importer committed very late is found here."""
    known = Pool.objects.in_use().filter(queue_settings__isnull=False)
    return sum(fill(pool, everything=True, wait=False) for pool in known)


def fill_these(pool: Pool, query_ids: Collection[int]) -> int:
    """Put those of these queries that have no item yet into the queue, and no others; 1,000 keys at most."""
    rows = list(_rows(pool).filter(pk__in=query_ids))
    return _make(stored_settings(pool), rows) if rows else 0


def not_filled(pool: Pool, filled_to: int | None = None) -> "QuerySet[Query]":
    """Queries that have come in since the queue was filled last, `filled_to` that key, and will be asked about once it is."""
    last = settings_of(pool).filled_to if filled_to is None else filled_to
    return _missing(pool).filter(COMES, pk__gt=last).exclude(state=Query.State.GOLD)


def filled_to(pools: Collection[Pool]) -> dict[int, int]:
    """Pool's key → the key of the query to which its queue was filled last. One database query."""
    last = dict.fromkeys((pool.pk for pool in pools), 0)
    return last | dict(QueueSettings.objects.filter(pool__in=pools).order_by().values_list("pool", "filled_to"))


#: Traffic is more than anybody labels: what came as a trace waits until somebody sends it.
COMES = ~Exists(TracedTurn.objects.filter(query=OuterRef("pk")))


def _missing(pool: Pool) -> "QuerySet[Query]":
    return Query.objects.of(pool).exclude(Exists(QueueItem.objects.filter(query=OuterRef("pk"), agent__isnull=True)))


#: What an item is made of: the query's key, text hash, state, turn and group.
Row = tuple[int, str, str, int | None, str]


def _rows(pool: Pool) -> "QuerySet[Query, Row]":
    return _missing(pool).order_by("pk").values_list("pk", "text_hash", "state", "turn", "group__key")


def _fill_window(settings: QueueSettings, after: int, limit: int, *, wait: bool) -> tuple[int, int] | None:
    """Fill from the keys `after` one: (the key up to which all is filled now, how many came in). None: somebody else fills.

    The row of the settings is held meanwhile, so that two fillers never make the same items; on SQLite the transaction does that.
    """
    with transaction.atomic():
        rows = QueueSettings.objects.select_for_update(of=("self",), no_key=True, skip_locked=not wait)
        held = rows.filter(pk=settings.pk).first()
        if held is None:
            return None
        newest = Query.objects.aggregate(newest=Max("pk"))["newest"] or 0  # first: what comes in later is newer
        window = list(_rows(settings.pool).filter(COMES, pk__gt=after, pk__lte=after + WINDOW)[:limit])
        count = _make(held, window) if window else 0
        last = window[-1][0] if len(window) == limit else min(after + WINDOW, newest)
        QueueSettings.objects.filter(pk=settings.pk, filled_to__lt=last).update(filled_to=last)
        return max(last, after + 1), count


def _windows(settings: QueueSettings, at: int, newest: int, *, limit: int | None, wait: bool) -> Iterator[int]:
    """Fill window by window up to the key `newest`, or to about `limit` items; how many came in with each."""
    count = 0
    while at < newest and (limit is None or count < limit):
        most = BATCH if limit is None else min(BATCH, limit - count)
        window = _fill_window(settings, at, most, wait=wait and limit is None)
        if window is None:
            break
        at, came = window
        count += came
        yield came


def _make(settings: QueueSettings, rows: Sequence[Row]) -> int:
    items = []
    for key, text_hash, state, turn, group in rows:
        random_key, overlap_lot, blind_lot, evaluation_lot = lots(settings.seed, talks.drawn_by(text_hash, turn, group))
        wanted = state != Query.State.GOLD
        items.append(
            QueueItem(
                pool_id=settings.pool_id,
                query_id=key,
                wanted=wanted,
                needed=needed(settings, overlap_lot) if wanted else 0,
                rank=float(key) if settings.order == QueueSettings.Order.OLDEST else random_key,
                random_key=random_key,
                overlap_lot=overlap_lot,
                blind_lot=blind_lot,
                evaluation_lot=evaluation_lot,
            )
        )
    QueueItem.objects.bulk_create(items, ignore_conflicts=True)
    keys = [row[0] for row in rows]
    spoken = Label.objects.current().filter(query__in=keys, source__in=(Label.Source.LLM, Label.Source.HUMAN))
    disagreement.measure(list(spoken.values_list("query_id", flat=True).distinct()))
    return len(items)
