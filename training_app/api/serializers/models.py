"""Models, their promotion, shadows and canaries, and the outcomes of what they answered."""

import uuid
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from routerweb import hooks
from training_app.api import route_requests
from training_app.api.errors import Refused
from training_app.api.fields import Flag, Ids, Moment, Number, Text
from training_app.api.serializers.base import Body, OfPool
from training_app.engine.measures import HEADLINE, MEASURES, Measure
from training_app.models import Canary, Promotion, PromotionRequest, RouterModel
from training_app.models.kinds import SET_ROUTER
from training_app.versions import headlines, kinds

WHY = "Why; it is kept."


class HeadlineField(serializers.FloatField):
    """A measure's mean over the queries that judge a model."""

    def __init__(self, measure: Measure) -> None:
        super().__init__(source="*", read_only=True, allow_null=True, help_text=measure.meaning)

    def to_representation(self, value: RouterModel) -> float | None:  # type: ignore[override]
        """The figure, None where the model has none or too few queries judge it."""
        return headlines.figure_of(value, str(self.field_name))


class VerdictSerializer(serializers.Serializer[Any]):
    """How many of 100 queries a model answers exactly right, as pages say it."""

    sentence = serializers.CharField()
    queries = serializers.IntegerField(help_text="How many queries were checked.")
    right_of_100 = serializers.IntegerField(allow_null=True, help_text="Null where fewer than 50 were checked.")
    low = serializers.IntegerField(allow_null=True, help_text="The lower end of its 95 % range.")
    high = serializers.IntegerField(allow_null=True, help_text="The upper end.")


class ModelSerializer(serializers.Serializer[RouterModel]):
    """A model. The figures are of the queries that its verdict counts, and null where these are fewer than 50."""

    name = serializers.CharField()
    version = serializers.IntegerField()
    kind = serializers.CharField(help_text="What it decides: set_router, orchestrator or backend_chooser.")
    state = serializers.ChoiceField(RouterModel.State.choices)
    run = serializers.IntegerField(
        source="run_id", allow_null=True, help_text="The run that made it, null for an import."
    )
    judged_by = serializers.SerializerMethodField(
        help_text="Whose labels these figures are of: people, import, or llm where an LLM alone labeled some of the queries; empty "
        "where that is not known."
    )
    verdict = serializers.SerializerMethodField(
        help_text="How many of 100 queries it gets right; null without a scorecard."
    )
    agents = serializers.SerializerMethodField(help_text="Ids of the agents that it knows.")
    sha256 = serializers.CharField(source="artifact_digest")
    bytes = serializers.IntegerField(source="artifact_bytes")
    pinned = serializers.BooleanField(help_text="Its artifact is never pruned.")
    created_at = Moment()

    def get_fields(self) -> Any:
        """The fields, with one for each headline measure."""
        return super().get_fields() | {name: HeadlineField(MEASURES[name]) for name in HEADLINE}

    def get_judged_by(self, model: RouterModel) -> str:
        """Of the queries that it was measured on."""
        return getattr(model, "judged_by", "")

    @extend_schema_field(VerdictSerializer(allow_null=True))
    def get_verdict(self, model: RouterModel) -> dict[str, Any] | None:
        """Beside the model in use only where one model is asked for."""
        verdict = getattr(model, "verdict", None)
        return verdict.plain() if verdict else None

    def get_agents(self, model: RouterModel) -> list[int]:
        """By id."""
        return [agent["id"] for agent in model.roster]


class ModelsSerializer(serializers.Serializer[Any]):
    """Models, newest first."""

    pool = serializers.CharField()
    models = ModelSerializer(many=True)


class PromoteRequest(Body):
    """Why a model is promoted."""

    reason = Text(400, required=False, default="", help_text=WHY)
    override = Text(
        400, required=False, default="", help_text="Reason to promote it although the gate refuses; it is kept."
    )


class NoteRequest(Body):
    """What is said to a request for a promotion or a canary."""

    note = Text(400, required=False, default="", help_text=WHY)


class PromotionRequestSerializer(serializers.Serializer[PromotionRequest]):
    """A promotion, or a canary, that one person asked for, and another decides."""

    model = serializers.CharField(source="model.name")
    against = serializers.SerializerMethodField()
    state = serializers.ChoiceField(PromotionRequest.State.choices)
    asked_by = serializers.CharField(source="author_name")
    reason = serializers.CharField()
    override = serializers.CharField(help_text="Why it shall answer although the gate refuses.")
    share = serializers.FloatField(allow_null=True, help_text="Of the traffic, for a canary; null for a promotion.")
    asked_at = Moment()

    def get_against(self, request: PromotionRequest) -> str | None:
        """The model that was active when it was asked for."""
        return request.against.name if request.against else None


class RollBackRequest(OfPool):
    """Which pool goes back, and why."""

    kind = serializers.ChoiceField(
        sorted(kinds.every()), required=False, default=SET_ROUTER, help_text="The kind of version that goes back."
    )
    reason = Text(400, required=False, default="", help_text=WHY)
    override = Text(
        400, required=False, default="", help_text="Why it answers although a must-pass case is broken; it is kept."
    )


class PromotionSerializer(serializers.Serializer[Promotion]):
    """A change of the active model."""

    model = serializers.SerializerMethodField()
    previous = serializers.SerializerMethodField()
    kind = serializers.ChoiceField(Promotion.Kind.choices)
    reason = serializers.CharField()
    at = Moment()

    def get_model(self, promotion: Promotion) -> str | None:
        """The model that answers now; null where the kind has none any more."""
        return None if promotion.kind == Promotion.Kind.STOPPED else promotion.model.name

    def get_previous(self, promotion: Promotion) -> str | None:
        """The model before."""
        return promotion.previous.name if promotion.previous else None


# --- Live -----------------------------------------------------------------------------------------------------------


class ModelRoleSerializer(serializers.Serializer[RouterModel]):
    """What a model does."""

    model = serializers.CharField(source="name")
    state = serializers.ChoiceField(RouterModel.State.choices)


class CanaryRequest(PromoteRequest):
    """How much of the traffic."""

    share = Number("be a number above 0 and at most 0.5", help_text="Above 0 and at most 0.5.")


class CanarySerializer(serializers.Serializer[Canary]):
    """A canary."""

    model = serializers.CharField(source="model.name")
    against = serializers.CharField(source="against.name", help_text="The model that answers the rest.")
    share = serializers.FloatField()
    passed = serializers.BooleanField(help_text="Whether it passed the gate.")
    override = serializers.CharField(help_text="Why it answers although it did not.")
    started_at = Moment()
    ended_at = Moment(allow_null=True)


class LiveSerializer(serializers.Serializer[Any]):
    """How a model compares on live decisions."""

    model = serializers.CharField()
    state = serializers.ChoiceField(RouterModel.State.choices)
    shadow = serializers.DictField(
        allow_null=True, help_text="Counts, means and 95 % intervals; null where it is none."
    )
    canary = serializers.DictField(
        allow_null=True, help_text="The same, with a verdict in words; null where it is none."
    )


# --- Outcomes -------------------------------------------------------------------------------------------------------


class OutcomeRequest(OfPool):
    """What became of a decision."""

    decision_id = serializers.UUIDField(help_text="The id that an answer came with.")
    success = Flag(help_text="Whether it went well.")
    agents_used = Ids(
        1000,
        "be a list of agents' ids",
        required=False,
        allow_null=True,
        default=None,
        help_text="Which agents did the work.",
    )
    rating = Number(
        "be a number from 0 to 5", min_value=0, max_value=5, required=False, allow_null=True, default=None,
        help_text="How good it was, 0 (useless) to 5 (perfect).",
    )  # fmt: skip
    comment = serializers.CharField(
        required=False, allow_null=True, allow_blank=True, default="", help_text="What went well or wrong, in words."
    )

    def get_fields(self) -> dict[str, Any]:
        """The fields, and those that packages add."""
        return super().get_fields() | {name: field for added in hooks.outcome_fields() for name, field in added.items()}

    def run_validation(self, data: Any = serializers.empty) -> Any:
        """The report; an id is checked in its own words, as it may be of a decision that nobody has written yet."""
        value = data.get("decision_id")
        try:
            decision = uuid.UUID(value)
        except (ValueError, TypeError, AttributeError):
            code = "missing" if value is None else "invalid"
            raise Refused(
                400, code, "decision_id must be the id that an answer came with.", field="decision_id"
            ) from None
        comment = data.get("comment")
        checked = super().run_validation(data | {"decision_id": str(decision), "comment": ""})
        return checked | {"comment": route_requests.check_text(comment, "comment") if comment else ""}


class OutcomeSerializer(serializers.Serializer[Any]):
    """Which report counts now."""

    decision_id = serializers.UUIDField()
    pool = serializers.CharField()
    new = serializers.BooleanField(help_text="Whether it is the first report of this decision.")
