"""What a pool's episodes may try out: set on a page, kept with the episode, and known to what learns from it."""

from types import SimpleNamespace

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from agents_app.models import Pool
from orchestration_app.engine.orchestrating.one_shot import OneShot
from orchestration_app.episodes import policies
from orchestration_app.episodes.judging import trajectories
from orchestration_app.episodes.policies import Decider
from orchestration_app.models import Episode, EpisodeLearning
from training_app.engine.data.examples import Agent

pytestmark = pytest.mark.django_db


def test_ops_say_how_much_is_tried_and_judged(browser: Client, crew: Pool) -> None:
    address = reverse("episode_learning", args=["crew"])
    browser.post(address, {"exploration": "0.02", "judge_a_day": "50"})
    kept = EpisodeLearning.objects.get()
    assert (kept.exploration, kept.judge_a_day) == (0.02, 50)
    browser.post(address, {"exploration": "0.5", "judge_a_day": "50"})
    assert EpisodeLearning.objects.get().exploration == 0.02
    assert "Learning from outcomes" in browser.get(reverse("settings_executors", args=["crew"])).content.decode()


def test_an_episode_explores_the_same_set_each_time_it_goes_on(crew: Pool) -> None:
    agents = tuple(Agent(number, name, cost=1.0) for number, name in enumerate("ABC"))
    router = SimpleNamespace(agents=agents, route=lambda _text: SimpleNamespace(agents=(0, 1)))
    decider = Decider(OneShot(router), "one_shot")
    plan = {"agents": [0, 1, 2], "explore": 1.0}
    row = Episode.objects.create(pool=crew, policy="one_shot", task="t", plan=plan)
    sets = [policies.exploring(decider, row).policy.begin("t").one_shot.tolist() for _ in range(3)]
    assert sets[0] == sets[1] == sets[2] != [1.0, 1.0, 0.0]
    row.plan = {"agents": [0, 1, 2]}
    assert policies.exploring(decider, row) is decider


def test_a_language_models_judgement_weighs_less_in_what_is_learnt_from(crew: Pool) -> None:
    for judge in ("person", "llm"):
        row = Episode.objects.create(
            pool=crew,
            policy="one_shot",
            task=judge,
            status="done",
            success=True,
            judge=judge,
            finished_at=timezone.now(),
        )
        row.trajectory.create(turn=0, number=0, call=0, agent=0, status="done", output="x", propensity=0.98)
    weights = {one.task: one.weight for one in trajectories.logged(crew, timezone.now())}
    assert weights == {"person": 1.0, "llm": 0.5}
