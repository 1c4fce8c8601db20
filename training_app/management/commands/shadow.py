"""Let a model score live traffic and answer nothing, or stop it."""

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from agents_app.audit import Actor
from agents_app.management.console import refusing
from training_app.rollout import trials
from training_app.versions import registry


class Command(BaseCommand):
    help = "Let a model score live traffic and answer nothing. Example: python manage.py shadow support-3, or shadow support-3 --stop"

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("model", metavar="MODEL", help="the model's name, as list_models shows it")
        parser.add_argument("--stop", action="store_true", help="let it score no more; what it scored is kept")

    @refusing(registry.RegistryError)
    def handle(self, *args: Any, **options: Any) -> None:
        model = registry.find(options["model"])
        (trials.stop_shadow if options["stop"] else trials.start_shadow)(model, actor=Actor("shadow"))
        self.stdout.write(
            f"{model.name} is a {model.state} again."
            if options["stop"]
            else f"{model.name} is a shadow: it scores what {registry.active(model.pool, model.kind)} answers."
        )
