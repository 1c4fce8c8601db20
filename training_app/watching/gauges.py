"""How things stand in the database, as Prometheus reads it: asked for when it is read, and by nobody else."""

from collections.abc import Iterator
from typing import Any

from django.db.models import Count
from django_q.brokers import get_broker

from agents_app.models import Pool
from datasets_app.models import Query
from routerweb import hooks
from training_app.answering import decisions, meters
from training_app.answering.meters import Meter
from training_app.models import Run

#: The queues of the two kinds of worker.
CLUSTERS = ("train", "default")


class Gauges:
    """A collector of prometheus-client: one reading of all of them, in a few database queries and one for each queue."""

    def collect(self) -> Iterator[Any]:
        """Each gauge with its values now."""
        pools = dict(Pool.objects.values_list("pk", "slug"))
        yield _family(meters.WAITING, [((), len(decisions.buffer))])
        yield _family(meters.JOBS, [((one,), get_broker(one).queue_size()) for one in CLUSTERS])
        queries = Query.objects.alive().values_list("dataset__pool", "state").annotate(n=Count("pk")).order_by()
        yield _family(meters.QUERIES, [((_slug(pools, pool), state), n) for pool, state, n in queries])
        runs = Run.objects.values_list("pool", "status").annotate(n=Count("pk")).order_by()
        yield _family(meters.RUNS, [((_slug(pools, pool), status), n) for pool, status, n in runs])
        for gauge in (gauge for added in hooks.gauges() for gauge in added):
            yield _family(gauge.meter, gauge.read(pools))


def _family(meter: Meter, values: list[tuple[tuple[str, ...], float]]) -> Any:
    from prometheus_client.core import GaugeMetricFamily

    family = GaugeMetricFamily(meter.name, meter.says.rstrip("."), labels=meter.labels)
    for labels, value in values:
        family.add_metric(labels, value)
    return family


def _slug(pools: dict[int, str], pool: int) -> str:
    return pools.get(pool, str(pool))
