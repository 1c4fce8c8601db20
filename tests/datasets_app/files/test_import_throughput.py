"""Importing and exporting do not hold a file in memory."""

import io
import tracemalloc
from collections.abc import Iterator

import pytest

from datasets_app.files import exports, imports
from datasets_app.models import Dataset, Query


def _lines(count: int) -> Iterator[bytes]:
    filler = "word " * 2_500
    for number in range(count):
        yield b'{"text": "%d %s", "required_agents": [%d]}\n' % (number, filler.encode(), number % 4)


class Endless(io.RawIOBase):
    """A file that is made while it is read."""

    def __init__(self, count: int) -> None:
        self._lines = _lines(count)
        self._rest = bytearray()

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        while len(self._rest) < size:
            line = next(self._lines, b"")
            if not line:
                break
            self._rest += line
        piece, self._rest = bytes(self._rest[:size]), self._rest[size:]
        return piece


def _peak(work: object) -> int:
    tracemalloc.start()
    try:
        work()  # type: ignore[operator]
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_file_is_never_held_whole(dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imports, "BATCH_ROWS", 5)
    monkeypatch.setattr(exports, "BATCH", 5)
    count = 250
    size = sum(map(len, _lines(count)))
    assert _peak(lambda: imports.read_file(dataset, Endless(count), "jsonl")) < 0.7 * size  # type: ignore[arg-type]
    assert Query.objects.count() == count

    def write() -> None:
        for _piece in exports.encode(exports.rows(exports.selected(dataset.pool)), "jsonl"):
            pass

    assert _peak(write) < 0.7 * size
