"""What Prometheus is told of, one meter each: name, kind, labels, unit and meaning. Counted in `metrics`, read off the database in
`watching/gauges`; `python -m training_app.answering.meters > docs/metrics.md` makes the page of reference.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from routerweb import hooks

COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"


@dataclass(frozen=True, slots=True)
class Meter:
    """One meter. `name` is as prometheus-client is given it; in Prometheus counters end on `_total`. `unit` is of its value."""

    name: str
    kind: str
    labels: tuple[str, ...]
    unit: str
    says: str

    @property
    def shown(self) -> str:
        """Its name in Prometheus."""
        return f"{self.name}_total" if self.kind == COUNTER else self.name


class Gauge(NamedTuple):
    """A meter that is read off the database: `read` takes the pools' slugs by key and gives (labels, value) of each series."""

    meter: Meter
    read: Callable[[Mapping[int, str]], list[tuple[tuple[str, ...], float]]]


#: What labels hold.
LABELS = {
    "pool": "the pool's slug",
    "model": "the version that answered, `support-3`",
    "stop_reason": "`stop`, `none`, `max_agents` or `abstained`",
    "agent": "the agent's name",
    "state": "of a query: `unlabeled`, `draft`, `labeled`, `disagreement`, `gold`; of a connection: PostgreSQL's own words",
    "status": "of a job, a run or an episode: `queued`, `running`, `done`, `failed`, `cancelled`; of a request: HTTP's number",
    "cluster": "`train` or `default`, the queue of one kind of worker",
    "route": "the address as a template, `/api/models/<name>/`; `none` if there is none",
    "method": "`GET`, `POST` and so on; `other` if HTTP has no such method",
    "kind": "of a job: `run`, `import` and so on",
    "schedule": "what a scheduled job does, as the admin's list of schedules names it",
}

DECISIONS = Meter(
    "routerweb_decisions", COUNTER, ("pool", "model", "stop_reason"), "answers", "Answers that were stored."
)
AGENT_DECISIONS = Meter(
    "routerweb_agent_decisions", COUNTER, ("pool", "agent"), "answers", "Answers that named an agent."
)
ABSTENTIONS = Meter(
    "routerweb_abstentions", COUNTER, ("pool", "model"), "answers", "Answers in which the router abstained."
)
DROPPED = Meter(
    "routerweb_decisions_dropped",
    COUNTER,
    (),
    "answers",
    "Answers that were not stored, because a buffer was full or a process was killed.",
)
SECONDS = Meter(
    "routerweb_route_seconds", HISTOGRAM, ("pool",), "seconds", "Time of a route in the router, without HTTP."
)
REQUESTS = Meter(
    "routerweb_requests",
    COUNTER,
    ("route", "method", "status"),
    "requests",
    "Requests that were answered; status 0 if the client left first.",
)
REQUEST_SECONDS = Meter(
    "routerweb_request_seconds",
    HISTOGRAM,
    ("route",),
    "seconds",
    "Time from a request's head to the end of its answer.",
)

WAITING = Meter(
    "routerweb_decisions_waiting", GAUGE, (), "answers", "Answers that the asked process has not stored yet."
)
JOBS = Meter("routerweb_jobs_waiting", GAUGE, ("cluster",), "jobs", "Jobs in a queue that no worker has claimed.")
JOB_ROWS = Meter("routerweb_jobs", GAUGE, ("kind", "status"), "jobs", "Jobs that wait or run, by kind.")
OLDEST_JOB = Meter(
    "routerweb_oldest_job_seconds", GAUGE, ("kind",), "seconds", "How long the oldest waiting job has waited."
)
CLUSTER_SILENT = Meter(
    "routerweb_cluster_silent_seconds",
    GAUGE,
    ("cluster",),
    "seconds",
    "Time since a worker of that kind last did anything; no series while one is busy.",
)
SCHEDULE_TROUBLE = Meter(
    "routerweb_schedule_trouble_seconds",
    GAUGE,
    ("schedule",),
    "seconds",
    "How long a scheduled job has failed in a row, or has not run; no series while all is well.",
)
DATABASE_UP = Meter(
    "routerweb_database_up",
    GAUGE,
    (),
    "0 or 1",
    "Whether the database answers. If it does not, metrics that come from it are missing.",
)
CONNECTIONS = Meter(
    "routerweb_database_connections",
    GAUGE,
    ("state",),
    "connections",
    "Connections to the database by state, of all programs; PostgreSQL only.",
)
QUERIES = Meter("routerweb_queries", GAUGE, ("pool", "state"), "queries", "Queries by state.")
RUNS = Meter("routerweb_runs", GAUGE, ("pool", "status"), "runs", "Training runs by status.")

#: Counted by each web process; whichever is asked adds up those of its machine.
COUNTED = (DECISIONS, AGENT_DECISIONS, ABSTENTIONS, DROPPED, SECONDS, REQUESTS, REQUEST_SECONDS)
#: Read when they are asked for: the first of the process that is asked, the others of the database, so the same whoever is asked.
OWN_READ = (
    WAITING,
    DATABASE_UP,
    JOBS,
    JOB_ROWS,
    OLDEST_JOB,
    CLUSTER_SILENT,
    SCHEDULE_TROUBLE,
    CONNECTIONS,
    QUERIES,
    RUNS,
)


def read() -> tuple[Meter, ...]:
    """Every meter that is read off the database, those that packages add among them."""
    return (*OWN_READ, *(gauge.meter for added in hooks.gauges() for gauge in added))


def reference() -> str:
    """The page of the documentation that lists every meter, in Markdown."""
    return "\n".join(
        [
            "# Metrics",
            "",
            "For ops who monitor Routerweb: every metric that `/metrics` offers to Prometheus with `METRICS=1`, and what it means.",
            "[Operations](operations.md#metrics) says how to set it up.",
            "",
            "This page is made from the code: `python -m training_app.answering.meters > docs/metrics.md`.",
            "",
            "## Counted by the processes of a machine",
            "",
            "The process that answers adds up the counts of its machine. With several machines, scrape one address of each, and sum.",
            "",
            *_table(COUNTED),
            "",
            "A histogram has the series `_bucket` (by `le`, seconds), `_sum` and `_count`.",
            "",
            "## Read at each scrape",
            "",
            f"`{WAITING.shown}` is a figure of the process that answers. The others come from the database: use those of one",
            "machine, not a sum.",
            "",
            *_table(read()),
            "",
            "## Labels",
            "",
            "| label | values |",
            "| --- | --- |",
            *(f"| `{name}` | {held} |" for name, held in LABELS.items()),
            "",
        ]
    )


def _table(meters: tuple[Meter, ...]) -> list[str]:
    rows = ["| metric | kind | unit | meaning |", "| --- | --- | --- | --- |"]
    for meter in meters:
        labels = f"{{{', '.join(meter.labels)}}}" if meter.labels else ""
        rows.append(f"| `{meter.shown}{labels}` | {meter.kind} | {meter.unit} | {meter.says} |")
    return rows


if __name__ == "__main__":
    import os

    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "routerweb.settings")
    django.setup()
    print(reference(), end="")
