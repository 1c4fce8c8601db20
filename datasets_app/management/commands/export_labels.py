"""Write a pool's gold labels to a file."""

import os
import sys
import tempfile
from pathlib import Path
from typing import Any, BinaryIO

from django.core.management.base import BaseCommand, CommandError, CommandParser

from datasets_app.files import exports
from datasets_app.management.console import bar, dataset_named, pool_of
from training_app.engine.data.examples import Row
from training_app.engine.data.files import FORMATS


class Command(BaseCommand):
    help = (
        "Write a pool's gold labels to a file; import_queries reads it back without loss. The format “folder” is a zip of "
        "what load_pool and benchmark read. "
        "Example: python manage.py export_labels --pool support --format jsonl --out labels.jsonl"
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--pool", required=True, help="the pool's slug")
        parser.add_argument("--format", choices=(*FORMATS, "folder"), default="jsonl", help="default: jsonl")
        parser.add_argument("--out", required=True, metavar="FILE", help="where to write; - is standard output")
        parser.add_argument("--dataset", default="", help="only this dataset of the pool")
        parser.add_argument("--include-unlabeled", action="store_true", help="also queries without a gold label")

    def handle(self, *args: Any, **options: Any) -> None:
        pool = pool_of(options["pool"])
        dataset = dataset_named(pool, options["dataset"])
        queries = exports.selected(pool, dataset, options["include_unlabeled"])
        total = queries.count()
        with bar(total, "row") as progress:

            def counted() -> Any:
                row: Row
                for row in exports.rows(queries):
                    progress.update(1)
                    yield row

            if options["format"] == "folder":
                pieces = exports.folder(pool, dataset, options["include_unlabeled"])
            else:
                pieces = exports.encode(counted(), options["format"])
            if options["out"] == "-":
                self._pour(pieces, sys.stdout.buffer)
                return
            self._write(pieces, Path(options["out"]))
        self.stdout.write(f"{total:,} queries written to {options['out']}")

    def _pour(self, pieces: Any, stream: BinaryIO) -> None:
        for piece in pieces:
            stream.write(piece)
        stream.flush()

    def _write(self, pieces: Any, path: Path) -> None:
        """Write beside the target and put it in place whole: an export that fails leaves the old file as it was."""
        try:
            number, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
        except OSError as error:
            raise CommandError(f"{path}: {error.strerror}; choose another --out") from None
        try:
            with os.fdopen(number, "wb") as stream:
                self._pour(pieces, stream)
            umask = os.umask(0)
            os.umask(umask)
            os.chmod(name, 0o666 & ~umask)
            os.replace(name, path)
        except BaseException as error:
            Path(name).unlink(missing_ok=True)
            if isinstance(error, OSError):
                raise CommandError(f"{path}: {error.strerror}; choose another --out") from None
            raise
