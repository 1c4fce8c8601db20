"""Importing and exporting do not hold a file in memory."""

import io
import tracemalloc
from collections.abc import Iterator

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from datasets_app.files import exports, imports, storing
from datasets_app.models import Dataset, Query, inserting


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


@pytest.mark.at_length
def test_a_file_is_never_held_whole(dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storing, "BATCH_ROWS", 5)
    monkeypatch.setattr(exports, "BATCH", 5)
    count = 1_000
    size = sum(map(len, _lines(count)))
    assert _peak(lambda: imports.read_file(dataset, Endless(count), "jsonl")) < 0.7 * size  # type: ignore[arg-type]
    assert Query.objects.count() == count

    def write() -> None:
        for _piece in exports.encode(exports.rows(exports.selected(dataset.pool)), "jsonl"):
            pass

    assert _peak(write) < 0.7 * size


def test_a_batch_looks_each_of_its_queries_up_by_its_hash(dataset: Dataset) -> None:
    """And does not walk through the dataset, which makes an import slower with each batch."""
    if connection.vendor != "sqlite":  # a plan of fifty rows would say nothing there
        pytest.skip("PostgreSQL plans by the tables' sizes, and reads a small one whole")
    rows = b"".join(b'{"text": "query %d"}\n' % number for number in range(50))
    with CaptureQueriesContext(connection) as captured:
        imports.read_file(dataset, io.BytesIO(rows), "jsonl")
    looked = [one["sql"] for one in captured if one["sql"].startswith('SELECT "datasets_app_query"."text_hash"')]
    assert len(looked) == 1
    assert "ORDER BY" not in looked[0]
    with connection.cursor() as cursor:
        cursor.execute("EXPLAIN QUERY PLAN " + looked[0].replace("%", "%%"))
        plan = " ".join(str(step) for step in cursor.fetchall())
    assert "dataset_id=? AND text_hash=?" in plan


def test_a_connection_is_as_it_was_after_an_import(dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    def settings() -> list[int]:
        with connection.cursor() as cursor:
            return [cursor.execute(f"PRAGMA {name}").fetchone()[0] for name in inserting.ROOMY]

    if connection.vendor != "sqlite":  # PRAGMAs are what the test is about
        pytest.skip("PostgreSQL has no such settings: nothing is changed there")
    before, during = settings(), []
    imports.read_file(
        dataset, io.BytesIO(b'{"text": "a query"}\n'), "jsonl", progress=lambda _: during.append(settings())
    )
    assert during == [list(inserting.ROOMY.values())]
    assert settings() == before != during[0]

    def broken(*_values: object) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(storing.Reader, "store", broken)
    with pytest.raises(OSError, match="full"):
        imports.read_file(dataset, io.BytesIO(b'{"text": "another"}\n'), "jsonl")
    assert settings() == before
