"""Where archived decisions lie: a folder, or a bucket behind any S3 API, both by pyarrow's file systems.

DECISION_ARCHIVE names it. A file is written under a temporary name and moved when it is whole, and never changed afterwards.
"""

import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.conf import settings

if TYPE_CHECKING:
    from pyarrow import fs

S3 = "s3://"
#: Seconds in which S3 must take a connection, and answer or send more; each is tried three times.
CONNECT_SECONDS, ANSWER_SECONDS = 10.0, 20.0
PIECE = 2**20


class ArchiveError(Exception):
    """The archive cannot be read or written. The message says why."""


def is_used() -> bool:
    """Whether old decisions go to an archive."""
    return bool(settings.DECISION_ARCHIVE)


@contextmanager
def opened() -> "Iterator[tuple[fs.FileSystem, str]]":
    """The file system and the archive's path in it. Raises ArchiveError for what fails while it is used."""
    from pyarrow import fs

    if not is_used():
        raise ArchiveError("DECISION_ARCHIVE is not set.")
    place = settings.DECISION_ARCHIVE
    try:
        if place.startswith(S3):
            yield fs.S3FileSystem(**_s3_options()), place.removeprefix(S3).rstrip("/")
        else:
            yield fs.LocalFileSystem(), str(Path(place).absolute())
    except OSError as error:
        raise ArchiveError(f"The archive {place}: {error}") from error


def _s3_options() -> dict[str, Any]:
    """Keys come from the usual AWS_* variables or the machine's role, which pyarrow reads by itself."""
    options: dict[str, Any] = {"connect_timeout": CONNECT_SECONDS, "request_timeout": ANSWER_SECONDS}
    if settings.AWS_ENDPOINT_URL:
        scheme, _, host = settings.AWS_ENDPOINT_URL.partition("://")
        options |= {"scheme": scheme, "endpoint_override": host.rstrip("/")}
    if settings.AWS_REGION:
        options["region"] = settings.AWS_REGION
    return options


def put(source: Path, path: str) -> None:
    """Store a file under `path`, whole or not at all. Raises ArchiveError."""
    with opened() as (system, root):
        goal = f"{root}/{path}"
        system.create_dir(goal.rpartition("/")[0], recursive=True)
        with source.open("rb") as file, system.open_output_stream(f"{goal}.part") as stream:
            shutil.copyfileobj(file, stream, PIECE)
        if system.type_name == "local":
            _to_disk(f"{goal}.part")
        system.move(f"{goal}.part", goal)
        if system.type_name == "local":
            _to_disk(goal.rpartition("/")[0])


def _to_disk(path: str) -> None:
    """Others than the owner read nothing, and a power failure loses nothing that was moved."""
    Path(path).chmod(0o700 if Path(path).is_dir() else 0o600)
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def remove(path: str) -> None:
    """Delete a file, and what writing it may have left; one that is not there is fine. Raises ArchiveError."""
    with opened() as (system, root):
        for name in (path, f"{path}.part"):
            try:
                system.delete_file(f"{root}/{name}")
            except FileNotFoundError:
                continue


def is_there(path: str) -> bool:
    """Whether a file is stored under that path. Raises ArchiveError."""
    with opened() as (system, root):
        return bool(system.get_file_info(f"{root}/{path}").is_file)


def text(path: str) -> str | None:
    """What a small file says; None where there is none. Raises ArchiveError."""
    if not is_there(path):
        return None
    with opened() as (system, root), system.open_input_stream(f"{root}/{path}") as stream:
        return bytes(stream.read()).decode("utf-8", "replace")


def digest(path: str) -> tuple[str, int]:
    """(SHA-256, bytes) of a file as it is stored. Raises ArchiveError."""
    hashed, count = hashlib.sha256(), 0
    with opened() as (system, root), system.open_input_stream(f"{root}/{path}") as stream:
        while piece := stream.read(PIECE):
            hashed.update(piece)
            count += len(piece)
    return hashed.hexdigest(), count
