"""The rows of an Excel workbook, read cell by cell and only as far as it holds any. Runs in the child process.

A workbook may say that it has a million rows of sixteen thousand columns and hold three cells. openpyxl's own rows fill in what is
missing between cells; here only cells that stand in the file cost anything, and a long run of empty ones ends a row or a sheet.
"""

from __future__ import annotations

import re
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime, time, timedelta
from itertools import islice
from typing import Any, BinaryIO

from agents_app.files.formats import Record, Unreadable, gettext_noop
from training_app.engine.data.examples import RowError

#: What a workbook may unpack to, and its table of shared texts alone: both are read by a child that has 500 MB.
MAX_UNPACKED = 512 << 20
MAX_SHARED = 96 << 20
#: Parts of a workbook (sheets, styles, pictures) at most.
MAX_PARTS = 10_000
#: So many empty rows end a sheet, so many empty columns a row.
EMPTY_ROWS = 1_000
EMPTY_COLUMNS = 200
MAX_COLUMNS = 1_000
#: So many rows of a sheet say whether it holds a table, and which.
LOOKED_AT = 20
#: Merged cells that are looked at.
MAX_MERGED = 2_000


def records(stream: BinaryIO) -> Iterator[Record | RowError]:
    """The rows of the first sheet that holds a table, else of the first that holds anything, as texts and numbers; then those of other
    sheets with the same header, and an error for each other table. `stream` can be sought in. Raises Unreadable."""
    check(stream)
    with _without_numpy():
        from openpyxl import load_workbook
        from openpyxl.utils.exceptions import InvalidFileException

    try:
        yield from _sheets(load_workbook(stream, read_only=True, data_only=True))
    except (Unreadable, MemoryError):
        raise
    except (
        zipfile.BadZipFile,
        InvalidFileException,
        KeyError,
        OSError,
        ValueError,
        TypeError,
        AttributeError,
    ) as error:
        raise _not_a_workbook() from error
    except Exception as error:  # a workbook's XML may be broken in more ways than openpyxl has exceptions for
        raise _not_a_workbook() from error


@contextmanager
def _without_numpy() -> Iterator[None]:
    """Hides numpy from openpyxl, which imports it only to write its numbers, and then takes twice the time to start."""
    hidden = "numpy" not in sys.modules
    if hidden:
        sys.modules["numpy"] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        if hidden:
            del sys.modules["numpy"]


def _sheets(book: Any) -> Iterator[Record | RowError]:
    """The rows of all sheets that belong together; their lines count on from sheet to sheet."""
    sheets = [(sheet, start) for sheet in book.worksheets if (start := _beginning(book, sheet))]
    tables = [sheet for sheet in sheets if _is_table(sheet[1])] or sheets[:1]
    last, headers = 0, [tuple(cells) for cells in tables[0][1] if _wide(cells)] if tables else []
    for place, (sheet, beginning) in enumerate(tables):
        top = next((i for i, cells in enumerate(beginning) if tuple(cells) in headers), None)
        if place and top is None:
            yield RowError(last + 1, f"the sheet “{sheet.title}” has other columns: save it as a file of its own")
            last += 1
            continue
        above, number = (top or 0) + 1 if place else 0, last
        for row in _rows(book, sheet):
            if above and not isinstance(row, RowError):
                above -= 1  # its titles and its header
                continue
            number = last + (row.line if isinstance(row, RowError) else row[0])
            yield (
                RowError(number, row.reason, row.field, row.excerpt) if isinstance(row, RowError) else (number, row[1])
            )
        last = number


def _beginning(book: Any, sheet: Any) -> list[list[Any]]:
    """The cells of a sheet's first rows."""
    rows = islice(_rows(book, sheet), LOOKED_AT)
    return [list(row[1]) for row in rows if not isinstance(row, RowError)]


def _wide(cells: list[Any]) -> bool:
    return sum(cell != "" for cell in cells) > 1


def _is_table(beginning: list[list[Any]]) -> bool:
    """Whether rows look like a table: a header and a row below it, of two cells at least."""
    return sum(map(_wide, beginning)) > 1


def check(stream: BinaryIO) -> None:
    """Refuse a workbook by what its archive says of itself, before any of it is unpacked. Raises Unreadable."""
    try:
        with zipfile.ZipFile(stream) as packed:
            parts = packed.infolist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise _not_a_workbook() from error
    unpacked = sum(part.file_size for part in parts)
    shared = sum(part.file_size for part in parts if part.filename.lower().endswith("sharedstrings.xml"))
    if unpacked > MAX_UNPACKED or shared > MAX_SHARED or len(parts) > MAX_PARTS:
        raise Unreadable(
            gettext_noop("The workbook unpacks to %(size)s MB, more than is read. Save the sheet as CSV."),
            size=max(unpacked, shared) >> 20,
        )
    stream.seek(0)


def _not_a_workbook() -> Unreadable:
    return Unreadable(
        gettext_noop("This is no Excel workbook that can be read, or it has a password. Save it as .xlsx or CSV.")
    )


def _rows(book: Any, sheet: Any) -> Iterator[Record | RowError]:
    """The rows of one sheet that hold something, and an error that says what lies beyond the empty stretch that ended it."""
    from openpyxl.worksheet._reader import WorkSheetParser

    last = 0
    with sheet._get_source() as source:
        merged = _merged(source)
    with sheet._get_source() as source:
        parser = WorkSheetParser(
            source,
            sheet._shared_strings,
            data_only=True,
            epoch=book.epoch,
            date_formats=book._date_formats,
            timedelta_formats=book._timedelta_formats,
        )
        for number, cells in parser.parse():
            values, beyond = _cells(cells)
            _fill(merged, number, values)
            if not values and not beyond:
                continue
            if last and number - last > EMPTY_ROWS:
                yield RowError(number, f"stands behind {number - last - 1:,} empty rows, where the sheet ends")
                return
            last = number
            if values:
                yield number, values
            if beyond:
                yield RowError(number, f"the cell in column {beyond} stands behind {EMPTY_COLUMNS} empty columns")


def _merged(source: Any) -> list[list[Any]]:
    """[column, first row, last row, value to come] of the cells that are merged downwards: the value stands in the first alone."""
    ranges: list[list[Any]] = []
    rest = b""
    while piece := source.read(1 << 20):
        rest += piece
        for match in _MERGE.finditer(rest):
            column, top, bottom = _column(match[1].decode()), int(match[2]), int(match[3])
            if bottom > top and len(ranges) < MAX_MERGED:
                ranges.append([column, top, bottom, ""])
        rest = rest[-200:]
    return list({(span[0], span[1]): span for span in ranges}.values())


_MERGE = re.compile(rb'<(?:\w+:)?mergeCell\b[^>]*\bref="([A-Z]{1,3})(\d{1,7}):[A-Z]{1,3}(\d{1,7})"')


def _column(letters: str) -> int:
    number = 0
    for letter in letters:
        number = 26 * number + ord(letter) - 64
    return number


def _fill(merged: list[list[Any]], row: int, values: list[Any]) -> None:
    """Give a row's values what stands in the merged cells that it is part of."""
    if not any(values):
        return
    for area in merged:
        column, top, bottom, held = area
        if row == top and column <= len(values):
            area[3] = values[column - 1]
        elif top < row <= bottom and held != "":
            values += [""] * (column - len(values))
            values[column - 1] = held


def _cells(cells: list[dict[str, Any]]) -> tuple[list[Any], int]:
    """A row's values up to its last one, and the first column that stands too far right to be one of them, 0 for none."""
    values: list[Any] = []
    for cell in cells:
        value = _plain(cell["value"])
        if value == "":
            continue
        column = int(cell["column"])
        if column - len(values) > EMPTY_COLUMNS or column > MAX_COLUMNS:
            return values, column
        values += [""] * (column - 1 - len(values))
        values[column - 1 :] = [value]
    return values, 0


def _plain(value: Any) -> Any:
    """A cell's value as JSON can hold it."""
    if value is None:
        return ""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, datetime) and value.time() == time():
        return value.date().isoformat()
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, timedelta) or not isinstance(value, str | int | float | bool):
        return str(value)
    return value
