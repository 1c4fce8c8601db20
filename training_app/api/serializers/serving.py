"""What a process answers from: its agents, and how it is."""

from typing import Any

from rest_framework import serializers

from agents_app.models import Agent
from training_app.api.fields import Moment, PoolSlug, Text
from training_app.api.serializers.base import OfPool, QueryString


class AgentsParameters(QueryString):
    """Which pool's agents."""

    pool = PoolSlug()


class AgentSerializer(serializers.Serializer[Any]):
    """One agent as requests see it."""

    id = serializers.IntegerField()
    key = serializers.CharField(help_text="Its name in programs; it stays when the agent is renamed.")
    code = serializers.CharField()
    name = serializers.CharField()
    description = serializers.CharField()
    keywords = serializers.ListField(child=serializers.CharField())
    cost = serializers.FloatField()
    state = serializers.ChoiceField(Agent.State.choices)
    available = serializers.BooleanField()
    covered = serializers.BooleanField(help_text="Whether the active model has learnt it.")
    cold = serializers.SerializerMethodField(help_text="Whether it is routed by its description meanwhile.")

    def get_cold(self, agent: Any) -> bool:
        """Whether it is routed by its description."""
        return agent.id in self.context["cold"]


class AgentsSerializer(serializers.Serializer[Any]):
    """A pool's agents."""

    pool = serializers.CharField()
    model = serializers.CharField(allow_null=True, help_text="The active model, null where there is none.")
    agents = AgentSerializer(many=True)


class UseSerializer(serializers.Serializer[Any]):
    """What a key has sent of one thing in this month."""

    limit = serializers.IntegerField(help_text="What it may send in a month.")
    used = serializers.IntegerField(help_text="What it has sent, to about a second.")
    left = serializers.IntegerField()


class QuotaSerializer(serializers.Serializer[Any]):
    """A key's calendar month, in UTC."""

    key = serializers.CharField(help_text="The key's name.")
    month = serializers.CharField()
    resets_at = serializers.DateTimeField(help_text="When a new month begins.")
    queries = UseSerializer(allow_null=True, help_text="null where the key has no quota of them.")
    characters = UseSerializer(allow_null=True, help_text="As the router reads them; null where the key has no quota.")


class WaitingSerializer(serializers.Serializer[Any]):
    """Decisions on their way to the database."""

    waiting = serializers.IntegerField(help_text="Answers that are not in the database yet.")
    dropped = serializers.IntegerField(help_text="Answers that were lost since this process started.")


class ProcessSerializer(serializers.Serializer[Any]):
    """The process that answers."""

    name = serializers.CharField(help_text="Its machine and its number there.")
    memory_bytes = serializers.IntegerField(help_text="The memory that it holds.")
    threads = serializers.IntegerField(help_text="Its threads.")
    running_seconds = serializers.FloatField(
        allow_null=True, help_text="How long it has run; null where nobody can tell."
    )


class HealthSerializer(serializers.Serializer[Any]):
    """How a process is; only `status` without a key of the scope `ops`."""

    status = serializers.ChoiceField(["ok", "degraded", "unavailable"])
    database = serializers.ChoiceField(["ok", "away"], required=False)
    stamp_age_seconds = serializers.FloatField(
        required=False, allow_null=True, help_text="Seconds since this process last saw that it is up to date."
    )
    models = serializers.DictField(
        child=serializers.CharField(allow_null=True), required=False, help_text="By pool, the version that answers."
    )
    problems = serializers.DictField(
        child=serializers.CharField(), required=False, help_text="By pool, why its newest model was refused."
    )
    decisions = WaitingSerializer(required=False)
    process = ProcessSerializer(required=False)


class PauseRequest(OfPool):
    """Why an agent is paused."""

    why = Text(200, required=False, default="", help_text="Shown beside the agent.")


class AgentAvailabilitySerializer(serializers.Serializer[Agent]):
    """Whether an agent may be routed to."""

    id = serializers.IntegerField(source="number")
    pool = serializers.CharField(source="pool.slug")
    name = serializers.CharField()
    state = serializers.ChoiceField(Agent.State.choices)
    available = serializers.BooleanField()
    unavailable_since = Moment(allow_null=True)
    why = serializers.CharField(source="unavailable_why")


class ReadySerializer(serializers.Serializer[Any]):
    """Whether the process can answer."""

    status = serializers.CharField(help_text="`ready`.")
