"""What the addresses of an OpenAI-compatible server are asked and answer."""

from typing import Any

from rest_framework import serializers


class ChatMessage(serializers.Serializer[Any]):
    """One message of a chat."""

    role = serializers.CharField(help_text="`system`, `developer`, `user`, `assistant` or `tool`.")
    content = serializers.JSONField(
        required=False, help_text="Its text, or a list of parts, of which those of type text are read."
    )


class ChatRequest(serializers.Serializer[Any]):
    """A chat; other fields of OpenAI's are taken and mean nothing here."""

    model = serializers.CharField(help_text="`router/` and the slug of a pool.")
    messages = ChatMessage(many=True, help_text="The conversation; the last turn of the user is routed.")
    stream = serializers.BooleanField(required=False, default=False, help_text="Whether the answer comes as events.")


class ChatSerializer(serializers.Serializer[Any]):
    """A chat completion."""

    id = serializers.CharField(help_text="`chatcmpl-` and the decision's id.")
    object = serializers.CharField(help_text="`chat.completion`.")
    created = serializers.IntegerField(help_text="Seconds since 1970.")
    model = serializers.CharField(help_text="As it was asked for.")
    choices = serializers.ListField(
        child=serializers.JSONField(),
        help_text="One, whose message calls the tool `route` with the answer of `/api/route/`.",
    )
    usage = serializers.DictField(child=serializers.IntegerField(), help_text="Zero: no tokens are spent.")


class ChatModelSerializer(serializers.Serializer[Any]):
    """A pool as a model."""

    id = serializers.CharField(help_text="`router/` and its slug.")
    object = serializers.CharField(help_text="`model`.")
    created = serializers.IntegerField(help_text="0.")
    owned_by = serializers.CharField(help_text="`routerweb`.")


class ModelListSerializer(serializers.Serializer[Any]):
    """The pools of a key as models."""

    object = serializers.CharField(help_text="`list`.")
    data = ChatModelSerializer(many=True, help_text="One for each pool.")  # type: ignore[assignment]
