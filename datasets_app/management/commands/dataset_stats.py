"""Show what a pool's data looks like."""

import json
from dataclasses import fields
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from datasets_app.figures import statistics
from datasets_app.management.console import pool_of

COLUMNS = {"train": "train", "val": "val", "test": "test", "": "no split"}


def as_values(statistics_of_pool: statistics.PoolStatistics) -> dict[str, Any]:
    """The figures as JSON can hold them; `dataclasses.asdict` would count the items of a Counter instead of copying it."""
    values = {
        part.name: getattr(statistics_of_pool, part.name)
        for part in fields(statistics_of_pool)
        if part.name != "agents"
    }
    agents = [
        {
            "id": row.agent.id,
            "name": row.agent.name,
            "retired": row.retired,
            "asked": row.asked,
            "required": row.required,
        }
        for row in statistics_of_pool.agents
    ]
    return values | {"agents": agents}


class Command(BaseCommand):
    help = (
        "Show how many queries of a pool are labeled, by whom, in which split, of which set size and for which agents. "
        "Example: python manage.py dataset_stats --pool support"
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--pool", required=True, help="the pool's slug")
        parser.add_argument("--json", action="store_true", help="the figures as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        pool = pool_of(options["pool"])
        described = statistics.describe(pool)
        if options["json"]:
            self.stdout.write(json.dumps(as_values(described), ensure_ascii=False, indent=2))
            return
        write = self.stdout.write
        write(f"{pool.name} ({pool.slug}): {described.queries:,} queries, {described.gold:,} with gold")
        write("  datasets: " + (", ".join(f"{name} {n:,}" for name, n in described.datasets.items()) or "none"))
        write("  states:   " + (", ".join(f"{state} {n:,}" for state, n in sorted(described.states.items())) or "none"))
        write("  labels:   " + (", ".join(f"{name} {n:,}" for name, n in sorted(described.sources.items())) or "none"))
        if described.partly_asked:
            write(f"  partly asked: {described.partly_asked:,} gold labels do not speak of every active agent")
        if not described.gold:
            return
        write("")
        self._table("set size", [(bucket, counts) for bucket, counts in described.sizes.items()])
        write(f"{'mean size':<24}{described.mean_size:>9.2f}")
        write("")
        agents = [
            (f"{row.agent.id} {row.agent.name}" + (" (retired)" if row.retired else ""), row.required)
            for row in described.agents
        ]
        self._table("required agent", agents)

    def _table(self, title: str, rows: list[tuple[str, Any]]) -> None:
        self.stdout.write(f"{title:<24}" + "".join(f"{name:>9}" for name in (*COLUMNS.values(), "all")))
        for name, counts in rows:
            cells = [counts[split] for split in COLUMNS]
            shown = name if len(name) < 24 else name[:22] + "…"
            self.stdout.write(f"{shown:<24}" + "".join(f"{n:>9,}" for n in (*cells, sum(cells))))
