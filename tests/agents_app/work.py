"""What a request did in the database, without the values."""

import re
from collections.abc import Iterable, Mapping


def shapes(queries: Iterable[Mapping[str, str]]) -> list[str]:
    """The statements in order, texts and numbers taken out."""
    return [re.sub(r"'(?:[^']|'')*'|\b\w*\d\w*\b|:[0-9a-z]+", "?", query["sql"]) for query in queries]
