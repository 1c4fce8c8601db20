"""What is asked of orchestration, and what it answers."""

from typing import Any

from django.conf import settings
from rest_framework import serializers

from orchestration_app.backends.preferences import PREFERENCE
from orchestration_app.engine.orchestrating.turns import MOST_PATHS
from orchestration_app.episodes.episodes import Wanted
from orchestration_app.models import AnswerRule, Episode
from training_app.api.errors import Refused
from training_app.api.fields import Choice, Flag, Ids, Moment, Number, Rounded, Text, Whole
from training_app.api.serializers.base import Body, OfPool
from training_app.api.serializers.routing import option_field
from training_app.api.serializers.runs import MOST, PageParameters
from training_app.engine.data import storable

ROLES = ("system", "user", "assistant")
MOST_MESSAGES = 200


class Messages(serializers.ListField):
    """A conversation as chats have it: a role and a content each, the last of the user."""

    def __init__(self, **options: Any) -> None:
        super().__init__(child=serializers.DictField(child=serializers.CharField()), **options)

    def run_validation(self, data: Any = serializers.empty) -> Any:
        """The conversation. Raises Refused."""
        if data in (serializers.empty, None):
            return None
        if not isinstance(data, list) or not 0 < len(data) <= MOST_MESSAGES:
            self._refuse("messages", f"must be a list of 1 to {MOST_MESSAGES} messages")
        return [self._one(message, f"messages[{at}]") for at, message in enumerate(data)]

    def _one(self, message: Any, place: str) -> dict[str, str]:
        if (
            not isinstance(message, dict)
            or message.get("role") not in ROLES
            or not isinstance(message.get("content"), str)
        ):
            self._refuse(place, f"must have a role of {', '.join(ROLES)} and a content that is a text")
        content = str(message["content"])
        if fault := storable.text_fault(content):
            self._refuse(f"{place}.content", fault)
        if len(content) > settings.MAX_QUERY_CHARACTERS:
            words = (
                f"{place}.content has {len(content):,} characters; at most {settings.MAX_QUERY_CHARACTERS:,} are taken."
            )
            raise Refused(400, "too_long", words, field=f"{place}.content")
        return {"role": str(message["role"]), "content": content}

    def _refuse(self, field: str, reason: str) -> None:
        raise Refused(400, "invalid", f"{field} {reason}.", field=field)


class TaskBody(OfPool):
    """A task, and what agents may do about it."""

    task = Text(20_000, required=False, default="", help_text="The task as a text; or send messages.")
    messages = Messages(
        required=False,
        default=None,
        help_text='The task as a conversation: {"role", "content"} each; the last of the user.',
    )
    max_steps = Whole(
        1, 100, required=False, allow_null=True, default=None,
        help_text="Steps at most; the version's own where it is left out, never more than EPISODE_STEPS (20).",
    )  # fmt: skip
    budget = Number(
        required=False, allow_null=True, default=None,
        help_text="The most that all calls together may cost, in the pool's currency. A call starts only if its worst case fits.",
    )  # fmt: skip
    agents = Ids(
        1_000,
        required=False,
        allow_null=True,
        default=None,
        help_text="Ids of the agents that may be called; all where left out.",
    )

    def validate(self, values: dict[str, Any]) -> dict[str, Any]:
        """One of task and messages. Raises Refused."""
        task, messages = values.get("task"), values.get("messages")
        if bool(task) == bool(messages):
            code = "invalid" if task else "missing"
            raise Refused(400, code, "Send task, a text, or messages, a conversation: one of the two.", field="task")
        if task and len(task) > settings.MAX_QUERY_CHARACTERS:
            words = f"task has {len(task):,} characters; at most {settings.MAX_QUERY_CHARACTERS:,} are taken."
            raise Refused(400, "too_long", words, field="task")
        if messages and messages[-1]["role"] != "user":
            raise Refused(400, "invalid", "messages must end with one of the user.", field="messages")
        if values.get("budget") is not None and values["budget"] < 0:
            raise Refused(400, "invalid", "budget must be a number from 0.", field="budget")
        return values


class OrchestrateRequest(TaskBody):
    """A task to work on to its end."""

    paths = Whole(
        1, MOST_PATHS, required=False, default=1,
        help_text="Paths beside each other that share the budget; the answer that most of them gave wins.",
    )  # fmt: skip
    aggregator = Whole(
        0, 2**31 - 1, required=False, allow_null=True, default=None,
        help_text="Id of the agent that makes one answer of what all paths returned. Needs paths of 2 or 3.",
    )  # fmt: skip
    compose = Choice(
        AnswerRule.Rule.values, required=False,
        help_text="How one answer is made of the outputs: joined, every agent's under its name; last; composer, one text that the "
        "pool's composer writes; majority, among paths. The pool's own rule where left out.",
    )  # fmt: skip
    together = Whole(
        1, 10, required=False, default=1,
        help_text="Agents at most that one step calls at once: those that the policy puts above 2 / the number of its choices.",
    )  # fmt: skip
    seed = Whole(
        0, 2**31 - 1, required=False, allow_null=True, default=None,
        help_text="Draws choices by their probabilities instead of taking the likeliest; the same seed draws the same.",
    )  # fmt: skip
    preference = option_field(PREFERENCE, default=None)
    wait = Flag(required=False, default=True, help_text="False: answer 202 at once, with the address to ask.")

    def validate(self, values: dict[str, Any]) -> dict[str, Any]:
        """Somebody may be called, and an aggregator has paths to make one answer of. Raises Refused."""
        values = super().validate(values)
        if values["agents"] == []:
            words = (
                "agents is empty, so that nobody may be called: name the agents that may be, or leave it out for all."
            )
            raise Refused(400, "invalid", words, field="agents")
        if values["aggregator"] is not None and values["paths"] < 2:
            words = (
                "aggregator makes one answer of several paths: send paths of 2 or 3 with it, or compose for one path."
            )
            raise Refused(400, "invalid", words, field="aggregator")
        return values


class SaidSerializer(serializers.Serializer[Any]):
    """One call that the application made."""

    agent = Whole(0, 2**31 - 1, help_text="The agent's id.")
    output = serializers.CharField(required=False, default="", allow_blank=True, help_text="What it said.")
    failed = Flag(required=False, default=False, help_text="Whether it failed.")
    cost = Number(required=False, default=0.0, help_text="What the call cost, in the pool's currency.")
    answer = serializers.CharField(
        required=False,
        allow_null=True,
        default=None,
        help_text="Its answer to the task, where that is not all of its output.",
    )


class NextRequest(TaskBody):
    """How far an episode is whose calls the application makes itself."""

    history = serializers.ListField(
        child=SaidSerializer(),
        required=False,
        default=list,
        max_length=100,
        help_text="The calls so far, in their order.",
    )
    seed = Whole(
        0, 2**31 - 1, required=False, allow_null=True, default=None, help_text="Draws, instead of the likeliest."
    )


class NextSerializer(serializers.Serializer[Any]):
    """What comes next."""

    agent = serializers.IntegerField(allow_null=True, help_text="Id of the agent to call next, null to stop.")
    name = serializers.CharField(help_text="Its name.")
    stop_reason = serializers.CharField(
        help_text="Why to stop: stop, max_steps, budget or no_agents; empty where an agent is to be called."
    )
    probabilities = serializers.DictField(
        child=serializers.FloatField(), help_text='By agent id, and by "stop": what the policy made of it.'
    )
    propensity = serializers.FloatField(help_text="How likely this choice was; 1 without a seed.")
    step = serializers.IntegerField(help_text="Steps before it.")
    policy = serializers.CharField(help_text="The version that decided.")


class MissingSerializer(serializers.Serializer[Any]):
    """A part that an answer lacks."""

    agent = serializers.IntegerField(
        allow_null=True, help_text="The agent's id; null where nobody can say which agent it was to be."
    )
    name = serializers.CharField(help_text="Its name.")
    step = serializers.IntegerField(
        allow_null=True, help_text="The step at which it failed; null where it was not called."
    )
    reason = serializers.CharField(
        help_text="The kind of failure, empty for no text, or why it was not called: budget, max_steps, no_agents or timeout; "
        "length where the part is there, but was cut at its most tokens."
    )
    why = serializers.CharField(help_text="The failure in words.")


class QuestionSerializer(serializers.Serializer[Any]):
    """What an episode waits for a person to say."""

    call = serializers.IntegerField(help_text="The call that waits; name it in the reply where several do.")
    agent = serializers.IntegerField(allow_null=True, help_text="The agent's id.")
    name = serializers.CharField(help_text="Its name.")
    kind = serializers.CharField(
        help_text="input: the agent asked something; approval: a person approves the call first."
    )
    question = serializers.CharField(help_text="What is asked, or the task that the call is about.")


class EpisodeSerializer(serializers.Serializer[Any]):
    """An episode, whether it has ended or not."""

    episode_id = serializers.UUIDField(help_text="Names the episode.")
    status = serializers.ChoiceField(
        Episode.Status.values,
        help_text="waiting: a person is asked something, see `questions`; done: the answer is whole; partial: parts are missing, "
        "and `missing` names them; failed: there is no answer, and `error` says why.",
    )
    answer = serializers.CharField(allow_null=True, help_text="The answer; null where there is none, or not yet.")
    stop_reason = serializers.CharField(
        help_text="stop, max_steps, budget, no_agents, timeout, cancelled, interrupted or failed; empty while it runs."
    )
    composed = serializers.CharField(help_text="How the answer was made: joined, last, composer or majority.")
    missing = MissingSerializer(many=True, help_text="The parts that the answer lacks.")
    questions = QuestionSerializer(many=True, help_text="What a person is asked, while the episode waits.")
    error = serializers.CharField(help_text="Why there is no answer, or what is missing from it, in words.")
    steps = serializers.IntegerField(help_text="Steps that called somebody, on the longest path.")
    cost = serializers.FloatField(help_text="What all calls cost, in the pool's currency.")
    tokens = serializers.IntegerField(help_text="Tokens of all calls, in and out.")
    latency = serializers.FloatField(help_text="Seconds that the steps took, one after another.")
    policy = serializers.CharField(help_text="The version that decided.")


class OutputSerializer(serializers.Serializer[Any]):
    """What one agent returned."""

    agent = serializers.IntegerField(help_text="The agent's id.")
    name = serializers.CharField(help_text="Its name.")
    path = serializers.IntegerField(help_text="The path, from 0.")
    step = serializers.IntegerField(help_text="The step of the path, from 0.")
    output = serializers.CharField(help_text="All that it returned.")


class ResultSerializer(EpisodeSerializer):
    """An episode with what every agent returned."""

    outputs = OutputSerializer(many=True, help_text="Every agent's outputs, in the order of the calls.")


class QueuedSerializer(serializers.Serializer[Any]):
    """An episode that goes on without anybody waiting."""

    episode_id = serializers.UUIDField(help_text="Names the episode.")
    status = serializers.CharField(help_text="queued or running; or how it ended, where it was there already.")
    address = serializers.CharField(help_text="Where to ask for it.")


class TakenSerializer(serializers.Serializer[Any]):
    """One call of an episode, or the end of a path."""

    turn = serializers.IntegerField(help_text="The round; every path takes one step in each.")
    path = serializers.IntegerField(help_text="The path, from 0.")
    place = serializers.IntegerField(help_text="The place among the calls of one step.")
    step = serializers.IntegerField(help_text="The step of the path, from 0.")
    agent = serializers.IntegerField(
        allow_null=True, help_text="Id of the agent that was called, null where the path ended."
    )
    name = serializers.CharField(help_text="Its name.")
    aim = serializers.CharField(help_text='"answer", or "aggregate" for the call that makes one answer of several.')
    status = serializers.CharField(help_text="queued, running, waiting, answered, done or failed.")
    reason = serializers.CharField(help_text="Why the path ended here.")
    probabilities = serializers.DictField(child=serializers.FloatField(), help_text='By agent id, and by "stop".')
    propensity = serializers.FloatField(
        help_text="How likely the choice was; 1 for the likeliest, taken without a draw."
    )
    output = serializers.CharField(help_text="What the agent said.")
    failure = serializers.CharField(help_text="The kind of failure, empty where there was none.")
    why = serializers.CharField(help_text="The failure in words.")
    cost = serializers.FloatField(help_text="In the pool's currency.")
    tokens = serializers.IntegerField()
    latency = serializers.FloatField(help_text="Seconds.")
    attempts = serializers.IntegerField(help_text="How often the call was made.")
    metadata = serializers.DictField(help_text="What else the agent told.")


class EpisodeDetailSerializer(ResultSerializer):
    """An episode with its steps."""

    pool = serializers.CharField(help_text="The pool's slug.")
    task = serializers.CharField()
    budget = Rounded(allow_null=True)
    success = serializers.BooleanField(allow_null=True, help_text="What was reported of it; null where nothing was.")
    rating = Rounded(allow_null=True)
    created_at = Moment()
    finished_at = Moment(allow_null=True)
    trajectory = TakenSerializer(many=True, help_text="Every step, in order.")
    page = serializers.CharField(help_text="Its page.")


class EpisodesParameters(PageParameters):
    """Which episodes."""

    status = Choice(Episode.Status.values, required=False, help_text="Only those of this status.")


class EpisodesSerializer(serializers.Serializer[Any]):
    """A pool's episodes."""

    pool = serializers.CharField()
    episodes = EpisodeSerializer(many=True, help_text=f"Newest first, at most {MOST}.")


class ReplyRequest(Body):
    """What a person says to an episode that waits."""

    call = Whole(
        0, 2**31 - 1, required=False, allow_null=True, default=None, help_text="The call that waits, where several do."
    )
    wait = Flag(required=False, default=True, help_text="False: answer at once, without waiting for what comes of it.")


class InputRequest(ReplyRequest):
    """The answer to an agent's question."""

    text = Text(20_000, help_text="The answer.")


class ApprovalRequest(ReplyRequest):
    """Whether a call is made."""

    approve = Flag(help_text="Whether the call is made.")
    why = Text(400, required=False, default="", help_text="Why not, for the answer.")


class JudgeRequest(Body):
    """How well an episode did."""

    success = Flag(required=False, allow_null=True, default=None, help_text="Whether the answer was right.")
    rating = Number(required=False, allow_null=True, default=None, help_text="How good it was, 0 to 1.")
    comment = Text(2_000, required=False, default="", help_text="In words.")

    def validate(self, values: dict[str, Any]) -> dict[str, Any]:
        """Something has to be said. Raises Refused."""
        if values["success"] is None and values["rating"] is None:
            raise Refused(400, "missing", "Send success, rating or both.", field="success")
        if values["rating"] is not None and not 0 <= values["rating"] <= 1:
            raise Refused(400, "invalid", "rating must be a number from 0 to 1.", field="rating")
        return values


def wanted(body: dict[str, Any]) -> Wanted:
    """What is asked for, for `episodes.begin`."""
    return Wanted(
        messages=body["messages"] or [{"role": "user", "content": body["task"]}],
        max_steps=min(body["max_steps"] or 0, settings.EPISODE_STEPS),
        budget=body["budget"],
        paths=body["paths"],
        together=body["together"],
        agents=None if body["agents"] is None else frozenset(body["agents"]),
        aggregator=body["aggregator"],
        compose=body.get("compose") or "",
        seed=body["seed"],
        preference=body["preference"],
    )
