"""Lists in parts: `limit` and `offset`, and a header Link that leads to the next part."""

from collections.abc import Sequence
from typing import Any

from rest_framework.filters import BaseFilterBackend
from rest_framework.pagination import LimitOffsetPagination
from rest_framework.request import Request
from rest_framework.utils.urls import replace_query_param

from training_app.api.serializers.runs import MOST


class Part(LimitOffsetPagination):
    """At most `limit` rows after the first `offset`; no count is made, as one row more tells whether there is a next part.

    The view has checked both numbers, and holds them in its `chosen`.
    """

    default_limit = max_limit = MOST
    next_part = ""

    def paginate_queryset(self, queryset: Any, request: Request, view: Any = None) -> list[Any]:
        """The rows of this part."""
        limit, offset = view.chosen["limit"], view.chosen["offset"]
        rows = list(queryset[offset : offset + limit + 1])
        if len(rows) > limit:
            address = replace_query_param(request.get_full_path(), self.offset_query_param, offset + limit)
            self.next_part = replace_query_param(address, self.limit_query_param, limit)
        return rows[:limit]

    def headers(self) -> dict[str, str]:
        """Where the next part is, if there is one."""
        return {"Link": f'<{self.next_part}>; rel="next"'} if self.next_part else {}

    def get_schema_operation_parameters(self, view: Any) -> Sequence[dict[str, Any]]:  # type: ignore[override]
        """None: the serializer of what is asked describes them."""
        return []


class ByStatus(BaseFilterBackend):
    """Of rows with a status those that have the one that is asked for."""

    def filter_queryset(self, request: Request, queryset: Any, view: Any) -> Any:
        """The rows that are left."""
        status = view.chosen.get("status")
        return queryset.filter(status=status) if status else queryset

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        """None: the serializer of what is asked describes it."""
        return []
