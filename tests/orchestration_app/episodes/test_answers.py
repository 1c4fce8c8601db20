"""One answer of what several agents said: no part is lost, and what is missing is named."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from agents_app.models import Pool
from orchestration_app import answers
from orchestration_app.episodes import composing
from orchestration_app.models import AnswerRule, Episode, Step
from tests.orchestration_app.crew import Served
from tests.orchestration_app.episodes.test_language_model import routed
from tests.training_app.served import Application
from training_app.answering import serving

pytestmark = pytest.mark.django_db(transaction=True)

TASK = {"task": "Billing and Checker: charged twice, and where is the parcel?"}
BOTH = "## Triage\n\nrefund done\n\n## Billing\n\nparcel tomorrow"


@pytest.fixture
def two(conducted: Callable[..., Any], executor: Callable[..., Any]) -> None:
    """Two agents called one after another."""
    conducted(0, 1)
    executor(0, script={"do": "say", "text": "refund done", "cost": 0.01})
    executor(1, script={"do": "say", "text": "parcel tomorrow", "cost": 0.01})


def test_the_answer_holds_every_agents_part(two: None, app: Application) -> None:
    told = app.post("/api/orchestrate/", TASK).json()
    assert (told["status"], told["answer"], told["composed"]) == ("done", BOTH, "joined")
    assert (told["missing"], told["error"]) == ([], "")
    assert told["outputs"] == [
        {"agent": 0, "name": "Triage", "path": 0, "step": 0, "output": "refund done"},
        {"agent": 1, "name": "Billing", "path": 0, "step": 1, "output": "parcel tomorrow"},
    ]
    kept = app.get(f"/api/episodes/{told['episode_id']}/").json()
    assert {name: kept[name] for name in told} == told


def test_an_agent_that_failed_is_named_and_the_episode_is_partial(
    two: None, executor: Callable[..., Any], app: Application, browser: Client
) -> None:
    executor(0, script={"do": "say", "fails": "HTTP 500"}, retries=0)
    told = app.post("/api/orchestrate/", TASK).json()
    assert (told["status"], told["answer"]) == ("partial", "## Triage\n\nNo answer.\n\n## Billing\n\nparcel tomorrow")
    assert told["missing"] == [{"agent": 0, "name": "Triage", "step": 0, "reason": "failed", "why": "HTTP 500"}]
    assert told["error"] == "Missing from the answer: Triage (failed: HTTP 500)."
    page = browser.get(f"/p/crew/episodes/{told['episode_id']}/").content.decode()
    assert "Missing from the answer" in page
    assert ">Partial<" in page


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("Use this:\n\n```sql\nSELECT 1;\n", "\n```"),
        ("~~~~\n```\nx", "\n~~~~"),
        ("````\n```\nx\n", "\n````"),
        ("- a\n  ```\n  x", "\n  ```"),
        ("```\nx\n```", ""),
        ("```\nx\n``` y\n```\n", ""),
        ("```x``` in a line", ""),
        ("    ```\nindented", ""),
        ("no code\n", ""),
    ],
)
def test_a_block_of_code_that_is_left_open_ends_before_the_next_part(text: str, end: str) -> None:
    assert composing.closed(text) == (text.rstrip() + end if end else text)


def test_the_next_agents_heading_is_no_code(two: None, executor: Callable[..., Any], app: Application) -> None:
    executor(0, script={"do": "say", "text": "```sql\nSELECT 1"})
    told = app.post("/api/orchestrate/", TASK).json()
    assert told["answer"] == "## Triage\n\n```sql\nSELECT 1\n```\n\n## Billing\n\nparcel tomorrow"
    assert told["outputs"][0]["output"] == "```sql\nSELECT 1"


def test_no_text_is_no_part_unless_the_agent_says_so(
    two: None, executor: Callable[..., Any], app: Application, agents: Served
) -> None:
    executor(0, script={"do": "say", "text": " "})
    told = app.post("/api/orchestrate/", TASK).json()
    assert (told["status"], told["missing"][0]["reason"]) == ("partial", "empty")


@pytest.mark.parametrize("bounds", [{"budget": 0.015}, {"max_steps": 1}, {"agents": [0]}])
def test_an_agent_that_was_not_reached_is_missing(bounds: dict[str, Any], two: None, app: Application) -> None:
    told = app.post("/api/orchestrate/", TASK | bounds).json()
    assert (told["status"], told["stop_reason"]) == ("partial", {"agents": "no_agents"}.get(*bounds, *bounds))
    assert [(one["name"], one["reason"]) for one in told["missing"]] == [("Billing", told["stop_reason"])]
    # Its cost is 0.01, and so was that of the first.
    why = "needs up to 0.01, and 0.005 of 0.015 is left" if "budget" in bounds else ""
    assert told["missing"][0]["why"] == why
    assert told["answer"].startswith("## Triage\n\nrefund done")


def test_an_agent_of_the_set_without_an_executor_is_missing(
    crew: Pool, executor: Callable[..., Any], app: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    routed(crew, monkeypatch)
    executor(1, script={"do": "say", "text": "refund done"})
    told = app.post("/api/orchestrate/", TASK).json()
    assert (told["status"], told["answer"]) == ("partial", "## Billing\n\nrefund done\n\n## Checker\n\nNo answer.")
    assert told["missing"] == [{"agent": 2, "name": "Checker", "step": None, "reason": "no_agents", "why": ""}]


def test_an_agent_that_the_request_leaves_out_is_not_missing_for_the_budget(
    crew: Pool, executor: Callable[..., Any], app: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    routed(crew, monkeypatch)
    for number in (1, 2):
        executor(number, script={"do": "say", "text": "done"}, most_cost=0.05)
    told = app.post("/api/orchestrate/", TASK | {"agents": [1], "budget": 0.01}).json()
    assert {one["name"]: (one["reason"], one["why"]) for one in told["missing"]} == {
        "Billing": ("budget", "needs up to 0.05, and 0.01 of 0.01 is left"), "Checker": ("no_agents", "")
    }  # fmt: skip


def test_nobodys_answer_is_failed(two: None, executor: Callable[..., Any], app: Application) -> None:
    for number in (0, 1):
        executor(number, script={"do": "say", "fails": "down"}, retries=0)
    told = app.post("/api/orchestrate/", TASK).json()
    assert (told["status"], told["answer"], len(told["missing"])) == ("failed", None, 2)
    assert told["error"].startswith("Missing from the answer: ")
    assert all(part["name"] in told["error"] for part in told["missing"])


@pytest.mark.parametrize(
    ("rule", "answer"), [("joined", BOTH), ("last", "parcel tomorrow"), ("majority", "parcel tomorrow")]
)
def test_the_pool_or_the_request_has_the_rule(
    rule: str, answer: str, two: None, crew: Pool, app: Application, browser: Client
) -> None:
    assert app.post("/api/orchestrate/", TASK | {"compose": rule}).json()["answer"] == answer
    browser.post("/p/crew/settings/executors/answers/", {"rule": rule, "composer": ""})
    serving.forget()
    told = app.post("/api/orchestrate/", TASK).json()
    assert (told["answer"], told["composed"]) == (answer, rule)


def test_of_several_paths_each_agents_part_is_what_most_were_told(two: None, app: Application) -> None:
    assert app.post("/api/orchestrate/", TASK | {"paths": 3}).json()["answer"] == BOTH


def test_an_agent_composes_the_answer(
    two: None, crew: Pool, executor: Callable[..., Any], app: Application, agents: Served
) -> None:
    executor(2, "chat", address=f"{agents.url}/v1", model="writer")
    answers.save(crew, "composer", crew.agents.get(number=2), actor=None)
    told = app.post("/api/orchestrate/", TASK).json()
    assert (told["status"], told["answer"], told["composed"]) == ("done", f"writer: {TASK['task']}", "composer")
    assert "refund done" in agents.bodies[0]["messages"][0]["content"]
    assert "parcel tomorrow" in agents.bodies[0]["messages"][0]["content"]
    assert [one["name"] for one in told["outputs"]] == ["Triage", "Billing"]
    assert Step.objects.get(aim="aggregate").agent == 2


def test_the_language_model_composes_and_where_it_fails_nothing_is_lost(
    two: None, crew: Pool, app: Application, agents: Served, settings: Any
) -> None:
    settings.LLM_BASE_URL, settings.LLM_MODEL, settings.LLM_API_KEY = f"{agents.url}/v1", "big", "sk-test"
    answers.save(crew, "composer", None, actor=None)
    told = app.post("/api/orchestrate/", TASK).json()
    assert (told["answer"], told["composed"]) == (f"big: {TASK['task']}", "composer")
    assert "## Billing\nparcel tomorrow" in agents.bodies[0]["messages"][0]["content"]
    agents.only = "prose"
    failed = app.post("/api/orchestrate/", TASK).json()
    assert (failed["status"], failed["answer"]) == ("done", BOTH)


def test_what_makes_no_sense_is_refused(two: None, crew: Pool, app: Application) -> None:
    alone = app.post("/api/orchestrate/", TASK | {"aggregator": 1})
    assert (alone.status_code, alone.json()["error"]["field"]) == (400, "aggregator")
    empty = app.post("/api/orchestrate/", TASK | {"agents": []})
    assert (empty.status_code, empty.json()["error"]["field"]) == (400, "agents")
    nobody = app.post("/api/orchestrate/", TASK | {"compose": "composer"})
    assert (nobody.status_code, nobody.json()["error"]["field"]) == (400, "compose")
    assert app.post("/api/orchestrate/", TASK | {"compose": "all"}).status_code == 400
    with pytest.raises(answers.AnswerRuleError):
        answers.save(crew, "composer", crew.agents.get(number=2), actor=None)
    assert not Episode.objects.exists()
    assert not AnswerRule.objects.exists()
