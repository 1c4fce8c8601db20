"""`give_up_archived_day POOL DAY`: for a file of the decision archive that is lost or damaged, and of which nobody has a copy."""

from argparse import ArgumentParser, ArgumentTypeError
from datetime import date
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from agents_app.audit import Actor
from agents_app.management.console import refusing
from agents_app.models import Pool
from training_app.decision_archive import reconciling
from training_app.decision_archive.storage import ArchiveError


class Command(BaseCommand):
    help = (
        "Take a day of archived decisions off the list when its file is lost or damaged for good, so that somebody's data can be "
        "searched for and erased again. A file that is whole stays. Example: python manage.py give_up_archived_day support 2026-05-31"
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("pool", help="the pool's slug")
        parser.add_argument("day", type=_day, help="as 2026-05-31")

    @refusing(ArchiveError)
    def handle(self, *args: Any, **options: Any) -> None:
        pool = Pool.objects.filter(slug=options["pool"]).first()
        if pool is None:
            raise CommandError(f"There is no pool {options['pool']!r}.")
        row = reconciling.give_up(pool, options["day"], actor=Actor("give_up_archived_day"))
        self.stdout.write(f"{row.path} with its {row.rows} decisions is no longer part of the archive.")


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is not a day; write it as 2026-05-31") from None
