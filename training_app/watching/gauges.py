"""How things stand in the database, as Prometheus reads it: asked for when it is read, and by nobody else."""

from collections.abc import Iterator
from typing import Any

from django.db.models import Count, Sum

from agents_app.models import Pool
from datasets_app.models import Query
from training_app.answering import decisions
from training_app.models import Episode, Run


class Gauges:
    """A collector of prometheus-client: one reading of all of them, in five database queries."""

    def collect(self) -> Iterator[Any]:
        """Each gauge with its values now."""
        from prometheus_client.core import GaugeMetricFamily

        pools = dict(Pool.objects.values_list("pk", "slug"))
        waiting = GaugeMetricFamily("routerweb_decisions_waiting", "Answers that this process has not written yet")
        waiting.add_metric([], len(decisions.buffer))
        yield waiting
        states = GaugeMetricFamily("routerweb_queries", "Queries by state", labels=["pool", "state"])
        kept = Query.objects.alive()
        for pool, state, number in kept.values_list("dataset__pool", "state").annotate(n=Count("pk")).order_by():
            states.add_metric([pools.get(pool, str(pool)), state], number)
        yield states
        for name, words, model in (("runs", "Runs by status", Run), ("episodes", "Episodes by status", Episode)):
            family = GaugeMetricFamily(f"routerweb_{name}", words, labels=["pool", "status"])
            rows = model.objects.values_list("pool", "status").annotate(n=Count("pk")).order_by()
            for pool, status, number in rows:
                family.add_metric([pools.get(pool, str(pool)), status], number)
            yield family
        spend = GaugeMetricFamily(
            "routerweb_spend", "What episodes cost so far, in the pool's currency", labels=["pool"]
        )
        for pool, cost in Episode.objects.values_list("pool").annotate(total=Sum("cost")).order_by():
            spend.add_metric([pools.get(pool, str(pool))], float(cost or 0))
        yield spend
