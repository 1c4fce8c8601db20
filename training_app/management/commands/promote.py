"""Make a model the active one of its pool."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from agents_app.audit import Actor
from agents_app.management.console import refusing
from training_app.models import PromotionRequest, RouterModel
from training_app.versions import approvals, gate, registry


class Command(BaseCommand):
    help = (
        "Make a model the one that answers its pool's requests, if it passes the gate; where promotions need a second person, ask "
        "for it. Example: python manage.py promote support-3"
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("model", metavar="MODEL", help="the model's name, as list_models shows it")
        parser.add_argument("--reason", default="", help="why; it is kept with the promotion")
        parser.add_argument(
            "--override", default="", metavar="REASON", help="promote it although the gate refuses; the reason is kept"
        )

        parser.add_argument(
            "--withdraw",
            action="store_true",
            help="take back a promotion, or a canary, that a command asked for, and promote nothing",
        )

    @refusing(registry.RegistryError)
    def handle(self, *args: Any, **options: Any) -> None:
        try:
            model = registry.find(options["model"])
            if options["withdraw"]:
                self._withdraw(model, options["reason"])
                return
            promotion = gate.promote(
                model, actor=Actor("promote"), reason=options["reason"], override=options["override"]
            )
        except gate.GateRefused as error:
            raise CommandError(f'{error} Like this: promote {options["model"]} --override "why"') from None
        if isinstance(promotion, PromotionRequest):
            self.stdout.write(f"{model.name} waits for a person to approve it, on its page or through the API.")
            return
        instead = f" instead of {promotion.previous.name}" if promotion.previous else ", the first of its pool"
        self.stdout.write(f"{model.name} answers now{instead}.")

    def _withdraw(self, model: RouterModel, note: str) -> None:
        promotion_request = approvals.waiting_for(model)
        if promotion_request is None:
            raise registry.RegistryError(f"Nobody has asked for the promotion of {model.name}, nor for its canary.")
        approvals.withdraw(promotion_request, actor=Actor("promote"), note=note)
        self.stdout.write(f"The request for {model.name} is withdrawn.")
