"""The files of imports, kept in the database in pieces until they have been read: as streams, and which hold what is looked for.

Files of imports that failed or were cancelled stay, so that the imports can go on.
"""

from collections.abc import Iterator
from itertools import count
from typing import BinaryIO

from agents_app.files import reader
from agents_app.files.formats import Reading, Unreadable, one_stream
from datasets_app.models import Import, ImportChunk
from routerweb.erasing import Lookup

UNDER_WAY = (Import.Status.QUEUED, Import.Status.RUNNING)


def _pieces(upload: Import) -> Iterator[bytes]:
    for position in count():
        chunk = ImportChunk.objects.filter(upload=upload, position=position)
        content = chunk.values_list("content", flat=True).first()
        if content is None:
            return
        yield bytes(content)


def content(upload: Import) -> BinaryIO:
    """The uploaded file as a binary stream, one piece in memory at a time."""
    return one_stream(_pieces(upload))


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
