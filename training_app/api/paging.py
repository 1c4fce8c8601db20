"""Lists in parts: at most `limit` rows behind a `cursor`, and a header Link with the address of the next part."""

import base64
import json
from collections.abc import Sequence
from typing import Any

from django.core.exceptions import ValidationError
from django.db.models import Field, Model
from rest_framework.filters import BaseFilterBackend
from rest_framework.pagination import BasePagination
from rest_framework.request import Request
from rest_framework.utils.urls import replace_query_param

from routerweb.pages import paging
from training_app.api.errors import Refused
from training_app.decision_archive import reading

#: What the cursor of a part of the archive begins with.
ARCHIVE = "archive"


class Part(BasePagination):
    """The rows that a view's `chosen` asks for, in the view's `order`. No count is made, and no row before the cursor is read."""

    next_part = ""

    def paginate_queryset(self, queryset: Any, request: Request, view: Any = None) -> list[Any]:
        """The rows of this part, of those that `view.fits`. Raises Refused."""
        place = place_of(view.chosen["cursor"], queryset.model, view.order)
        shown = paging.part_after(queryset, view.order, place, view.chosen["limit"], view.fits)
        if shown.end is not None:
            self.next_part = replace_query_param(request.get_full_path(), "cursor", cursor_at(shown.end))
        return shown.of(queryset)

    def lead_to_archive(self, request: Request, place: str) -> None:
        """Go on in the archive, from this place on."""
        self.next_part = replace_query_param(request.get_full_path(), "cursor", cursor_at((ARCHIVE, place)))

    def headers(self) -> dict[str, str]:
        """Where the next part is, if there is one."""
        return {"Link": f'<{self.next_part}>; rel="next"'} if self.next_part else {}


def cursor_at(place: Sequence[Any]) -> str:
    """A place of a list as an address has it."""
    values = json.dumps([str(value) for value in place], ensure_ascii=False, separators=(",", ":"))
    return base64.urlsafe_b64encode(values.encode()).decode().rstrip("=")


def place_of(cursor: str, model: type[Model], order: Sequence[str]) -> list[Any]:
    """The place that a cursor names, empty for none. Raises Refused."""
    if not cursor:
        return []
    try:
        values = _values(cursor)
        return [_value(model, name, value) for name, value in zip(order, values, strict=True)]
    except (ValueError, TypeError, RecursionError, ValidationError):
        raise Refused(
            400, "invalid", "cursor is not one that a header Link holds.", field="cursor",
            hint="Leave it out for the first part, and follow the header Link as it is.",
        ) from None  # fmt: skip


def archived_place(cursor: str) -> str | None:
    """Where in the archive a part begins, "" for its newest day; None for a cursor that leads to no part of the archive."""
    try:
        first, place = _values(cursor)
    except (ValueError, TypeError, RecursionError):
        return None
    if first != ARCHIVE or not isinstance(place, str) or (place and reading.place(place)[0] is None):
        return None
    return place


def _values(cursor: str) -> Any:
    """What a cursor holds. Raises ValueError and RecursionError."""
    return json.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars="-_", validate=True))


def _value(model: type[Model], name: str, text: Any) -> Any:
    """A column's value. Raises ValueError and ValidationError."""
    if not isinstance(text, str) or "\0" in text:
        raise ValueError
    text.encode()  # half a surrogate pair is no text of a database
    name = name.removeprefix("-")
    field: Field[Any, Any] = model._meta.pk if name == "pk" else model._meta.get_field(name)  # type: ignore[assignment]
    value = field.to_python(text)
    field.run_validators(value)
    return value


class ByStatus(BaseFilterBackend):
    """Of rows with a status those that have the one that is asked for."""

    def filter_queryset(self, request: Request, queryset: Any, view: Any) -> Any:
        """The rows that are left."""
        status = view.chosen.get("status")
        return queryset.filter(status=status) if status else queryset

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        """None: the serializer of what is asked describes it."""
        return []
