"""The form that launches a run, made from the fields of the engine's Config, and the preview of what it would train on."""

from collections.abc import Iterator, Mapping
from dataclasses import Field, dataclass, fields
from typing import Any

from django import forms
from django.db.models import Count, Q
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from agents_app.models import Agent, Pool
from datasets_app.models import Gold, GoldAgent, Snapshot, Split
from training_app.engine.config import Config, ConfigError

#: The settings that stand open on the form; the others are folded, by group.
COMMON = ("encoder", "total_steps", "goal", "abstain_alpha", "seed", "baselines")
GROUPS = {
    "run": _("Run"),
    "scorer": _("What reads the text"),
    "policy": _("How the network learns"),
    "answer": _("What an answer may be"),
    "ablation": _("Ablations, for experiments"),
}
#: An agent with fewer training queries than this is warned about.
FEW_QUERIES = 10


class LaunchForm(forms.Form):
    """Snapshot, promotion, and every setting of a run with its documentation, default and bounds.

    `config()` gives the settings that differ from the defaults, once the form is valid.
    """

    snapshot = forms.ModelChoiceField(
        Snapshot.objects.none(),
        required=False,
        label=_("Train on"),
        empty_label=_("The gold labels as they are now (takes a snapshot)"),
    )
    promote = forms.BooleanField(
        required=False,
        label=_("Promote when done"),
        help_text=_("If it passes the gate, the new model answers requests as soon as it is there."),
    )

    def __init__(self, pool: Pool, data: Mapping[str, Any] | None = None, **options: Any) -> None:
        super().__init__(data, **options)
        snapshots: Any = self.fields["snapshot"]
        snapshots.queryset = Snapshot.objects.filter(pool=pool).select_related("pool")
        for setting in fields(Config):
            self.fields[setting.name] = form_field(setting)

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        values = {f.name: cleaned[f.name] for f in fields(Config) if cleaned.get(f.name) is not None}
        if not self.errors:
            try:
                self._config = Config.from_mapping(values)
            except ConfigError as error:
                self.add_error(error.field if error.field in self.fields else None, error.reason)
        return cleaned

    def config(self) -> dict[str, Any]:
        """The settings that differ from the defaults."""
        return self._config.changed()

    def common(self) -> list[forms.BoundField]:
        """The fields of the settings that most people change."""
        return [self[name] for name in COMMON]

    def groups(self) -> Iterator[tuple[str, list[forms.BoundField], bool]]:
        """The other settings: title of the group, its fields, and whether it stands open (an error, or a changed value)."""
        defaults = {f.name: f.default for f in fields(Config)}
        for group, title in GROUPS.items():
            bound = [
                self[f.name] for f in fields(Config) if f.metadata["group"] == group and f.name not in COMMON
            ]  # fmt: skip
            unfolded = any(b.errors or str(b.value()) != str(_shown(defaults[b.name])) for b in bound)
            if bound:
                yield str(title), bound, unfolded


def form_field(setting: "Field[Any]") -> forms.Field:
    """The form field of one setting: its type from the default, its bounds, choices and help from the metadata."""
    low, high, choices = (setting.metadata[key] for key in ("low", "high", "choices"))
    shared: dict[str, Any] = {
        "label": setting.name.replace("_", " ").capitalize(),
        "help_text": gettext(setting.metadata["doc"]),
        "initial": _shown(setting.default),
    }
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


def initial_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """A run's config as the form's initial values."""
    return {name: _shown(value) for name, value in config.items()}


def _shown(value: Any) -> Any:
    return ", ".join(map(str, value)) if isinstance(value, tuple | list) else value


# ---------------------------------------------------------------------------------------------------- what it will train on


@dataclass(frozen=True, slots=True)
class Preview:
    """What a run launched now would train on. `splits` holds (split's name, queries); `warnings` are sentences."""

    queries: int
    agents: int
    splits: tuple[tuple[str, int], ...]
    warnings: tuple[str, ...]


def preview(pool: Pool, snapshot: Snapshot | None = None) -> Preview:
    """Counts and warnings for a snapshot, or for the pool's gold as it is now."""
    if snapshot:
        sizes = {split: int(snapshot.split_sizes.get(split, 0)) for split in Split.values}
        return Preview(snapshot.rows, len(snapshot.roster), _named(sizes), tuple(_empty(sizes)))
    gold = Gold.objects.filter(query__dataset__pool=pool, query__deleted_at=None)
    sizes = dict(gold.values_list("query__group__split").annotate(Count("pk")).order_by())
    unsplit = sizes.pop("", 0)
    warnings = [*(_unsplit(unsplit) if unsplit else _empty(sizes)), *_few(pool)]
    agents = Agent.objects.active().filter(pool=pool).count()
    return Preview(sum(sizes.values()) + unsplit, agents, _named(sizes), tuple(warnings))


def _named(sizes: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple((str(label), sizes.get(split, 0)) for split, label in Split.choices)


def _empty(sizes: Mapping[str, int]) -> Iterator[str]:
    empty = [str(split.label) for split in (Split.TRAIN, Split.VAL) if not sizes.get(split)]
    if empty:
        yield gettext("No labeled query in: %(splits)s. A run needs both.") % {"splits": ", ".join(empty)}
    elif not sizes.get(Split.TEST):
        yield gettext("No labeled query in the test split: the figures will be those of validation, which flatter.")


def _unsplit(count: int) -> Iterator[str]:
    yield ngettext(
        "%(count)d labeled query has no split yet; it gets one, for ever, when the run is launched.",
        "%(count)d labeled queries have no split yet; they get one, for ever, when the run is launched.",
        count,
    ) % {"count": count}


def _few(pool: Pool) -> Iterator[str]:
    trained = Q(gold__query__group__split=Split.TRAIN, gold__query__deleted_at=None)
    counts = dict(
        GoldAgent.objects.filter(trained, agent__pool=pool).values_list("agent_id").annotate(Count("pk")).order_by()
    )
    few = [agent for agent in Agent.objects.active().filter(pool=pool) if counts.get(agent.pk, 0) < FEW_QUERIES]
    if few:
        yield gettext("Fewer than %(least)d training queries for: %(agents)s. What they need is hard to learn.") % {
            "least": FEW_QUERIES,
            "agents": ", ".join(f"{agent} ({counts.get(agent.pk, 0)})" for agent in few),
        }
