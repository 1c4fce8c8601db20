"""The rows of a backup, checked whole before the first is given. Runs in the child process."""

from __future__ import annotations

import hashlib
import json
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO

from agents_app.files.formats import Unreadable

MAX_MANIFEST = 16 << 20  # bytes
#: Lines between two signs of how far it is.
BATCH = 500

DAMAGED, NOT_A_BACKUP, ENCRYPTED, PACKED = "damaged", "not a backup", "encrypted", "packed otherwise"


def rows(stream: BinaryIO) -> Iterator[list[Any]]:
    """["manifest", …], ["checked", table, lines] as the sums are compared, ["whole"], then ["row", table, values] in the order of the
    manifest's tables. Raises Unreadable with DAMAGED, NOT_A_BACKUP, ENCRYPTED or PACKED."""
    try:
        with zipfile.ZipFile(stream) as archive:
            manifest = _manifest(archive)
            yield ["manifest", manifest]
            for name, described in manifest["tables"].items():
                yield from _checked(archive, name, described)
            yield ["whole"]
            for name in manifest["tables"]:
                with archive.open(f"tables/{name}.jsonl") as member:
                    for line in member:
                        yield ["row", name, json.loads(line)]
    except Unreadable:
        raise
    except NotImplementedError:
        raise Unreadable(PACKED) from None
    except RuntimeError as error:  # `zipfile` has no class of its own for this
        if "encrypted" in str(error) or "password" in str(error):
            raise Unreadable(ENCRYPTED) from None
        raise
    except (OSError, zipfile.BadZipFile, zlib.error, EOFError):
        raise Unreadable(NOT_A_BACKUP) from None
    except (ValueError, RecursionError):
        raise Unreadable(DAMAGED) from None


def _manifest(archive: zipfile.ZipFile) -> dict[str, Any]:
    """What the file says of itself: its format, the migrations, and each table's columns, number of rows and sum."""
    try:
        if archive.getinfo("manifest.json").file_size > MAX_MANIFEST:
            raise Unreadable(DAMAGED)
        manifest = json.loads(archive.read("manifest.json"))
        return {
            "format": manifest["format"],
            "migrations": [[str(app), str(name)] for app, name in manifest["migrations"]],
            "tables": {
                str(name): {
                    "columns": [str(column) for column in table["columns"]],
                    "rows": int(table["rows"]),
                    "sha256": str(table["sha256"]),
                }
                for name, table in manifest["tables"].items()
            },
        }
    except Unreadable:
        raise
    except (
        KeyError,
        TypeError,
        ValueError,
        AttributeError,
        OverflowError,
        RecursionError,
        zipfile.BadZipFile,
        zlib.error,
    ):
        raise Unreadable(DAMAGED) from None


def _checked(archive: zipfile.ZipFile, name: str, described: dict[str, Any]) -> Iterator[list[Any]]:
    digest, lines = hashlib.sha256(), 0
    try:
        with archive.open(f"tables/{name}.jsonl") as member:
            for line in member:
                digest.update(line)
                lines += 1
                if lines % BATCH == 0:
                    yield ["checked", name, lines]
    except (KeyError, zipfile.BadZipFile, zlib.error):
        raise Unreadable(DAMAGED) from None
    if lines != described["rows"] or digest.hexdigest() != described["sha256"]:
        raise Unreadable(DAMAGED)
