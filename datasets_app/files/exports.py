"""Writing a pool's queries and gold labels as streams of bytes, in the formats that are read back without loss."""

import io
import tempfile
import zipfile
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from django.db.models import Q, QuerySet
from django.utils.text import slugify

from agents_app import pools, rosters
from agents_app.models import Pool
from datasets_app.models import Dataset, Label, Query
from datasets_app.queries import query_columns
from training_app.engine.data.conversations import from_json
from training_app.engine.data.examples import Row
from training_app.engine.data.files import FORMATS, write_rows

BATCH = 1_000
CONTENT_TYPES = {
    "jsonl": "application/x-ndjson",
    "csv": "text/csv; charset=utf-8",
    "txt": "text/plain; charset=utf-8",
    "folder": "application/zip",
}


def selected(pool: Pool, dataset: Dataset | None = None, include_unlabeled: bool = False) -> QuerySet[Query]:
    """The queries that an export writes: those with gold, or all of them; never a deleted or erased one."""
    queries = Query.objects.of(pool).filter(erased_at__isnull=True)
    if dataset is not None:
        queries = queries.filter(dataset=dataset)
    return queries if include_unlabeled else queries.filter(gold__isnull=False)


def rows(queries: QuerySet[Query]) -> Iterator[Row]:
    """The rows of a file, by key of the query: a query without gold is an unlabeled row, `required` None. What people noted on their
    labels that count stands in `extra` as `notes`. A database query for all and one for each batch, in memory that does not grow."""
    values = queries.order_by("pk").values_list(
        "pk",
        "external_id",
        "text",
        "messages",
        "conversation",
        "extra",
        "group__split",
        "gold__required",
        "gold__asked",
        *(column.lookup for column, _entry in query_columns.entries()),
    )
    every = values.iterator(chunk_size=BATCH)
    line = 0
    while batch := list(islice(every, BATCH)):
        notes = _notes([row_values[0] for row_values in batch])
        for row_values in batch:
            line += 1
            yield _row(line, row_values[1:], notes.get(row_values[0], []))


def _notes(queries: list[int]) -> dict[int, list[str]]:
    """What people noted on their labels of these queries, where they did."""
    notes: dict[int, list[str]] = {}
    labels = (
        Label.objects.current().filter(query__in=queries, source=Label.Source.HUMAN).exclude(note="").order_by("pk")
    )
    for query, note in labels.values_list("query", "note"):
        notes.setdefault(query, []).append(note)
    return notes


def _row(line: int, columns: tuple[Any, ...], notes: list[str]) -> Row:
    identifier, text, messages, conversation, extra, split, required, asked, *entered = columns
    extra = {**extra, **query_columns.written(entered)}
    return Row(
        line=line,
        id=identifier,
        text=from_json(text, messages),
        required=None if required is None else frozenset(required),
        asked=None if asked is None else frozenset(asked),
        split=split,
        extra={**extra, "notes": notes} if notes else extra,
        conversation=conversation,
    )


def encode(rows: Iterable[Row], format: str) -> Iterator[bytes]:
    """The bytes of a file of these rows, in pieces of 1,000 rows. Raises ValueError for an unknown format."""
    if format not in FORMATS:
        raise ValueError(f"unknown format {format!r}: one of {', '.join(FORMATS)}")
    return _encode(rows, format)


def for_spreadsheets(pieces: Iterable[bytes], format: str) -> Iterator[bytes]:
    """The same file for people: a CSV begins with the mark of UTF-8, without which Excel reads it in the encoding of its country."""
    if format == "csv":
        yield BOM_UTF8
    yield from pieces


def _encode(rows: Iterable[Row], format: str) -> Iterator[bytes]:
    pending = iter(rows)
    first = True
    while True:
        batch = list(islice(pending, BATCH))
        if not batch and not first:
            return
        piece = io.BytesIO()
        write_rows(batch, format, piece)
        content = piece.getvalue()
        if format == "csv" and not first:
            content = content.split(b"\r\n", 1)[1]  # the header stands once, on top of the file
        if format == "txt" and first and content.startswith(BOM_UTF8):
            content = BOM_UTF8 + content  # the first of two is the file's, the second is the query's own
        yield content
        first = False


def file_name(pool: Pool, format: str, dataset: Dataset | None = None) -> str:
    """What a download is called, for example `support-tickets.jsonl`."""
    part = f"-{slugify(dataset.name) or dataset.pk}" if dataset is not None else ""
    return f"{pool.slug}{part}.{'zip' if format == 'folder' else format}"


# ---------------------------------------------------------------------------------------------------- the folder


def among(row: Row, active: frozenset[int]) -> Row:
    """The row as far as it speaks of active agents; unlabeled where it speaks of none."""
    if row.required is None or row.asked is None or not row.asked & active:
        return replace(row, required=None, asked=None)
    return replace(row, required=row.required & active, asked=row.asked & active)


class _Pipe(io.RawIOBase):
    """Takes what a zip file writes until it is fetched; it cannot be sought in, so nothing is kept."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        self._pieces.append(bytes(content))
        return len(content)

    def take(self) -> bytes:
        content = b"".join(self._pieces)
        self._pieces.clear()
        return content


def unpack(pool: Pool, place: Path) -> None:
    """Write the files of `folder` into that folder, which is made where it is missing. Raises OSError."""
    place.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile() as packed:
        for piece in folder(pool):
            packed.write(piece)
        with zipfile.ZipFile(packed) as archive:
            archive.extractall(place)  # our own names


def folder(pool: Pool, dataset: Dataset | None = None, include_unlabeled: bool = False) -> Iterator[bytes]:
    """A zip of the folder that `load_pool`, `benchmark` and the engine read: `agents.jsonl`, `train.jsonl`, `val.jsonl`,
    `test.jsonl`, `guidelines.md`, and `unassigned.jsonl` where queries have no split.

    It speaks of the pool as it stands: of its active agents, and of labels as far as they speak of those.
    """
    active = frozenset(agent.id for agent in pools.roster(pool))
    pipe = _Pipe()
    with zipfile.ZipFile(pipe, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("agents.jsonl", "".join(rosters.json_lines(pool)))
        if pool.guidelines:
            archive.writestr("guidelines.md", pool.guidelines)
        yield pipe.take()
        for name, split in (("train", "train"), ("val", "val"), ("test", "test"), ("unassigned", "")):
            queries = selected(pool, dataset, include_unlabeled).filter(Q(group__split=split))
            if not split and not queries.exists():
                continue
            with archive.open(f"{name}.jsonl", "w", force_zip64=True) as member:
                for piece in encode((among(row, active) for row in rows(queries)), "jsonl"):
                    member.write(piece)
                    yield pipe.take()
    yield pipe.take()
