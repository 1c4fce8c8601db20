"""`restore FILE`: a backup in place of what the database holds."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand

from agents_app import audit, backups
from agents_app.audit import Actor
from agents_app.management.console import by_table, refusing
from routerweb import hooks


class Command(BaseCommand):
    help = (
        "Restore a file that `backup` wrote, into SQLite or PostgreSQL whichever it came from. Stop web and workers first. "
        "The file is checked before anything is touched, and after a failure the old data stand. "
        "Example: python manage.py restore routerweb-2026-01-31.zip"
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, help="a file that `backup` wrote")
        parser.add_argument(
            "--replace",
            action="store_true",
            help="give up what the database holds; without it, only an empty one is filled",
        )

    @refusing(backups.BackupError)
    def handle(self, *args: Any, **options: Any) -> None:
        with by_table() as tick:
            rows = backups.restore(options["file"], replace=options["replace"], tick=tick)
        audit.record("site.restored", actor=Actor("restore"), target=options["file"].name, detail={"rows": rows})
        for line in [line for lines in hooks.backup_restored() for line in lines]:
            self.stdout.write(line)
        self.stdout.write(f"{rows:,} rows restored. Start web and workers; everybody signs in again.")
