"""Orchestrators tried on live episodes: a canary decides for a share of the tasks, a shadow is asked about the others' decisions."""

from collections.abc import Callable
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from agents_app.models import Pool
from orchestration_app.episodes import episodes, policies
from orchestration_app.models import Episode
from tests.orchestration_app.conducted import artifact
from tests.training_app.served import Application
from training_app.answering import shadowing
from training_app.models import Canary, LiveTally, RouterModel, ShadowScore
from training_app.rollout import live_figures, trials
from training_app.versions import registry

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.commits_for_others]


@pytest.fixture(autouse=True)
def nothing_waits() -> Any:
    shadowing.forget()
    yield
    shadowing.forget()


@pytest.fixture
def two(
    conducted: Callable[..., RouterModel], crew: Pool, executor: Callable[..., Any]
) -> tuple[RouterModel, RouterModel]:
    """The active one, which calls Triage and then Billing, and a candidate, which calls Triage alone."""
    for number in range(3):
        executor(number, script={"do": "say", "text": f"said {number}"})
    active = conducted(0, 1)
    candidate = registry.register(None, crew, artifact(crew, (0,)), {}, kind="orchestrator")
    return active, candidate


def test_a_shadow_is_asked_about_each_decision(
    two: tuple[RouterModel, RouterModel], crew: Pool, app: Application
) -> None:
    active, shadow = two
    trials.start_shadow(shadow, actor=None)
    policies.forget()
    answer = app.post("/api/orchestrate/", {"task": "help me"}).json()
    assert (answer["policy"], answer["steps"]) == (active.name, 2)
    assert shadowing.turn(rest=0) == 3
    scores = [(row.answered, row.agents) for row in ShadowScore.objects.order_by("decision_id")]
    # After Billing, whom it would not have called, it would begin again.
    assert scores == [([0], [0]), ([1], []), ([], [0])]
    found = live_figures.agreement(shadow, active)
    assert found is not None
    assert (found.count, found.exact["mean"]) == (3, pytest.approx(1 / 3))


@pytest.mark.at_length
def test_a_canary_decides_for_its_share_and_the_same_task_meets_the_same_side(
    two: tuple[RouterModel, RouterModel], crew: Pool, app: Application
) -> None:
    active, model = two
    canary = trials.start_canary(model, 0.5, actor=None, override="to see it")
    policies.forget()
    for _round in range(2):
        for number in range(12):
            assert app.post("/api/orchestrate/", {"task": f"task {number}"}).status_code == 200
    sides = {}
    for episode in Episode.objects.all():
        assert sides.setdefault(episode.task, episode.model_id) == episode.model_id
        episodes.judge(episode, success=episode.model_id == model.pk)
    assert set(sides.values()) == {active.pk, model.pk}
    found = live_figures.compare(canary)
    met = sum(side == model.pk for side in sides.values())
    assert (found.canary.count, found.active.count) == (2 * met, 2 * (12 - met))
    assert (found.canary.size, found.active.size) == (1.0, 2.0)
    assert (found.canary.successes, found.active.successes) == (2 * met, 0)
    assert (found.canary.abstained["mean"], found.mismatch) == (0.0, "")


def test_both_kinds_have_a_canary_of_their_own(two: tuple[RouterModel, RouterModel], crew: Pool) -> None:
    _active, model = two
    canary = trials.start_canary(model, 0.1, actor=None, override="to see it")
    assert trials.canary_of(crew) is None
    assert trials.canary_of(crew, "orchestrator") == canary
    with pytest.raises(registry.RegistryError, match="no canary"):
        trials.stop_canary(crew, actor=None)
    registry.promote(model, actor=None)
    assert Canary.objects.get().ended == "promoted"


@pytest.mark.at_length
def test_a_canary_that_cannot_be_loaded_is_left_out_and_counted(
    two: tuple[RouterModel, RouterModel], crew: Pool, app: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    active, model = two
    trials.start_canary(model, 0.5, actor=None, override="to see it")
    policies.forget()
    policies.version.cache_clear()
    real = registry.load_model

    def broken(row: RouterModel) -> Any:
        if row.pk == model.pk:
            raise registry.RegistryError("damaged")
        return real(row)

    monkeypatch.setattr(registry, "load_model", broken)
    for number in range(6):
        answer = app.post("/api/orchestrate/", {"task": f"task {number}"}).json()
        assert (answer["status"], answer["policy"]) == ("done", active.name)
    shadowing.turn(rest=0)
    assert LiveTally.objects.get(model=model, kind="canary").errors == 1


def test_the_first_of_its_kind_is_not_tried_beside_nobody(
    crew: Pool, conducted: Callable[..., RouterModel], browser: Client
) -> None:
    first = registry.register(None, crew, artifact(crew, (0,)), {}, kind="orchestrator")
    address, live = reverse("model", args=["crew", first.version]), reverse("decisions_live", args=["crew"])
    assert f"{live}?model=" not in browser.get(address).content.decode()
    conducted(0, 1)
    assert f"{live}?model={first.version}" in browser.get(address).content.decode()


def test_the_page_starts_and_stops_them(
    two: tuple[RouterModel, RouterModel], crew: Pool, browser: Client, app: Application
) -> None:
    _active, model = two
    page = reverse("decisions_live", args=["crew"])
    detail = browser.get(reverse("model", args=["crew", model.version])).content.decode()
    assert f"{page}?model={model.version}&amp;kind=orchestrator" in detail
    assert "Off-policy" not in detail
    page += "?kind=orchestrator"
    assert model.name in browser.get(page).content.decode()
    answer = browser.post(page, {"do": "shadow", "model": model.version})
    assert (answer.status_code, answer["Location"]) == (302, page)
    assert "No episode has ended since" in browser.get(page).content.decode()
    app.post("/api/orchestrate/", {"task": "help me"})
    shadowing.turn(rest=0)
    assert "At 3 decisions of live episodes" in " ".join(browser.get(page).content.decode().split())
    browser.post(page, {"do": "shadow_stop", "model": model.version})
    browser.post(page, {"do": "canary", "model": model.version, "share": "20", "override": "to see it"})
    shown = browser.get(page).content.decode()
    assert "decides 20" in shown
    assert "Steps an episode" in shown
    listed = " ".join(browser.get(reverse("models", args=["crew"])).content.decode().split())
    assert ", which the canary decides" in listed
    browser.post(page, {"do": "canary_stop"})
    assert trials.canary_of(crew, "orchestrator") is None


def test_the_commands_name_the_active_orchestrator(
    two: tuple[RouterModel, RouterModel], capsys: pytest.CaptureFixture[str]
) -> None:
    active, model = two
    call_command("shadow", model.name)
    call_command("shadow", model.name, stop=True)
    call_command("canary", model.name, share=0.1, override="to see it")
    call_command("canary", model.name, stop=True)
    said = capsys.readouterr().out
    assert f"it scores what {active.name} answers" in said
    assert f"{active.name} answers everything again" in said
