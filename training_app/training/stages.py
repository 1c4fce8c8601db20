"""How far a run is, for people: six plain stages, one share of the whole, one time left.

The engine reports phases, each with steps of its own. How much of a run each stage takes is known from the pool's last run by the same
preset, else estimated. The time left begins as what such a run is expected to take, and soon follows the run's own pace.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from training_app.engine.config import Config, ConfigError
from training_app.models import Run, Scorecard
from training_app.training import presets

NAMES: dict[str, str | Promise] = {
    "read": _("Read"),
    "words": _("Learn the words"),
    "together": _("Learn what goes together"),
    "decide": _("Decide"),
    "check": _("Check"),
    "done": _("Done"),
}
#: The stage of each phase of the engine.
PHASES = {
    "": "read",
    "features": "read",
    "scorer": "words",
    "policy": "together",
    "baselines": "check",
    "folds": "check",
    "measure": "done",
}
#: Which stage each phase of a scorecard's "timing" belongs to.
TIMED = {
    "scorer": "words",
    "policy": "together",
    "calibration": "decide",
    "baselines": "check",
    "measure": "done",
}
#: Of the time of a run without folds, on the demo pool: presets.MEASURED_QUERIES queries, the preset "full".
SHARES = {"read": 0.01, "words": 0.62, "together": 0.17, "decide": 0.02, "check": 0.15, "done": 0.03}
#: Labeled queries up to which a run is judged by cross-validation too: each fold learns the words and what goes together anew.
FOLDED = 500
#: From this share on, a run's own pace says how long it takes.
KNOWN = 0.3
#: A share that no stage is below, so that a stage which took no time last time still has a place in the bar.
LEAST = 0.005


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage: its word, and whether it is "done", "now" or "next"."""

    name: str | Promise
    state: str


@dataclass(frozen=True, slots=True)
class Course:
    """Where a run is: its stages, the share of the whole that is done (0 to 1), and how long the rest takes, where that is known."""

    stages: list[Stage]
    share: float
    left: timedelta | None

    @property
    def percent(self) -> int:
        """The share as the bar takes it."""
        return int(100 * self.share)


def course(run: Run, now: datetime | None = None) -> Course | None:
    """The course of a running run; None for one of a kind whose phases are others."""
    if run.phase not in PHASES:
        return None
    present = stage_of(run)
    order = list(NAMES)
    place = order.index(present)
    shares = shares_of(run)
    within = min(run.step / run.total, 1.0) if run.total else 0.0
    if present == "decide" or run.phase == "":
        within = 0.0
    share = sum(shares[name] for name in order[:place]) + shares[present] * within
    states = ["done"] * place + ["now"] + ["next"] * (len(order) - place - 1)
    stages = [Stage(NAMES[name], state) for name, state in zip(order, states, strict=True)]
    return Course(stages, share, _left(run, share, now or timezone.now()))


def stage_of(run: Run) -> str:
    """The stage that a run is in. Once the policy has walked its steps, what decides is being chosen."""
    if run.phase == "policy" and run.total and run.step >= run.total:
        return "decide"
    return PHASES[run.phase]


def shares_of(run: Run) -> dict[str, float]:
    """The share of the whole that each stage takes: as in the pool's last run by the same preset, else as estimated; 1 in all."""
    timing = _last_timing(run)
    shares = dict(SHARES)
    if timing:
        shares = dict.fromkeys(NAMES, 0.0)
        for phase, seconds in timing.items():
            if phase in TIMED:
                shares[TIMED[phase]] += float(seconds)
    # Whether there are folds depends on the number of labels, which is seldom that of the last run.
    shares["check"] += presets.OF_A_FOLD * _folds(run) * (shares["words"] + shares["together"])
    least = LEAST * sum(shares.values())
    shares = {name: share + least for name, share in shares.items()}
    whole = sum(shares.values())
    return {name: share / whole for name, share in shares.items()}


def _last_timing(run: Run) -> Mapping[str, float]:
    preset = presets.of_config(run.config)
    before = Scorecard.objects.filter(
        model__pool=run.pool_id, model__run__status=Run.Status.DONE, model__run__lt=run.pk
    )
    rows = before.order_by("-model__run").values_list("model__run__config", "content__timing")
    for config, timing in rows[:5]:
        if timing and presets.of_config(config) == preset:
            timing_of_run: Mapping[str, float] = timing
            return timing_of_run
    return {}


def _folds(run: Run) -> int:
    try:
        folds = Config.from_mapping(run.config).judging_folds
    except ConfigError:
        return 0
    return folds if run.snapshot.rows <= FOLDED else 0


def _left(run: Run, share: float, now: datetime) -> timedelta | None:
    """What is expected of such a run counts at first; the more of it is done, the more its own pace."""
    if run.started_at is None:
        return None
    preset = presets.BY_NAME.get(presets.of_config(run.config), presets.BY_NAME["full"])
    expected = presets.seconds(run.pool, preset, run.snapshot.rows, len(run.snapshot.roster), run.pk)
    passed = max((now - run.started_at).total_seconds(), 0.0)
    by_pace = passed / share if share > 0 else expected
    trust = min(share / KNOWN, 1.0)
    whole = (1 - trust) * max(expected, passed) + trust * by_pace
    return timedelta(seconds=max(whole * (1 - share), 1.0))
