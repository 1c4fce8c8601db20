"""Decisions: a list, one of them, and the same again."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from training_app.api.errors import Refused
from training_app.api.fields import Choice, Flag, Moment, PoolSlug, Rounded, Whole
from training_app.api.serializers.base import MessageSerializer, QueryString
from training_app.api.serializers.routing import ExplanationSerializer
from training_app.api.serializers.runs import PageParameters
from training_app.models import Decision
from training_app.rollout import decision_exports

REASONS = ("stop", "none", "max_agents", "abstained")
BEFORE = "What was said before the text in its conversation; null where nothing was."


class SpanParameters(QueryString):
    """Decisions of which time."""

    since = serializers.DateTimeField(
        required=False, default=None, help_text="Answered at this time or later, ISO 8601."
    )
    until = serializers.DateTimeField(required=False, default=None, help_text="Answered before this time, ISO 8601.")

    def run_validation(self, data: Any = serializers.empty) -> Any:
        """What is asked; a time that is none is told by its name."""
        for name in ("since", "until"):
            try:
                self.fields[name].run_validation(data.get(name, serializers.empty))
            except serializers.ValidationError:
                raise Refused(
                    400, "invalid", f"{name} must be a time such as 2026-03-01T10:00:00Z.", field=name
                ) from None
        return super().run_validation(data)


class DecisionsParameters(SpanParameters, PageParameters):
    """Which decisions."""

    agent = Whole(0, 2**31 - 1, required=False, allow_null=True, default=None, help_text="Whose set holds this id.")
    model = serializers.CharField(
        required=False,
        default="",
        allow_blank=True,
        help_text="That this version answered, by its name; `descriptions` for answers without a model.",
    )
    stop_reason = serializers.CharField(
        required=False, default="", allow_blank=True, help_text=f"One of {', '.join(REASONS)}."
    )

    def validate_stop_reason(self, value: str) -> str:
        """A word of the answer's."""
        if value and value not in REASONS:
            raise Refused(400, "invalid", f"stop_reason must be one of {', '.join(REASONS)}.", field="stop_reason")
        return value


class ExportParameters(SpanParameters):
    """Which decisions, and how they are written."""

    pool = PoolSlug()
    format = Choice(
        list(decision_exports.FORMATS),
        required=False,
        default="jsonl",
        help_text="`huggingface` is a zip of a dataset folder.",
    )
    without_text = Flag(required=False, default=False, help_text="Whether every column that holds words is left out.")


class ReportedSerializer(serializers.Serializer[Any]):
    """What an application said became of it."""

    success = serializers.BooleanField()
    agents_used = serializers.ListField(child=serializers.IntegerField(), allow_null=True)
    rating = serializers.FloatField(allow_null=True)
    comment = serializers.CharField()
    at = Moment()


class DecisionSerializer(serializers.Serializer[Decision]):
    """A kept decision."""

    decision_id = serializers.UUIDField(source="pk")
    pool = serializers.CharField(source="pool.slug")
    model = serializers.CharField(source="answered_by")
    at = Moment()
    text = serializers.CharField(help_text="Empty where it was erased.")
    messages = serializers.ListField(child=MessageSerializer(), allow_null=True, help_text=BEFORE)
    agents = serializers.ListField(child=serializers.IntegerField())
    scores = serializers.DictField(child=serializers.FloatField(), help_text="By agent id.")
    confidence = serializers.FloatField()
    steps = serializers.IntegerField()
    stop_reason = serializers.ChoiceField(REASONS)
    abstained = serializers.BooleanField()
    microseconds = serializers.IntegerField(help_text="How long the answer took.")
    propensity = Rounded(allow_null=True, help_text="How likely this very set was, where the pool explored.")
    detail = serializers.DictField(allow_null=True, help_text="What else made the set: a canary, an explored agent.")
    outcome = serializers.SerializerMethodField(help_text="Null where nobody has reported one.")

    @extend_schema_field(ReportedSerializer(allow_null=True))
    def get_outcome(self, decision: Decision) -> Any:
        """What was reported."""
        outcome = self.context["outcomes"].get(decision.pk)
        return None if outcome is None else ReportedSerializer(outcome).data


class DecisionsSerializer(serializers.Serializer[Any]):
    """Decisions, newest first."""

    pool = serializers.CharField()
    decisions = DecisionSerializer(many=True)


# --- Again ----------------------------------------------------------------------------------------------------------


class ReplayedSerializer(serializers.Serializer[Any]):
    """An answer, as it was kept or as it comes out now."""

    agents = serializers.ListField(child=serializers.IntegerField())
    scores = serializers.SerializerMethodField()
    confidence = serializers.SerializerMethodField()
    steps = serializers.IntegerField()
    stop_reason = serializers.CharField()
    abstained = serializers.BooleanField()

    def get_scores(self, answer: Any) -> dict[str, float]:
        """By agent id."""
        return {str(agent): round(score, 4) for agent, score in answer.scores.items()}

    def get_confidence(self, answer: Any) -> float:
        """That the whole set is right."""
        return round(answer.confidence, 4)


class NearSerializer(serializers.Serializer[Any]):
    """A labeled query that is like the decision's."""

    query = serializers.IntegerField()
    text = serializers.CharField()
    agents = serializers.SerializerMethodField()
    likeness = serializers.SerializerMethodField()

    def get_agents(self, near: Any) -> list[int]:
        """Its required set."""
        return [agent.number for agent in near.agents]

    def get_likeness(self, near: Any) -> float:
        """From 0 to 1."""
        return round(near.likeness, 4)


class ReplaySerializer(serializers.Serializer[Any]):
    """A kept decision and the same again."""

    decision_id = serializers.UUIDField(source="decision.pk")
    pool = serializers.CharField(source="decision.pool.slug")
    model = serializers.CharField(source="decision.answered_by")
    at = serializers.SerializerMethodField()
    text = serializers.CharField(source="decision.text")
    messages = serializers.ListField(
        child=MessageSerializer(),
        source="decision.messages",
        allow_null=True,
        help_text=BEFORE,
    )
    kept = ReplayedSerializer(source="decision")
    replayed = ReplayedSerializer(source="replay.route")
    identical = serializers.BooleanField(source="replay.identical")
    cold_computed_again = serializers.BooleanField(
        source="replay.cold_again",
        allow_null=True,
        help_text="Null where no agent was routed cold; false where the kept likenesses were taken, as descriptions have changed.",
    )
    propensity = Rounded(
        source="decision.propensity",
        allow_null=True,
        help_text="How likely this very set was, where the pool explored.",
    )
    detail = serializers.DictField(
        source="decision.detail",
        allow_null=True,
        help_text="What else made the set: a canary, an explored agent, cold agents.",
    )
    explanation = ExplanationSerializer()
    nearest = NearSerializer(many=True, help_text="The labeled queries most like it.")

    @extend_schema_field({"type": "string", "format": "date-time"})
    def get_at(self, replay: Any) -> str:
        """When it was answered."""
        return str(replay["decision"].at.isoformat())
