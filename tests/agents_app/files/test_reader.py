"""Files are read as far as they hold something, and searched whole, whatever they are."""

import io
import json
import zipfile
from collections.abc import Iterator
from typing import Any

import pytest

from agents_app.files import reader, workbooks
from agents_app.files.formats import Reading, Unreadable
from tests.agents_app.files.books import book, changed, wide, with_shared_strings
from training_app.engine.data.examples import RowError

SHEET = "xl/worksheets/sheet1.xml"


def read(content: bytes) -> list[Any]:
    return list(reader.records(io.BytesIO(content), Reading("xlsx"), limits=reader.PAGE))


def test_a_workbook_costs_what_it_holds_and_not_what_it_says() -> None:
    content = wide()
    assert len(content) < 10_000
    *rows, beyond = read(content)
    assert rows == [(1, ["text", "label"]), (2, ["refund me", "Billing"])]
    assert isinstance(beyond, RowError)
    assert (beyond.line, "empty rows" in beyond.reason) == (1_048_576, True)


def test_a_cell_far_to_the_right_is_named_and_not_walked_to() -> None:
    content = changed(book(("text", "label"), ("hi", "far")), SHEET, 'r="B2"', 'r="XFD2"')
    first, second, beyond = read(content)
    assert (first, second) == ((1, ["text", "label"]), (2, ["hi"]))
    assert (beyond.line, "16384" in beyond.reason.replace(",", "")) == (2, True)


def test_rows_and_columns_with_gaps_keep_their_places() -> None:
    content = book(("text", "", "label"), ("", "", ""), (None, None, None), ("hi", None, "Billing"))
    assert read(content) == [(1, ["text", "", "label"]), (4, ["hi", "", "Billing"])]


@pytest.mark.at_length
def test_a_table_of_shared_texts_that_unpacks_to_a_gigabyte_is_refused_unopened() -> None:
    content = with_shared_strings(1 << 30)
    assert len(content) < 2 << 20
    with pytest.raises(Unreadable, match=r"unpacks to 102\d MB"):
        read(content)
    with pytest.raises(Unreadable, match="unpacks"):
        reader.head(io.BytesIO(content), "book.xlsx")


@pytest.mark.at_length
def test_one_that_just_passes_is_read_or_refused_within_the_limits() -> None:
    content = with_shared_strings(workbooks.MAX_SHARED - (1 << 20))
    try:
        rows, refused = read(content), ""
    except Unreadable as error:
        rows, refused = [], str(error)
    assert rows == [(1, ["text"]), (2, ["refund me"])] or "Save it as CSV" in refused


def test_an_archive_that_lies_about_its_size_is_refused() -> None:
    content = bytearray(with_shared_strings(8 << 20))
    assert read(bytes(content)) == [(1, ["text"]), (2, ["refund me"])]
    place = content.rfind(b"xl/sharedStrings.xml") - 46 + 24  # the size unpacked, in the archive's list of its members
    assert int.from_bytes(content[place : place + 4], "little") > 8 << 20
    content[place : place + 4] = (1_000).to_bytes(4, "little")
    with pytest.raises(Unreadable, match="Excel"):
        read(bytes(content))


# ---------------------------------------------------------------------------------------------------- searching stored files

NAME = "Ána\tLovelace"
TEXT = f'Hello,\n{NAME} "quoted"'


def table(delimiter: str = ",") -> str:
    quoted = TEXT.replace('"', '""')
    return f'text{delimiter}agent\nhi{delimiter}Billing\n"{quoted}"{delimiter}Billing\n'


def zipped(name: str, content: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return buffer.getvalue()


def hiding_places() -> Iterator[tuple[str, bytes]]:
    """Files of each format and encoding with NAME in them."""
    escaped = json.dumps(TEXT)
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "cp1252"):
        for delimiter in ",;\t|":
            yield f"csv {delimiter!r} {encoding}", table(delimiter).encode(encoding)
        yield f"lines {encoding}", f"hi\nthis is {NAME}\n".encode(encoding)
        for name, written in (("escaped", escaped), ("plain", json.dumps(TEXT, ensure_ascii=False))):
            yield f"jsonl {name} {encoding}", f'{{"text": "hi"}}\n{{"text": {written}}}\n'.encode(encoding)
            yield f"array {name} {encoding}", f'[{{"text": "hi"}},\n {{"a": [{{"b": {written}}}]}}]'.encode(encoding)
            yield f"broken {name} {encoding}", f'{{"text": {"x" * 500}, {written} oh no\n'.encode(encoding)
        yield f"key {encoding}", json.dumps({"text": "hi", TEXT: 1}).encode(encoding)
        twice = json.dumps({"text": "hi", "raw": json.dumps({"n": TEXT})})
        yield f"json in json {encoding}", twice.encode(encoding)
    for size in (1, 5_000):
        filler = [("text",), *((f"query {number}",) for number in range(size))]
        yield f"xlsx {size}", book(*filler, (TEXT,))
        yield f"far xlsx {size}", changed(book(*filler, (TEXT,)), SHEET, f'r="A{size + 2}"', 'r="XFD1048576"')
    two_sheets = book(("text",), ("hi",))
    yield "xlsx author", changed(two_sheets, "docProps/core.xml", "openpyxl", NAME)
    yield "xlsx in zip", zipped("inner.xlsx", book(("text",), (TEXT,)))
    yield "csv in zip", zipped("inner.csv", table(";").encode("cp1252"))
    yield "zip member's name", zipped(f"{NAME}.csv", b"text\nhi\n")


PLACES = dict(hiding_places())


@pytest.mark.parametrize("place", PLACES)
def test_a_name_is_seen_wherever_it_stands(place: str) -> None:
    found = list(reader.stored_texts(io.BytesIO(PLACES[place])))
    assert any(NAME in text for _line, text in found), found[:20]


def test_a_cyrillic_name_is_seen_in_its_old_encoding() -> None:
    content = "текст;агент\nменя зовут Ада Лавлейс;Billing\n".encode("cp1251")
    assert any("Ада Лавлейс" in text for _line, text in reader.stored_texts(io.BytesIO(content)))
