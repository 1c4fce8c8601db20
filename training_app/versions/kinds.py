"""The kinds of model that a pool may have: how each is set, trained, loaded, measured and shown.

A pool has at most one active version of each kind. A package adds a kind by the hook `model_kinds`; runs, rules, the registry,
the gate, canaries, shadows, roll-back, pruning and pages ask the kind's object, and compare no names."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple, Protocol

from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext as _

from agents_app.models import Pool
from routerweb import hooks
from training_app.engine.data import artifact
from training_app.engine.data.examples import Example
from training_app.models import RouterModel, Run
from training_app.models.kinds import SET_ROUTER
from training_app.versions.traffic import Traffic


class Settings(Protocol):
    """The settings of a run, checked; `seed` is among them. A dataclass of `engine.settings.setting`s."""

    @property
    def seed(self) -> int:
        """The seed of every random draw of the run."""

    def to_mapping(self) -> dict[str, Any]:
        """All of them, as JSON-able values."""

    def changed(self) -> dict[str, Any]:
        """Those that differ from the defaults."""


@dataclass(frozen=True, slots=True)
class Preset:
    """A ready choice of settings: those that differ from the defaults, and the seconds expected on the demo pool."""

    name: str
    title: Promise
    what: Promise
    settings: Mapping[str, Any]
    seconds: float


class Offered(NamedTuple):
    """A value of a setting that a form offers, with its name on the page; one that is not `usable` is shown and cannot be chosen."""

    value: str
    label: str
    usable: bool = True


@dataclass(frozen=True, slots=True)
class Choice:
    """What a form offers for a setting of text, where that depends on the installation, and its help in plain words. Commands, files
    and the API may name other values, as `Kind.config` allows."""

    values: tuple[Offered, ...]
    help: str


@dataclass(frozen=True, slots=True)
class Effect:
    """What a promotion does, in sentences for a page: where it is the pool's `first` version of its kind, and where it `replaces` one.
    They may hold %(new)s and %(old)s. Once it is active, `active` says what it does, and `link` is the name of a button that leads to
    the page with the URL name `page`."""

    first: Promise
    replaces: Promise
    active: Promise
    page: str
    link: Promise

    def on(self, model: RouterModel, active: RouterModel | None) -> dict[str, str]:
        """What a page shows of a model: `promoted`, `active`, `link` and `page`, the address of that page."""
        names = {"new": model.name, "old": active.name if active else ""}
        return {
            "promoted": str(self.replaces if active else self.first) % names,
            "active": str(self.active),
            "link": str(self.link),
            "page": reverse(self.page, args=[model.pool.slug]),
        }


def no_material(run: Run, config: Any, examples: Sequence[Example]) -> Mapping[str, Any]:
    """For a kind that learns from labels alone."""
    return {}


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of model.

    *Settings and form*: `settings` is the dataclass of a run's settings, `config` checks values and raises ConfigError. The form shows
    the settings named in `open_settings` unfolded and the others under the titles of `groups`, which a kind without groups leaves to
    commands, files and the API; `presets` are ready choices. `choices` says what the form offers for a setting, asked anew for each
    page; the form of a new run has these beside the presets.

    *Training*: `train` names the module of the engine whose `train(config, agents, examples, *, checkpoint, llm, **material)` is a
    generator of Progress and whose `TrainError` says why it cannot. It brings torch, and is imported inside the job. `material`
    is what a run learns from beside the labels, and `learns_from` says how much of it a pool has; without `labels` it is all, and a
    pool without any will do.

    *Loading*: `load` makes an artifact's bytes a version, and raises ArtifactError. `answers` tells whether it answers the queries of
    /api/route/. `traffic` is what its canaries left behind; a kind without one can be neither a shadow nor a canary.

    *Measuring*: the gate compares `measure`, a figure of the scorecard's metrics from 0 to 1 of which more is better;
    `measured` is its name in the middle of a sentence. A version must beat `constant`, the baseline that knows nothing of the
    query. `classifiers` are the baselines whose lead is reported, `rules` those that decide otherwise over the version's own scores:
    training chooses among them on validation, so one that is level with it is no reason against the version. `beside` names the
    module of the engine whose `beside(ours, theirs, agents, examples)` measures two loaded versions on the same test queries:
    (queries, figures by measure, each {"ours", "theirs", "difference"}). Without one, two versions are compared by their scorecards,
    as if each had been measured on queries of its own.

    *Showing*: `listed` are the figures, with their names, that lists show where their columns are of another kind. `baselines` has the
    names of the baselines on a page. `effect` says what a promotion does.
    """

    name: str
    label: Promise
    settings: type[Any]
    config: Callable[[Mapping[str, Any]], Settings]
    train: str
    load: Callable[[bytes], Any]
    measure: str
    measured: Promise
    effect: Effect
    open_settings: tuple[str, ...] = ()
    groups: Mapping[str, Promise] = field(default_factory=dict)
    presets: tuple[Preset, ...] = ()
    choices: Mapping[str, Callable[[], Choice]] = field(default_factory=dict)
    material: Callable[[Run, Any, Sequence[Example]], Mapping[str, Any]] = no_material
    labels: bool = True
    learns_from: Callable[[Pool], str] | None = None
    listed: Mapping[str, Promise] = field(default_factory=dict)
    constant: str = "constant"
    baselines: Mapping[str, Promise] = field(default_factory=dict)
    classifiers: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    beside: str = ""
    answers: bool = False
    traffic: Traffic | None = None

    @property
    def tried(self) -> bool:
        """Whether a version may be a shadow or a canary."""
        return self.traffic is not None

    def material_of(self, pool: Pool) -> dict[str, Any]:
        """For a page: whether a run learns from labels, and what else the pool has for it, in a sentence."""
        return {"labels": self.labels, "learns_from": self.learns_from(pool) if self.learns_from else ""}

    def trainer(self) -> Any:
        """The module that trains, imported now."""
        return import_module(self.train)

    def baseline(self, name: str) -> str:
        """A baseline's name on a page."""
        return str(self.baselines.get(name, name))


class UnknownKind(ValueError):
    """A kind that this installation does not know; the message says which it does."""


@cache
def every() -> Mapping[str, Kind]:
    """Every kind by its name, in the order of the applications that add them."""
    return {kind.name: kind for kinds in hooks.model_kinds() for kind in kinds}


def of(name: str) -> Kind:
    """The kind of that name. Raises UnknownKind."""
    if name not in every():
        names = ", ".join(sorted(every()))
        raise UnknownKind(
            _("There is no kind of model %(name)s; there is: %(known)s.") % {"name": name, "known": names}
        )
    return every()[name]


def of_artifact(content: bytes) -> Kind:
    """The kind that an artifact names in its config; one that names none is a set router. Raises ArtifactError and UnknownKind."""
    config = artifact.json_from(artifact.read_bytes(content)["config.json"], "config.json")
    return of(str(config.get("kind", SET_ROUTER)))
