"""What an episode promises: one for one Idempotency-Key, a budget that holds, an end with a reason, going on after a process died."""

import asyncio
import json
import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now

from agents_app.background_work import jobs
from agents_app.background_work.jobs import AttemptLost
from agents_app.models import Pool
from orchestration_app.calls import asking, calling, limits, queued
from orchestration_app.episodes import composing, course, episodes, policies, runner
from orchestration_app.models import Episode, Step
from tests.orchestration_app.crew import Served
from tests.orchestration_app.episodes.test_language_model import routed
from tests.training_app.served import Application, ScriptedRouter
from training_app.answering import serving
from training_app.versions import registry

pytestmark = pytest.mark.django_db(transaction=True)
TASK = {"task": "I was charged twice"}


def keyed(key: str) -> dict[str, Any]:
    return {"HTTP_IDEMPOTENCY_KEY": key}


@pytest.fixture
def chats(conducted: Callable[..., Any], executor: Callable[..., Any], agents: Served) -> Served:
    """Three agents that chat at the same server, called one after another."""
    conducted(0, 1, 2)
    for number in range(3):
        executor(
            number,
            "chat",
            address=f"{agents.url}/v1",
            model=f"m{number}",
            price_in=1.0,
            price_out=1.0,
            most_tokens=100,
            seconds=0.5,
        )
    return agents


def test_the_same_key_is_the_same_episode_and_makes_no_call_again(chats: Served, app: Application) -> None:
    first = app.post("/api/orchestrate/", TASK, **keyed("one"))
    again = app.post("/api/orchestrate/", TASK, **keyed("one"))
    later = app.post("/api/orchestrate/", TASK | {"wait": False}, **keyed("one"))
    assert again.json() == first.json()
    assert later.json()["episode_id"] == first.json()["episode_id"]
    assert [answer.headers.get("Idempotent-Replayed") for answer in (first, again, later)] == [None, "true", "true"]
    assert chats.asked.total() == 3
    other = app.post("/api/orchestrate/", {"task": "another"}, **keyed("one"))
    assert (other.status_code, other.json()["error"]["code"]) == (409, "key_used")
    assert Episode.objects.count() == 1


def test_a_call_starts_only_if_its_worst_case_fits(chats: Served, app: Application) -> None:
    free = app.post("/api/orchestrate/", TASK).json()
    assert free["steps"] == 3
    step = Step.objects.filter(call=0).get()
    assert step.worst > step.cost
    answer = app.post("/api/orchestrate/", {**TASK, "budget": step.worst * 1.001}).json()
    assert answer["stop_reason"] == "budget"
    assert answer["steps"] == 1
    assert answer["cost"] <= step.worst * 1.001
    nothing = app.post("/api/orchestrate/", {**TASK, "budget": step.worst / 2}).json()
    assert (nothing["status"], nothing["steps"], nothing["stop_reason"]) == ("failed", 0, "budget")


@pytest.mark.parametrize(
    ("fault", "kind"),
    [("silent", "timeout"), ("429", "rate_limited"), ("500", "failed"), ("cut off", "cut_off"), ("10 MB", "too_large"),
     ("malformed", "malformed"), ("prose", "malformed"), ("dripping", "timeout"), ("reset", "cut_off")],
)  # fmt: skip
def test_every_fault_is_a_failure_that_says_which(
    fault: str, kind: str, conducted: Callable[..., Any], executor: Callable[..., Any], agents: Served, app: Application
) -> None:
    conducted(0, 1)
    executor(0, "chat", address=f"{agents.url}/v1", model="m", retries=0, seconds=0.4, most_kb=100)
    executor(1)
    agents.only = fault
    answer = app.post("/api/orchestrate/", TASK).json()
    failed = Step.objects.get(call=0)
    assert (failed.status, failed.failure) == ("failed", kind)
    assert failed.why
    assert (answer["status"], answer["missing"][0]["reason"]) == ("partial", kind)
    assert TASK["task"] in answer["answer"]


def test_what_may_not_be_called_again_is_not(
    conducted: Callable[..., Any], executor: Callable[..., Any], agents: Served, app: Application
) -> None:
    conducted(0)
    executor(
        0,
        "webhook",
        secret="a long enough secret",
        address=f"{agents.url}/hook",
        retries=3,
        seconds=0.3,
        repeatable=False,
    )
    agents.only = "cut off"
    app.post("/api/orchestrate/", TASK)
    assert agents.asked.total() == 1
    agents.only = "429"
    app.post("/api/orchestrate/", TASK)
    assert sorted(agents.asked.values()) == [1, 4]


def test_without_wait_there_is_an_address_to_ask_and_a_cancel_ends_it(chats: Served, app: Application) -> None:
    answer = app.post("/api/orchestrate/", {**TASK, "wait": False})
    assert answer.status_code == 202
    address = answer.json()["address"]
    assert answer["Location"] == address
    assert app.get(address).json()["status"] == "queued"
    cancelled = app.post(f"{address}cancel/", {}).json()
    assert (cancelled["status"], cancelled["stop_reason"]) == ("cancelled", "cancelled")
    assert app.post(f"{address}cancel/", {}).json()["error"]["code"] == "ended"
    assert chats.asked.total() == 0


def test_an_application_reports_how_it_worked_out(chats: Served, app: Application) -> None:
    key = app.post("/api/orchestrate/", TASK).json()["episode_id"]
    told = app.post(f"/api/episodes/{key}/outcome/", {"success": False, "rating": 0.25}).json()
    assert (told["success"], told["rating"]) == (False, 0.25)
    assert [step["agent"] for step in told["trajectory"]] == [0, 1, 2, None]


def begun(crew: Pool, app: Application, calls: int) -> Episode:
    """An episode whose process died after so many calls, the next of which was under way; claimed again by this one."""
    key = app.post("/api/orchestrate/", TASK).json()["episode_id"]
    episode = Episode.objects.get(pk=key)
    episode.trajectory.exclude(call__lte=calls).delete()
    under_way = {"status": "running", "output": "", "cost": 0.0, "attempts": 0, "metadata": {}}
    assert episode.trajectory.filter(call=calls).update(**under_way)
    Episode.objects.filter(pk=key).update(status="queued", answer="", stop_reason="", finished_at=None, losses=1)
    attempt = jobs.claim(Episode, episode.pk)
    episode.refresh_from_db()
    assert episode.attempt == attempt
    return episode


def test_an_episode_goes_on_from_its_last_stored_step(crew: Pool, chats: Served, app: Application) -> None:
    whole = app.post("/api/orchestrate/", TASK).json()
    episode = begun(crew, app, 1)
    before = chats.asked.total()
    runner.run_here(episode)
    episode.refresh_from_db()
    assert (episode.status, episode.answer, episode.steps) == ("done", whole["answer"], 3)
    assert episode.cost == pytest.approx(whole["cost"])
    # The one under way was made again under its key, and the one after it for the first time since.
    assert chats.asked.total() == before + 2
    assert all(count == 1 for count in chats.worked.values())


def test_a_call_that_nobody_may_repeat_has_failed_as_interrupted(
    crew: Pool, chats: Served, executor: Callable[..., Any], app: Application
) -> None:
    executor(1, "chat", repeatable=False)
    policies.forget()
    serving.forget()
    episode = begun(crew, app, 1)
    before = chats.asked.total()
    runner.run_here(episode)
    step = Step.objects.get(episode=episode, call=1)
    assert (step.status, step.failure) == ("failed", "interrupted")
    assert chats.asked.total() == before + 1


def test_a_call_that_waited_for_a_place_was_never_made_and_is_made_now(
    crew: Pool, chats: Served, executor: Callable[..., Any], app: Application
) -> None:
    executor(1, "chat", address=f"{chats.url}/v1", model="m1", repeatable=False)
    policies.forget()
    serving.forget()
    episode = begun(crew, app, 1)
    Step.objects.filter(episode=episode, call=1).update(status="queued")
    runner.run_here(episode)
    assert (episode.trajectory.get(call=1).status, Episode.objects.get(pk=episode.pk).status) == ("done", "done")


@pytest.mark.parametrize(("seconds", "before"), [(0.0, "running"), (0.3, "queued")])
def test_a_call_is_queued_while_it_waits_for_a_place_and_running_before_it_is_made(
    crew: Pool, chats: Served, app: Application, monkeypatch: pytest.MonkeyPatch, seconds: float, before: str
) -> None:
    states: list[str] = []
    ledgers: list[Any] = []

    async def stored() -> None:
        states.append(await ledgers[0].run(lambda: Step.objects.get(call=0).status))

    async def late(places: limits.Limits, spec: Any) -> bool:
        ledgers.append(places._ledger)
        if spec.agent == 0:
            await asyncio.sleep(seconds)
            await stored()
        return True

    ask = asking.ask

    async def asked(spec: Any, *words: Any) -> Any:
        if spec.agent == 0:
            await stored()
        return await ask(spec, *words)

    monkeypatch.setattr(limits.Limits, "take", late)
    monkeypatch.setattr(asking, "ask", asked)
    assert app.post("/api/orchestrate/", TASK).json()["status"] == "done"
    assert states == [before, "running"]


def test_a_place_is_given_back_where_its_call_cannot_be_stored() -> None:
    left: list[Any] = []

    class Late:
        async def take(self, spec: Any) -> bool:
            await asyncio.sleep(queued.STORED_AFTER_SECONDS * 1.2)
            return True

        def leave(self, spec: Any) -> None:
            left.append(spec)

    async def store(status: Step.Status) -> None:
        if status == Step.Status.RUNNING:
            raise AttemptLost("it continues elsewhere")

    with pytest.raises(AttemptLost):
        asyncio.run(queued.StoredPlaces(Late(), store).take("spec"))  # type: ignore[arg-type]
    assert left == ["spec"]


def test_of_calls_at_once_what_is_answered_is_kept_while_others_go_on(
    crew: Pool, executor: Callable[..., Any], app: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    routed(crew, monkeypatch)
    for number, name in ((1, "Billing"), (2, "Checker")):
        executor(number, script={"do": "say", "text": f"{name}'s answer"}, repeatable=False)
    called, call = [], calling.call

    async def dies_while_the_checker_works(spec: Any, *words: Any) -> Any:
        called.append(spec.name)
        if spec.name == "Checker":
            await asyncio.sleep(10 * course.TOGETHER_SECONDS)
            raise jobs.AttemptLost
        return await call(spec, *words)

    monkeypatch.setattr(calling, "call", dies_while_the_checker_works)
    key = app.post("/api/orchestrate/", {"task": "Billing and Checker", "wait": False}).json()["episode_id"]
    for _process in range(2):
        Episode.objects.filter(pk=key).update(status="queued", attempt=None)
        jobs.claim(Episode, uuid.UUID(key))
        runner.run_here(Episode.objects.get(pk=key))
    episode = Episode.objects.get(pk=key)
    assert sorted(called) == ["Billing", "Checker"]
    assert episode.status == "partial"
    assert episode.answer == "## Billing\n\nBilling's answer\n\n## Checker\n\nNo answer."
    assert [part["reason"] for part in episode.missing] == ["interrupted"]


def test_who_lost_its_episode_writes_nothing_more(crew: Pool, chats: Served, app: Application) -> None:
    episode = begun(crew, app, 1)
    Episode.objects.filter(pk=episode.pk).update(attempt=uuid.uuid4())
    runner.run_here(episode)
    assert Step.objects.filter(episode=episode, status="running").count() == 1


def test_the_dead_are_found_and_given_up_after_some_time(crew: Pool, settings: Any) -> None:
    settings.DEAD_AFTER_SECONDS, settings.HEARTBEAT_SECONDS = 2, 1
    old = {"heartbeat_at": Now() - timedelta(seconds=60), "doubted_at": Now() - timedelta(seconds=30)}
    made = [
        Episode.objects.create(pool=crew, policy="x", task="t", status="running", attempt=uuid.uuid4(), losses=losses)
        for losses in (0, episodes.MOST_LOSSES)
    ]
    Episode.objects.update(**old)
    assert episodes.end_dead() == 2
    for episode in made:
        episode.refresh_from_db()
    assert [episode.status for episode in made] == ["queued", "failed"]
    assert made[0].losses == 1
    assert made[1].stop_reason == "interrupted"


def test_paths_share_a_budget_and_the_majority_answers(
    conducted: Callable[..., Any], executor: Callable[..., Any], app: Application
) -> None:
    conducted(0, 1)
    executor(0, script={"do": "say", "text": "first", "cost": 0.01})
    executor(1, script={"do": "say", "text": "second", "cost": 0.01})
    answer = app.post("/api/orchestrate/", {**TASK, "paths": 3, "budget": 1.0, "compose": "majority"}).json()
    assert (answer["answer"], answer["steps"]) == ("second", 2)
    assert answer["cost"] == pytest.approx(0.06)
    assert set(Step.objects.filter(call__isnull=False).values_list("path", flat=True)) == {0, 1, 2}


def test_the_decision_alone_calls_nobody(chats: Served, app: Application) -> None:
    first = app.post("/api/orchestrate/next/", TASK).json()
    assert (first["agent"], first["name"], first["stop_reason"]) == (0, "Triage", "")
    history = [{"agent": number, "output": "x"} for number in range(3)]
    last = app.post("/api/orchestrate/next/", {**TASK, "history": history}).json()
    assert (last["agent"], last["stop_reason"]) == (None, "stop")
    stray = app.post("/api/orchestrate/next/", {**TASK, "history": [*history, {"agent": 99, "output": "x"}]})
    assert (stray.status_code, stray.json()["error"]["field"]) == (400, "history[3].agent")
    assert not Episode.objects.exists()
    assert chats.asked.total() == 0


def test_without_an_orchestrator_the_set_is_called_once_cheapest_first(
    crew: Pool, executor: Callable[..., Any], app: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("training_app.engine.routing.router.Router", ScriptedRouter)
    agents = [{"id": number, "name": name} for number, name in enumerate(("Triage", "Billing", "Checker"))]
    registry.promote(registry.register(None, crew, json.dumps(agents).encode(), {}), actor=None)
    for number, cost in enumerate((0.03, 0.02, 0.01)):
        executor(number, script={"do": "say", "text": f"said {number}"}, most_cost=cost)
    answer = app.post("/api/orchestrate/", {"task": "triage and billing, please"}).json()
    assert (answer["status"], answer["stop_reason"], answer["policy"]) == ("done", "stop", "one_shot")
    assert list(Step.objects.order_by("turn").values_list("agent", flat=True)) == [1, 0, None]
    assert app.post("/api/orchestrate/", {"task": "neither"}).json()["error"] == composing.NONE_NEEDED
    assert app.post("/api/orchestrate/next/", {"task": "the checker"}).json()["agent"] == 2


def test_before_a_router_is_promoted_the_descriptions_decide(
    crew: Pool, app: Application, executor: Callable[..., Any]
) -> None:
    assert app.post("/api/orchestrate/", TASK).json()["error"]["code"] == "no_executor"
    for number in range(3):
        executor(number, script={"do": "say", "text": f"said {number}"})
    answer = app.post("/api/orchestrate/", {"task": "Billing, please"}).json()
    assert (answer["status"], answer["policy"], answer["answer"]) == ("done", "one_shot", "said 1")
