"""What every serializer of the API is made of."""

from collections.abc import Mapping
from typing import Any

from rest_framework import serializers

from training_app.api.errors import unknown_field
from training_app.api.fields import PoolSlug
from training_app.engine.data.conversations import ROLES


class Strict(serializers.Serializer[Any]):
    """What a caller sends. The first field that does not hold is refused by its name, and a field that is not declared with 422."""

    def to_internal_value(self, data: Any) -> Any:
        """The checked values. Raises Refused for an undeclared field, and ValidationError."""
        if isinstance(data, Mapping):
            for name in data:
                if name not in self.fields:
                    raise unknown_field(str(name), self.fields)
        return super().to_internal_value(data)


class Body(Strict):
    """A JSON object."""


class QueryString(Strict):
    """A query string."""

    in_address = True
    #: Whether the answer is a part of a list, whose header Link leads to the next one.
    in_parts = False


class OfPool(Body):
    """A body that may name its pool."""

    pool = PoolSlug()


class ErrorDetail(serializers.Serializer[Any]):
    """What went wrong."""

    code = serializers.CharField(help_text="A word for programs; it never changes.")
    message = serializers.CharField(help_text="What was wrong, in a sentence.")
    field = serializers.CharField(required=False, help_text="Where in the request.")
    hint = serializers.CharField(required=False, help_text="What to do.")
    index = serializers.IntegerField(required=False, help_text="Which query of a batch, from 0.")
    choices = serializers.ListField(
        child=serializers.CharField(), required=False, help_text="The pools, where one has to be named."
    )
    findings = serializers.ListField(
        child=serializers.DictField(), required=False, help_text="What the gate found, in order."
    )
    mine = serializers.DictField(required=False, help_text="The choice that was sent.")
    theirs = serializers.DictField(required=False, help_text="What stands in its place.")


class ErrorSerializer(serializers.Serializer[Any]):
    """Every error has this form."""

    error = ErrorDetail()


class MessageSerializer(serializers.Serializer[Any]):
    """One message of a conversation."""

    role = serializers.ChoiceField(list(ROLES), help_text="Who said it; the last message is the user's.")
    content = serializers.CharField(allow_blank=True, help_text="What was said.")
    agents = serializers.ListField(
        child=serializers.IntegerField(),
        required=False,
        help_text="Ids of the agents that answered with this message, where the application knows them.",
    )
    name = serializers.CharField(
        required=False,
        help_text="Instead of agents, the key or the name of the one agent that answered; other names are ignored.",
    )
