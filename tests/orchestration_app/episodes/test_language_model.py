"""A language model that orchestrates where the setting names the pool, over HTTP, and what happens where it does not answer."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from agents_app.models import Pool
from orchestration_app.episodes import policies
from orchestration_app.models import Step
from tests import llm_server
from tests.training_app.served import Application, ScriptedRouter
from training_app.versions import registry

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.commits_for_others]
TASK = {"task": "the checker and billing, please"}


@pytest.fixture
def server(settings: Any) -> Iterator[llm_server.Server]:
    with llm_server.Server() as started:
        settings.LLM_BASE_URL, settings.LLM_MODEL, settings.LLM_API_KEY = started.url, "big", "sk-test"
        settings.LLM_ORCHESTRATES = ("crew",)
        yield started


@pytest.fixture
def says(executor: Callable[..., Any]) -> None:
    for number in range(3):
        executor(number, script={"do": "say", "text": f"said {number}"}, most_cost=0.01 * (3 - number))


def routed(crew: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pool has a set router, which names agents whose name stands in the task."""
    monkeypatch.setattr("training_app.engine.routing.router.Router", ScriptedRouter)
    agents = [{"id": number, "name": name} for number, name in enumerate(("Triage", "Billing", "Checker"))]
    registry.promote(registry.register(None, crew, json.dumps(agents).encode(), {}), actor=None)


def called() -> list[int | None]:
    return list(Step.objects.order_by("turn").values_list("agent", flat=True))


def test_it_names_each_agent_and_then_nobody(server: llm_server.Server, says: None, app: Application) -> None:
    answer = app.post("/api/orchestrate/", TASK).json()
    assert (answer["status"], answer["stop_reason"], answer["policy"]) == ("done", "stop", "llm big")
    assert (called(), answer["answer"]) == ([1, 2, None], "## Billing\n\nsaid 1\n\n## Checker\n\nsaid 2")
    told = json.loads(server.bodies[-1]["messages"][1]["content"])
    assert [one["output"] for one in told["calls"]] == ["said 1", "said 2"]
    assert set(server.keys) == {"Bearer sk-test"}


@pytest.mark.parametrize("fault", ["not json", "wrong id", "empty", "500", "cut"])
def test_where_it_is_of_no_use_the_routers_set_decides(
    fault: str, server: llm_server.Server, says: None, crew: Pool, app: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policies, "LLM_TRIES", 1)
    routed(crew, monkeypatch)
    server.fault = lambda text, nth: fault
    answer = app.post("/api/orchestrate/", TASK).json()
    assert (answer["status"], answer["policy"]) == ("done", "llm big")
    assert called() == [2, 1, None]  # cheapest first


def test_where_no_router_was_promoted_the_descriptions_decide(
    server: llm_server.Server, says: None, crew: Pool, app: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policies, "LLM_TRIES", 1)
    server.refuse_key = True
    answer = app.post("/api/orchestrate/", TASK).json()
    assert (answer["status"], answer["policy"]) == ("done", "llm big")
    assert called()[0] == 2, "the checker is named"


def test_where_nobody_else_decides_the_episode_says_why_it_failed(
    server: llm_server.Server, says: None, app: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policies, "LLM_TRIES", 1)
    monkeypatch.setattr(policies, "_one_shot", lambda pool: None)
    server.refuse_key = True
    answer = app.post("/api/orchestrate/", TASK).json()
    assert (answer["status"], answer["steps"]) == ("failed", 0)
    assert "refused the key" in answer["error"]
    assert "sk-test" not in json.dumps(answer)


def test_a_trained_orchestrator_comes_first_and_a_single_step_asks_no_model(
    server: llm_server.Server, says: None, conducted: Callable[..., Any], app: Application
) -> None:
    assert app.post("/api/orchestrate/next/", TASK).status_code == 200
    conducted(0)
    assert app.post("/api/orchestrate/", TASK).json()["policy"] != "llm big"
    assert not server.bodies


def test_without_the_setting_it_is_never_asked(
    server: llm_server.Server, says: None, app: Application, settings: Any
) -> None:
    settings.LLM_ORCHESTRATES = ("other",)
    assert app.post("/api/orchestrate/", TASK).json()["policy"] == policies.ONE_SHOT
    assert not server.bodies
