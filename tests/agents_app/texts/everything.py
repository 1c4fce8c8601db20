"""All that a database holds, read by SQL alone and in every way that bytes and texts can be read: the product's code plays no part."""

import base64
import binascii
import gzip
import html
import io
import json
import re
import unicodedata
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from django.db import connection

DEEP = 6


def values() -> Iterator[tuple[str, Any]]:
    """(table.column, value) of every value in every table."""
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f"SELECT * FROM {connection.ops.quote_name(table)}")
            names = [column[0] for column in cursor.description]
            for stored in cursor.fetchall():
                yield from ((f"{table}.{name}", value) for name, value in zip(names, stored, strict=True))


def places_of(name: str) -> set[str]:
    """The columns in which a name stands, however it is written or packed."""
    wanted = _plain(name)
    return {place for place, value in values() if any(wanted in _plain(text) for text in texts(value))}


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def texts(value: Any, depth: int = 0) -> Iterator[str]:
    """Every text that a value may be read as."""
    if isinstance(value, (memoryview, bytearray)):
        value = bytes(value)
    if isinstance(value, bytes):
        yield from _of_bytes(value, depth)
    elif isinstance(value, str):
        yield value
        if depth < DEEP:
            yield from _of_text(value, depth + 1)
    elif isinstance(value, dict):
        yield from (text for pair in value.items() for part in pair for text in texts(part, depth))
    elif isinstance(value, list):
        yield from (text for part in value for text in texts(part, depth))


def _of_text(text: str, depth: int) -> Iterator[str]:
    for change in (html.unescape, unquote, _without_escapes):
        if (changed := change(text)) != text:
            yield from texts(changed, depth)
    try:
        inner = json.loads(text)
    except (ValueError, RecursionError):
        inner = None
    if isinstance(inner, (dict, list, str)):
        yield from texts(inner, depth)
    # Signed values are pieces of base64 with colons between them, after a point where they are compressed.
    for piece in re.split(r"[:.]", text):
        if len(piece) >= 16 and re.fullmatch(r"[\w+/=\n-]+", piece):
            padded = piece.replace("\n", "").rstrip("=")
            try:
                content = base64.urlsafe_b64decode(
                    padded.replace("+", "-").replace("/", "_") + "=" * (-len(padded) % 4)
                )
            except (ValueError, binascii.Error):
                continue
            yield from _of_bytes(content, depth)


def _without_escapes(text: str) -> str:
    plain = re.sub(r"\\u([0-9a-fA-F]{4})", lambda one: chr(int(one[1], 16)), text)
    return re.sub(r"\\[nrt]", " ", plain).replace('\\"', '"').replace('""', '"')


def _of_bytes(content: bytes, depth: int) -> Iterator[str]:
    for encoding in ("utf-16-le", "utf-16-be", "cp1252"):
        text = content.decode(encoding, "replace")
        yield from (text, _without_escapes(text))
    if depth >= DEEP:
        return
    yield from texts(content.decode("utf-8", "replace"), depth + 1)
    for unpack in (gzip.decompress, zlib.decompress):
        try:
            yield from _of_bytes(unpack(content), depth + 1)
        except (OSError, EOFError, zlib.error):
            continue
    if zipfile.is_zipfile(io.BytesIO(content)):
        with zipfile.ZipFile(io.BytesIO(content)) as packed:
            for member in packed.namelist():
                yield from _of_bytes(packed.read(member), depth + 1)
