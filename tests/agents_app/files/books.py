"""Workbooks that say more than they hold."""

import io
import zipfile

import openpyxl


def book(*rows: tuple[object, ...]) -> bytes:
    """A workbook whose first sheet has these rows."""
    made = openpyxl.Workbook()
    for row in rows:
        made.worksheets[0].append(row)
    buffer = io.BytesIO()
    made.save(buffer)
    return buffer.getvalue()


def changed(workbook: bytes, name: str, old: str, new: str) -> bytes:
    """The workbook with a piece of one of its parts replaced."""
    buffer = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(workbook)) as before,
        zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as after,
    ):
        for part in before.infolist():
            content = before.read(part)
            if part.filename == name:
                assert old.encode() in content
                content = content.replace(old.encode(), new.encode())
            after.writestr(part.filename, content)
    return buffer.getvalue()


def wide() -> bytes:
    """Cells in rows 1, 2 and 1,048,576 alone, and a dimension of the whole sheet: 17 thousand million cells, were they filled in."""
    narrow = book(("text", "label"), ("refund me", "Billing"), ("stray", ""))
    sheet = "xl/worksheets/sheet1.xml"
    far = changed(narrow, sheet, 'r="3"', 'r="1048576"')
    far = changed(far, sheet, 'r="A3"', 'r="A1048576"')
    return changed(far, sheet, "A1:B3", "A1:XFD1048576")


def with_shared_strings(size: int) -> bytes:
    """A workbook whose table of shared texts unpacks to so many bytes of one letter."""
    plain = changed(
        book(),
        "[Content_Types].xml",
        "</Types>",
        '<Override PartName="/xl/sharedStrings.xml" ContentType='
        '"application/vnd.openxmlformats-officedocument.spreadsheetml.sharedStrings+xml"/></Types>',
    )
    cells = '<row r="1"><c r="A1" t="s"><v>0</v></c></row><row r="2"><c r="A2" t="s"><v>2</v></c></row></sheetData>'
    plain = changed(plain, "xl/worksheets/sheet1.xml", "</sheetData>", cells)
    buffer = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(plain)) as before,
        zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as after,
    ):
        for part in before.infolist():
            if part.filename != "xl/sharedStrings.xml":
                after.writestr(part.filename, before.read(part))
        with after.open("xl/sharedStrings.xml", "w") as member:
            member.write(
                b'<sst xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><si><t>text</t></si><si><t>'
            )
            piece = b"a" * (1 << 20)
            for _mebibyte in range(size >> 20):
                member.write(piece)
            member.write(b"</t></si><si><t>refund me</t></si></sst>")
    return buffer.getvalue()
