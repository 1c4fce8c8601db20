"""`python -m benchmarks.scale.sizes > docs/scale.md` computes how many machines an installation needs, from measured costs."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cost:
    """What one thing costs: the figure, its unit, and the command that measures it."""

    name: str
    figure: float
    unit: str
    command: str


STORED, NODE = "python -m benchmarks.scale.stored", "python -m benchmarks.scale.node"
HTTP = "benchmarks/http/README.md"
FAST = Cost("a route without the sentence encoder, decision stored", 1000 / 1771, "ms of a core", HTTP)
READING = Cost("what the sentence encoder adds to a text of nine words", 2.0, "ms of a core", HTTP)
WRITING = Cost("a stored decision, for PostgreSQL", 73, "µs of a core", STORED)
BYTES = Cost("a stored decision on disk, with its indexes", 681, "bytes", STORED)
WEB_MB = Cost("a web process with one small model, after its pages were opened", 250, "MB", NODE)
ROWS_MB = Cost("the sentence encoder's share of a model's thousand commonest words, ready", 27, "MB", "token_rows.py")
KEEPER_MB = Cost("the supervising processes of one machine", 10, "MB", NODE)
WORKERS_MB = Cost("job cluster, training cluster and episodes, idle", 479, "MB", NODE)
CONNECTIONS = Cost("connections of a web process", 7, "", NODE)
OTHER_CONNECTIONS = Cost("connections of the workers of a machine", 17, "", NODE)
MODEL_MB = Cost("a model of 20 agents and 1,000 queries", 5, "MB", "make bench-growth")
TRAINING_S = Cost("training on 10,000 queries of 20 agents", 526, "s of a core", "make bench-growth")
COSTS = (
    FAST, READING, WRITING, BYTES, WEB_MB, ROWS_MB, KEEPER_MB, WORKERS_MB, CONNECTIONS, OTHER_CONNECTIONS, MODEL_MB, TRAINING_S,
)  # fmt: skip

#: How busy a core is planned to be, so that a lost machine and an hour of much traffic fit.
BUSY = 0.5
#: Web processes of a machine: one for each core that it has for them.
PER_NODE = 4
DAYS = 90
POOL_SIZE = 4

BEGIN = """# How large an installation gets

For ops who plan an installation: how many machines, how much disk and how many connections it needs. These follow from the cost of one
route, one stored decision and one process. `python -m benchmarks.scale.sizes` makes this page and contains the costs; measure them
on your own machines and change them there.

A **web node** answers routes, the API and pages; its state is the models in memory. **PostgreSQL** stores decisions, labels and
models, and hands jobs to workers. No route waits for it. A **worker node** trains, imports and checks for drift.

## Costs

These costs are from a machine with two cores. Routes were measured while it was idle, the rest while it was busy.
"""

END = """
## What breaks first

1. **Disk.** Every stored decision stays for `DECISION_DAYS`. `DECISION_SHARE` stores a sample; fewer days help as much. From 100
   routes a second on, these two are the cheapest changes.
2. **Retention.** Each day it deletes as many rows as one day writes. With `partition_decisions` it drops whole days instead
   ([by day](operations.md#decisions-in-parts-by-day)).
3. **Memory with many pools.** Each web process holds the model of every pool. Split pools between installations before a process
   outgrows its machine.
4. **Connections**, if each thread holds its own. Use `DATABASE_POOL` or PgBouncer
   ([deployment](deployment.md#connections-to-postgresql)).
5. **PostgreSQL's processor**, at tens of thousands of stored decisions a second. Routerweb does not spread one database over several
   servers: store a share of the decisions.
6. **Training** uses one core per run, two from 20,000 training queries on. More worker nodes train more runs at once; a single run
   gets no faster.
"""


def _row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |\n"


def _head(*cells: str) -> str:
    return _row(*cells) + _row(*["---"] * len(cells))


def _size(gigabytes: float) -> str:
    return (
        f"{gigabytes / 1000:,.1f} TB"
        if gigabytes >= 1000
        else f"{gigabytes:,.1f} GB"
        if gigabytes < 10
        else f"{gigabytes:,.0f} GB"
    )


def processes(routes: int, ms: float) -> int:
    """Web processes for so many routes a second of so many milliseconds; two at least, so that one can be restarted."""
    return max(2, math.ceil(routes * ms / 1000 / BUSY))


def costs() -> str:
    """The table of costs."""
    return _head("what", "cost", "measured by") + "".join(
        _row(
            one.name,
            f"{one.figure:,.2f} {one.unit}" if one.figure < 1 else f"{one.figure:,.0f} {one.unit}".strip(),
            f"`{one.command}`",
        )
        for one in COSTS
    )


def by_routes() -> str:
    """What routes a second need."""
    text = "\n## Routes a second\n\n"
    text += f"This plans cores to be {BUSY:.0%} busy. A web node has {PER_NODE} cores for as many web processes "
    text += f"(`WEB_WORKERS={PER_NODE}`).\nEvery decision is stored, for {DAYS} days.\n\n"
    text += _head(
        "routes a second", "sentence encoder", "web processes", "web nodes", "PostgreSQL's cores for decisions",
        "decisions a day", "disk a day", f"disk in {DAYS} days",
    )  # fmt: skip
    for routes in (100, 1_000, 10_000):
        for encoder in (False, True):
            count = processes(routes, FAST.figure + encoder * READING.figure)
            day = routes * 86_400
            text += _row(
                f"{routes:,}", "yes" if encoder else "no", count, max(2, math.ceil(count / PER_NODE)),
                f"{routes * WRITING.figure / 1e6 / BUSY:.2f}", f"{day / 1e6:,.1f} million", _size(day * BYTES.figure / 1e9),
                _size(day * BYTES.figure / 1e9 * DAYS),
            )  # fmt: skip
    return text


def by_pools() -> str:
    """What pools need."""
    text = "\n## Pools\n\n" + _head(
        "pools", "memory of a web process", f"memory of a web node with {PER_NODE}", "training each once a month"
    )
    for pools in (10, 1_000):
        megabytes = WEB_MB.figure + (pools - 1) * MODEL_MB.figure
        cores = pools * TRAINING_S.figure / (30 * 86_400)
        text += _row(
            f"{pools:,}", _size(megabytes / 1000), _size((PER_NODE * megabytes + KEEPER_MB.figure) / 1000), f"{cores:.3f} cores",
        )  # fmt: skip
    return text


def by_decisions() -> str:
    """What kept decisions need."""
    text = "\n## Stored decisions\n\n"
    text += _head("decisions", "disk", "as a rate over 90 days", "table")
    for power in (6, 7, 8, 9):
        count = 10**power
        text += _row(
            f"10^{power}", _size(count * BYTES.figure / 1e9), f"{count / DAYS / 86_400:,.1f} routes a second",
            "one" if power < 7 else "in parts by day (`partition_decisions`)",
        )  # fmt: skip
    return text


def by_nodes() -> str:
    """Connections to the database."""
    text = "\n## Connections\n\n" + _head(
        "web processes", "worker nodes", "connections", f"with `DATABASE_POOL={POOL_SIZE}`"
    )
    for web, workers in ((2, 1), (12, 2), (60, 4)):
        others = workers * OTHER_CONNECTIONS.figure
        text += _row(web, workers, f"{web * CONNECTIONS.figure + others:,.0f}", f"{web * POOL_SIZE + others:,.0f}")
    return text + "\nPostgreSQL allows 100 connections by default.\n"


def page() -> str:
    """docs/scale.md."""
    return BEGIN + "\n" + costs() + by_routes() + by_pools() + by_decisions() + by_nodes() + END


if __name__ == "__main__":
    print(page(), end="")
