"""Uploaded files: kept in the database in pieces, so that a worker on any machine can read them, until they have been read."""

import hashlib

from django.contrib.auth.models import User
from django.core.files.uploadedfile import UploadedFile
from django.db import transaction

from agents_app import audit
from agents_app.files.formats import Reading
from datasets_app.files import imports
from datasets_app.models import Dataset, Import, ImportChunk
from datasets_app.queries.stored_files import content

CHUNK_BYTES = 1 << 20
__all__ = ("content", "receive")


def receive(
    dataset: Dataset,
    file: UploadedFile,
    *,
    format: str = "",
    split: str = "",
    author: User | None = None,
    reading: Reading | None = None,
    made_dataset: bool = False,
) -> Import:
    """Store an uploaded file and queue its import; `format` "" is guessed. With a `reading` it waits for somebody to confirm what
    its columns are (`imports.begin`). `made_dataset`: the dataset was made for it, and goes where it is undone. Returns the import."""
    head = file.read(4_096)
    file.seek(0)
    name = file.name or "upload"
    with transaction.atomic():
        upload = Import.objects.create(
            dataset=dataset,
            file_name=name[-255:],
            format=imports.FORMAT_OF[reading.kind] if reading else format or imports.guess_format(name, head),
            reading=reading.as_json() if reading else {},
            status=Import.Status.CHOOSING if reading else Import.Status.QUEUED,
            split=split,
            author=author,
            bytes_total=file.size or 0,
            undo={"dataset": True} if made_dataset else {},
        )
        digest = hashlib.sha256()
        for position, content in enumerate(file.chunks(CHUNK_BYTES)):
            ImportChunk.objects.create(upload=upload, position=position, content=content)
            digest.update(content)
        upload.digest = digest.hexdigest()
        upload.save(update_fields=["digest"])
        audit.record("import.started", actor=author, target=name, pool=dataset.pool, detail={"import": upload.pk})
        if reading is None:
            imports.enqueue(upload)
    return upload
