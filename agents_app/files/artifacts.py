"""Whether a model's artifact from elsewhere can be read at all. Runs in the child process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from agents_app.files.formats import Unreadable
from training_app.engine.data import artifact


def check(stream: BinaryIO) -> Iterator[None]:
    """Read an artifact whole: its archive, sums, JSON and arrays; yields nothing. Raises Unreadable with the reason."""
    try:
        artifact.read(stream.read())
    except artifact.ArtifactError as error:
        raise Unreadable("%(why)s", why=str(error)) from None
    yield from ()
