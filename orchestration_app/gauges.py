"""How episodes stand in the database, as Prometheus reads it."""

from collections.abc import Mapping, Sequence

from django.db.models import Count, Sum

from orchestration_app.models import Episode
from training_app.answering.meters import GAUGE, Gauge, Meter

EPISODES = Meter("routerweb_episodes", GAUGE, ("pool", "status"), "episodes", "Episodes by status.")
SPEND = Meter("routerweb_spend", GAUGE, ("pool",), "the pool's currency", "What the episodes that are kept have cost.")

Series = list[tuple[tuple[str, ...], float]]


def by_status(pools: Mapping[int, str]) -> Series:
    """Episodes by pool and status."""
    rows = Episode.objects.values_list("pool", "status").annotate(n=Count("pk")).order_by()
    return [((pools.get(pool, str(pool)), status), n) for pool, status, n in rows]


def spent(pools: Mapping[int, str]) -> Series:
    """What each pool's episodes have cost."""
    rows = Episode.objects.values_list("pool").annotate(total=Sum("cost")).order_by()
    return [((pools.get(pool, str(pool)),), float(cost or 0)) for pool, cost in rows]


def gauges() -> Sequence[Gauge]:
    """For the hook `gauges`."""
    return (Gauge(EPISODES, by_status), Gauge(SPEND, spent))
