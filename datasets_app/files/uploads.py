"""Uploaded files: kept in the database in pieces, so that a worker on any machine can read them, until they have been read."""

import io
from typing import Any, BinaryIO, cast

from django.contrib.auth.models import User
from django.core.files.uploadedfile import UploadedFile
from django.db import transaction

from agents_app import audit
from datasets_app.files import imports
from datasets_app.files.tables import Reading
from datasets_app.models import Dataset, Import, ImportChunk

CHUNK_BYTES = 1 << 20


def receive(
    dataset: Dataset,
    file: UploadedFile,
    *,
    format: str = "",
    split: str = "",
    author: User | None = None,
    reading: Reading | None = None,
) -> Import:
    """Store an uploaded file and queue its import; `format` "" is guessed. With a `reading` it waits for somebody to confirm what
    its columns are (`imports.begin`). Returns the import."""
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
        )
        for position, content in enumerate(file.chunks(CHUNK_BYTES)):
            ImportChunk.objects.create(upload=upload, position=position, content=content)
        audit.record("import.started", actor=author, target=name, pool=dataset.pool, detail={"import": upload.pk})
        if reading is None:
            imports.enqueue(upload)
    return upload


class _Chunks(io.RawIOBase):
    """The pieces of an upload as one stream, one piece in memory at a time."""

    def __init__(self, upload: Import) -> None:
        self._upload = upload
        self._position = 0
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._rest:
            piece = ImportChunk.objects.filter(upload=self._upload, position=self._position)
            content = piece.values_list("content", flat=True).first()
            if content is None:
                return 0
            self._position += 1
            self._rest = memoryview(bytes(content))
        size = min(len(buffer), len(self._rest))
        buffer[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size


def content(upload: Import) -> BinaryIO:
    """The uploaded file as a binary stream."""
    return cast(BinaryIO, io.BufferedReader(_Chunks(upload), 1 << 16))
