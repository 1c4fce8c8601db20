"""How things stand in the database, as Prometheus reads it: asked for when it is read, and by nobody else."""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

from django.db import InterfaceError, OperationalError, connection
from django.db.models import Case, Count, F, Max, Min, Q, When
from django.db.models.functions import Coalesce, Now
from django.utils import timezone
from django_q.brokers import get_broker

from agents_app.background_work import jobs, schedules
from agents_app.clusters import signs
from agents_app.models import ClusterSign, Pool
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
        """Each gauge with its values now; of the database nothing while it is away."""
        yield _family(meters.WAITING, [((), len(decisions.buffer))])
        try:
            stored = list(self._stored())
        except (OperationalError, InterfaceError):
            yield _family(meters.DATABASE_UP, [((), 0.0)])
            return
        yield _family(meters.DATABASE_UP, [((), 1.0)])
        yield from stored

    def _stored(self) -> Iterator[Any]:
        pools = dict(Pool.objects.values_list("pk", "slug"))
        yield _family(meters.JOBS, [((cluster,), get_broker(cluster).queue_size()) for cluster in CLUSTERS])
        yield from _of_jobs()
        yield _family(meters.CONNECTIONS, _connections())
        queries = Query.objects.alive().values_list("dataset__pool", "state").annotate(n=Count("pk")).order_by()
        yield _family(meters.QUERIES, [((_slug(pools, pool), state), n) for pool, state, n in queries])
        runs = Run.objects.values_list("pool", "status").annotate(n=Count("pk")).order_by()
        # Nought too: an alert on the first run that fails sees that there were none.
        counts = {(slug, status): 0 for slug in pools.values() for status in Run.Status.values}
        counts |= {(_slug(pools, pool), status): n for pool, status, n in runs}
        yield _family(meters.RUNS, list(counts.items()))
        for gauge in (gauge for added in hooks.gauges() for gauge in added):
            yield _family(gauge.meter, gauge.read(pools))


def _of_jobs() -> Iterator[Any]:
    rows: list[tuple[tuple[str, ...], float]] = []
    oldest: list[tuple[tuple[str, ...], float]] = []
    for kind in jobs.kinds().values():
        all_rows = kind.model._default_manager.order_by()
        counts = all_rows.filter(status__in=(jobs.QUEUED, jobs.RUNNING)).values_list("status").annotate(n=Count("pk"))
        rows += [((kind.name, status), n) for status, n in counts]
        waits = all_rows.filter(status=jobs.QUEUED).aggregate(waits=Max(Now() - F("created_at")))["waits"]
        oldest.append(((kind.name,), waits.total_seconds() if waits else 0.0))
    yield _family(meters.JOB_ROWS, rows)
    yield _family(meters.OLDEST_JOB, oldest)
    yield _family(meters.CLUSTER_SILENT, _silent())
    now = timezone.now()
    troubles = schedules.troubles(timedelta())
    seconds = [((trouble.work.title,), (now - trouble.since).total_seconds()) for trouble in troubles]
    yield _family(meters.SCHEDULE_TROUBLE, seconds)


def _silent() -> list[tuple[tuple[str, ...], float]]:
    """For each queue without a busy worker, for how long nothing was done. What a guard says of its workers holds while it gives
    signs."""
    worked_at = Case(When(busy__gt=0, then="guarded_at"), default=Coalesce("executed_at", "restarted_at"))
    busy = Count("pk", filter=Q(busy__gt=0, guarded_at__gt=Now() - signs.ALIVE))
    clusters = ClusterSign.objects.order_by().values_list("queue").annotate(at_work=busy, silent=Min(Now() - worked_at))
    return [((queue,), silent.total_seconds() if silent else 0.0) for queue, at_work, silent in clusters if not at_work]


def _connections() -> list[tuple[tuple[str, ...], float]]:
    if connection.vendor != "postgresql":
        return []
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT coalesce(state, 'other'), count(*) FROM pg_stat_activity WHERE datname = current_database() GROUP BY 1"
        )
        return [((str(state),), float(n)) for state, n in cursor.fetchall()]


def _family(meter: Meter, values: Sequence[tuple[tuple[str, ...], float]]) -> Any:
    from prometheus_client.core import GaugeMetricFamily

    family = GaugeMetricFamily(meter.name, meter.says.rstrip("."), labels=meter.labels)
    for labels, value in values:
        family.add_metric(labels, value)
    return family


def _slug(pools: dict[int, str], pool: int) -> str:
    return pools.get(pool, str(pool))
