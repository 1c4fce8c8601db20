"""`backup FILE`: the whole installation in one file, while it runs."""

import time
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from agents_app import audit, backups
from agents_app.audit import Actor
from agents_app.management.console import by_table, refusing

#: How the names of the files begin that this command names itself.
PREFIX = "routerweb-"
#: What nobody has written to for so long was left by a backup that was killed.
LEFT_SECONDS = 86_400


class Command(BaseCommand):
    help = (
        "Write the whole installation (pools, queries, labels, models, people, keys as digests) to one file, as it stands at "
        "this moment, while web and workers go on. Example: python manage.py backup routerweb-2026-01-31.zip"
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "file",
            type=Path,
            help="the file to write; one that stands there is replaced when the new one is whole. In a folder that exists, a file "
            "with this moment in its name",
        )
        parser.add_argument(
            "--keep",
            type=int,
            metavar="N",
            help="of a folder's backups, delete all but the newest N afterwards, and what killed ones left a day ago",
        )

    @refusing(backups.BackupError)
    def handle(self, *args: Any, **options: Any) -> None:
        path, keep = options["file"], options["keep"]
        if keep is not None and (keep < 1 or not path.is_dir()):
            raise CommandError("--keep takes a number from 1 on, and a folder instead of a file.")
        folder = path if path.is_dir() else None
        if folder is not None:
            path = folder / f"{PREFIX}{timezone.now():%Y-%m-%d-%H%M%S}.zip"
        with by_table() as tick:
            rows = backups.write(path, tick)
        audit.record("site.backed_up", actor=Actor("backup"), detail={"rows": rows})
        size = path.stat().st_size
        self.stdout.write(f"{path}: {rows:,} rows, {size:,} bytes. It holds password digests: keep it safe.")
        if folder is not None and keep is not None:
            for old in sorted(folder.glob(f"{PREFIX}*.zip"))[:-keep]:
                old.unlink()
            for half in folder.glob(f".{PREFIX}*.zip.*"):
                if half.stat().st_mtime < time.time() - LEFT_SECONDS:
                    half.unlink(missing_ok=True)
