"""Read a file of queries, labeled or not, into a pool."""

from pathlib import Path
from typing import Any, BinaryIO

from django.core.management.base import BaseCommand, CommandError, CommandParser

from agents_app import pools
from agents_app.audit import Actor
from agents_app.models import Pool
from datasets_app.files import imports, looking
from datasets_app.files.tables import Reading, Unreadable
from datasets_app.labels import queue
from datasets_app.management.console import ImportBar, existing_file, pool_of, tell
from datasets_app.models import Split
from datasets_app.queries import queries
from training_app.engine.data.files import FORMATS, holds_json


class Command(BaseCommand):
    help = (
        "Read a file of queries into a pool: JSONL, JSON, CSV with any separator, Excel, or plain text, one query a line. "
        "Columns are found by their names (text, required_agents, message, question, …). "
        "Bad rows are reported with line and reason, good ones go in; the same file again changes nothing. "
        "Example: python manage.py import_queries tickets.jsonl --pool support --dataset Tickets"
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", metavar="FILE", help="the file to read")
        parser.add_argument("--pool", required=True, help="the pool's slug")
        parser.add_argument("--dataset", default="", help="its dataset, made where there is none (default: its first)")
        parser.add_argument("--format", choices=FORMATS, help="default: from the file's name or its first bytes")
        parser.add_argument("--split", choices=Split.values, default="", help="for rows that name none")

    def handle(self, *args: Any, **options: Any) -> None:
        pool = pool_of(options["pool"])
        path = existing_file(options["file"])
        progress = ImportBar()
        try:
            with path.open("rb") as stream:
                head = stream.read(4_096)
                stream.seek(0)
                if options["format"] == "txt" and holds_json(head):
                    raise CommandError(
                        f"{path}: its lines are JSON objects, and as text each would be stored with its braces. Say --format jsonl."
                    )
                reading = None if options["format"] else self._reading(path, stream, pool)
                upload = imports.read_file(
                    queries.dataset_of(pool, options["dataset"]),
                    stream,
                    options["format"] or imports.guess_format(path.name, head),
                    reading=reading,
                    split=options["split"],
                    author=Actor("import_queries"),
                    progress=progress,
                )
        except OSError as error:
            raise CommandError(f"{path}: {error.strerror or error}") from None
        finally:
            progress.close()
        queue.fill(pool)
        tell(self, [upload])
        if upload.rows_read and upload.rejected == upload.rows_read:
            raise CommandError(f"{path}: no row of it could be read in; the first problem: {upload.problems.first()}")

    def _reading(self, path: Path, stream: BinaryIO, pool: Pool) -> Reading | None:
        """How a file of another form than ours is read, told to whoever reads along; None for one of ours."""
        try:
            looked = looking.look(stream, path.name, pools.roster(pool, retired=True))
        except Unreadable as error:
            raise CommandError(f"{path}: {error}") from None
        stream.seek(0)
        if looked.plain:
            return None
        names = {column.key: column.name for column in looked.columns}
        if "text" not in looked.reading.columns:
            raise CommandError(f"{path}: none of its columns looks like the query's text. Name that column “text”.")
        found = ", ".join(f"{ours} from “{names.get(key, key)}”" for ours, key in looked.reading.columns.items())
        self.stdout.write(f"{path.name}: {found}")
        return looked.reading
