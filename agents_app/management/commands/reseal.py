"""`reseal`: secrets that were sealed under an earlier SECRET_KEY, sealed under the present one."""

from typing import Any

from django.core.management.base import BaseCommand
from django.db import transaction
from django.db.models import Model

from agents_app import audit, sealing
from agents_app.accounts import second_factor
from agents_app.management.console import refusing
from agents_app.models import AgentSource, LlmConnection
from routerweb import hooks


class Command(BaseCommand):
    help = (
        "Seal every executor's, provider's and MCP server's secret, and those of people's second factors, under the present "
        "SECRET_KEY, so that an old one may leave SECRET_KEY_FALLBACKS. "
        "Example: python manage.py reseal"
    )

    @refusing(sealing.CannotOpen)
    def handle(self, *args: Any, **options: Any) -> None:
        with transaction.atomic():
            sealed: list[type[Model]] = [
                AgentSource,
                LlmConnection,
                *(model for models in hooks.sealed_models() for model in models),
            ]
            count = sum(sealing.reseal(model) for model in sealed)
            count += second_factor.reseal()
        audit.record("site.resealed", actor=audit.Actor("reseal"), detail={"secrets": count})
        self.stdout.write(f"{count:,} secrets are sealed under the present SECRET_KEY.")
