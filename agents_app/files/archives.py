"""The records of the files in a ZIP archive, one file after the other. Runs in the child process."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any, BinaryIO, cast

from agents_app.files.formats import Reading, Record, Unreadable, gettext_noop
from agents_app.files.formats import records as records_of
from training_app.engine.data.examples import RowError

#: What one file of an archive may unpack to, and how many files it may hold.
MAX_MEMBER, MAX_MEMBERS = 128 << 20, 2_000
SUFFIXES = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".txt", ".xlsx")
#: Names of files that hold no queries.
LEFT = ("agents.jsonl", "dataset_info.json", "readme.txt", "metadata.json", "settings.json", "label_cache.jsonl")
SPLITS = {"train": "train", "val": "val", "valid": "val", "validation": "val", "dev": "val", "test": "test"}
#: The key under which a record of an archive says of which file it is.
MEMBER = "__file__"


def members(stream: BinaryIO) -> list[zipfile.ZipInfo]:
    """The files of an archive that may hold queries, by name. Raises Unreadable."""
    try:
        with zipfile.ZipFile(stream) as packed:
            entries = packed.infolist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        raise Unreadable(gettext_noop("This ZIP archive is damaged. Pack it again.")) from None
    if len(entries) > MAX_MEMBERS or any(entry.file_size > MAX_MEMBER for entry in entries):
        raise Unreadable(gettext_noop("This ZIP archive unpacks to more than is read. Import its files one by one."))
    files = []
    for entry in entries:
        path = PurePosixPath(entry.filename)
        hidden = any(part.startswith((".", "__MACOSX")) for part in path.parts)
        if not entry.is_dir() and not hidden and path.suffix.lower() in SUFFIXES and path.name.lower() not in LEFT:
            files.append(entry)
    if not files:
        raise Unreadable(gettext_noop("This ZIP archive holds no file of queries: CSV, Excel, JSON, JSONL or text."))
    return sorted(files, key=lambda entry: entry.filename)


def configuration(stream: BinaryIO) -> Iterator[Any]:
    """The value of the archive's config.yaml nearest to its root; nothing without one. Raises Unreadable."""
    from agents_app.files import rosters

    try:
        with zipfile.ZipFile(stream) as packed:
            names = [name for name in packed.namelist() if PurePosixPath(name).name == "config.yaml"]
            if names:
                nearest = min(names, key=lambda name: len(PurePosixPath(name).parts))
                with packed.open(nearest) as member:
                    yield from rosters.yaml_value(io.BytesIO(member.read(rosters.MAX_LISTED)))
    except (zipfile.BadZipFile, OSError, RuntimeError, NotImplementedError):
        return


def records(stream: BinaryIO) -> Iterator[Record | RowError]:
    """The records of every file, by key: a table's by the names in its header. Lines count on from file to file."""
    from agents_app.files import detecting

    behind = 0
    files = members(stream)
    stream.seek(0)
    try:
        with zipfile.ZipFile(stream) as packed:
            for file in files:
                content = cast(BinaryIO, io.BytesIO(packed.read(file)))
                reading = detecting.detect(content, file.filename)
                if reading.kind == "zip":
                    yield RowError(behind + 1, f"{file.filename} is an archive within the archive: unpack it")
                    continue
                last = 0
                for record in _named(content, reading, file.filename):
                    line = record.line if isinstance(record, RowError) else record[0]
                    last = max(last, line)
                    if isinstance(record, RowError):
                        yield RowError(behind + line, f"{file.filename}: {record.reason}", record.field, record.excerpt)
                    else:
                        yield behind + line, record[1]
                behind += last
    except (zipfile.BadZipFile, OSError, RuntimeError, NotImplementedError):
        raise Unreadable(gettext_noop("This ZIP archive is damaged, or it has a password. Pack it again.")) from None


def _named(content: BinaryIO, reading: Reading, name: str) -> Iterator[Record | RowError]:
    """A file's records by key, with the file's name, and its split where the name says one."""
    path = PurePosixPath(name)
    more: dict[str, Any] = {MEMBER: path.stem}
    if path.stem.lower() in SPLITS:
        more["split"] = SPLITS[path.stem.lower()]
    names: list[str] | None = None
    for record in records_of(content, reading):
        if isinstance(record, RowError):
            yield record
            continue
        line, cells = record
        if isinstance(cells, dict):
            yield line, {**more, **cells}
        elif reading.kind == "lines":
            yield line, {**more, "text": cells[0]}
        elif names is None:
            names = [str(cell).strip() or f"column {place}" for place, cell in enumerate(cells, start=1)]
        else:
            yield line, {**more, **dict(zip(names, cells, strict=False))}
