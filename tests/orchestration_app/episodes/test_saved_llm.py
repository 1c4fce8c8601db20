"""The LLM that an admin saved on its page serves episodes as one of the settings does: in one's own network, with its sealed key."""

from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from agents_app import llm
from agents_app.models import Pool
from agents_app.outbound import guard
from benchmarks.orchestration import protocol_servers as servers
from datasets_app.queries import adding
from orchestration_app import answers
from orchestration_app.calls import checking
from orchestration_app.episodes.judging import judge, marks
from orchestration_app.models import Episode, EpisodeLearning, EpisodeMark, Executor
from tests import llm_server
from tests.applications import running
from tests.orchestration_app.crew import Served
from tests.orchestration_app.episodes.judging.test_marks import ended
from tests.training_app.served import Application
from training_app.answering import serving

pytestmark = pytest.mark.django_db(transaction=True)
TASK = {"task": "Triage and Billing: charged twice, and where is the parcel?"}


def save(url: str, model: str = "big") -> None:
    llm.save(llm.Connection(url, model, "sk-saved", own_network=True, saved=True), actor=None)


@pytest.fixture(autouse=True)
def nothing_in_the_settings(settings: Any) -> None:
    settings.LLM_BASE_URL, settings.LLM_MODEL, settings.LLM_API_KEY = "https://api.example/v1", "", ""
    settings.INTERNAL_HOSTS = ()


@pytest.mark.at_length
def test_it_composes_the_answer_from_the_moment_it_is_saved(
    crew: Pool, conducted: Callable[..., Any], executor: Callable[..., Executor], app: Application, agents: Served
) -> None:
    conducted(0, 1)
    executor(0, script={"do": "say", "text": "refund done"})
    executor(1, script={"do": "say", "text": "parcel tomorrow"})
    answers.save(crew, "composer", None, actor=None)
    assert app.post("/api/orchestrate/", TASK).json()["composed"] == "joined"
    save(f"{agents.url}/v1")
    serving.forget()
    answer = app.post("/api/orchestrate/", TASK).json()
    assert (answer["answer"], answer["composed"]) == (f"big: {TASK['task']}", "composer")
    llm.remove(actor=None)
    serving.forget()
    assert app.post("/api/orchestrate/", TASK).json()["composed"] == "joined"


def test_other_agents_may_not_call_its_server(crew: Pool, executor: Callable[..., Executor], agents: Served) -> None:
    save(f"{agents.url}/v1")
    with pytest.raises(guard.Refused):
        guard.check(agents.url)


def test_it_judges_by_the_clock_and_by_command(crew: Pool, browser: Client) -> None:
    assert "No language model is set up on this site" in browser.get("/p/crew/settings/executors/").content.decode()
    EpisodeLearning.objects.create(pool=crew, judge_a_day=1)
    for number in range(3):
        ended(crew, f"task {number}", "this is right")
    assert marks.turn() == 0
    with llm_server.Server() as server:
        save(server.url)
        assert "so none judges" not in browser.get("/p/crew/settings/executors/").content.decode()
        assert marks.turn() == 1
        call_command("judge_episodes", pool="crew", stdout=StringIO())
        assert set(server.keys) == {"Bearer sk-saved"}
        assert judge.calls(crew, 5) == judge.Judged()
    assert set(EpisodeMark.objects.values_list("judge", flat=True)) == {"big"}
    assert Episode.objects.filter(judge=Episode.Judge.LANGUAGE_MODEL).count() == 3


def test_it_fills_in_the_arguments_of_tools(executor: Callable[..., Executor], settings: Any) -> None:
    keys = []

    async def choose(request: Request) -> JSONResponse:
        keys.append(request.headers["authorization"])
        names = [tool["function"]["name"] for tool in (await request.json())["tools"]]
        call = {"function": {"name": names[-1], "arguments": '{"a": 40, "b": 2}'}}
        return JSONResponse({"choices": [{"message": {"tool_calls": [call]}}]})

    tools = [
        {"name": name, "inputSchema": {"type": "object", "properties": {"a": {}, "b": {}}, "required": ["a", "b"]}}
        for name in ("subtract", "add")
    ]
    with (
        running(lambda own: servers.mcp_server("Stock").streamable_http_app()) as stock,
        running(lambda own: Starlette(routes=[Route("/v1/chat/completions", choose, methods=["POST"])])) as model,
    ):
        settings.INTERNAL_HOSTS = (stock.removeprefix("http://"),)
        made = executor(0, "mcp", address=f"{stock}/mcp", tools=tools)
        without = checking.try_once(made, "forty and two", "a-key").outcome
        assert "connect an LLM" in without.why
        save(f"{model}/v1")
        assert checking.try_once(made, "forty and two", "another-key").outcome.content == "42"
    assert keys == ["Bearer sk-saved"]


def test_a_command_labels_with_it(crew: Pool) -> None:
    adding.find_or_add(adding.dataset_of(crew), [adding.NewQuery("Billing, please")], "test")
    with llm_server.Server() as server:
        save(server.url)
        call_command("label", pool="crew", stdout=StringIO())
        assert (server.bodies[0]["model"], set(server.keys)) == ("big", {"Bearer sk-saved"})
