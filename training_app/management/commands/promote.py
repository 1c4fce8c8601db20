"""Make a model the active one of its pool."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from agents_app.audit import Actor
from training_app.versions import gate, registry


class Command(BaseCommand):
    help = "Make a model the one that answers its pool's requests, if it passes the gate. Example: python manage.py promote support-3"

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("model", metavar="MODEL", help="the model's name, as list_models shows it")
        parser.add_argument("--reason", default="", help="why; it is kept with the promotion")
        parser.add_argument(
            "--override", default="", metavar="REASON", help="promote it although the gate refuses; the reason is kept"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            model = registry.find(options["model"])
            promotion = gate.promote(
                model, actor=Actor("promote"), reason=options["reason"], override=options["override"]
            )
        except gate.GateRefused as error:
            raise CommandError(f'{error} Like this: promote {options["model"]} --override "why"') from None
        except registry.RegistryError as error:
            raise CommandError(str(error)) from None
        instead = f" instead of {promotion.previous.name}" if promotion.previous else ", the first of its pool"
        self.stdout.write(f"{model.name} answers now{instead}.")
