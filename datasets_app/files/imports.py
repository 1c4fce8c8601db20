"""Files of queries that are read into a dataset: here and now, or as a job with its attempts. `storing` stores their rows."""

import uuid
from datetime import timedelta
from pathlib import Path
from typing import BinaryIO

from django.db import transaction
from django.db.models import F, QuerySet
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.translation import gettext as _

from agents_app import audit
from agents_app.audit import Who, actor_of
from agents_app.background_work import jobs
from agents_app.files.formats import Reading
from agents_app.models import Pool
from datasets_app.files import storing
from datasets_app.models import Dataset, Import
from datasets_app.queries import adding
from training_app.engine.data.files import FORMATS, holds_json

SUFFIXES = {
    "jsonl": "jsonl",
    "ndjson": "jsonl",
    "json": "jsonl",
    "csv": "csv",
    "tsv": "csv",
    "txt": "txt",
    "text": "txt",
}

#: What an import's format is called, by how its file is built.
FORMAT_OF = {
    "table": "csv", "csv": "csv", "xlsx": "xlsx", "objects": "jsonl", "array": "json", "object": "json", "lines": "txt", "zip": "zip",
}  # fmt: skip


class UnreadableFile(Exception):
    """A file that cannot be read in; the message says why and what to do."""


def guess_format(file_name: str, head: bytes = b"") -> str:
    """ "jsonl", "csv" or "txt", from the file's name or else its first bytes. A `.txt` whose lines are JSON objects is "jsonl"."""
    format = SUFFIXES.get(Path(file_name).suffix.lower().lstrip("."))
    if format == "txt" and holds_json(head):
        return "jsonl"
    if format:
        return format
    first = head.lstrip(b"\xef\xbb\xbf \t\r\n").split(b"\n", 1)[0].lower()
    if first.startswith(b"{"):
        return "jsonl"
    cells = {cell.strip(b' "\r') for cell in first.replace(b";", b",").replace(b"\t", b",").split(b",")}
    return "csv" if cells & {b"text", b"messages"} and len(cells) > 1 else "txt"


def read_file(
    dataset: Dataset,
    stream: BinaryIO,
    format: str,
    *,
    split: str = "",
    author: Who = None,
    progress: storing.Progress | None = None,
    file_name: str = "",
    reading: Reading | None = None,
) -> Import:
    """Read a file into a dataset here and now; returns the import with its counts, its problems stored beside it.

    `format` is one of our own; a file of another form is read by its `reading`. `split` is for rows that name none; `author` is the
    person, or the command, that reads. `progress` is called after every batch of at most 1,000 rows. A bad row becomes an
    `ImportProblem` and the good ones go in. Raises what reading the stream or the database raises; the import is then marked
    failed, and what was stored stays.
    """
    if format not in FORMATS and reading is None:
        raise ValueError(f"unknown format {format!r}: one of {', '.join(FORMATS)}")
    name = (file_name or Path(str(getattr(stream, "name", "") or "stream")).name)[-255:]
    with transaction.atomic():
        upload = Import.objects.create(
            dataset=dataset,
            file_name=name,
            format=FORMAT_OF[reading.kind] if reading else format,
            reading=reading.as_json() if reading else {},
            split=split,
            author=actor_of(author).user,
            attempts=1,
            **jobs.begun(uuid.uuid4()),
            bytes_total=storing.size(stream),
        )
        detail = {"import": upload.pk}
        audit.record("import.started", actor=author, target=name, pool=dataset.pool, detail=detail)
    return storing.run(upload, stream, progress)


def load_folder(
    pool: Pool,
    directory: str | Path,
    *,
    dataset: Dataset | None = None,
    author: Who = None,
    progress: storing.Progress | None = None,
) -> list[Import]:
    """Read the `train.jsonl`, `val.jsonl`, `test.jsonl` of a folder, each into its split, and `unassigned.jsonl` into none.

    The pool's agents must be there already. A text that stands in two files keeps the split of the first. Returns one import
    a file that is there; raises UnreadableFile where none is.
    """
    directory = Path(directory)
    target = dataset or adding.dataset_of(pool)
    done: list[Import] = []
    for name, split in (("train", "train"), ("val", "val"), ("test", "test"), ("unassigned", "")):
        path = directory / f"{name}.jsonl"
        if path.is_file():
            with path.open("rb") as stream:
                done.append(read_file(target, stream, "jsonl", split=split, author=author, progress=progress))
    if not done:
        raise UnreadableFile(_("%(folder)s holds no train.jsonl, val.jsonl or test.jsonl.") % {"folder": directory})
    return done


# ---------------------------------------------------------------------------------------------------- attempts


def claim(import_id: int) -> Import | None:
    """Take a queued import for this process; None where another has it or it has ended."""
    upload = jobs.claim(Import, import_id)
    return Import.objects.select_related("dataset__pool", "author").get(pk=import_id) if upload else None


def enqueue(upload: Import) -> None:
    """Hand a queued import to the workers once the transaction is through."""
    jobs.deliver(Import, upload.pk)


def begin(upload: Import, reading: Reading, split: str = "") -> bool:
    """Queue an import whose columns have been chosen now; False where it was begun or stopped already."""
    with transaction.atomic():
        waiting = Import.objects.filter(pk=upload.pk, status=Import.Status.CHOOSING)
        begun = waiting.update(status=Import.Status.QUEUED, reading=reading.as_json(), split=split)
        if begun:
            enqueue(upload)
    return bool(begun)


def forget_unchosen() -> int:
    """Drop files whose columns nobody has chosen for a day; returns how many."""
    old = Import.objects.filter(status=Import.Status.CHOOSING, created_at__lt=timezone.now() - timedelta(days=1))
    return sum(cancel(upload) for upload in old)


def cancel(upload: Import) -> bool:
    """Stop an import after its present batch; what has been stored stays. Returns whether there was something to stop."""
    with transaction.atomic():
        idle = (Import.Status.CHOOSING, Import.Status.QUEUED)
        queued = Import.objects.filter(pk=upload.pk, status__in=idle).update(
            status=Import.Status.CANCELLED, cancel_requested=True, finished_at=Now()
        )
        if queued:
            upload.chunks.all().delete()
        return bool(
            queued or Import.objects.filter(pk=upload.pk, status=Import.Status.RUNNING).update(cancel_requested=True)
        )


def retry(upload: Import) -> bool:
    """Queue a failed import of the browser again; it goes on behind its last stored row. Returns whether it could."""
    with transaction.atomic():
        again = Import.objects.filter(pk=upload.pk, status=Import.Status.FAILED, chunks__isnull=False).distinct()
        changed = Import.objects.filter(pk__in=list(again.values_list("pk", flat=True)), status="failed").update(
            status=Import.Status.QUEUED,
            attempt=None,
            attempts=0,
            losses=0,
            deliveries=0,
            error="",
            cancel_requested=False,
            finished_at=None,
        )
        if changed:
            enqueue(upload)
    return bool(changed)


def interrupted(upload: Import, still: "QuerySet[Import]") -> bool:
    """Hand an import whose process died to another worker where the file is in the database, RUN_RETRIES times; else it fails."""
    if upload.cancel_requested:
        return bool(still.update(status=Import.Status.CANCELLED, finished_at=Now()))
    error = _("The process that imported this file died. Its stored rows stay; import the file again to add the rest.")
    if upload.chunks.exists():
        return jobs.interrupted(upload, still, error)
    return bool(still.update(status=Import.Status.FAILED, error=error, finished_at=Now(), losses=F("losses") + 1))
