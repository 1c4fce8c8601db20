"""Run a pool's must-pass cases against a model."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from agents_app.management.console import refusing
from datasets_app.management.console import pool_of
from training_app.versions import cases, registry


class Command(BaseCommand):
    help = (
        "Run the pool's must-pass cases against a model; the exit code is 1 where one is broken. "
        "Example: python manage.py cases --pool support --model support-3"
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--pool", required=True, help="the pool's slug")
        parser.add_argument("--model", metavar="NAME", help="the model's name (default: the active one)")

    @refusing(registry.RegistryError)
    def handle(self, *args: Any, **options: Any) -> None:
        pool = pool_of(options["pool"])
        model = registry.chosen(pool, options.get("model"))
        checked = cases.check(model)
        if not checked:
            self.stdout.write(f"{pool.slug} has no must-pass case.")
            return
        for checked_case in checked:
            self.stdout.write(f"{'ok    ' if checked_case.holds else 'BROKEN'} {checked_case.sentence()}")
            if not checked_case.holds:
                self.stdout.write(f"       why: {checked_case.case.reason} ({checked_case.case.owner_name})")
        wrong = len(cases.broken(checked))
        if wrong:
            raise CommandError(f"{model.name} breaks {wrong} of {len(checked)} must-pass cases")
        self.stdout.write(f"{model.name} holds all {len(checked)}.")
