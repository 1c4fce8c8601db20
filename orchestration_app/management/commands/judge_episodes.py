"""Have the LLM of the settings mark episodes' answers by a rubric."""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from orchestration_app.engine.orchestrating.judges import RUBRIC
from orchestration_app.episodes.judging import marks
from training_app.engine.llm import LLMError
from training_app.management import judging


class Command(BaseCommand):
    help = (
        "Have the connected LLM mark answers of a pool's episodes by a rubric, those first that people judged: the page of episodes "
        "shows how far the two agree. Where nobody judged, its mark counts. It costs money. "
        "Example: python manage.py judge_episodes --pool support --most 200"
    )

    def add_arguments(self, parser: CommandParser) -> None:
        judging.add_arguments(parser, "episodes at most")
        parser.add_argument("--rubric", metavar="FILE", help="a text that says what deserves which mark from 0 to 10")

    def handle(self, *args: Any, **options: Any) -> None:
        pool = judging.checked(options)
        rubric = RUBRIC
        if options["rubric"]:
            try:
                rubric = Path(options["rubric"]).read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError) as error:
                raise CommandError(f"{options['rubric']} cannot be read: {error}") from None
            if not rubric:
                raise CommandError(f"{options['rubric']} is empty.")
        try:
            marked = marks.mark(pool, options["most"], rubric)
        except LLMError as error:
            raise CommandError(f"The LLM could not be asked: {error}") from None
        self.stdout.write(
            f"{marked.episodes:,} episodes marked, {marked.good:,} as right; {marked.counted:,} of them nobody had judged. "
            f"{marked.unmarked:,} got no usable mark."
        )
