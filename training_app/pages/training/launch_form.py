"""The forms that say how to train, made from the fields of the engine's Config: of a run and of a launch rule."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import Field, fields
from typing import Any

from django import forms
from django.utils.datastructures import MultiValueDict
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from agents_app.models import Pool
from agents_app.views.forms import Monospace
from datasets_app.models import Snapshot
from datasets_app.queries import splits
from training_app.engine.config import ConfigError
from training_app.models import SET_ROUTER, LaunchRule, Sweep
from training_app.training import sweeps
from training_app.versions import kinds
from training_app.versions.kinds import Choice, Kind, Offered

#: Words of a setting's name that are written otherwise on screen.
WRITTEN = {"llm": "LLM", "svm": "SVM", "tfidf": "TF-IDF", "c": "C"}


class ConfigForm(forms.Form):
    """The settings of a run of one kind, with their documentation, defaults and bounds: all of them where the kind has groups, else
    those that it opens, and others that the initial values change or that are sent.

    `config()` gives the settings that differ from the defaults, once the form is valid.
    """

    #: Settings that the kind opens and this form has another way to choose.
    instead: tuple[str, ...] = ()
    #: Settings that the page shows in a place of their own.
    beside: tuple[str, ...] = ()

    def __init__(self, kind: Kind, data: Mapping[str, Any] | None = None, **options: Any) -> None:
        super().__init__(data, **options)
        self.kind = kind
        for setting in fields(kind.settings):
            if self._has(setting):
                offer = kind.choices.get(setting.name)
                self.fields[setting.name] = form_field(setting, offer() if offer else None)

    def _has(self, setting: "Field[Any]") -> bool:
        """Whether the form has a field for it. A box that is not ticked sends nothing: `also` names those that were there."""
        name, kind = setting.name, self.kind
        if kind.groups or (name in kind.open_settings and name not in self.instead):
            return True
        if self.is_bound:
            also = self.data.getlist("also") if isinstance(self.data, MultiValueDict) else self.data.get("also", ())
            return name in self.data or name in also
        return name in self.initial and self.initial[name] != _shown(setting.default)

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        values = {f.name: cleaned[f.name] for f in fields(self.kind.settings) if cleaned.get(f.name) is not None}
        if not self.errors:
            try:
                self._config = self.kind.config(values)
            except ConfigError as error:
                self.add_error(error.field if error.field in self.fields else None, error.reason)
        return cleaned

    def config(self) -> dict[str, Any]:
        """The settings that differ from the defaults."""
        return self._config.changed()

    def common(self) -> list[forms.BoundField]:
        """The fields of the settings that most people change, but for those that the page shows elsewhere."""
        return [self[name] for name in self.kind.open_settings if name in self.fields and name not in self.beside]

    def groups(self) -> Iterator[tuple[str, list[forms.BoundField], bool]]:
        """The other settings: title of the group, its fields, and whether it stands open (an error, or a changed value)."""
        settings = fields(self.kind.settings)
        defaults = {f.name: f.default for f in settings}
        if not self.kind.groups:
            others = [self[f.name] for f in settings if f.name in self.fields and f.name not in self.kind.open_settings]
            if others:
                yield gettext("Settings for experiments"), others, True
            return
        for group, title in self.kind.groups.items():
            bound = [
                self[f.name] for f in settings if f.metadata["group"] == group and f.name not in self.kind.open_settings
            ]
            unfolded = any(b.errors or str(b.value()) != str(_shown(defaults[b.name])) for b in bound)
            if bound:
                yield str(title), bound, unfolded


class LaunchForm(ConfigForm):
    """What a run trains on, whether its model is promoted, and its settings."""

    instead = ("encoder",)  # the choice of a router stands for it
    snapshot = forms.ModelChoiceField(
        Snapshot.objects.none(),
        required=False,
        label=_("Train on"),
        empty_label=_("The labels as they are now (takes a snapshot)"),
    )
    include_llm = forms.BooleanField(
        required=False,
        label=_("Use LLM labels where nobody else has labeled"),
        help_text=_(
            "They train the model, and judge it until people have labeled enough test queries; the verdict says so. A chosen snapshot "
            "stays as it is."
        ),
    )
    promote = forms.BooleanField(
        required=False,
        label=_("Promote when done"),
        help_text=_("If it passes the gate, the new model is used as soon as it is there."),
    )

    def __init__(self, kind: Kind, pool: Pool, data: Mapping[str, Any] | None = None, **options: Any) -> None:
        super().__init__(kind, data, **options)
        snapshots: Any = self.fields["snapshot"]
        snapshots.queryset = Snapshot.objects.filter(pool=pool).select_related("pool")
        self.fields["include_llm"].initial = splits.with_llm(pool, None)
        self.beside = tuple(kind.choices)
        if kind.presets:
            choices = [(preset.name, preset.title) for preset in kind.presets]
            self.fields["preset"] = forms.ChoiceField(required=False, label=_("Which router"), choices=choices)

    def beside_presets(self) -> list[forms.BoundField]:
        """The fields that stand with the choice of a router."""
        return [self[name] for name in self.beside]

    def config(self) -> dict[str, Any]:
        """The settings of the chosen preset, where the kind has any, and those that were changed beside it."""
        chosen = self.cleaned_data.get("preset")
        preset = next((preset for preset in self.kind.presets if preset.name == chosen), None)
        return {**(preset.settings if preset else {}), **super().config()}


class RuleForm(ConfigForm):
    """When a rule launches, and the settings of its runs; what LaunchRule holds has the model's own labels, help and bounds."""

    OWN = ("name", "trigger", "hour", "labels", "rest_hours", "only_new", "include_llm", "promote")

    def __init__(self, rule: LaunchRule, data: Mapping[str, Any] | None = None, **options: Any) -> None:
        rule_values = {name: getattr(rule, name) for name in self.OWN}
        kind = kinds.of(rule.model_kind)
        super().__init__(kind, data, initial={**initial_of(rule.config), **rule_values}, **options)
        self.rule = rule
        rule_fields = forms.fields_for_model(LaunchRule, fields=self.OWN)
        self.fields = {**{name: rule_fields[name] for name in self.OWN}, **self.fields}
        # The browser must not ask for the fields that another choice of "when" has no use for.
        self.use_required_attribute = False

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"].strip()
        if LaunchRule.objects.filter(pool=self.rule.pool_id, name=name).exclude(pk=self.rule.pk).exists():
            raise forms.ValidationError(gettext("Another rule of this pool has that name."))
        return name

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean()
        if not self.errors:
            for name in self.OWN:
                setattr(self.rule, name, cleaned[name])
            try:
                self.rule.clean_fields(exclude={f.name for f in self.rule._meta.fields} - set(self.OWN))
            except forms.ValidationError as error:
                self.add_error(None, error)
        return cleaned

    def filled(self) -> LaunchRule:
        """The rule with what the valid form says, not stored yet."""
        self.rule.config = self.config()
        return self.rule

    def own(self) -> list[forms.BoundField]:
        """The fields that say when."""
        return [self[name] for name in ("trigger", "hour", "labels", "rest_hours")]


class SweepForm(ConfigForm):
    """Which settings vary, how many runs that makes, and the settings that all of them share."""

    snapshot = forms.ModelChoiceField(
        Snapshot.objects.none(),
        required=False,
        label=_("Train on"),
        empty_label=_("The gold labels as they are now (takes a snapshot)"),
    )
    method = forms.ChoiceField(label=_("Method"), choices=Sweep.Method.choices, initial=Sweep.Method.GRID)
    space = forms.CharField(
        required=False,
        label=_("Settings that vary"),
        widget=Monospace(rows=4),
        help_text=_(
            "A setting a line: gamma: 0.9, 1.0. Drawn at random, also a range: learning_rate: 0.0003..0.01. "
            "A list is written 32x32."
        ),
    )
    count = forms.IntegerField(
        required=False,
        min_value=1,
        label=_("Points to draw"),
        initial=8,
        help_text=_("For a random search; every combination has its own number."),
    )
    seeds = forms.IntegerField(
        min_value=1,
        max_value=20,
        label=_("Seeds of each point"),
        initial=1,
        help_text=_("More than one tells a better setting from a lucky one."),
    )

    def __init__(self, pool: Pool, data: Mapping[str, Any] | None = None, **options: Any) -> None:
        super().__init__(kinds.of(SET_ROUTER), data, **options)
        snapshots: Any = self.fields["snapshot"]
        snapshots.queryset = Snapshot.objects.filter(pool=pool).select_related("pool")
        self.planned = 0

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean()
        if not self.errors:
            try:
                cleaned["read_space"] = sweeps.read_space(cleaned["space"])
                self.planned = len(sweeps.plan(self.config(), **self.wanted(cleaned)))
            except sweeps.SweepError as error:
                field = {"runs": "count"}.get(error.field, error.field)
                of_space = field not in self.fields or (field == "count" and cleaned["method"] == Sweep.Method.GRID)
                self.add_error("space" if of_space else field, str(error))
        return cleaned

    def wanted(self, cleaned: Mapping[str, Any]) -> dict[str, Any]:
        """What `sweeps.plan` and `sweeps.launch` take beside the base."""
        names = {"space": cleaned["read_space"], "method": cleaned["method"]}
        return {**names, "count": cleaned["count"] or 0, "seeds": cleaned["seeds"]}


class OfferedSelect(forms.Select):
    """A list of what is offered. What is not usable cannot be chosen; a value that is set and not offered stays in the list."""

    def __init__(self, offered: Sequence[Offered]) -> None:
        super().__init__(choices=[(one.value, one.label) for one in offered])
        self.unusable = {one.value for one in offered if not one.usable}

    def optgroups(self, name: str, value: list[str], attrs: dict[str, Any] | None = None) -> list[Any]:
        groups = super().optgroups(name, value, attrs)
        offered = {str(one) for one, _label in self.choices}
        for other in value:
            if other and other not in offered:
                groups.append((None, [self.create_option(name, other, other, True, len(groups))], len(groups)))
        return groups

    def create_option(
        self, name: str, value: Any, label: Any, selected: bool, *rest: Any, **more: Any
    ) -> dict[str, Any]:
        option: dict[str, Any] = super().create_option(name, value, label, selected, *rest, **more)
        # A browser sends nothing for a disabled option, so the one that is set stays enabled.
        if value in self.unusable and not selected:
            option["attrs"]["disabled"] = True
        return option


def form_field(setting: "Field[Any]", choice: Choice | None = None) -> forms.Field:
    """The form field of one setting: its type from the default, its bounds, choices and help from the metadata; a setting of text may
    have a `choice` of what is there instead."""
    low, high, choices = (setting.metadata[key] for key in ("low", "high", "choices"))
    shared: dict[str, Any] = {
        "label": title_of(setting.name),
        "help_text": gettext(setting.metadata["doc"]),
        "initial": _shown(setting.default),
    }
    if choice:
        # No ChoiceField: the settings' own check says why a value is refused.
        return forms.CharField(
            required=False, widget=OfferedSelect(choice.values), **shared | {"help_text": choice.help}
        )
    if isinstance(setting.default, bool):
        return forms.BooleanField(required=False, **shared)
    if choices:
        return forms.ChoiceField(choices=[(choice, choice) for choice in choices], **shared)
    if isinstance(setting.default, int):
        return forms.IntegerField(min_value=int(low), max_value=int(high), **shared)
    if isinstance(setting.default, float):
        bounds = {"min_value": low, "max_value": high}
        return forms.FloatField(widget=forms.NumberInput(attrs={"step": "any"}), **bounds, **shared)
    return forms.CharField(required=isinstance(setting.default, tuple), **shared)


def title_of(name: str) -> str:
    """A setting's name in words, for a form."""
    words = " ".join(WRITTEN.get(word, word) for word in name.split("_"))
    return words[:1].upper() + words[1:]


def initial_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """A run's config as the form's initial values."""
    return {name: _shown(value) for name, value in config.items()}


def _shown(value: Any) -> Any:
    return ", ".join(map(str, value)) if isinstance(value, tuple | list) else value
