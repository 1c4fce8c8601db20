"""Queries that an application sends to be labeled."""

from collections.abc import Mapping
from typing import Any

from django.conf import settings
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from datasets_app.queries import query_columns
from datasets_app.queries.adding import NewQuery, StoredQuery
from training_app.api import route_requests
from training_app.api.errors import Refused, unknown_field
from training_app.api.fields import Flag, Text
from training_app.api.serializers.base import OfPool

#: What an object among the queries may hold.
FIELDS = ("query", "messages", *(column.name for column, _entry in query_columns.entries()))


@extend_schema_field(
    {
        "oneOf": [
            {"type": "string"},
            {
                "type": "object",
                "properties": {
                    "query": {"type": "string"},
                    "messages": {"type": "array", "items": {"$ref": "#/components/schemas/Message"}},
                    **{column.name: dict(entry.schema) for column, entry in query_columns.entries()},
                },
            },
        ]
    }
)
class SentQuery(serializers.Field[Any, Any, Any, Any]):
    """A text, or an object with one, or with the messages of a conversation; `id` is its name elsewhere."""


class SendRequest(OfPool):
    """What is to be labeled."""

    queries = serializers.ListField(
        child=SentQuery(),
        help_text="Texts, or objects with query or messages, and with an id or the id of their conversation; at most "
        "MAX_BATCH_QUERIES (1,000).",
    )
    dataset = Text(120, required=False, default="", help_text="The dataset's name; made where there is none of it.")

    def run_validation(self, data: Any = serializers.empty) -> Any:
        """The queries as `rows`, each checked as in one route."""
        sent = data.get("queries")
        if not isinstance(sent, list) or not sent:
            code = "missing" if sent is None else "invalid"
            raise Refused(400, code, "queries must be a list of at least one text.", field="queries")
        if len(sent) > settings.MAX_BATCH_QUERIES:
            words = f"{len(sent)} queries in one call; at most {settings.MAX_BATCH_QUERIES} are taken."
            raise Refused(400, "too_many", words, field="queries", hint="Send them in several calls.")
        rows = [_row(value, index) for index, value in enumerate(sent)]
        return super().run_validation(data | {"queries": []}) | {"rows": rows}


def _row(value: Any, index: int) -> NewQuery:
    """One of them. Raises Refused, which names it."""
    if not isinstance(value, dict):
        return NewQuery(route_requests.query_in(value, index))
    path = f"queries[{index}]"
    for name in value:
        if name not in FIELDS:
            raise unknown_field(name, FIELDS, f"{path}.")
    try:
        values = _values(value)
        if value.get("messages") is None:
            text = route_requests.check_text(value.get("query"), "query")
        elif value.get("query") is None:
            text = route_requests.query_in({"messages": value["messages"]}, index)
        else:
            raise Refused(400, "invalid", "query and messages exclude each other.", field="messages")
    except Refused as error:
        problems = dict(error.error)
        code, message, field = problems["code"], problems["message"], problems.get("field", "")
        if not field.startswith(path):
            field, message = f"{path}.{field}", f"{path}.{message}"
        raise Refused(400, code, message, field=field, index=index) from None
    return NewQuery(text, values)


def _values(query: Mapping[str, Any]) -> dict[str, Any]:
    """What is said of a query's columns. Raises Refused."""
    try:
        return query_columns.parsed(query)
    except query_columns.WrongColumn as wrong:
        raise Refused(400, wrong.code, f"{wrong.column} {wrong}.", field=wrong.column) from None


class AcceptRequest(OfPool):
    """Which suggestions are accepted."""

    search = Text(400, required=False, default="", help_text="Only queries that this search of the page Queries finds.")
    count_only = Flag(required=False, default=False, help_text="Only say how many there are.")


class AcceptedSerializer(serializers.Serializer[Any]):
    """What became of them."""

    pool = serializers.CharField()
    queries = serializers.IntegerField(help_text="How many queries have suggestions to accept.")
    change = serializers.IntegerField(
        allow_null=True, help_text="The change, which the page Queries can undo as one; null where nothing was changed."
    )
    done = serializers.BooleanField(help_text="False while a worker still changes them.")


class SentSerializer(serializers.Serializer[Any]):
    """What became of one."""

    id = serializers.IntegerField(source="pk", help_text="The query's id.")
    state = serializers.SerializerMethodField(
        help_text="known: its text was there before; what was deleted or erased stays so."
    )

    @extend_schema_field(serializers.ChoiceField(["new", "known", "deleted", "erased"]))
    def get_state(self, place: StoredQuery) -> str:
        """What its text met."""
        if place.erased or place.deleted:
            return "erased" if place.erased else "deleted"
        return "new" if place.state else "known"


class SendSerializer(serializers.Serializer[Any]):
    """What became of them."""

    pool = serializers.CharField()
    dataset = serializers.CharField()
    new = serializers.IntegerField(help_text="How many were not there before.")
    queries = SentSerializer(many=True, help_text="In the order in which they were sent.")
