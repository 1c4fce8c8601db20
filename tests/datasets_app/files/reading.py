"""Files in memory, read into a dataset, for the tests of importing."""

import io
import json
from typing import Any

from datasets_app.files import imports
from datasets_app.models import Dataset, Import

ALL = [0, 1, 2, 3]


def jsonl(*rows: Any) -> bytes:
    return b"".join(row if isinstance(row, bytes) else json.dumps(row).encode() + b"\n" for row in rows)


def read(dataset: Dataset, content: bytes, format: str = "jsonl", **options: Any) -> Import:
    return imports.read_file(dataset, io.BytesIO(content), format, **options)


def counts(upload: Import) -> tuple[int, int, int, int, int]:
    return (upload.rows_read, upload.queries_added, upload.labels_added, upload.unchanged, upload.rejected)
