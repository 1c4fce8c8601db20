"""What a page is asked with: the numbers, days and texts of addresses and forms, read in one way by every view.

A reader gives None for what is not a number or a day, however strange it is, and never raises. Text needs no reader: `StorableText`
stands before every view.
"""

import math
import re
from collections.abc import Callable, Iterable
from datetime import date
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, QueryDict

from training_app.engine.data import storable

MOST = 2**31 - 1  # what a PositiveIntegerField holds on every database
LARGEST_KEY = 2**63 - 1
LISTED = 1_000
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
# Far from the first and last days that a `datetime` knows, so that a day more, a day less or another time zone never leaves them.
FIRST_DAY, LAST_DAY = date(1900, 1, 1), date(9000, 12, 31)


def number(text: str | None, lowest: int = 0, highest: int = MOST) -> int | None:
    """The whole number that a text is, written in the digits 0 to 9, from `lowest` to `highest`; None for everything else."""
    text = (text or "").strip()
    if not text.isascii() or not text.isdecimal() or len(text) > 19:
        return None
    value = int(text)
    return value if lowest <= value <= highest else None


def key(text: str | None) -> int | None:
    """The key of a row that a text is, or None."""
    return number(text, 1, LARGEST_KEY)


def numbers(texts: Iterable[str], highest: int = MOST) -> list[int]:
    """The whole numbers among some texts, in order; what is none is left out."""
    return [value for text in texts if (value := number(text, 0, highest)) is not None]


def keys(texts: Iterable[str]) -> list[int]:
    """The keys of rows among some texts, in order; what is none is left out."""
    return numbers(texts, LARGEST_KEY)


def listed(text: str | None) -> list[int]:
    """The keys of rows in a text like "3,17,20", at most 1,000; what is none is left out."""
    return keys((text or "").split(",")[:LISTED])


def phrases(text: str) -> list[str]:
    """The phrases of a text that has commas or line breaks between them."""
    return [phrase.strip() for phrase in text.replace("\n", ",").split(",") if phrase.strip()]


def decimal(text: str | None) -> float | None:
    """The finite number that a text is, with a point or a comma before its fraction; None for everything else."""
    try:
        value = float((text or "").strip().replace(",", "."))
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def day(text: str | None) -> date | None:
    """The day of a text like 2026-01-31, from 1900 to 9000; None for everything else."""
    text = (text or "").strip()
    try:
        value = date.fromisoformat(text) if _DAY.fullmatch(text) else None
    except ValueError:
        return None
    return value if value is not None and FIRST_DAY <= value <= LAST_DAY else None


# ---------------------------------------------------------------------------------------------------- the door


def _storable(fields: QueryDict) -> QueryDict:
    """The fields with U+FFFD for each character that no database holds; the same object where there is none."""
    if not any(storable.text_fault(value) for _name, values in fields.lists() for value in (_name, *values)):
        return fields
    clean = QueryDict(mutable=True, encoding=fields.encoding)
    for name, values in fields.lists():
        clean.setlist(storable.mended_text(name), [storable.mended_text(value) for value in values])
    clean._mutable = False
    return clean


def _named(fields: QueryDict) -> QueryDict:
    """The fields without a blank `_to_field`: Django's admin would look for a field of no name, and fail."""
    if fields.get("_to_field") != "":
        return fields
    named = fields.copy()
    del named["_to_field"]
    return named


class StorableText:
    """Middleware: no view meets text that a database refuses, nor a number in an address that no key can be.

    In the query string and in forms a NUL becomes U+FFFD, as Django has it for bytes that are no UTF-8. A cookie with one is
    dropped, and an address with one is not found.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        for name in [name for name, value in request.COOKIES.items() if storable.text_fault(value)]:
            del request.COOKIES[name]
        if "%00" in request.META.get("QUERY_STRING", ""):
            request.GET = _storable(request.GET)  # type: ignore[assignment]
        if request.GET.get("_to_field") == "":
            request.GET = _named(request.GET)  # type: ignore[assignment]
        load = request._load_post_and_files

        def load_storable() -> None:
            load()
            request._post = _named(_storable(request._post))  # type: ignore[attr-defined]

        # Forms are read when a view first asks for them, and not before it is known who sends them.
        request._load_post_and_files = load_storable  # type: ignore[method-assign]
        return self.get_response(request)

    def process_view(
        self, request: HttpRequest, view: Any, arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> HttpResponse | None:
        for value in (*arguments, *named.values()):
            if isinstance(value, str) and storable.text_fault(value):
                raise Http404
            if isinstance(value, int) and value > LARGEST_KEY:
                raise Http404
        return None
