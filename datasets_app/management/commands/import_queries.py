"""Read a file of queries, labeled or not, into a pool."""

from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

from django.core.management.base import BaseCommand, CommandError, CommandParser

from agents_app import pools
from agents_app.audit import Actor
from agents_app.files import encodings
from agents_app.files.formats import Reading, Unreadable
from agents_app.files.limited import JOB
from agents_app.management.console import refusing
from agents_app.models import Pool
from datasets_app.files import checking, imports, looking, meanings, shapes, undoing
from datasets_app.files.values import Unknown, Values
from datasets_app.labeling import queue
from datasets_app.management.console import ImportBar, existing_file, pool_of, tell
from datasets_app.models import Import, Split
from datasets_app.queries import adding
from training_app.engine.data.examples import Agent
from training_app.engine.data.files import FORMATS, holds_json

#: Labels that are not understood, said of one file.
SHOWN = 20


class Command(BaseCommand):
    help = (
        "Read a file of queries into a pool: JSONL, JSON, CSV with any separator, Excel, or plain text, one query a line. "
        "Columns are found by their names (text, required_agents, message, question, …). "
        "Exports of Label Studio, Argilla, doccano and Prodigy are read with their people and predictions, those of Langfuse, "
        "LangSmith, Phoenix and MLflow as conversations whose answering agents are suggestions. Bad rows are reported with "
        "line and reason, good ones go in; the same file again changes nothing. Where all labels fail alike, nothing goes in "
        "until --map says what they mean. --undo takes out all that an import brought. "
        "Example: python manage.py import_queries tickets.jsonl --pool support --dataset Tickets"
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", metavar="FILE", nargs="?", help="the file to read")
        parser.add_argument("--pool", required=True, help="the pool's slug")
        parser.add_argument("--dataset", default="", help="its dataset, made where there is none (default: its first)")
        parser.add_argument("--format", choices=FORMATS, help="default: from the file's name or its first bytes")
        parser.add_argument(
            "--encoding",
            choices=encodings.NAMES,
            metavar="NAME",
            help="of a text; default: guessed from its first bytes",
        )
        parser.add_argument("--split", choices=Split.values, default="", help="for rows that name none")
        parser.add_argument(
            "--map",
            action="append",
            default=[],
            metavar="VALUE=AGENT",
            help="what a label in the file means: an agent, `none` for none of them, nothing for not labeled; may be repeated, "
            "and is remembered",
        )
        parser.add_argument(
            "--empty", choices=("unlabeled", "none"), default="unlabeled", help="what an empty label means"
        )
        parser.add_argument("--leave-out", action="store_true", help="import the rest where labels are not understood")
        parser.add_argument("--check", action="store_true", help="say what would be kept, and import nothing")
        parser.add_argument("--undo", type=int, metavar="ID", help="undo the import of that number instead")

    def handle(self, *args: Any, **options: Any) -> None:
        pool = pool_of(options["pool"])
        if options["undo"] is not None:
            self._undo(pool, options["undo"])
            return
        if not options["file"]:
            raise CommandError("name the FILE to read, or say --undo ID")
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
                mapped = self._said(pool, options["map"])
                reading = None if options["format"] else self._reading(path, stream, pool, mapped, options)
                if options["check"]:
                    return
                exists = pool.datasets.filter(name__iexact=options["dataset"] or "Queries").exists()
                upload = imports.read_file(
                    adding.dataset_of(pool, options["dataset"]),
                    stream,
                    options["format"] or imports.guess_format(path.name, head),
                    reading=reading,
                    split=options["split"],
                    author=Actor("import_queries"),
                    progress=progress,
                )
        except OSError as error:
            raise CommandError(f"{path}: {error.strerror or error}") from None
        except Unreadable as error:
            raise CommandError(f"{path}: {error}") from None
        finally:
            progress.close()
        if not exists:
            Import.objects.filter(pk=upload.pk).update(undo={**upload.undo, "dataset": True})
        if mapped:
            meanings.remember(upload, mapped)
        queue.fill(pool)
        tell(self, [upload])
        if upload.rows_read and upload.rejected == upload.rows_read:
            raise CommandError(f"{path}: no row of it could be read in; the first problem: {upload.problems.first()}")

    @refusing(undoing.UndoError)
    def _undo(self, pool: Pool, key: int) -> None:
        upload = Import.objects.select_related("dataset__pool").filter(pk=key, dataset__pool=pool).first()
        if upload is None:
            raise CommandError(f"the pool {pool.slug} has no import {key}")
        undone = undoing.undo(upload, Actor("import_queries"))
        stays = f"; {undone.kept} queries stay, as they were worked on" if undone.kept else ""
        self.stdout.write(
            f"{upload.file_name} is undone: {undone.queries} queries and {undone.labels} labels are gone{stays}"
        )

    def _said(self, pool: Pool, pairs: list[str]) -> dict[str, list[int] | None]:
        """What --map says of labels."""
        values, by_value = Values(pools.roster(pool, retired=True), {}), {}
        for pair in pairs:
            value, equals, meaning = pair.partition("=")
            if not equals or not value.strip():
                raise CommandError(f"--map: {pair!r} must read VALUE=AGENT")
            try:
                agents = values.of(meaning)
            except Unknown:
                raise CommandError(f"--map: the pool {pool.slug} has no agent {meaning.strip()!r}") from None
            by_value[meanings.key_of(value)] = None if agents is None else sorted(agents)
        return by_value

    def _reading(
        self, path: Path, stream: BinaryIO, pool: Pool, mapped: dict[str, list[int] | None], options: dict[str, Any]
    ) -> Reading | None:
        """How a file of another form than ours is read, told to whoever reads along; None for one of ours."""
        agents = pools.roster(pool, retired=True)
        looked = looking.look(stream, path.name, agents)
        if options["encoding"] and options["encoding"] != looked.reading.encoding:
            stream.seek(0)
            reading = replace(looked.reading, encoding=options["encoding"])
            looked = looking.again(stream, reading, agents, columns=True, header=True)
        elif looked.guessed_encoding and not options["encoding"]:
            self.stdout.write(
                f"{path.name}: read as {encodings.NAMES[looked.reading.encoding]}, which is a guess; --encoding names another"
            )
        if looked.garbled:
            self.stdout.write(f"{path.name}: characters that its encoding does not know are read as “\ufffd”")
        reading = replace(looked.reading, values={**meanings.remembered(pool), **mapped}, empty=options["empty"])
        names = {column.key: column.name for column in looked.columns}
        if reading.shape:
            self.stdout.write(f"{path.name}: an export of {shapes.NAMES[reading.shape]}")
        elif not {"text", "messages"} & set(reading.columns):
            raise CommandError(f"{path}: none of its columns looks like the query's text. Name that column “text”.")
        elif not looked.plain:
            pairs = [*reading.columns.items(), *(("more labels", key) for key in reading.further)]
            columns = ", ".join(f"{ours} from “{names.get(key, key)}”" for ours, key in pairs)
            self.stdout.write(f"{path.name}: {columns}")
        for name in looked.unread:
            self.stdout.write(f"{path.name}: “{name}” seems to hold agents too, and is not read as labels")
        if reading.kind != "lines":
            self._check(path, stream, reading, agents, options)
        return None if looked.plain and not reading.values and reading.empty == "unlabeled" else reading

    def _check(
        self, path: Path, stream: BinaryIO, reading: Reading, agents: tuple[Agent, ...], options: dict[str, Any]
    ) -> None:
        """Say how many labels would be kept; CommandError where all that fail do so for one reason, and nobody has decided."""
        checked = checking.check(stream, reading, agents, limits=JOB)
        stream.seek(0)
        if options["check"] or checked.lost:
            lost = f"{checked.lost} {'is' if checked.lost == 1 else 'are'} not understood"
            self.stdout.write(f"{path.name}: {checked.kept} of {checked.labels} labels will be kept, {lost}")
        for value in checked.strange[:SHOWN]:
            guess = f"; did you mean {value.guess.name}?" if value.guess else ""
            rows = "row" if value.count == 1 else "rows"
            self.stdout.write(f"  “{value.value}”: {value.count} {rows}, the first on line {value.line}{guess}")
        if len(checked.strange) > SHOWN:
            more = len(checked.strange) - SHOWN
            self.stdout.write(f"  and {more} more {'value' if more == 1 else 'values'}")
        if checked.pattern and checked.lost and not options["leave_out"] and not options["check"]:
            first = checked.strange[0]
            meant = first.guess.name if first.guess else "AGENT"
            raise CommandError(
                f"{path}: nothing was imported. Say what the labels mean, for example --map '{first.value}={meant}', or import "
                "the rest with --leave-out."
            )
