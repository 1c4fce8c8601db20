"""What ddqn-router's addresses are asked and answer."""

from typing import Any

from rest_framework import serializers


class DdqnRouteRequest(serializers.Serializer[Any]):
    """One query."""

    query = serializers.CharField(help_text="The text to route, not blank.")


class DdqnBatchRequest(serializers.Serializer[Any]):
    """Many queries."""

    queries = serializers.ListField(
        child=serializers.CharField(), help_text="The texts to route, at most MAX_BATCH_QUERIES."
    )


class DdqnAnswerSerializer(serializers.Serializer[Any]):
    """One answer."""

    agents = serializers.ListField(
        child=serializers.IntegerField(), help_text="Ids of the agents that the query needs."
    )
    agent_names = serializers.ListField(child=serializers.CharField(), help_text="Their names, in the same order.")
    confidence = serializers.FloatField(help_text="The probability that the whole set is right, from 0 to 1.")
    steps = serializers.IntegerField(help_text="Choices of the walk, STOP among them.")


class DdqnAgentSerializer(serializers.Serializer[Any]):
    """One agent."""

    id = serializers.IntegerField(help_text="Its id.")
    name = serializers.CharField(help_text="Its name.")
    description = serializers.CharField(help_text="What it does.")


class DdqnAgentsSerializer(serializers.Serializer[Any]):
    """The agents of a pool."""

    agents = DdqnAgentSerializer(many=True, help_text="Those that a route may name.")


class DdqnHealthSerializer(serializers.Serializer[Any]):
    """That the server answers."""

    status = serializers.CharField(help_text="`ok`.")
