"""`backup FILE`: the whole installation in one file, while it runs."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from agents_app import audit, backups
from agents_app.audit import Actor
from agents_app.management.progress import Progress


class Command(BaseCommand):
    help = (
        "Write the whole installation (pools, queries, labels, models, people, keys as digests) to one file, as it stands at "
        "this moment, while web and workers go on. Example: python manage.py backup routerweb-2026-01-31.zip"
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "file", type=Path, help="the file to write; one that stands there is replaced when the new one is whole"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            with Progress(self.stderr) as progress:
                rows = backups.write(options["file"], progress.tick)
        except backups.BackupError as error:
            raise CommandError(str(error)) from None
        audit.record("site.backed_up", actor=Actor("backup"), detail={"rows": rows})
        size = options["file"].stat().st_size
        self.stdout.write(f"{options['file']}: {rows:,} rows, {size:,} bytes. It holds password digests: keep it safe.")
