"""Whom a pool's alarms and its unsure decisions are told to."""

from typing import Any

from rest_framework import serializers

from training_app.api.fields import Choice, Moment, Text
from training_app.api.serializers.base import OfPool
from training_app.models import AlarmReceiver


class ReceiverSerializer(serializers.Serializer[AlarmReceiver]):
    """An address that is told of alarms, or of unsure decisions."""

    id = serializers.IntegerField(source="pk")
    kind = serializers.ChoiceField(AlarmReceiver.Kind.choices)
    address = serializers.CharField()
    created_at = Moment()


class NewReceiverSerializer(ReceiverSerializer):
    """An address that was added."""

    secret = serializers.CharField(
        help_text='What a webhook\'s requests are signed with; it is in this answer alone. "" for the other kinds.'
    )


class ReceiversSerializer(serializers.Serializer[Any]):
    """Receivers in the order in which they were added."""

    pool = serializers.CharField()
    receivers = ReceiverSerializer(many=True)


class AddReceiver(OfPool):
    """A new receiver."""

    kind = Choice(
        AlarmReceiver.Kind.choices,
        help_text="`unsure` is a webhook that is told of each decision the router was unsure of; the others are told of alarms.",
    )
    address = Text(500, help_text="https://… or an e-mail address.")
