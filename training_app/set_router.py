"""The set router: the kind of model that answers /api/route/."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.utils.translation import gettext_lazy as _

from agents_app import allowed_sets
from datasets_app.labels import snapshots
from training_app.engine.config import Config
from training_app.engine.data.examples import Example
from training_app.engine.measures import MEASURES, PRIMARY
from training_app.engine.routing import router
from training_app.models import Run
from training_app.models.kinds import SET_ROUTER
from training_app.rollout.decision_traffic import DecisionTraffic
from training_app.training import presets
from training_app.versions import encoder_folders
from training_app.versions.kinds import Effect, Kind

#: Texts without labels that a run learns from at most.
UNLABELED = 50_000


def material(run: Run, config: Config, examples: Sequence[Example]) -> Mapping[str, Any]:
    """The pool's rules of which sets are allowed, its texts that nobody has labeled, where the run's settings ask for them, and the
    written queries of the snapshot."""
    pool = run.snapshot.pool
    return {
        "unlabeled": snapshots.unlabeled(pool, run.created_at, UNLABELED) if config.unlabeled else (),
        "written": snapshots.written(run.snapshot),
        "rules": allowed_sets.rules_of(pool, list(pool.agents.all())),
    }


KIND = Kind(
    name=SET_ROUTER,
    label=_("Set router"),
    settings=Config,
    config=encoder_folders.router_config,
    # All that a page shows. The others have their fixed values, but for experiments by command, file or API.
    open_settings=(
        "encoder",
        "teacher",
        "goal",
        "query_value",
        "recall_floor",
        "average_agents",
        "min_agents",
        "max_agents",
        "most_wrong",
        "abstain_alpha",
        "baselines",
        "seed",
    ),
    presets=presets.PRESETS,
    choices={"teacher": encoder_folders.teachers},
    train="training_app.engine.train",
    material=material,
    load=lambda content: router.Router.load(content),
    measure=PRIMARY,
    measured=_(MEASURES[PRIMARY].label),
    effect=Effect(
        _("%(new)s will answer every request, within two seconds. It is the first model of this pool."),
        _("%(new)s will answer every request instead of %(old)s, within two seconds. Roll back undoes it."),
        _("It answers the pool's requests now."),
        "playground",
        _("Route a query"),
    ),
    baselines={
        "random": _("random"),
        "constant": _("best constant set"),
        "keyword": _("keyword rules"),
        "logreg": _("logistic regression"),
        "svm": _("linear SVM"),
        "neighbours": _("nearest neighbours"),
        "threshold": _("its own scores, one threshold"),
        "bayes": _("its own scores, the exact rule"),
        "ddqn": _("its own scores, the Double DQN"),
    },
    classifiers=("logreg", "svm"),
    rules=("threshold", "bayes", "ddqn"),
    beside="training_app.engine.judging.paired",
    answers=True,
    traffic=DecisionTraffic(),
)


def kinds() -> Sequence[Kind]:
    """For the hook `model_kinds`."""
    return (KIND,)
