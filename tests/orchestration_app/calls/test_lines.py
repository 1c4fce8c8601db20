"""Executors run through their agents' backends: for the caller's preference, past one that fails, and billed what was served."""

import json
from collections.abc import Callable, Iterator
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.utils import timezone

from agents_app.models import Pool
from orchestration_app import providers
from orchestration_app.backends import pairs, served_calls, state
from orchestration_app.engine.backends import q_table
from orchestration_app.episodes.judging import judge
from orchestration_app.models import Backend, BackendCall, Episode, Step
from tests.orchestration_app.crew import Served
from tests.training_app.served import Application
from training_app.engine.llm import Client, Completion, Usage

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.commits_for_others]
TASK = {"task": "I was charged twice"}


@pytest.fixture(autouse=True)
def nobody_is_known() -> Iterator[None]:
    state.forget()
    yield
    state.forget()


@pytest.fixture
def elsewhere() -> Iterator[Served]:
    """A second provider."""
    with Served() as served:
        yield served


@pytest.fixture
def made(crew: Pool, agents: Served, elsewhere: Served) -> Callable[..., Backend]:
    """Gives agent 0 a backend: "large" at one provider, "small" at the other."""
    at = {"large": agents, "small": elsewhere}

    def make(model: str, number: int = 0, **values: Any) -> Backend:
        provider = providers.save_provider(crew, model, f"{at[model].url}/v1", secret=f"sk-{model}", actor=None)
        agent = crew.agents.get(number=number)
        return providers.save(agent, provider, {"model": model, **values}, actor=None)

    return make


@pytest.fixture
def two(
    conducted: Callable[..., Any], executor: Callable[..., Any], made: Callable[..., Backend]
) -> tuple[Backend, Backend]:
    """Agent 0, called once, with a large and a small backend; its executor's own server is nobody's."""
    conducted(0)
    executor(
        0, "chat", address="http://127.0.0.1:9/v1", model="own", most_tokens=100, seconds=3, secret="sk-own", retries=0
    )
    return (
        made("large", quality=0.95, price_in=100.0, price_out=300.0, latency=900.0),
        made("small", quality=0.6, price_in=1.0, price_out=3.0, latency=300.0),
    )


def test_a_call_goes_where_the_preference_says_and_is_billed_there(
    two: tuple[Backend, Backend], app: Application, agents: Served, elsewhere: Served
) -> None:
    best = app.post("/api/orchestrate/", {**TASK, "preference": "best"}).json()
    assert (best["status"], best["answer"]) == ("done", "large: I was charged twice")
    assert agents.headers[0]["authorization"] == "Bearer sk-large"
    cheap = app.post("/api/orchestrate/", {**TASK, "preference": {"cost": 1}}).json()
    assert cheap["answer"] == "small: I was charged twice"
    calls = {call.backend_id: call for call in BackendCall.objects.all()}
    assert calls.keys() == {two[0].pk, two[1].pk}
    for told, row in ((best, two[0]), (cheap, two[1])):
        call = calls[row.pk]
        assert call.cost == pytest.approx(told["cost"]) == pytest.approx(row.cost(call.tokens_in, call.tokens_out))
        assert call.tokens_in > 0
        assert (call.assigned, call.propensity, call.decided_by, call.failed) == (row.pk, 1.0, "direct", False)
    assert elsewhere.asked.total() == 1
    shown = app.get(f"/api/episodes/{best['episode_id']}/").json()["trajectory"][0]["metadata"]["backend"]
    assert (shown["id"], shown["name"]) == (two[0].pk, "large/large")


@pytest.mark.at_length
@pytest.mark.parametrize("fault", ["500", "silent", "malformed", "reset"])
def test_another_backend_takes_over_at_once_and_both_are_recorded(
    fault: str, two: tuple[Backend, Backend], app: Application, agents: Served
) -> None:
    agents.only = fault
    answer = app.post("/api/orchestrate/", {**TASK, "preference": "best"}).json()
    assert answer["answer"] == "small: I was charged twice"
    step = Step.objects.get(call=0)
    assert step.attempts == 2
    assert step.metadata["failed_over"] == ["large/large"]
    assert {call.backend_id: call.failed for call in BackendCall.objects.all()} == {two[0].pk: True, two[1].pk: False}
    assert sum(call.cost for call in BackendCall.objects.all()) == pytest.approx(step.cost)


def test_a_backend_that_keeps_failing_cools_down_and_is_not_asked(
    two: tuple[Backend, Backend], app: Application, agents: Served
) -> None:
    agents.only = "500"
    for _ in range(5):
        assert app.post("/api/orchestrate/", {**TASK, "preference": "best"}).json()["status"] == "done"
    assert agents.asked.total() == providers.FAILURES
    assert Backend.objects.get(pk=two[0].pk).cooling_until is not None


def test_where_all_have_failed_the_call_has_and_says_why(
    two: tuple[Backend, Backend], app: Application, agents: Served, elsewhere: Served
) -> None:
    agents.only = elsewhere.only = "500"
    answer = app.post("/api/orchestrate/", TASK).json()
    assert answer["status"] == "failed"
    step = Step.objects.get(call=0)
    assert (step.failure, step.attempts) == ("failed", 2)


def test_a_budget_that_the_dearest_does_not_fit_takes_the_cheaper_before_it_refuses(
    two: tuple[Backend, Backend], app: Application, agents: Served
) -> None:
    app.post("/api/orchestrate/", {**TASK, "preference": "best", "budget": 100.0})
    dearest = Step.objects.get(call=0).worst
    cheaper = app.post("/api/orchestrate/", {**TASK, "preference": "best", "budget": dearest / 2}).json()
    assert cheaper["answer"] == "small: I was charged twice"
    assert cheaper["cost"] <= dearest / 2
    least = Step.objects.get(episode=cheaper["episode_id"], call=0).worst
    assert least < dearest / 2
    none = app.post("/api/orchestrate/", {**TASK, "preference": "best", "budget": least / 2}).json()
    assert (none["steps"], none["stop_reason"]) == (0, "budget")
    assert agents.asked.total() == 1


def test_the_budget_of_the_day_binds_episodes_too(crew: Pool, two: tuple[Backend, Backend], app: Application) -> None:
    providers.save_settings(crew, {"budget": 1e-9}, actor=None)
    assert app.post("/api/orchestrate/", TASK).json()["status"] == "failed"
    assert Step.objects.get(call=0).failure == "budget"


@pytest.mark.at_length
def test_what_is_said_of_an_episode_counts_for_its_calls_and_their_pairs(
    crew: Pool,
    conducted: Callable[..., Any],
    executor: Callable[..., Any],
    made: Callable[..., Backend],
    app: Application,
) -> None:
    conducted(0, 1)
    for number in range(2):
        executor(number, "chat", address="http://127.0.0.1:9/v1", model="own", seconds=5)
    first, good, poor = made("small", 0), made("small", 1, quality=0.8), made("large", 1, quality=0.8, order=1)
    for success in (True, True, False):
        key = app.post("/api/orchestrate/", TASK).json()["episode_id"]
        app.post(f"/api/episodes/{key}/outcome/", {"success": success})
    assert list(BackendCall.objects.order_by("at").values_list("success", flat=True)) == [True] * 4 + [False] * 2
    assert {(call.text, call.agent, call.success) for call in served_calls.judged(crew, timezone.now())} == {
        (TASK["task"], agent, success) for agent in (0, 1) for success in (True, False)
    }
    # (2 good + the prior's 1) / (3 seen + the prior's 2)
    assert pairs.of_backends(crew.pk) == {first.pk: {good.pk: pytest.approx(0.6)}}
    # A pair that ends badly is left for one of which nothing is known, where ops want pairs to count.
    for success in (False,) * 6:
        key = Episode.objects.get(pk=app.post("/api/orchestrate/", TASK).json()["episode_id"])
        Episode.objects.filter(pk=key.pk).update(success=success)
    assert {call.backend_id for call in BackendCall.objects.filter(agent=1)} == {good.pk}
    BackendCall.objects.all().delete()
    app.post("/api/orchestrate/", TASK)
    assert BackendCall.objects.get(agent=1).backend_id == good.pk
    app.post("/api/orchestrate/", {**TASK, "preference": "best"})
    assert set(BackendCall.objects.filter(agent=1).values_list("backend", flat=True)) == {good.pk}
    providers.save_settings(crew, {"pairs": True}, actor=None)
    app.post("/api/orchestrate/", {**TASK, "preference": "best"})
    assert set(BackendCall.objects.filter(agent=1).values_list("backend", flat=True)) == {good.pk, poor.pk}


def test_the_llm_judges_calls_that_nobody_judged(
    crew: Pool, two: tuple[Backend, Backend], app: Application, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    settings.LLM_MODEL = "judge"
    for preference in ("best", "cheapest"):
        app.post("/api/orchestrate/", {**TASK, "preference": preference})

    def complete(self: Client, messages: list[dict[str, str]], schema: object = None) -> Completion:
        figure = 0.9 if "large: " in messages[1]["content"] else 0.1
        return Completion(json.dumps(dict.fromkeys(q_table.ASPECTS, figure)), Usage())

    monkeypatch.setattr(Client, "complete", complete)
    call_command("judge_calls", pool="crew", stdout=(said := StringIO()))
    assert said.getvalue().startswith("2 calls judged, 1 did well; 0 without")
    assert dict(BackendCall.objects.values_list("backend", "success")) == {two[0].pk: True, two[1].pk: False}
    assert judge.calls(crew, 10) == judge.Judged()
    app.post("/api/orchestrate/", TASK)
    monkeypatch.setattr(Client, "complete", lambda self, messages, schema=None: Completion("no", Usage()))
    assert judge.calls(crew, 10) == judge.Judged(failed=1)
    assert BackendCall.objects.filter(success=None).count() == 1


def test_an_executor_that_is_no_chat_is_called_as_it_is(
    conducted: Callable[..., Any], executor: Callable[..., Any], made: Callable[..., Backend], app: Application
) -> None:
    conducted(0)
    executor(0)
    made("large")
    assert app.post("/api/orchestrate/", TASK).json()["status"] == "done"
    assert not BackendCall.objects.exists()


def test_a_preference_that_is_none_is_refused(two: tuple[Backend, Backend], app: Application) -> None:
    answer = app.post("/api/orchestrate/", {**TASK, "preference": "dearest"})
    assert (answer.status_code, answer.json()["error"]["field"]) == (400, "preference")
