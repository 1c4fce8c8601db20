"""`manage.py partition_decisions`: the table of decisions in parts by day, on PostgreSQL."""

from typing import Any

from django.core.management.base import BaseCommand

from agents_app.management.console import refusing
from training_app.answering import decision_partitions


class Command(BaseCommand):
    help = (
        "On PostgreSQL, part the table of decisions by day, so that retention drops whole days. Web servers and workers may run. "
        "Example: python manage.py partition_decisions"
    )

    @refusing(decision_partitions.PartitionError)
    def handle(self, *args: Any, **options: Any) -> None:
        first = decision_partitions.convert()
        self.stdout.write(f"Decisions are in parts by day from {first.end} on; those before it stay in {first.table}.")
