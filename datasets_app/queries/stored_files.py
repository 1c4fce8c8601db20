"""The files of imports, kept in the database in pieces until they have been read: as streams, and which hold what is looked for.

Files of imports that failed or were cancelled stay, so that the imports can go on.
"""

import io
from collections.abc import Iterator
from typing import Any, BinaryIO, cast

from agents_app.files import reader
from agents_app.files.formats import Reading, Unreadable
from datasets_app.models import Import, ImportChunk
from routerweb.erasing import Lookup

UNDER_WAY = (Import.Status.QUEUED, Import.Status.RUNNING)


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


def texts(upload: Import) -> Iterator[tuple[int, str]]:
    """(line, text) of everything that stands in an import's stored file, by the reader that imports it; see `reader.stored_texts`.
    Raises Unreadable for a file that cannot be looked through."""
    return reader.stored_texts(content(upload), Reading.of(upload.reading) if upload.reading else None)


def holding(lookup: Lookup, *, under_way: bool = False) -> list[int]:
    """The keys of the imports whose stored file holds it, oldest first: those that have ended, or those `under_way`.

    A file that cannot be looked through within the reader's limits may hold anything, so it counts.
    """
    with_files = Import.objects.filter(chunks__isnull=False)
    chosen = with_files.filter(status__in=UNDER_WAY) if under_way else with_files.exclude(status__in=UNDER_WAY)
    return [upload.pk for upload in chosen.distinct().order_by("pk") if _stands_in(upload, lookup)]


def _stands_in(upload: Import, lookup: Lookup) -> bool:
    try:
        return any(lookup.found_in(text) for _line, text in texts(upload))
    except Unreadable:
        return True
