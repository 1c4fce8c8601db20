"""Models, their promotion, shadows and canaries, and the outcomes of what they answered."""

import uuid
from typing import Any

from rest_framework import serializers

from training_app.api import asking
from training_app.api.errors import Refused
from training_app.api.fields import LARGEST_NUMBER, Flag, Ids, Moment, Number, Text, Whole
from training_app.api.serializers.base import Body, OfPool
from training_app.models import Canary, Promotion, PromotionRequest, RouterModel
from training_app.models.kinds import SET_ROUTER
from training_app.versions import kinds, scorecards

WHY = "Why; it is kept."


class ModelSerializer(serializers.Serializer[RouterModel]):
    """A model; the figures are those of the test queries, null where it has none."""

    name = serializers.CharField()
    version = serializers.IntegerField()
    state = serializers.ChoiceField(RouterModel.State.choices)
    run = serializers.IntegerField(
        source="run_id", allow_null=True, help_text="The run that made it, null for an import."
    )
    jaccard = serializers.SerializerMethodField()
    f1 = serializers.SerializerMethodField()
    exact = serializers.SerializerMethodField()
    agents = serializers.SerializerMethodField(help_text="Ids of the agents that it knows.")
    sha256 = serializers.CharField(source="artifact_digest")
    bytes = serializers.IntegerField(source="artifact_bytes")
    pinned = serializers.BooleanField(help_text="Its artifact is never pruned.")
    created_at = Moment()

    def get_jaccard(self, model: RouterModel) -> float | None:
        """Mean over the test queries."""
        return scorecards.figure_of(model, "jaccard")

    def get_f1(self, model: RouterModel) -> float | None:
        """Mean over the test queries."""
        return scorecards.figure_of(model, "f1")

    def get_exact(self, model: RouterModel) -> float | None:
        """Share of the test queries."""
        return scorecards.figure_of(model, "exact")

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
    override = Text(400, required=False, default="", help_text="Why it answers although the gate refuses; it is kept.")


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

    def get_against(self, asked: PromotionRequest) -> str | None:
        """The model that was active when it was asked for."""
        return asked.against.name if asked.against else None


class RollBackRequest(OfPool):
    """Which pool goes back, and why."""

    kind = serializers.ChoiceField(
        sorted(kinds.KINDS), required=False, default=SET_ROUTER, help_text="The kind of version that goes back."
    )
    reason = Text(400, required=False, default="", help_text=WHY)


class PromotionSerializer(serializers.Serializer[Promotion]):
    """A change of the active model."""

    model = serializers.CharField(source="model.name", help_text="The model that answers now.")
    previous = serializers.SerializerMethodField()
    kind = serializers.ChoiceField(Promotion.Kind.choices)
    reason = serializers.CharField()
    at = Moment()

    def get_previous(self, promotion: Promotion) -> str | None:
        """The model before."""
        return promotion.previous.name if promotion.previous else None


# --- Live -----------------------------------------------------------------------------------------------------------


class ModelStateSerializer(serializers.Serializer[RouterModel]):
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


class ServedRequest(Body):
    """What one agent's call really was. Billed is what was served, not what was assigned."""

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
        found = super().run_validation(data)
        for name in ("cost", "latency_ms"):
            if found[name] is not None and found[name] < 0:
                raise Refused(400, "invalid", f"{name} must be a number from 0.", field=name)
        return found


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
    comment = serializers.CharField(required=False, allow_null=True, allow_blank=True, default="")
    served = ServedRequest(
        many=True, required=False, default=list, help_text="Which backend served each agent, at most 64 of them."
    )

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
        served = _served(data.get("served"))
        checked = super().run_validation(data | {"decision_id": str(decision), "comment": "", "served": []})
        return checked | {"comment": asking.check_text(comment, "comment") if comment else "", "served": served}


MOST_SERVED = 64


def _served(value: Any) -> list[dict[str, Any]]:
    """What was served, each part checked. Raises Refused, which names the part."""
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(part, dict) for part in value):
        raise Refused(400, "invalid", "served must be a list of objects.", field="served")
    if len(value) > MOST_SERVED:
        raise Refused(
            400, "too_many", f"served has {len(value)} parts; at most {MOST_SERVED} are taken.", field="served"
        )
    found = []
    for place, part in enumerate(value):
        try:
            found.append(ServedRequest().run_validation(part))
        except Refused as error:
            told, where = error.error, f"served[{place}]."
            raise Refused(400, told["code"], where + told["message"], field=where + told.get("field", "")) from None
    if len({part["agent"] for part in found}) < len(found):
        raise Refused(400, "invalid", "served names an agent twice.", field="served")
    return found


class OutcomeSerializer(serializers.Serializer[Any]):
    """Which report counts now."""

    decision_id = serializers.UUIDField()
    pool = serializers.CharField()
    new = serializers.BooleanField(help_text="Whether it is the first report of this decision.")
