"""Orchestrators as versions: each way to roll back goes to the orchestrator before, and leaves the set router alone."""

from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from agents_app.models import Pool
from tests.orchestration_app.conducted import artifact
from tests.training_app.served import application
from training_app.models import Promotion
from training_app.versions import registry

pytestmark = pytest.mark.django_db


@pytest.fixture
def two(conducted: Callable[..., Any]) -> tuple[Any, Any]:
    """Two orchestrators, the second one active."""
    return conducted(0, 1), conducted(1, 0)


def by_page(pool: Pool, browser: Client) -> None:
    assert browser.post(reverse("model_rollback", args=["crew"]), {"kind": "orchestrator"}).status_code == 302


def by_command(pool: Pool, browser: Client) -> None:
    call_command("rollback", pool="crew", kind="orchestrator", stdout=StringIO())


def by_api(pool: Pool, browser: Client) -> None:
    app = application(pool, scopes=("ops",))
    assert app.post("/api/rollback/", {"kind": "orchestrator"}).status_code == 200


@pytest.mark.parametrize("way", [by_page, by_command, by_api])
def test_every_way_goes_back_to_the_orchestrator_before(
    way: Callable[..., None], two: tuple[Any, Any], crew: Pool, browser: Client
) -> None:
    page = browser.get(reverse("models", args=["crew"])).content.decode()
    assert f"Roll back to {two[0].name}" in page
    way(crew, browser)
    active = registry.active(crew, "orchestrator")
    assert active is not None
    assert active.pk == two[0].pk
    assert registry.active(crew) is None
    assert f"Stop {two[0].name}" in browser.get(reverse("models", args=["crew"])).content.decode()


@pytest.mark.parametrize("way", [by_page, by_command, by_api])
def test_every_way_stops_the_first_orchestrator_and_all_goes_on_as_before_it(
    way: Callable[..., None], conducted: Callable[..., Any], crew: Pool, browser: Client
) -> None:
    first = conducted(0, 1)
    way(crew, browser)
    assert registry.active(crew, "orchestrator") is None
    stopped = Promotion.objects.get(kind="stopped")
    assert (stopped.model, stopped.previous) == (first, first)
    first.refresh_from_db()
    assert first.state == "retired"
    with pytest.raises(registry.RegistryError, match="no earlier model"):
        registry.rollback(crew, "orchestrator", actor=None)
    page = browser.get(reverse("models", args=["crew"])).content.decode()
    assert "Stopped" in page
    registry.promote(first, actor=None)
    assert registry.active(crew, "orchestrator") == first
    assert registry.may_stop(crew, "orchestrator")
    by_page(crew, browser)
    assert registry.active(crew, "orchestrator") is None


def test_a_list_of_models_says_what_each_decides(conducted: Callable[..., Any], crew: Pool) -> None:
    conducted(0, 1)
    assert [model["kind"] for model in application(crew, scopes=("ops",)).get("/api/models/").json()["models"]] == [
        "orchestrator"
    ]


def test_an_answer_to_a_stop_names_no_model_that_answers(conducted: Callable[..., Any], crew: Pool) -> None:
    first = conducted(0, 1)
    app = application(crew, scopes=("ops",))
    answer = app.post("/api/rollback/", {"kind": "orchestrator", "reason": "it is dear"}).json()
    assert (answer["model"], answer["previous"], answer["kind"]) == (None, first.name, "stopped")


def test_an_unknown_kind_is_refused(two: tuple[Any, Any], browser: Client, ops: User) -> None:
    assert browser.post(reverse("model_rollback", args=["crew"]), {"kind": "weather"}).status_code == 400


def test_lists_show_the_figures_that_an_orchestrator_has(crew: Pool, browser: Client) -> None:
    card = {
        "metrics": {
            name: {"mean": mean, "low": 0.0, "high": 9.0} for name, mean in (("reward", 0.596), ("steps", 3.4))
        },
        "queries": 60,
    }
    model = registry.register(None, crew, artifact(crew, (0, 1)), card, kind="orchestrator")
    page = " ".join(browser.get(reverse("models", args=["crew"])).content.decode().split())
    assert '<span class="rw-muted">reward</span> 0.596' in page
    assert '<span class="rw-muted">steps</span> 3.400' in page
    call_command("list_models", pool="crew", stdout=(said := StringIO()))
    assert f"{model.name}  candidate  reward 0.596, steps 3.400" in said.getvalue()


def test_lists_show_no_figure_of_too_few_tasks(crew: Pool, browser: Client) -> None:
    card = {"metrics": {"reward": {"mean": 0.596, "low": 0.0, "high": 9.0}}, "queries": 20}
    registry.register(None, crew, artifact(crew, (0, 1)), card, kind="orchestrator")
    page = browser.get(reverse("models", args=["crew"])).content.decode()
    assert "too few to say; check 30 more" in page
    assert "0.596" not in page


def test_home_says_what_an_orchestrator_decides(two: tuple[Any, Any], crew: Pool, browser: Client) -> None:
    """Whom it calls is one thing, who answers /api/route/ another: no step trains or promotes what is in use."""

    def home() -> str:
        return " ".join(browser.get(reverse("pool_home", args=["crew"])).content.decode().split())

    assert f"{two[1].name}: It decides the pool&#x27;s episodes now." in home()
    assert "no model yet" in home()
    assert "0 runs finished" in home()
    assert "No model is active" not in home()
    application(crew)
    assert "no model yet" not in home()
    assert "Nothing waits for you." in home()
