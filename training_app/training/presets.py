"""The two routers that the page of a new run offers, full and fast, each with the minutes that its training will take."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from agents_app.models import Pool
from training_app.engine.config import Config, ConfigError
from training_app.models import Run
from training_app.versions.kinds import Preset

#: Queries and agents of the demo pool. "full" took 48 seconds there with nothing else on the machine (two cores, one thread, 22
#: November 2026); "fast" is an estimate beside it. A pool's own runs take their place as soon as there are any.
MEASURED_QUERIES, MEASURED_AGENTS = 2_040, 10
#: What one fit of so many queries takes, as a share of what it takes with the demo pool's: fewer than a hundred are read without their
#: words in order, fewer than some eight hundred by three networks instead of one, unless simpler scorers are right about all. Of 20
#: runs of seven pools, processor seconds, 27 November 2026.
QUERIES, SHARES = (0, 60, 95, 105, 200, 600, 2_000, MEASURED_QUERIES), (0.0, 0.10, 0.14, 0.35, 0.80, 1.45, 1.0, 1.0)
#: How a fit's time grows with the number of agents: ten times as many take twice as long (benchmarks/growth).
GROWTH = 0.33
OF_A_FOLD = 0.9  # of a fit: it has four fifths of the labels
#: What every run takes whatever its size: loading, the scorecard's fixed part.
AT_LEAST = 8.0
PRESETS = (
    Preset(
        "full",
        gettext_lazy("Full"),
        gettext_lazy("Reads words and meaning, in sixteen languages. Nearly always the right choice."),
        {},
        48.0,
    ),
    Preset(
        "fast",
        gettext_lazy("Fast"),
        gettext_lazy(
            "Reads words alone and answers in less than half of the time. The page of a full model says how many of 100 queries a "
            "fast one would get right."
        ),
        {"encoder": "fast"},
        35.0,
    ),
)
BY_NAME = {preset.name: preset for preset in PRESETS}


def of_config(config: Mapping[str, Any]) -> str:
    """The preset that a run's settings are, but for its seed; "own" where they are none."""
    try:
        changed = {k: v for k, v in Config.from_mapping(config).changed().items() if k != "seed"}
    except ConfigError:
        return "own"
    return next((preset.name for preset in PRESETS if changed == dict(preset.settings)), "own")


def seconds(pool: Pool, preset: Preset, queries: int, agents: int, before: int | None = None) -> float:
    """How long a run by the preset will take here: as the pool's last one did, by the number of queries, or as on the demo pool. With
    `before`, the key of a run, only runs that were launched earlier than it count."""
    last = Run.objects.filter(pool=pool, status=Run.Status.DONE, started_at__isnull=False).select_related("snapshot")
    if before is not None:
        last = last.filter(pk__lt=before)
    for run in last.order_by("-pk")[:20]:
        if of_config(run.config) == preset.name and run.finished_at and run.started_at and run.snapshot.rows:
            took = (run.finished_at - run.started_at).total_seconds()
            more = _size(preset, queries, agents) / _size(preset, run.snapshot.rows, agents)
            return AT_LEAST + max(took - AT_LEAST, 1.0) * more
    return AT_LEAST + (preset.seconds - AT_LEAST) * _size(preset, queries, agents)


def _size(preset: Preset, queries: int, agents: int) -> float:
    """A run's fits, in fits of the demo pool."""
    one_fit = float(np.interp(queries, QUERIES, SHARES)) * max(queries / MEASURED_QUERIES, 1.0)
    # A small pool is judged by cross-validation as well: as many more fits.
    folds = preset.settings.get("judging_folds", Config().judging_folds) if 40 <= queries <= 500 else 0
    return one_fit * max(agents / MEASURED_AGENTS, 1.0) ** GROWTH * (1 + OF_A_FOLD * folds)


def in_words(value: float) -> str:
    """A duration as one expects it: "less than a minute", "about 3 minutes", "about 2 hours"."""
    if value < 50:
        return _("less than a minute")
    minutes = round(value / 60)
    if minutes < 90:
        return ngettext("about %(n)d minute", "about %(n)d minutes", max(minutes, 1)) % {"n": max(minutes, 1)}
    hours = round(value / 3600)
    return ngettext("about %(n)d hour", "about %(n)d hours", hours) % {"n": hours}


def expected(pool: Pool, choices: Sequence[Preset], queries: int, agents: int) -> list[tuple[Preset, str]]:
    """Each preset with how long it will take, in words."""
    return [(preset, in_words(seconds(pool, preset, queries, agents))) for preset in choices]
