"""Queries that an application sends to be labeled."""

from collections.abc import Mapping
from typing import Any

from django.conf import settings
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from datasets_app.queries.queries import NewQuery, Place
from training_app.api import asking
from training_app.api.errors import Refused
from training_app.api.fields import Text
from training_app.api.serializers.base import OfPool

MOST_ID = 200


@extend_schema_field(
    {
        "oneOf": [
            {"type": "string"},
            {
                "type": "object",
                "properties": {
                    "query": {"type": "string"},
                    "messages": {"type": "array", "items": {"$ref": "#/components/schemas/Message"}},
                    "id": {"type": "string", "maxLength": MOST_ID},
                    "conversation": {"type": "string", "maxLength": MOST_ID},
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
        return NewQuery(asking.query_in(value, index))
    path = f"queries[{index}]"
    try:
        names = {name: _name(value, name) for name in ("id", "conversation")}
        if value.get("messages") is None:
            text = asking.check_text(value.get("query"), "query")
        elif value.get("query") is None:
            text = asking.query_in(value, index)
        else:
            raise Refused(400, "invalid", "query and messages exclude each other.", field="messages")
    except Refused as error:
        told = dict(error.error)
        code, message, field = told["code"], told["message"], told.get("field", "")
        if not field.startswith(path):
            field, message = f"{path}.{field}", f"{path}.{message}"
        raise Refused(400, code, message, field=field, index=index) from None
    return NewQuery(text, external_id=names["id"], conversation=names["conversation"])


def _name(value: Mapping[str, Any], name: str) -> str:
    field = Text(MOST_ID, required=False, allow_null=True, default="")
    field.bind(name, None)  # type: ignore[arg-type]
    return field.run_validation(value.get(name, serializers.empty)) or ""


class SentSerializer(serializers.Serializer[Any]):
    """What became of one."""

    id = serializers.IntegerField(source="pk", help_text="The query's id.")
    state = serializers.SerializerMethodField(
        help_text="known: its text was there before; what was deleted or erased stays so."
    )

    @extend_schema_field(serializers.ChoiceField(["new", "known", "deleted", "erased"]))
    def get_state(self, place: Place) -> str:
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
