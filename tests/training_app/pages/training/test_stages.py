"""The course of a run: its stages, one share, one time left."""

from datetime import timedelta
from itertools import pairwise

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from training_app.engine.config import Config
from training_app.models import Run
from training_app.pages.training import run_views
from training_app.training import presets, runs, stages

#: What a run reports, in order: (phase, step, total).
REPORTS = [
    ("features", 0, 1), ("scorer", 1, 10), ("scorer", 9, 10), ("policy", 100, 2000), ("policy", 1900, 2000), ("policy", 1, 1),
    ("baselines", 1, 4), ("folds", 2, 5), ("measure", 0, 1), ("measure", 1, 1),
]  # fmt: skip


def at(run: Run, phase: str, step: int, total: int, seconds: float = 10.0) -> stages.Course:
    """The course of the run when it reports that, so many seconds after it began."""
    now = timezone.now()
    run.status, run.phase, run.step, run.total = Run.Status.RUNNING, phase, step, total
    run.started_at = now - timedelta(seconds=seconds)
    found = stages.course(run, now)
    assert found
    return found


def test_six_stages_follow_one_another(run: Run) -> None:
    words = [next(stage.name for stage in at(run, *report).stages if stage.state == "now") for report in REPORTS]
    assert list(dict.fromkeys(map(str, words))) == [str(name) for name in stages.NAMES.values()]
    course = at(run, "baselines", 0, 4)
    assert [stage.state for stage in course.stages] == ["done"] * 4 + ["now", "next"]


def test_the_one_bar_never_goes_back_and_ends_full(run: Run) -> None:
    shares = [at(run, *report).share for report in REPORTS]
    assert all(before <= after for before, after in pairwise(shares))
    assert shares[-1] == pytest.approx(1.0)


def test_the_time_left_follows_the_runs_own_pace(run: Run) -> None:
    quick, slow = (at(run, "baselines", 0, 4, seconds).left for seconds in (20, 2000))
    assert quick is not None
    assert slow is not None
    assert slow > 5 * quick


def test_the_pools_last_run_tells_how_much_each_stage_takes(run: Run, done_before: None) -> None:
    later = runs.launch(run.pool, snapshot=run.snapshot, queue=False)
    shares = stages.shares_of(later)
    assert shares["words"] / shares["together"] == pytest.approx(9, rel=0.3)
    assert shares["check"] / (shares["words"] + shares["together"]) == pytest.approx(4.5, rel=0.1), (
        "five folds of its own"
    )
    assert sum(shares.values()) == pytest.approx(1.0)
    later.snapshot.rows = 600
    assert stages.shares_of(later)["check"] < 0.05, "none, whatever the last run had"


@pytest.fixture
def done_before(run: Run, told_router: None) -> None:
    """A run of the pool with the same settings, nearly all of which went into its scorer, and few folds."""
    from tests.training_app.told import artifact

    before = runs.launch(run.pool, snapshot=run.snapshot, queue=False)
    attempt = runs.claim(before.pk)
    assert attempt
    runs.finish(before.pk, attempt, artifact(), {"timing": {"scorer": 9.0, "policy": 1.0, "folds": 3.0}})


def test_the_page_says_where_it_is_and_how_long_it_takes(run: Run, browser: Client) -> None:
    Run.objects.filter(pk=run.pk).update(
        status=Run.Status.RUNNING, attempt="00000000-0000-0000-0000-000000000001", phase="policy", step=5,
        total=10, started_at=timezone.now() - timedelta(seconds=30),
    )  # fmt: skip
    shown = browser.get(reverse("run", args=["support", run.pk])).content.decode()
    assert shown.count("<progress") == 2  # the whole, and for engineers the phase
    assert 'aria-current="step">Learn what goes together' in shown
    assert " left</span>" in shown
    assert reverse("run_cancel", args=["support", run.pk]) in shown


def test_another_kinds_phases_are_shown_as_they_are(run: Run) -> None:
    run.phase = "episodes"
    assert stages.course(run) is None


def test_settings_that_nobody_changed_are_not_listed(run: Run) -> None:
    """A preset's settings are the preset's, and the seed stands with the run's figures."""
    fast = presets.BY_NAME["fast"]
    run.config = Config.from_mapping({**fast.settings, "seed": 7}).to_mapping()
    assert run_views.preset_of(run) == fast
    assert run_views.changed_settings(run) == {}
    run.config = Config.from_mapping({"max_features": 900}).to_mapping()
    assert run_views.preset_of(run) == presets.BY_NAME["full"]
    assert run_views.changed_settings(run) == {"max_features": 900}
