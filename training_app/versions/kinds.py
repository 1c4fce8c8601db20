"""The kinds of version that a pool may have, in one table: how each is set, trained, loaded and measured.

A pool has at most one active version of each kind. Runs, the registry, the gate, canaries, shadows, roll-back and pruning ask
this table and know no kind by name, so that another policy is one more row here, its settings, and its file of the engine. Rows
name what trains by its dotted path: that brings torch, and is imported inside the job.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Protocol

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from training_app.engine.backends.chooser import BackendChooser, ChooserConfig
from training_app.engine.data import artifact
from training_app.engine.orchestrating.policy import Orchestrator
from training_app.engine.orchestrator_config import OrchestratorConfig
from training_app.engine.routing import router
from training_app.models.kinds import BACKEND_CHOOSER, ORCHESTRATOR, SET_ROUTER
from training_app.versions.encoder_folders import router_config


class Settings(Protocol):
    """The settings of a run, checked; `seed` is among them."""

    @property
    def seed(self) -> int:
        """What every random draw of the run begins with."""

    def to_mapping(self) -> dict[str, Any]:
        """All of them, as JSON-able values."""

    def changed(self) -> dict[str, Any]:
        """Those that differ from the defaults."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One row of the table.

    `config` checks a run's settings, and raises ConfigError. `train` names the module of the engine whose `train(config, agents,
    examples, *, checkpoint, llm)` is a generator of Progress and whose `TrainError` says why it cannot. `load` makes an
    artifact's bytes a version, and raises ArtifactError. `answers` tells whether it answers the queries of /api/route/, `tried`
    whether it may be a shadow or a canary.

    The gate compares `measure`, a figure of the scorecard's metrics from 0 to 1 of which more is better; `measured` is its name in
    the middle of a sentence. `listed` are the figures, with their names, that lists show where their columns are of another kind. A
    version must beat `constant`, the baseline that knows nothing of the query. `baselines` has the names that baselines have on a
    page, and `classifiers` those that are told of where they win. `beside` names the module of the engine whose `beside(ours, theirs,
    agents, examples)` measures two loaded versions on the same test queries: (queries, figures by measure, each {"ours", "theirs",
    "difference"}). Without one, two versions are compared by their scorecards, as if each had been measured on queries of its own.
    """

    name: str
    label: Promise
    config: Callable[[Mapping[str, Any]], Settings]
    train: str
    load: Callable[[bytes], Any]
    measure: str
    measured: Promise
    listed: Mapping[str, Promise] = field(default_factory=dict)
    constant: str = "constant"
    baselines: Mapping[str, Promise] = field(default_factory=dict)
    classifiers: tuple[str, ...] = ()
    beside: str = ""
    answers: bool = False
    tried: bool = False

    def trainer(self) -> Any:
        """The module that trains, imported now."""
        return import_module(self.train)

    def baseline(self, name: str) -> str:
        """A baseline's name on a page."""
        return str(self.baselines.get(name, name))


KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind(
            name=SET_ROUTER,
            label=gettext_lazy("Set router"),
            config=router_config,
            train="training_app.engine.train",
            load=lambda content: router.Router.load(content),
            measure="jaccard",
            measured=gettext_lazy("Jaccard"),
            baselines={
                "random": gettext_lazy("random"),
                "constant": gettext_lazy("best constant set"),
                "keyword": gettext_lazy("keyword rules"),
                "logreg": gettext_lazy("logistic regression"),
                "svm": gettext_lazy("linear SVM"),
                "neighbours": gettext_lazy("nearest neighbours"),
                "threshold": gettext_lazy("its own scores, one threshold"),
                "bayes": gettext_lazy("its own scores, Bayes' best set"),
            },
            classifiers=("logreg", "svm"),
            beside="training_app.engine.judging.paired",
            answers=True,
            tried=True,
        ),
        Kind(
            name=ORCHESTRATOR,
            label=gettext_lazy("Orchestrator"),
            config=OrchestratorConfig.from_mapping,
            train="training_app.engine.train_orchestrator",
            load=lambda content: Orchestrator.load(content),
            measure="reward",
            measured=gettext_lazy("reward"),
            listed={
                "reward": gettext_lazy("reward"),
                "success": gettext_lazy("success"),
                "cost": gettext_lazy("cost"),
                "steps": gettext_lazy("steps"),
            },
            constant="fixed_order",
            baselines={
                "random": gettext_lazy("anybody at random"),
                "fixed_order": gettext_lazy("best fixed order"),
                "one_shot": gettext_lazy("one-shot set, cheapest first"),
                "greedy_step": gettext_lazy("one-step greedy"),
                "llm": gettext_lazy("a language model that orchestrates"),
            },
            tried=True,
        ),
        Kind(
            name=BACKEND_CHOOSER,
            label=gettext_lazy("Backend chooser"),
            config=ChooserConfig.from_mapping,
            train="training_app.engine.backends.chooser",
            load=lambda content: BackendChooser.load(content),
            measure="fit",
            measured=gettext_lazy("fit (1 − Brier score)"),
            listed={"fit": gettext_lazy("fit")},
            baselines={
                "constant": gettext_lazy("the agent's mean success"),
                "by_backend": gettext_lazy("each backend's mean success"),
                "linear": gettext_lazy("the linear model alone"),
                "neighbours": gettext_lazy("nearest neighbours, as many as validation likes best"),
            },
        ),
    )
}


class UnknownKind(ValueError):
    """A kind that this version of Routerweb does not know; the message says which it does."""


def of(name: str) -> Kind:
    """The row of that name. Raises UnknownKind."""
    if name not in KINDS:
        known = ", ".join(sorted(KINDS))
        raise UnknownKind(
            _("There is no kind of model %(name)s; there is: %(known)s.") % {"name": name, "known": known}
        )
    return KINDS[name]


def of_artifact(content: bytes) -> Kind:
    """The kind that an artifact names in its config; one that names none is a set router. Raises ArtifactError and UnknownKind."""
    config = artifact.json_from(artifact.read_bytes(content)["config.json"], "config.json")
    return of(str(config.get("kind", SET_ROUTER)))
