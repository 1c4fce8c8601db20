"""The labeling queue: what is sent and what a labeler may see."""

from typing import Any

from rest_framework import serializers

from datasets_app.labels.labels import LONGEST_NOTE
from datasets_app.models import Assignment, Label
from training_app.api.fields import Flag, Ids, Moment, PoolSlug, Text, Whole
from training_app.api.serializers.base import MessageSerializer, OfPool, QueryString

LISTED = 200  # queries that one call may name
MOST_NUMBER, MOST_ID = 2**31 - 1, 2**63 - 1
ABOUT = "In the queue of the question about that agent alone; left out, of whole sets."
NOT_AN_AGENT = "be the id of an active agent of this pool"


def _agent() -> Whole:
    return Whole(0, MOST_NUMBER, NOT_AN_AGENT, required=False, allow_null=True, default=None, help_text=ABOUT)


def _count(words: str) -> Whole:
    return Whole(0, MOST_NUMBER, "be a number from 0", required=False, allow_null=True, default=0, help_text=words)


class ItemParameters(QueryString):
    """Which queue the item is of."""

    pool = PoolSlug()
    agent = _agent()


class OfQueue(OfPool):
    """Which queue."""

    agent = _agent()


class TakeRequest(OfQueue):
    """Which item."""

    query = Whole(
        0, MOST_ID, required=False, allow_null=True, default=None, help_text="This query instead of the next one."
    )
    beside = Ids(
        LISTED, required=False, allow_null=True, default=None,
        help_text="Queries that are not given out again: those on screen or being sent.",
    )  # fmt: skip


class QueriesRequest(OfPool):
    """Which of the items that are held."""

    queries = Ids(LISTED, required=False, allow_null=True, default=None, help_text="Their queries' ids.")


class DraftRequest(OfQueue):
    """What is chosen so far."""

    agents = Ids(LISTED, missing=": a list of ids, [] for none of these", help_text="The agents that are chosen.")
    asked = Ids(LISTED, required=False, allow_null=True, default=None, help_text="The agents that were shown.")
    none = Flag(required=False, default=False, help_text="None of these agents is chosen.")
    unsure = Flag(required=False, default=False, help_text="The person is not sure.")
    note = Text(LONGEST_NOTE, required=False, default="", help_text="What reviewers are to know.")
    base = _count("The item's base: the person's label, 0 for none.")
    version = _count("The item's version: the draft that this one follows.")
    writer = Text(
        40,
        required=False,
        default="",
        help_text="Names the window; with step, a save that arrives late or twice changes nothing.",
    )
    step = _count("Counts the saves of that writer.")


class SubmitRequest(OfQueue):
    """The person's answer."""

    key = Text(
        50, missing=": a text of your own that names this submit, so that it may be sent again",
        help_text="A text of your own that names this submit: sent again, it is the same one.",
    )  # fmt: skip
    agents = Ids(
        LISTED, missing=": a list of ids, [] for none of these", help_text="The required set; [] is none of these."
    )
    asked = Ids(
        LISTED, missing=": the ids of the agents that were shown, as the item has them",
        help_text="The agents that were shown, as the item has them.",
    )  # fmt: skip
    unsure = Flag(required=False, default=False, help_text="The label is kept and decides nothing.")
    note = Text(LONGEST_NOTE, required=False, default="", help_text="What reviewers are to know; exports carry it.")
    base = _count("The item's base.")
    seconds = _count("How long the person took.")


class SkipRequest(OfQueue):
    """Why an item is handed on."""

    reason = Text(200, missing=": say why it is skipped", help_text="Why; others see it.")


class UndoRequest(OfQueue):
    """What to take back."""

    query = Whole(
        0, MOST_ID, required=False, allow_null=True, default=None, help_text="That of this query instead of the last."
    )


# --- Answers --------------------------------------------------------------------------------------------------------


class LabelSerializer(serializers.Serializer[Label]):
    """A label."""

    id = serializers.IntegerField(source="pk")
    source = serializers.ChoiceField(Label.Source.choices)  # type: ignore[assignment]
    author = serializers.SerializerMethodField()
    agents = serializers.ListField(
        child=serializers.IntegerField(), source="required", help_text="The required set; [] is none of these."
    )
    asked = serializers.ListField(child=serializers.IntegerField())
    unsure = serializers.BooleanField()
    reason = serializers.CharField()
    note = serializers.CharField()
    at = Moment(source="created_at")
    current = serializers.SerializerMethodField(
        help_text="Whether no later label has replaced it and nobody took it back."
    )

    def get_author(self, label: Label) -> str | None:
        """Who said it."""
        return label.author.get_username() if label.author else None

    def get_current(self, label: Label) -> bool:
        """Whether it counts."""
        return label.superseded_at is None


class ChoiceSerializer(serializers.Serializer[Any]):
    """The person's draft or label so far."""

    agents = serializers.ListField(child=serializers.IntegerField())
    none = serializers.BooleanField()
    unsure = serializers.BooleanField()
    note = serializers.CharField(help_text="What reviewers are to know.")


class ItemSerializer(serializers.Serializer[Any]):
    """An item as the person may see it."""

    query = serializers.IntegerField()
    text = serializers.CharField()
    messages = serializers.ListField(
        child=MessageSerializer(),
        allow_null=True,
        help_text="What was said before it in its conversation; null where nothing was.",
    )
    origin = serializers.CharField()
    agent = serializers.IntegerField(
        allow_null=True, help_text="The one agent that is asked about, null for the whole set."
    )
    asked = serializers.ListField(child=serializers.IntegerField(), help_text="Ids of the agents to show.")
    choice = ChoiceSerializer()
    base = serializers.IntegerField(help_text="The person's own label, 0 for none; send it back.")
    version = serializers.IntegerField(help_text="The person's draft, 0 for none; send it back.")
    state = serializers.ChoiceField(Assignment.State.choices)
    leased_until = Moment(allow_null=True)
    suggested = serializers.ListField(
        child=serializers.IntegerField(),
        allow_null=True,
        help_text="The set that may be accepted, null where nothing is suggested, as on a blind item.",
    )
    suggestions = serializers.ListField(
        child=serializers.DictField(),
        help_text="By source: source, version, required, scores by agent id, and fallback where the LLM could not be read.",
    )
    labels = LabelSerializer(
        many=True,
        help_text="What the person may see: their own; everybody's once theirs is submitted, or to reviewers.",
    )


class HoldingSerializer(serializers.Serializer[Any]):
    """Who holds what is left."""

    person = serializers.CharField(source="person.get_username")
    items = serializers.IntegerField()
    free_at = Moment()


class WhySerializer(serializers.Serializer[Any]):
    """Why there is nothing to do."""

    held = HoldingSerializer(many=True)
    skipped = serializers.IntegerField(help_text="How many the person has skipped.")
    for_others = serializers.IntegerField(help_text="How many wait for other people.")


class CountsSerializer(serializers.Serializer[Any]):
    """How far the person and the queue are."""

    today = serializers.IntegerField(help_text="How many the person has answered today.")
    left = serializers.IntegerField(help_text="How many items wait for the person.")
    others = serializers.IntegerField(help_text="How many items wait that only somebody else can answer now.")


class TakenItemSerializer(CountsSerializer):
    """An item, or why there is none."""

    item = ItemSerializer(allow_null=True)
    why = WhySerializer(required=False, help_text="Only without an item.")


class DraftSerializer(serializers.Serializer[Any]):
    """What was kept."""

    query = serializers.IntegerField()
    version = serializers.IntegerField(help_text="Send it with the next one.")


class SubmittedSerializer(CountsSerializer):
    """What was submitted."""

    query = serializers.IntegerField()
    new = serializers.BooleanField(help_text="False where this key was sent before.")
    undone = serializers.BooleanField(help_text="Whether this submit was taken back since.")
    label = LabelSerializer()  # type: ignore[assignment]


class SkippedSerializer(CountsSerializer):
    """What was handed on."""

    query = serializers.IntegerField()
    skipped = serializers.BooleanField()


class UndoneSerializer(CountsSerializer):
    """What was taken back."""

    undone = serializers.ChoiceField(["submit", "skip"], allow_null=True)
    query = serializers.IntegerField(allow_null=True)


class HeldSerializer(serializers.Serializer[Any]):
    """What is still held."""

    held = serializers.ListField(child=serializers.IntegerField(), help_text="Queries' ids.")


class ReleasedSerializer(serializers.Serializer[Any]):
    """What was given back."""

    released = serializers.IntegerField(help_text="How many.")
