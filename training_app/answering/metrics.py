"""What Prometheus reads of answers and requests.

Answers are counted where decisions are written, in bulk and in the writer's thread, so that no request pays. A request is counted once
its answer was sent.

Each process counts in files of its own below DATA_DIR/metrics (prometheus-client's multiprocess mode), and whichever is asked adds up
those of its machine. Nothing is loaded, counted or kept where METRICS is off.
"""

import os
import threading
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from django.conf import settings

from training_app.answering import meters, serving
from training_app.answering.meters import Meter
from training_app.models import Decision

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Counter, Histogram

    from training_app.answering.decisions import Pending

#: Upper bounds of the histogram's buckets, in seconds.
BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)
REQUEST_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class _Counts(NamedTuple):
    decisions: "Counter"
    agents: "Counter"
    abstained: "Counter"
    dropped: "Counter"
    seconds: "Histogram"
    requests: "Counter"
    request_seconds: "Histogram"


def folder() -> Path:
    """Where the processes of this machine count."""
    return Path(settings.DATA_DIR) / "metrics"


#: Threads that count at once make the counters once: prometheus-client refuses a second one of a name.
_making = threading.Lock()


def _counts() -> _Counts:
    with _making:
        return _made()


@cache
def _made() -> _Counts:
    place = folder()
    place.mkdir(parents=True, exist_ok=True)
    for path in place.glob("*.db"):
        number = path.stem.rpartition("_")[2]
        if number.isdigit() and not _lives(int(number)):
            path.unlink(missing_ok=True)
    from prometheus_client import Counter, Histogram

    def made(kind: Any, meter: Meter, **options: Any) -> Any:
        return kind(meter.name, meter.says.rstrip("."), meter.labels, **options)

    return _Counts(
        made(Counter, meters.DECISIONS), made(Counter, meters.AGENT_DECISIONS), made(Counter, meters.ABSTENTIONS),
        made(Counter, meters.DROPPED), made(Histogram, meters.SECONDS, buckets=BUCKETS),
        made(Counter, meters.REQUESTS), made(Histogram, meters.REQUEST_SECONDS, buckets=REQUEST_BUCKETS),
    )  # fmt: skip


def count(decisions: "Sequence[Pending]") -> None:
    """Count answers that were written."""
    if not settings.METRICS:
        return
    counts, state = _counts(), serving.served()
    pools = {pool.pk: pool for pool in state.pools.values()}
    for decision in decisions:
        pool = pools.get(decision.pool)
        slug = pool.slug if pool else str(decision.pool)
        if decision.model is None:
            model = Decision.DESCRIPTIONS
        else:
            model = (
                pool.model.name
                if pool and pool.model and pool.model.pk == decision.model
                else f"model {decision.model}"
            )
        counts.decisions.labels(slug, model, decision.route.stop_reason).inc()
        counts.seconds.labels(slug).observe(decision.microseconds / 1e6)
        for agent in decision.route.agents:
            counts.agents.labels(slug, pool.names.get(agent, str(agent)) if pool else str(agent)).inc()
        if decision.route.abstained:
            counts.abstained.labels(slug, model).inc()


def dropped(number: int) -> None:
    """Count answers that were lost."""
    if settings.METRICS and number:
        _counts().dropped.inc(number)


def requested(route: str, method: str, status: int, seconds: float) -> None:
    """Count a request that was answered. `route` is a template, so that there are few."""
    counts = _counts()
    counts.requests.labels(route, method if method in METHODS else "other", str(status)).inc()
    counts.request_seconds.labels(route).observe(seconds)


def added_up() -> "CollectorRegistry":
    """What every process of this machine has counted, added up. Raises nothing where none has."""
    _counts()
    from prometheus_client import CollectorRegistry
    from prometheus_client.multiprocess import MultiProcessCollector

    collectors = CollectorRegistry()
    MultiProcessCollector(collectors, path=str(folder()))
    return collectors


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
