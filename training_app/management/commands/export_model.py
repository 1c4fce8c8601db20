"""Write a model's artifact to a directory or a zip."""

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from agents_app.management.console import at_file, refusing
from datasets_app.management.console import pool_of
from training_app.engine.data import artifact
from training_app.versions import registry


class Command(BaseCommand):
    help = (
        "Write a model's artifact, with the agents' keys, to a directory, or to a file that ends in .zip. "
        "Example: python manage.py export_model --pool support --out models/support"
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--pool", required=True, help="the pool's slug")
        parser.add_argument("--model", metavar="NAME", help="the model's name (default: the active one)")
        parser.add_argument("--out", metavar="DIR", required=True, help="the directory, or a file that ends in .zip")

    @refusing(registry.RegistryError, artifact.ArtifactError)
    def handle(self, *args: Any, **options: Any) -> None:
        pool = pool_of(options["pool"])
        model = registry.chosen(pool, options.get("model"))
        with at_file(options["out"]):
            artifact.write(registry.exported(model), options["out"])
        self.stdout.write(f"{model.name} is in {options['out']}.")
