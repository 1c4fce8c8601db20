"""Quick, normal and best: settings that a run can use, minutes from the pool's size and its own past, all other settings beside."""

from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from agents_app.models import Pool
from datasets_app.models import Snapshot
from training_app.engine.config import Config
from training_app.models import Run
from training_app.training import presets


@pytest.mark.parametrize("preset", presets.PRESETS, ids=lambda preset: preset.name)
def test_a_preset_is_settings_that_a_run_takes(preset: presets.Preset) -> None:
    config = Config.from_mapping(preset.settings)
    assert config.changed() == dict(preset.settings), "nothing is set to what it is anyway"
    assert presets.of_config(config.to_mapping()) == preset.name


def test_other_settings_are_nobodys_preset() -> None:
    assert presets.of_config({"total_steps": 17}) == "own"
    assert presets.of_config({"seed": 3}) == "full", "a seed makes no other way to train"


def test_more_queries_take_longer_and_small_pools_are_folded(pool: Pool) -> None:
    full, fast = presets.PRESETS
    at = [presets.seconds(pool, full, queries, 10) for queries in (2_000, 20_000)]
    assert at[1] > 8 * at[0] - 8 * presets.AT_LEAST
    order = [presets.seconds(pool, preset, 2_000, 10) for preset in (fast, full)]
    assert order == sorted(order)
    assert presets.seconds(pool, full, 499, 10) > presets.seconds(pool, full, 600, 10)
    assert presets.seconds(pool, full, 200, 3) > presets.seconds(pool, full, 2_000, 3), (
        "few queries: six fits of three networks"
    )


def test_what_the_last_run_took_is_what_the_next_will_take(snapshot: Snapshot) -> None:
    ended = timezone.now()
    Run.objects.create(
        pool=snapshot.pool, snapshot=snapshot, config=Config().to_mapping(), status=Run.Status.DONE,
        started_at=ended - timedelta(seconds=608), finished_at=ended,
    )  # fmt: skip
    full = presets.BY_NAME["full"]
    assert presets.seconds(snapshot.pool, full, snapshot.rows, 3) == 608
    larger, twice = (presets.seconds(snapshot.pool, full, queries, 3) for queries in (20_400, 40_800))
    assert twice == pytest.approx(2 * larger - presets.AT_LEAST)
    assert larger > 608
    assert presets.seconds(snapshot.pool, presets.BY_NAME["fast"], snapshot.rows, 3) < 120, "another way to train"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(3, "less than a minute"), (61, "about 1 minute"), (200, "about 3 minutes"), (7_300, "about 2 hours")],
)
def test_durations_in_words(seconds: float, words: str) -> None:
    assert presets.in_words(seconds) == words


def test_the_form_launches_by_preset(labeled: Pool, browser: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    page = browser.get(reverse("run_new", args=["support"])).text
    assert "Which router?" in page
    assert "less than a minute" in page
    form = {name: value for name, value in Config().to_mapping().items() if not isinstance(value, list | bool)}
    form |= {name: "on" for name, value in Config().to_mapping().items() if value is True}
    form |= {"hidden_layers": "32, 32", "preset": "fast", "goal": "f1"}
    del form["encoder"]
    answer = browser.post(reverse("run_new", args=["support"]), form)
    assert answer.status_code == 302
    run = Run.objects.get()
    assert run.config["encoder"] == "fast"
    assert run.config["goal"] == "f1"
    assert presets.of_config({**run.config, "goal": "jaccard"}) == "fast"


def test_an_unknown_preset_is_refused(labeled: Pool, browser: Client) -> None:
    answer = browser.post(reverse("run_new", args=["support"]), {"preset": "magic"})
    assert answer.status_code == 422
