"""Runs, sweeps and launch rules."""

from typing import Any

from django.urls import reverse
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from training_app.api.errors import Refused
from training_app.api.fields import Choice, Flag, Moment, PoolSlug, SettingsField, Text, Whole
from training_app.api.serializers.base import Body, OfPool, QueryString
from training_app.models import SET_ROUTER, LaunchRule, Run, Sweep
from training_app.training import rules
from training_app.versions import kinds

#: Rows that a list holds at most.
MOST = 100
SNAPSHOT = "The snapshot's number in its pool; left out, one of the gold labels is taken now."
DIFFERING = "Settings that differ from the defaults."
KIND = "The kind of model to train."


class PageParameters(QueryString):
    """Which part of a list."""

    in_parts = True
    pool = PoolSlug()
    limit = Whole(1, MOST, f"be a number from 1 to {MOST}", required=False, default=MOST, help_text="How many at most.")
    cursor = Text(1_000, required=False, default="", help_text="Where the part begins: the header Link holds the next.")


class RunsParameters(PageParameters):
    """Which runs."""

    status = serializers.CharField(
        required=False, default="", allow_blank=True, help_text=f"One of {', '.join(Run.Status.values)}."
    )

    def validate_status(self, value: str) -> str:
        """A status of a run."""
        if value and value not in Run.Status.values:
            raise Refused(400, "invalid", f"status must be one of {', '.join(Run.Status.values)}.", field="status")
        return value


class LaunchRun(OfPool):
    """What to train."""

    kind = Choice(sorted(kinds.every()), required=False, default=SET_ROUTER, help_text=KIND)
    config = SettingsField(required=False, default=dict, help_text=DIFFERING)
    snapshot = Whole(
        1, 2**31 - 1, "be the number of a snapshot of this pool", required=False, allow_null=True, default=None,
        help_text=SNAPSHOT,
    )  # fmt: skip
    include_llm = Flag(
        required=False, allow_null=True, default=None,
        help_text="Without a snapshot: use LLM labels where nobody else has labeled, in training always, in validation and test until "
        "people have labeled enough there. Left out: only where too few queries have labels of people to learn from.",
    )  # fmt: skip
    promote = Flag(required=False, default=False, help_text="Promote the model when it is done and passes the gate.")


class RunSerializer(serializers.Serializer[Run]):
    """A run."""

    id = serializers.IntegerField(source="pk")
    pool = serializers.CharField(source="pool.slug")
    kind = serializers.CharField(help_text="The kind of model that it trains.")
    status = serializers.ChoiceField(Run.Status.choices)
    phase = serializers.CharField()
    step = serializers.IntegerField()
    total = serializers.IntegerField()
    metrics = serializers.DictField(help_text="The latest figures of the training.")
    error = serializers.CharField(help_text="Why it failed.")
    worker = serializers.CharField(
        help_text="Host and process number of the worker that trains or trained it; empty before."
    )
    workers_lost = serializers.IntegerField(
        source="losses", help_text="How many workers died of it or with it since it was launched."
    )
    config = serializers.SerializerMethodField(help_text=DIFFERING)
    snapshot = serializers.IntegerField(source="snapshot.number", help_text="The snapshot's number in its pool.")
    promote = serializers.BooleanField()
    model = serializers.SerializerMethodField(help_text="The model that it made.")
    created_at = Moment()
    started_at = Moment(allow_null=True)
    finished_at = Moment(allow_null=True)
    page = serializers.SerializerMethodField(help_text="Where it is shown to people.")

    def get_config(self, run: Run) -> dict[str, Any]:
        """The settings that differ."""
        defaults = kinds.of(run.kind).config({}).to_mapping() if run.kind in kinds.every() else {}
        return {name: value for name, value in run.config.items() if defaults.get(name) != value}

    def get_model(self, run: Run) -> str | None:
        """The model's name, once it is there."""
        model = getattr(run, "model", None) if run.status == Run.Status.DONE else None
        return model.name if model else None

    def get_page(self, run: Run) -> str:
        """An address of this site."""
        return reverse("run", args=[run.pool.slug, run.pk])


class RunsSerializer(serializers.Serializer[Any]):
    """Runs, newest first."""

    pool = serializers.CharField()
    runs = RunSerializer(many=True)


# --- Sweeps ---------------------------------------------------------------------------------------------------------


class LaunchSweep(OfPool):
    """What to vary, and how."""

    config = SettingsField(
        required=False, default=dict, help_text="Settings of every run that differ from the defaults."
    )
    space = SettingsField(
        required=False, default=dict, help_text="By setting, a list of values, or {low, high} for a random search."
    )
    method = Choice(Sweep.Method.choices, required=False, default="grid")
    runs = Whole(0, 10_000, required=False, default=0, help_text="Points to draw in a random search.")
    seeds = Whole(1, 10_000, required=False, default=1, help_text="Seeds of each point.")
    snapshot = Whole(
        1, 2**31 - 1, "be the number of a snapshot of this pool", required=False, allow_null=True, default=None,
        help_text=SNAPSHOT,
    )  # fmt: skip

    def validate_space(self, value: dict[str, Any]) -> dict[str, Any]:
        """Each setting with its values."""
        if not all(isinstance(axis, list | dict) for axis in value.values()):
            raise Refused(
                400, "invalid", "space must be an object of settings, each a list of values or {low, high}.", field="space"
            )  # fmt: skip
        return value


class SweepRunSerializer(serializers.Serializer[Any]):
    """One run of a sweep."""

    id = serializers.IntegerField(source="run.pk")
    status = serializers.ChoiceField(Run.Status.choices, source="run.status")
    point = serializers.DictField(help_text="Its values of the settings that vary.")
    validation_jaccard = serializers.FloatField(source="validation", allow_null=True)
    mean_of_seeds = serializers.FloatField(source="mean", allow_null=True)
    model = serializers.SerializerMethodField()

    def get_model(self, row: Any) -> str | None:
        """The model that it made."""
        return row.model or None


class SweepSerializer(serializers.Serializer[Sweep]):
    """A sweep; it has no test figure, as the best is not to be chosen by one."""

    id = serializers.IntegerField(source="pk")
    pool = serializers.CharField(source="pool.slug")
    method = serializers.ChoiceField(Sweep.Method.choices)
    space = serializers.DictField()
    snapshot = serializers.IntegerField(source="snapshot.number")
    best = serializers.SerializerMethodField(help_text="The run that is best on validation of those that are done.")
    runs = serializers.SerializerMethodField(help_text="By validation, best first.")
    created_at = Moment()
    page = serializers.SerializerMethodField()

    def get_best(self, sweep: Sweep) -> int | None:
        """The id of a run."""
        best = next((row for row in self.context["rows"] if row.best), None)
        return best.run.pk if best else None

    @extend_schema_field(SweepRunSerializer(many=True))
    def get_runs(self, sweep: Sweep) -> list[dict[str, Any]]:
        """Each run."""
        return list(SweepRunSerializer(self.context["rows"], many=True).data)

    def get_page(self, sweep: Sweep) -> str:
        """An address of this site."""
        return reverse("run_sweep", args=[sweep.pool.slug, sweep.pk])


# --- Rules ----------------------------------------------------------------------------------------------------------


class RuleFields(Body):
    """What may be said of a rule; the model's own checks bound the numbers."""

    name = Text(80, codes=("invalid", "invalid"))
    trigger = Choice(LaunchRule.Trigger.choices, default="nightly", help_text="What it waits for.")
    hour = Whole(0, 23, default=2, help_text="Of the day, in the installation's time zone; for nightly.")
    labels = Whole(1, 1_000_000, default=100, help_text="New or changed gold labels; for labels.")
    rest_hours = Whole(1, 720, default=12, help_text="At least so long between two launches; for labels and drift.")
    only_new = Flag(default=True, help_text="Nights without a new or changed gold label are skipped.")
    include_llm = Flag(default=False, help_text="Train also on LLM labels that nobody reviewed.")
    promote = Flag(default=False, help_text="When the gate passes.")
    config = SettingsField(default=dict, help_text=DIFFERING)
    active = Flag(default=True, help_text="False pauses it.")


class MakeRule(RuleFields):
    """A new rule."""

    pool = PoolSlug()
    kind = Choice(sorted(kinds.every()), required=False, default=SET_ROUTER, help_text=KIND)


class ChangeRule(RuleFields):
    """What changes of a rule; what is left out stays."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, partial=True, **options)


class RuleSerializer(serializers.Serializer[LaunchRule]):
    """A launch rule."""

    id = serializers.IntegerField(source="pk")
    pool = serializers.CharField(source="pool.slug")
    name = serializers.CharField()
    kind = serializers.CharField(source="model_kind", help_text="The kind of model that it trains.")
    trigger = serializers.ChoiceField(LaunchRule.Trigger.choices)
    hour = serializers.IntegerField()
    labels = serializers.IntegerField()
    rest_hours = serializers.IntegerField()
    only_new = serializers.BooleanField()
    include_llm = serializers.BooleanField()
    promote = serializers.BooleanField()
    config = serializers.DictField(help_text=DIFFERING)
    active = serializers.BooleanField()
    waits_for = serializers.CharField(help_text="In words.")
    next_at = Moment(allow_null=True, help_text="When it launches next, where that is known.")
    last_fired_at = Moment(allow_null=True)
    last_reason = serializers.CharField()
    problem = serializers.CharField(help_text="Why it could not launch.")
    page = serializers.CharField()

    def to_representation(self, rule: LaunchRule) -> dict[str, Any]:
        """The rule with what it waits for."""
        outlook = rules.outlook(rule)
        rule.waits_for, rule.next_at = str(outlook.text), outlook.at  # type: ignore[attr-defined]
        rule.page = reverse("run_rule", args=[rule.pool.slug, rule.pk])  # type: ignore[attr-defined]
        return super().to_representation(rule)


class RulesSerializer(serializers.Serializer[Any]):
    """Rules by name."""

    pool = serializers.CharField()
    rules = RuleSerializer(many=True)
