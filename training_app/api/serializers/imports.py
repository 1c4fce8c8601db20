"""Files that an application sends to be imported."""

import base64
import binascii
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from agents_app.models import Pool
from datasets_app.files.values import Unknown, Values
from datasets_app.models import Import, Split
from training_app.api.errors import Refused
from training_app.api.fields import Choice, Flag, Text
from training_app.api.serializers.base import OfPool

#: Characters of a file, in base64 a third more than its bytes.
MOST = 20_000_000


@extend_schema_field({"type": "object", "additionalProperties": {"type": ["string", "null"]}})
class Meanings(serializers.Field[Any, Any, Any, Any]):
    """What labels mean, by how the file has them."""

    def to_internal_value(self, data: Any) -> dict[str, str | None]:
        """The map. Raises Refused."""
        if not isinstance(data, dict) or not all(
            name.strip() and isinstance(agents, str | None) for name, agents in data.items()
        ):
            raise Refused(
                400, "invalid", "map must be an object of texts: a label, and the agents that it means.", field="map"
            )
        return data


class ImportRequest(OfPool):
    """A file, and how it is to be read."""

    file_name = Text(255, help_text="Its name; the ending says little, the content decides.")
    content = Text(MOST, required=False, default="", help_text="A text: CSV, JSON, JSONL or lines.")
    content_base64 = Text(
        MOST, required=False, default="", help_text="In place of content: the bytes of any file, as of Excel or ZIP."
    )
    dataset = Text(
        120,
        required=False,
        default="",
        help_text="The dataset's name; made where there is none of it. Left out, the pool's first.",
    )
    split = Choice(["", *Split.values], required=False, default="", help_text="The split of rows that name none.")
    map = Meanings(
        required=False, default=dict,
        help_text='What a label means that no agent is called by: `{"Labs": "Lab results", "Other": "none", "Spam": null}`. Several '
        "agents stand with a semicolon between them, null leaves a query unlabeled. It is remembered for the pool.",
    )  # fmt: skip
    empty = Choice(
        ["unlabeled", "none"], required=False, default="unlabeled", help_text="What an empty cell of labels means."
    )
    leave_out = Flag(
        required=False, default=False, help_text="Leave queries unlabeled whose labels are not understood."
    )
    check_only = Flag(required=False, default=False, help_text="Say what an import would keep, and store nothing.")

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """The file's `bytes`. Raises Refused."""
        text, packed = attrs["content"], attrs["content_base64"]
        if bool(text) == bool(packed):
            raise Refused(
                400,
                "missing" if not text else "invalid",
                "Send the file as content or as content_base64.",
                field="content",
            )
        try:
            attrs["bytes"] = base64.b64decode(packed, validate=True) if packed else text.encode()
        except binascii.Error:
            raise Refused(400, "invalid", "content_base64 is not base64.", field="content_base64") from None
        return attrs


def meanings_of(sent: dict[str, str | None], agents: Any, pool: Pool) -> dict[str, list[int] | None]:
    """Label → the agents that it means, [] for none of them, None for no label. Raises Refused for an agent that there is none of."""
    values, meant = Values(agents, {}), {}
    for label, names in sent.items():
        try:
            meaning = values.of(names)
        except Unknown as error:
            raise Refused(400, "invalid", f"map: the pool {pool.slug} has no agent “{error}”.", field="map") from None
        meant[label] = None if meaning is None else sorted(meaning)
    return meant


class StrangeSerializer(serializers.Serializer[Any]):
    """A label that no agent is called by."""

    value = serializers.CharField()
    rows = serializers.IntegerField(source="count")
    line = serializers.IntegerField(help_text="The first line that has it.")
    text = serializers.CharField(help_text="The query there.")
    guess = serializers.CharField(
        source="guess.name", default=None, allow_null=True, help_text="The agent that may be meant."
    )


class FileCheckSerializer(serializers.Serializer[Any]):
    """What an import would keep."""

    rows = serializers.IntegerField()
    labels = serializers.IntegerField(help_text="Rows that say which agents they need, or that they need none.")
    kept = serializers.IntegerField(help_text="Those of them that are understood.")
    unlabeled = serializers.IntegerField()
    suggestions = serializers.IntegerField()
    unreadable = serializers.IntegerField(source="bad", help_text="Rows that are left out.")
    whole = serializers.BooleanField(help_text="False where the file is so long that only its beginning was checked.")
    not_understood = StrangeSerializer(source="strange", many=True)


class ImportSerializer(serializers.ModelSerializer[Import]):
    """An import."""

    pool = serializers.CharField(source="dataset.pool.slug")
    dataset = serializers.CharField(source="dataset.name")
    left_out = serializers.IntegerField(
        source="rejected", help_text="Rows that could not be read; the import's page lists each."
    )

    class Meta:
        model = Import
        fields = (
            "id", "pool", "dataset", "file_name", "status", "rows_read", "queries_added", "labels_added", "suggestions_added",
            "unchanged", "left_out", "error",
        )  # fmt: skip


class SentFileSerializer(serializers.Serializer[Any]):
    """What becomes of a file."""

    check = FileCheckSerializer()
    upload = ImportSerializer(
        allow_null=True, help_text="The import, which a worker goes on with; null where it was only checked."
    )


class UndoneImportSerializer(serializers.Serializer[Any]):
    """What an undone import took along."""

    queries = serializers.IntegerField(help_text="Queries that are gone.")
    labels = serializers.IntegerField(help_text="Labels that are gone.")
    kept = serializers.IntegerField(help_text="Queries that stay, as somebody has worked on them since.")
