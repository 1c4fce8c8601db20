"""Have the LLM of the settings judge executors' calls that nobody has judged, so that their backends are learnt from."""

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from agents_app.models import Pool
from training_app.engine.llm import LLMError
from training_app.orchestration import judge


class Command(BaseCommand):
    help = (
        "Ask LLM_MODEL about answers of a pool's executors that nobody has judged: relevance, accuracy, completeness, fit. It costs "
        "money. Example: python manage.py judge_calls --pool support --most 200"
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--pool", required=True, metavar="SLUG", help="the pool")
        parser.add_argument("--most", type=int, default=100, help="calls at most, the newest first (default: 100)")

    def handle(self, *args: Any, **options: Any) -> None:
        pool = Pool.objects.filter(slug=options["pool"]).first()
        if pool is None:
            raise CommandError(f"There is no pool {options['pool']}.")
        if not settings.LLM_MODEL:
            raise CommandError("No LLM is configured: name one in LLM_MODEL.")
        if not 1 <= options["most"] <= 100_000:
            raise CommandError("--most must be from 1 to 100,000.")
        try:
            found = judge.calls(pool, options["most"])
        except LLMError as error:
            raise CommandError(f"The LLM could not be asked: {error}") from None
        self.stdout.write(
            f"{found.calls:,} calls judged, {found.good:,} did well; {found.failed:,} without a usable answer stay unjudged."
        )
