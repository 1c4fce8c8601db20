"""Have the LLM of the settings mark episodes' answers by a rubric."""

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from agents_app.models import Pool
from training_app.engine.llm import LLMError
from training_app.engine.orchestrating.judges import RUBRIC
from training_app.orchestration import marks


class Command(BaseCommand):
    help = (
        "Have LLM_MODEL mark answers of a pool's episodes by a rubric, those first that people judged: the page of episodes shows how "
        "far the two agree. Where nobody judged, its mark counts. It costs money. "
        "Example: python manage.py judge_episodes --pool support --most 200"
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--pool", required=True, metavar="SLUG", help="the pool")
        parser.add_argument("--most", type=int, default=100, help="episodes at most (default: 100)")
        parser.add_argument("--rubric", metavar="FILE", help="a text that says what deserves which mark from 0 to 10")

    def handle(self, *args: Any, **options: Any) -> None:
        pool = Pool.objects.filter(slug=options["pool"]).first()
        if pool is None:
            raise CommandError(f"There is no pool {options['pool']}.")
        if not settings.LLM_MODEL:
            raise CommandError("No LLM is configured: name one in LLM_MODEL.")
        if not 1 <= options["most"] <= 100_000:
            raise CommandError("--most must be from 1 to 100,000.")
        rubric = RUBRIC
        if options["rubric"]:
            try:
                rubric = Path(options["rubric"]).read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError) as error:
                raise CommandError(f"{options['rubric']} cannot be read: {error}") from None
            if not rubric:
                raise CommandError(f"{options['rubric']} is empty.")
        try:
            found = marks.mark(pool, options["most"], rubric)
        except LLMError as error:
            raise CommandError(f"The LLM could not be asked: {error}") from None
        self.stdout.write(
            f"{found.episodes:,} episodes marked, {found.good:,} as right; {found.counted:,} of them nobody had judged. "
            f"{found.unmarked:,} got no usable mark."
        )
