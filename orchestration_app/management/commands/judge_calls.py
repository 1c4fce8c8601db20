"""Have the LLM of the settings judge executors' calls that nobody has judged, so that their backends are learnt from."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from orchestration_app.episodes.judging import judge
from training_app.engine.llm import LLMError
from training_app.management import judging


class Command(BaseCommand):
    help = (
        "Ask the connected LLM about answers of a pool's executors that nobody has judged: relevance, accuracy, completeness, "
        "fit. It costs money. Example: python manage.py judge_calls --pool support --most 200"
    )

    def add_arguments(self, parser: CommandParser) -> None:
        judging.add_arguments(parser, "calls at most, the newest first")

    def handle(self, *args: Any, **options: Any) -> None:
        pool = judging.checked(options)
        try:
            judged = judge.calls(pool, options["most"])
        except LLMError as error:
            raise CommandError(f"The LLM could not be asked: {error}") from None
        self.stdout.write(
            f"{judged.calls:,} calls judged, {judged.good:,} did well; {judged.failed:,} without a usable answer stay unjudged."
        )
