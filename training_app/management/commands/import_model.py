"""Read a model's artifact into a pool."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from agents_app.audit import Actor
from datasets_app.management.console import pool_of
from training_app.engine.data import artifact
from training_app.versions import registry


class Command(BaseCommand):
    help = (
        "Read the artifact that export_model wrote, as a candidate of a pool with the same agents. "
        "Example: python manage.py import_model models/support --pool support"
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("directory", metavar="DIR", help="the artifact's directory, or its zip")
        parser.add_argument("--pool", required=True, help="the pool's slug")

    def handle(self, *args: Any, **options: Any) -> None:
        pool = pool_of(options["pool"])
        try:
            model = registry.import_artifact(pool, artifact.packed(options["directory"]), actor=Actor("import_model"))
        except (registry.RegistryError, artifact.ArtifactError) as error:
            raise CommandError(f"{options['directory']}: {error}") from None
        except OSError as error:
            raise CommandError(f"{options['directory']}: {error.strerror or error}") from None
        self.stdout.write(f"{model.name} is a candidate; `promote {model.name}` makes it answer.")
