"""Go back to a pool's earlier model."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from agents_app.audit import Actor
from agents_app.management.console import refusing
from datasets_app.management.console import pool_of
from training_app.models import SET_ROUTER, Promotion
from training_app.versions import gate, kinds, registry


class Command(BaseCommand):
    help = (
        "Go back to the model that was active before; again, one further back. The first orchestrator or chooser is stopped. "
        "Example: python manage.py rollback --pool support"
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--pool", required=True, help="the pool's slug")
        parser.add_argument("--kind", default=SET_ROUTER, choices=sorted(kinds.every()), help="kind of version")
        parser.add_argument("--reason", default="", help="why; it is kept with the roll-back")
        parser.add_argument(
            "--override",
            default="",
            metavar="REASON",
            help="go back although a must-pass case is broken; the reason is kept",
        )

    @refusing(registry.RegistryError)
    def handle(self, *args: Any, **options: Any) -> None:
        pool = pool_of(options["pool"])
        try:
            promotion = gate.rollback(
                pool,
                options["kind"],
                actor=Actor("rollback"),
                reason=options["reason"],
                override=options["override"],
            )
        except gate.GateRefused as error:
            raise CommandError(f'{error} Like this: rollback --pool {pool.slug} --override "why"') from None
        if promotion.kind == Promotion.Kind.STOPPED:
            self.stdout.write(f"{promotion.model.name} decides no more.")
            return
        instead = f" instead of {promotion.previous.name}" if promotion.previous else ""
        self.stdout.write(f"{promotion.model.name} answers now{instead}.")
