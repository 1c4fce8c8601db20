"""`manage.py worker_alive [PART …]`: whether the processes of this machine that do jobs do something, as a probe asks."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError

from agents_app.background_work import processes
from agents_app.clusters import signs

#: A part of `manage.py up` and the queue of its cluster.
QUEUES = {"jobs": "default", "training": "train"}


class Command(BaseCommand):
    help = (
        "Say whether each of these parts on this machine has done something in the last minute, or is doing it now; it fails "
        "where one has not. While the database is away it passes: a restart would not help. "
        "Example: python manage.py worker_alive jobs"
    )
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "parts",
            nargs="*",
            metavar="part",
            help="a part of `up` that does jobs; jobs and training when none is named",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        parts = options["parts"] or list(QUEUES)
        queues = QUEUES | {process.part: process.part for process in processes.added()}
        if unknown := set(parts) - set(queues):
            raise CommandError(f"Unknown part {', '.join(sorted(unknown))}: choose from {', '.join(queues)}.")
        try:
            still = [part for part in parts if not signs.working([queues[part]], on=signs.machine()).exists()]
        except DatabaseError as error:
            self.stdout.write(f"The database cannot be reached, so nobody can tell: {error}")
            return
        if still:
            raise CommandError(f"No task was done here in the last minute, and none is being done: {', '.join(still)}.")
        self.stdout.write("ok")
