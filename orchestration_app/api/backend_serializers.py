"""What a routing answer says of backends, and what an outcome reports of them."""

from typing import Any

from rest_framework import serializers

from training_app.api.errors import Refused
from training_app.api.fields import LARGEST_NUMBER, Flag, Number, Text, Whole
from training_app.api.serializers.base import Body


class BackendSerializer(serializers.Serializer[Any]):
    """Who is to run an agent."""

    id = serializers.IntegerField(help_text="What `served` of its outcome names it by.")
    name = serializers.CharField(help_text="Provider and model.")


class ExpectedSerializer(serializers.Serializer[Any]):
    """What is expected of a backend for this query."""

    success = serializers.FloatField(min_value=0, max_value=1)
    cost = serializers.FloatField(min_value=0, help_text="Of one call, at the backend's prices.")
    latency_ms = serializers.FloatField(min_value=0, help_text="With the calls that it has in flight now.")


class AssignmentSerializer(serializers.Serializer[Any]):
    """One chosen agent and the backend that is to run it."""

    agent = serializers.IntegerField()
    backend = BackendSerializer(allow_null=True, help_text="Null where none may be taken now; `why` says why.")
    expected = ExpectedSerializer(allow_null=True)
    why = serializers.CharField()


MOST_SERVED = 64


class ServedParts(serializers.ListSerializer[Any]):
    """What was served, part by part."""

    def run_validation(self, data: Any = serializers.empty) -> list[dict[str, Any]]:
        """The parts, each checked. Raises Refused, which names the part."""
        return [] if data is serializers.empty or data is None else _served(data)


class ServedRequest(Body):
    """What one agent's call really was. Billed is what was served, not what was assigned."""

    class Meta:
        list_serializer_class = ServedParts

    agent = Whole(0, LARGEST_NUMBER)
    backend = Whole(1, LARGEST_NUMBER, help_text="The id of the backend that served, assigned or not.")
    tokens_in = Whole(0, 10**9, required=False, default=0)
    tokens_out = Whole(0, 10**9, required=False, default=0)
    cost = Number(
        "be a number from 0", required=False, allow_null=True, default=None,
        help_text="Left out: the tokens at the backend's prices.",
    )  # fmt: skip
    latency_ms = Number("be a number from 0", required=False, allow_null=True, default=None)
    success = Flag(required=False, allow_null=True, default=None, help_text="Left out: the decision's own.")
    failed = Flag(
        required=False, default=False, help_text="The call gave nothing: a few in a row, and the backend cools down."
    )
    category = Text(80, required=False, default="", help_text="A word of your own for the kind of task.")
    tool = Flag(required=False, allow_null=True, default=None, help_text="Whether the query needed a tool.")
    complexity = Number(
        "be a number from 0 to 1", min_value=0, max_value=1, required=False, allow_null=True, default=None,
        help_text="How hard the query was, 0 (any model can do it) to 1 (hard for the best).",
    )  # fmt: skip

    def run_validation(self, data: Any = serializers.empty) -> Any:
        """The part; costs and latencies are not negative."""
        values = super().run_validation(data)
        for name in ("cost", "latency_ms"):
            if values[name] is not None and values[name] < 0:
                raise Refused(400, "invalid", f"{name} must be a number from 0.", field=name)
        return values


def _served(value: Any) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(part, dict) for part in value):
        raise Refused(400, "invalid", "served must be a list of objects.", field="served")
    if len(value) > MOST_SERVED:
        raise Refused(
            400, "too_many", f"served has {len(value)} parts; at most {MOST_SERVED} are taken.", field="served"
        )
    calls = []
    for place, part in enumerate(value):
        try:
            calls.append(ServedRequest().run_validation(part))
        except Refused as error:
            message, where = error.error, f"served[{place}]."
            raise Refused(
                400, message["code"], where + message["message"], field=where + message.get("field", "")
            ) from None
    if len({part["agent"] for part in calls}) < len(calls):
        raise Refused(400, "invalid", "served names an agent twice.", field="served")
    return calls


def answer_fields() -> dict[str, serializers.Field[Any, Any, Any, Any]]:
    """For the hook `answer_fields`."""
    text = "Only in pools with backends: one for each chosen agent that has any."
    return {"assignments": AssignmentSerializer(many=True, required=False, help_text=text)}


def outcome_fields() -> dict[str, serializers.Field[Any, Any, Any, Any]]:
    """For the hook `outcome_fields`."""
    text = "Which backend served each agent, at most 64 of them."
    return {"served": ServedRequest(many=True, required=False, default=list, help_text=text)}
