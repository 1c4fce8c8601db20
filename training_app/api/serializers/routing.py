"""What is asked of the routing addresses, and what they answer."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from routerweb import hooks
from training_app.api import route_requests
from training_app.api.errors import Refused
from training_app.api.serializers.base import MessageSerializer, OfPool
from training_app.engine.routing.options import BadOption, NoAgents, Option


@extend_schema_field({"type": "array", "items": {"oneOf": [{"type": "integer"}, {"type": "string"}]}})
class AgentsOrKeys(serializers.ListField):
    """Agents by id or key, which the view reads."""


class SentMessageSerializer(MessageSerializer):
    """One message of a conversation that is to be routed."""

    agents = AgentsOrKeys(
        required=False,
        help_text="The agents that answered with this message, by id or key, where the application knows them; keys of agents that "
        "the pool does not have are ignored.",
    )


def a_conversation() -> Any:
    """The field of a conversation that is to be routed."""
    return serializers.ListField(
        child=SentMessageSerializer(),
        required=False,
        help_text="Instead of query: a conversation, whose last message, the user's, is routed in it. At most "
        "MAX_CONVERSATION_CHARACTERS (60,000) together; of more than MAX_MESSAGES (40) the oldest are left out.",
    )


class _OptionField(serializers.Field[Any, Any, Any, Any]):
    option: Option

    def to_internal_value(self, data: Any) -> Any:
        """The parsed value; raises Refused."""
        try:
            return self.option.parse(data, NoAgents())
        except BadOption as bad:
            raise Refused(400, "invalid", str(bad), field=bad.field) from None


def option_field(option: Option, **more: Any) -> Any:
    """The field of an option. It parses those that name no agents; `route_requests` parses the options of routing requests."""
    kind = type(f"{option.name.title()}Field", (_OptionField,), {"option": option})
    described = extend_schema_field(dict(option.value.schema))(kind)
    return described(required=False, allow_null=True, help_text=option.description, **more)


class WithOptions(OfPool):
    """A request with the options of `table`."""

    table: tuple[Option, ...] = ()

    def get_fields(self) -> Any:
        """The fields, with one for each option."""
        return super().get_fields() | {option.name: option_field(option) for option in self.table}


WARNINGS = "Only where something of the request had no effect: what, in sentences."


class RouteRequest(WithOptions):
    """One query, and how to route it."""

    # `route_requests` checks the body, as for the fast lane; the fields describe it.

    table = route_requests.ROUTE_OPTIONS

    query = serializers.CharField(
        required=False,
        help_text="The text to route, not blank; at most MAX_QUERY_CHARACTERS (20,000). Needed where there are no messages.",
    )
    messages = a_conversation()

    def run_validation(self, data: Any = serializers.empty) -> Any:
        """The call; raises Refused and NoModel."""
        return route_requests.route_call(data, self.context["view"].access)


@extend_schema_field(
    {
        "oneOf": [
            {"type": "string"},
            {
                "type": "object",
                "properties": {
                    "messages": {"type": "array", "items": {"$ref": "#/components/schemas/SentMessage"}},
                },
                "required": ["messages"],
            },
        ]
    }
)
class QueryInBatch(serializers.Field[Any, Any, Any, Any]):
    """A text, or an object with the messages of a conversation."""


class BatchRequest(WithOptions):
    """Many queries of one pool."""

    table = route_requests.BATCH_OPTIONS

    queries = serializers.ListField(
        child=QueryInBatch(),
        help_text='Texts to route, or conversations as {"messages": [...]}; at most MAX_BATCH_QUERIES (1,000), each as in one route.',
    )

    def run_validation(self, data: Any = serializers.empty) -> Any:
        """The call; raises Refused and NoModel."""
        return route_requests.batch_call(data, self.context["view"].access)


class StepSerializer(serializers.Serializer[Any]):
    """One choice of a walk."""

    q = serializers.DictField(
        child=serializers.FloatField(allow_null=True),
        help_text="The network's value of the agent of that id; masked ones may be left out, null is one that is not allowed. Empty "
        "where another rule decided.",
    )
    stop = serializers.FloatField(
        allow_null=True,
        help_text="The network's value of stopping here; null where that was not allowed, and where another rule decided.",
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

    rule = serializers.ChoiceField(
        ["ddqn", "bayes", "threshold"],
        help_text="What decided: the Double DQN, the set of highest expected worth, or one threshold for all agents.",
    )
    steps = StepSerializer(many=True)
    features = serializers.DictField(
        child=Weighed(), help_text="By agent id, the parts of the text that moved its score most, each with its weight."
    )
    left_out = serializers.DictField(
        child=serializers.CharField(),
        help_text="By agent id, why the pool's rules or the budget keep an agent out of the set.",
    )


class AskSerializer(serializers.Serializer[Any]):
    """A question for the user, whose answer comes back as the conversation's next turn."""

    agents = serializers.ListField(
        child=serializers.IntegerField(), help_text="Ids of the agents in doubt, likeliest first."
    )
    agent_names = serializers.ListField(child=serializers.CharField())
    question = serializers.CharField(help_text="Built from their names and descriptions.")


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
    continues = serializers.BooleanField(
        allow_null=True,
        help_text="In a conversation, whether the agents are those of the last turn; null for a text and for a first turn.",
    )
    continues_confidence = serializers.FloatField(
        min_value=0,
        max_value=1,
        allow_null=True,
        help_text="Calibrated probability that `continues` is right; null as that is.",
    )
    model = serializers.CharField(
        help_text="The version that answered; `descriptions` where the pool has no model yet and its agents' descriptions decided."
    )
    decision_id = serializers.UUIDField(help_text="Names this answer under Decisions and when its outcome is reported.")
    not_covered = serializers.ListField(
        child=serializers.IntegerField(),
        help_text="Ids of active agents that the model has not learnt yet and cannot choose.",
    )
    explanation = ExplanationSerializer(required=False, help_text="Only with explain true.")
    ask = AskSerializer(
        required=False,
        help_text="Only where the pool asks users, and asking is worth more than it costs: whom to ask about.",
    )
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
    cold_scores = serializers.DictField(
        child=serializers.FloatField(min_value=0, max_value=1),
        required=False,
        help_text="Beside cold, the probability that the agent of that id is needed, by its description.",
    )

    def get_fields(self) -> dict[str, Any]:
        """The fields, and those that packages add."""
        return super().get_fields() | {name: field for added in hooks.answer_fields() for name, field in added.items()}


class BatchSerializer(serializers.Serializer[Any]):
    """The answers to many queries."""

    model = serializers.CharField(help_text="The pool's active model; `descriptions` where it has none yet.")
    results = AnswerSerializer(many=True, help_text="In the queries' order.")
    warnings = serializers.ListField(child=serializers.CharField(), required=False, help_text=WARNINGS)
    not_covered = serializers.ListField(child=serializers.IntegerField())
