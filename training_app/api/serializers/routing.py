"""What is asked of the routing addresses, and what they answer."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from training_app.api import asking
from training_app.api.fields import Flag
from training_app.api.serializers.base import MessageSerializer, OfPool
from training_app.engine.backends.choosing import PRESETS

STICKY = (
    "Names a user or a conversation: the same key meets the same side of a canary. Without one the text decides, of a conversation "
    "the first user message."
)


def a_conversation() -> Any:
    """The field of a conversation."""
    return serializers.ListField(
        child=MessageSerializer(),
        required=False,
        help_text="Instead of query: a conversation, whose last message, the user's, is routed in it. At most "
        "MAX_CONVERSATION_CHARACTERS (60,000) together; of more than MAX_MESSAGES (40) the oldest are left out.",
    )


@extend_schema_field(
    {
        "oneOf": [
            {"type": "string", "enum": list(PRESETS)},
            {
                "type": "object",
                "properties": {name: {"type": "number", "minimum": 0} for name in ("quality", "cost", "latency")},
                "additionalProperties": False,
                "minProperties": 1,
            },
            {"type": "null"},
        ]
    }
)
class PreferenceField(serializers.JSONField):
    """A preset's name, or weights. `asking` holds the checks."""

    def to_internal_value(self, data: Any) -> Any:
        """The preference; raises Refused."""
        return asking.preference(data)


PREFERENCE = (
    "What the backends of the chosen agents should be: best, balanced, cheapest or fastest, or weights of quality, cost and latency. "
    "Without one the pool's own counts."
)


@extend_schema_field({"oneOf": [{"type": "integer"}, {"type": "string"}]})
class NamedAgent(serializers.Field[Any, Any, Any, Any]):
    """An agent's id or key."""


def an_agents_list(words: str) -> Any:
    """A field of agents' ids and keys."""
    return serializers.ListField(
        child=NamedAgent(), required=False, allow_null=True, max_length=asking.MOST_IDS, help_text=words
    )


class Wishing(OfPool):
    """What a request may ask of its answer beyond the pool's own rules."""

    only = an_agents_list("Ids or keys of the agents that may be chosen; without it all.")
    exclude = an_agents_list("Ids or keys of agents that may not be chosen.")
    min_agents = serializers.IntegerField(
        required=False,
        allow_null=True,
        min_value=0,
        max_value=asking.MOST_IDS,
        help_text="The fewest agents of the set.",
    )
    max_agents = serializers.IntegerField(
        required=False, allow_null=True, min_value=1, max_value=asking.MOST_IDS, help_text="The most agents of the set."
    )
    threshold = serializers.FloatField(
        required=False,
        allow_null=True,
        min_value=0,
        max_value=1,
        help_text="Takes the agents whose score reaches it, in place of the policy's choice.",
    )
    operating_point = serializers.FloatField(
        required=False,
        allow_null=True,
        min_value=-10,
        max_value=10,
        help_text="How much better than stopping a further agent has to be, in place of the model's own; more means fewer agents.",
    )


WARNINGS = "Only where something of the request was not heeded: what, in sentences."


class RouteRequest(Wishing):
    """One query. `asking` holds the checks, which the fast lane has too; the fields describe them."""

    query = serializers.CharField(
        required=False,
        help_text="The text to route, not blank; at most MAX_QUERY_CHARACTERS (20,000). Needed where there are no messages.",
    )
    messages = a_conversation()
    explain = Flag(required=False, default=False, help_text="Whether the answer tells what led to it.")
    sticky_key = serializers.CharField(required=False, allow_null=True, min_length=1, max_length=200, help_text=STICKY)
    preference = PreferenceField(required=False, allow_null=True, help_text=PREFERENCE)

    def run_validation(self, data: Any = serializers.empty) -> Any:
        """What is asked; raises Refused and NoModel."""
        return asking.one(data, self.context["view"].access)


@extend_schema_field(
    {
        "oneOf": [
            {"type": "string"},
            {
                "type": "object",
                "properties": {
                    "messages": {"type": "array", "items": {"$ref": "#/components/schemas/Message"}},
                },
                "required": ["messages"],
            },
        ]
    }
)
class QueryInBatch(serializers.Field[Any, Any, Any, Any]):
    """A text, or an object with the messages of a conversation."""


class BatchRequest(Wishing):
    """Many queries of one pool."""

    queries = serializers.ListField(
        child=QueryInBatch(),
        help_text='Texts to route, or conversations as {"messages": [...]}; at most MAX_BATCH_QUERIES (1,000), each as in one route.',
    )
    sticky_key = serializers.CharField(required=False, allow_null=True, min_length=1, max_length=200, help_text=STICKY)
    preference = PreferenceField(required=False, allow_null=True, help_text=PREFERENCE)

    def run_validation(self, data: Any = serializers.empty) -> Any:
        """What is asked; raises Refused and NoModel."""
        return asking.many(data, self.context["view"].access)


class StepSerializer(serializers.Serializer[Any]):
    """One choice of a walk."""

    q = serializers.DictField(
        child=serializers.FloatField(allow_null=True),
        help_text="Action value of the agent of that id; masked ones may be left out, null is one that is not allowed.",
    )
    stop = serializers.FloatField(
        allow_null=True, help_text="Action value of stopping here; null where it was not allowed."
    )
    masked = serializers.ListField(
        child=serializers.IntegerField(), help_text="Ids that could not be chosen at this step."
    )
    chosen = serializers.IntegerField(allow_null=True, help_text="The id that was chosen, null for stopping.")


@extend_schema_field({"type": "array", "items": {"type": "array", "items": {"type": ["string", "number"]}}})
class Weighed(serializers.ListField):
    """Parts of a text, each with its weight."""


class ExplanationSerializer(serializers.Serializer[Any]):
    """What led to a route."""

    steps = StepSerializer(many=True)
    features = serializers.DictField(
        child=Weighed(), help_text="By agent id, the parts of the text that moved its score most, each with its weight."
    )


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


class AnswerSerializer(serializers.Serializer[Any]):
    """The set of agents that one query needs."""

    agents = serializers.ListField(
        child=serializers.IntegerField(),
        help_text="Ids of the agents that the query needs, in the order they were chosen. Empty: none of them.",
    )
    agent_names = serializers.ListField(child=serializers.CharField(), help_text="Their names, in the same order.")
    agent_keys = serializers.ListField(child=serializers.CharField(), help_text="Their keys, in the same order.")
    abstained = serializers.BooleanField(help_text="The router does not know; agents is its best guess all the same.")
    confidence = serializers.FloatField(
        min_value=0, max_value=1, help_text="Calibrated probability that the whole set is right."
    )
    steps = serializers.IntegerField(min_value=0, help_text="Choices that the policy made.")
    scores = serializers.DictField(
        child=serializers.FloatField(min_value=0, max_value=1),
        help_text="Calibrated probability that the agent of that id is needed.",
    )
    stop_reason = serializers.ChoiceField(
        ["stop", "none", "max_agents", "abstained"], help_text="Why the choices ended."
    )
    model = serializers.CharField(help_text="The version that answered.")
    decision_id = serializers.UUIDField(help_text="Names this answer under Decisions and when its outcome is reported.")
    not_covered = serializers.ListField(
        child=serializers.IntegerField(),
        help_text="Ids of active agents that the model has not learnt yet and cannot choose.",
    )
    explanation = ExplanationSerializer(required=False, help_text="Only with explain true.")
    messages_left_out = serializers.IntegerField(
        required=False,
        help_text="Only where a conversation had more than MAX_MESSAGES: how many of the oldest were not read.",
    )
    canary = serializers.BooleanField(required=False, help_text="Only where a canary answered.")
    explored = serializers.BooleanField(
        required=False, help_text="Only where one agent was added or left out at random."
    )
    cold = serializers.BooleanField(
        required=False,
        help_text="Only where the pool routes to agents that the model has not learnt: whether the set holds one.",
    )
    warnings = serializers.ListField(child=serializers.CharField(), required=False, help_text=WARNINGS)
    assignments = AssignmentSerializer(
        many=True, required=False, help_text="Only in pools with backends: one for each chosen agent that has any."
    )
    cold_scores = serializers.DictField(
        child=serializers.FloatField(min_value=0, max_value=1),
        required=False,
        help_text="Beside cold, the likeness of the query to the description of the agent of that id; no probability.",
    )


class BatchSerializer(serializers.Serializer[Any]):
    """The answers to many queries."""

    model = serializers.CharField(help_text="The pool's active model.")
    results = AnswerSerializer(many=True, help_text="In the queries' order.")
    warnings = serializers.ListField(child=serializers.CharField(), required=False, help_text=WARNINGS)
    not_covered = serializers.ListField(child=serializers.IntegerField())
