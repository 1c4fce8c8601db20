"""Must-pass cases, and what a model makes of them."""

from typing import Any

from rest_framework import serializers

from training_app.api.fields import Ids, Moment, Text
from training_app.api.route_requests import check_text
from training_app.api.serializers.base import OfPool
from training_app.engine.data.file_rows import MAX_TEXT
from training_app.models import MustPassCase
from training_app.versions.cases import Checked


class CaseSerializer(serializers.Serializer[MustPassCase]):
    """A query that every model of the pool has to route the same way."""

    id = serializers.IntegerField(source="pk")
    query = serializers.CharField(source="text")
    agents = serializers.ListField(
        child=serializers.IntegerField(),
        source="required",
        help_text="Ids of the agents that it must go to; [] is none.",
    )
    reason = serializers.CharField(help_text="Why.")
    owner = serializers.CharField(source="owner_name", help_text="Who holds models to it.")
    made_from = serializers.ChoiceField(MustPassCase.Source.choices, source="source")
    created_at = Moment()


class CasesSerializer(serializers.Serializer[Any]):
    """Cases in the order in which they were made."""

    pool = serializers.CharField()
    cases = CaseSerializer(many=True)


class MakeCase(OfPool):
    """A new case; one of the same text is replaced."""

    query = Text(MAX_TEXT, help_text="The text that is routed.")
    agents = Ids(1000, "be a list of agents' ids", help_text="The agents that it must go to; [] is none of them.")
    reason = Text(400, missing=": say why it must be so", help_text="Why; it is shown to whoever breaks the case.")

    def validate_query(self, value: str) -> str:
        """A text that can be routed."""
        return check_text(value, "query")


class CheckedSerializer(serializers.Serializer[Checked]):
    """One case beside a model's answer."""

    id = serializers.IntegerField(source="case.pk")
    query = serializers.CharField(source="case.text")
    holds = serializers.BooleanField(help_text="Whether the model routes the query as it has to.")
    agents = serializers.SerializerMethodField(help_text="Ids of the agents that it must go to.")
    answered = serializers.SerializerMethodField(help_text="Ids of the agents that the model chose.")
    abstained = serializers.BooleanField(help_text="Whether the model did not know; the case is broken then.")
    sentence = serializers.CharField()
    reason = serializers.CharField(source="case.reason")
    owner = serializers.CharField(source="case.owner_name")

    def get_agents(self, checked: Checked) -> list[int]:
        """As they are called today."""
        return [agent.number for agent in checked.required]

    def get_answered(self, checked: Checked) -> list[int]:
        """By id."""
        return [agent.number for agent in checked.answered]


class CheckSerializer(serializers.Serializer[Any]):
    """Every case of the model's pool beside its answer."""

    model = serializers.CharField()
    cases = serializers.IntegerField(help_text="How many there are.")
    broken = serializers.IntegerField(help_text="How many of them the model breaks.")
    summary = serializers.CharField(help_text="In words; the first broken cases are named.")
    results = CheckedSerializer(many=True)
