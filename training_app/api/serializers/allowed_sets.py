"""Which sets of agents a route may answer with."""

from typing import Any

from rest_framework import serializers

from training_app.api.fields import PoolSlug, Text
from training_app.api.serializers.base import Body, QueryString


class AllowedSetsParameters(QueryString):
    """Which pool's rules."""

    pool = PoolSlug()


def _pairs(help_text: str) -> serializers.ListField:
    pair = serializers.ListField(
        child=serializers.IntegerField(min_value=0, max_value=2**31 - 1), min_length=2, max_length=2
    )
    return serializers.ListField(child=pair, required=False, default=list, max_length=500, help_text=help_text)


class GroupSerializer(Body):
    """Agents of which at most one may be chosen."""

    name = Text(60, help_text="What the group is called in explanations.")
    agents = serializers.ListField(
        child=serializers.IntegerField(min_value=0, max_value=2**31 - 1),
        min_length=2,
        max_length=500,
        help_text="Their ids.",
    )


class SetAllowedSets(Body):
    """All rules of a pool; what is left out is no rule."""

    pool = PoolSlug()
    requires = _pairs("[a, b]: the agent a is chosen only together with b. By ids.")
    excludes = _pairs("[a, b]: a and b are never chosen together. By ids.")
    groups = GroupSerializer(many=True, required=False, default=list)
    most = serializers.IntegerField(
        required=False, default=0, min_value=0, max_value=1000, help_text="The largest set; 0 is no limit."
    )
    budget = serializers.FloatField(
        required=False, default=None, allow_null=True, min_value=0, max_value=1e9,
        help_text="What the agents of a set may cost together, null for no limit.",
    )  # fmt: skip


class AllowedSetsSerializer(serializers.Serializer[Any]):
    """A pool's rules."""

    pool = serializers.CharField()
    requires = serializers.ListField(child=serializers.ListField(child=serializers.IntegerField()))
    excludes = serializers.ListField(child=serializers.ListField(child=serializers.IntegerField()))
    groups = GroupSerializer(many=True)
    most = serializers.IntegerField()
    budget = serializers.FloatField(allow_null=True)
