"""The kinds of model of this package: the orchestrator, which decides episodes, and the backend chooser."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.utils.formats import number_format
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from agents_app.models import Pool
from orchestration_app.backends import served_calls
from orchestration_app.backends.served_calls import ENOUGH
from orchestration_app.engine.backends.chooser import BackendChooser, ChooserConfig
from orchestration_app.engine.orchestrating.policy import Orchestrator
from orchestration_app.engine.orchestrator_config import OrchestratorConfig
from orchestration_app.episodes.judging import trajectories
from orchestration_app.episodes.judging.traffic import EpisodeTraffic
from orchestration_app.models import BackendCall
from orchestration_app.models.kinds import BACKEND_CHOOSER, ORCHESTRATOR
from training_app.engine.data.examples import Example
from training_app.models import Run
from training_app.versions.kinds import Effect, Kind


def episodes(run: Run, config: OrchestratorConfig, examples: Sequence[Example]) -> Mapping[str, Any]:
    """The judged episodes from before the run was launched, and the paths worth following where no simulated pool answers."""
    logged = trajectories.logged(run.pool, run.created_at)
    if config.simulated != "none":
        return {"logged": logged}
    return {"logged": logged, "paths": trajectories.recorded(run.pool, examples, run.created_at)}


def calls(run: Run, config: ChooserConfig, examples: Sequence[Example]) -> Mapping[str, Any]:
    """The judged calls of backends from before the run was launched."""
    return {"calls": served_calls.judged(run.pool, run.created_at)}


def judged_calls(pool: Pool) -> str:
    """How much a chooser has to learn from."""
    count = BackendCall.objects.filter(pool=pool, success__isnull=False).count()
    words = ngettext(
        "It learns from calls of backends that were judged: %(n)s in this pool.",
        "It learns from calls of backends that were judged: %(n)s in this pool.",
        count,
    ) % {"n": number_format(count, force_grouping=True)}
    if count < ENOUGH:
        words += " " + gettext("About %(least)d are needed: report outcomes, or have answers judged.") % {
            "least": ENOUGH
        }
    return words


KINDS = (
    Kind(
        name=ORCHESTRATOR,
        label=_("Orchestrator"),
        settings=OrchestratorConfig,
        config=OrchestratorConfig.from_mapping,
        open_settings=("preset", "price", "second", "learner", "max_steps", "seed", "baselines"),
        groups={
            "run": _("Run"),
            "reward": _("What an episode pays"),
            "learning": _("How the policy learns"),
            "episode": _("What an episode may do"),
        },
        train="orchestration_app.engine.train_orchestrator",
        material=episodes,
        load=lambda content: Orchestrator.load(content),
        measure="reward",
        measured=_("reward"),
        effect=Effect(
            _("%(new)s will decide every episode, within two seconds. It is the first orchestrator of this pool."),
            _("%(new)s will decide every episode instead of %(old)s, within two seconds. Roll back undoes it."),
            _("It decides the pool's episodes now."),
            "episodes",
            _("Episodes"),
        ),
        listed={
            "reward": _("reward"),
            "success": _("success"),
            "cost": _("cost"),
            "seconds": _("seconds"),
            "steps": _("steps"),
        },
        constant="fixed_order",
        baselines={
            "random": _("anybody at random"),
            "fixed_order": _("best fixed order"),
            "one_shot": _("one-shot set, cheapest first"),
            "greedy_step": _("one-step greedy"),
            "llm": _("a language model that orchestrates"),
        },
        traffic=EpisodeTraffic(),
    ),
    Kind(
        name=BACKEND_CHOOSER,
        label=_("Backend chooser"),
        settings=ChooserConfig,
        config=ChooserConfig.from_mapping,
        open_settings=("learner", "sentences", "estimator", "llm_labels", "seed"),
        groups={"run": _("Run")},
        train="orchestration_app.engine.backends.chooser",
        material=calls,
        labels=False,
        learns_from=judged_calls,
        load=lambda content: BackendChooser.load(content),
        measure="fit",
        measured=_("fit (1 − Brier score)"),
        effect=Effect(
            _("Within two seconds, %(new)s will predict how well each backend answers a query. Roll back undoes it."),
            _("Within two seconds, %(new)s will predict how well each backend answers a query. Roll back undoes it."),
            _("It predicts how well each backend answers a query."),
            "settings_backends",
            _("Backends"),
        ),
        listed={"fit": _("fit")},
        baselines={
            "constant": _("mean success of the agent"),
            "by_backend": _("mean success of each backend"),
            "linear": _("linear model alone"),
            "neighbours": _("nearest neighbours, their number chosen on validation"),
        },
    ),
)


def kinds() -> Sequence[Kind]:
    """For the hook `model_kinds`."""
    return KINDS
