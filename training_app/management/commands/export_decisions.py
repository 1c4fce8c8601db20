"""Write a pool's decisions to files."""

from argparse import ArgumentTypeError
from datetime import datetime
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime

from agents_app.management.console import refusing
from datasets_app.management.console import pool_of
from training_app.decision_archive import reading, storage
from training_app.rollout import decision_exports


class Command(BaseCommand):
    help = (
        "Write a pool's decisions with their outcomes as Parquet, JSON lines or a dataset folder of Hugging Face. Example: python "
        "manage.py export_decisions out --pool support --format huggingface"
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("folder", type=Path, help="a folder that is not there yet")
        parser.add_argument("--pool", required=True, help="the pool's slug")
        parser.add_argument("--format", choices=decision_exports.FORMATS, default="parquet")
        parser.add_argument("--since", type=_moment, help="from this day or moment on, such as 2026-03-01")
        parser.add_argument("--until", type=_moment, help="to before this day or moment")
        parser.add_argument("--without-text", action="store_true", help="leave out what people wrote")

    def handle(self, *args: Any, **options: Any) -> None:
        pool = pool_of(options["pool"])
        decisions = decision_exports.kept(pool, options["since"], options["until"])
        with refusing(decision_exports.ExportError, storage.ArchiveError, OSError):
            count = decision_exports.write(
                pool,
                options["folder"],
                options["format"],
                decisions,
                words=not options["without_text"],
                archived=reading.Search(since=options["since"], until=options["until"]),
            )
        self.stdout.write(f"{count:,} decisions of {pool.slug} are in {options['folder']}.")


def _moment(words: str) -> datetime:
    """A day or a moment, of the installation's time zone where it names none. Raises ArgumentTypeError."""
    try:
        day = parse_date(words)
        moment = datetime(day.year, day.month, day.day) if day else parse_datetime(words)
    except ValueError:  # a day that no month has
        moment = None
    if moment is None:
        raise ArgumentTypeError(f"{words!r} is no day or moment, such as 2026-03-01 or 2026-03-01T12:00")
    return moment if timezone.is_aware(moment) else timezone.make_aware(moment)
