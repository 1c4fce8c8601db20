"""The demonstration of orchestration in small: an echo and a terminator. No database is needed."""

import json
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from agents_app.management.console import at_file


class Command(BaseCommand):
    help = (
        "Train the two-agent demonstration of docs/orchestration.md, 50 epochs of 10 episodes, and measure how often the echo answers "
        "and the terminator ends in time. Example: python manage.py orchestrate_demo --seeds 5 --json figures.json"
    )
    requires_system_checks = ()
    requires_migrations_checks = False

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--seeds", type=int, default=5, help="how often it is trained (default: 5)")
        parser.add_argument("--json", metavar="FILE", help="where to write the figures")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["seeds"] < 1:
            raise CommandError("--seeds must be at least 1")
        # Imported now: it brings torch, which nobody who asks for --help waits for.
        from orchestration_app.engine.orchestrating.demonstration import demonstrate

        figures = demonstrate(options["seeds"])
        if options.get("json"):
            with at_file(options["json"]):
                Path(options["json"]).write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
        self.stdout.write("seed  success before  success  reward (best 0.9)")
        rows = zip(figures["before"], figures["success"], figures["reward"], strict=True)
        for seed, (before, success, reward) in enumerate(rows):
            self.stdout.write(f"{seed:4}  {before:14.2f}  {success:7.2f}  {reward:6.3f}")
        self.stdout.write(f"{figures['cpu_seconds']:.1f} CPU seconds")
