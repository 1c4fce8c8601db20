"""Let a model answer a share of its pool's traffic, or stop it."""

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from agents_app.audit import Actor
from agents_app.management.console import refusing
from training_app.models import PromotionRequest
from training_app.rollout import trials
from training_app.versions import registry


class Command(BaseCommand):
    help = (
        "Let a model answer a share of its pool's traffic, if it passes the gate; again, another share. Where promotions need a "
        "second person, ask for it; promote MODEL --withdraw takes that back. "
        "Example: python manage.py canary support-3 --share 0.1, or canary support-3 --stop"
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("model", metavar="MODEL", help="the model's name, as list_models shows it")
        parser.add_argument("--share", type=float, default=0.1, help="above 0 and at most 0.5 (default 0.1)")
        parser.add_argument("--stop", action="store_true", help="let the active model answer everything again")
        parser.add_argument("--reason", default="", help="why; it is kept with the canary")
        parser.add_argument(
            "--override", default="", metavar="REASON", help="start it although the gate refuses; the reason is kept"
        )

    @refusing(registry.RegistryError)
    def handle(self, *args: Any, **options: Any) -> None:
        model = registry.find(options["model"])
        if options["stop"]:
            now = trials.canary_of(model.pool, model.kind)
            if now is None or now.model_id != model.pk:
                raise registry.RegistryError(f"{model.name} is not the canary of {model.pool.slug}.")
            trials.stop_canary(model.pool, model.kind, actor=Actor("canary"))
            self.stdout.write(f"{registry.active(model.pool, model.kind)} answers everything again.")
            return
        canary = trials.start_canary(
            model, options["share"], actor=Actor("canary"),
            reason=options["reason"], override=options["override"],
        )  # fmt: skip
        if isinstance(canary, PromotionRequest):
            self.stdout.write(
                f"{model.name} waits for a person to approve it, on its page or through the API. Nothing has changed yet."
            )
            return
        self.stdout.write(f"{model.name} answers {canary.share:.0%} now, {canary.against.name} the rest.")
