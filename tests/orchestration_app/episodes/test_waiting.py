"""Episodes that wait for a person: an agent's question, a call that somebody approves first; and what happens when a process dies
then."""

import re
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from agents_app.background_work import jobs
from agents_app.keys import create_key
from agents_app.models import AuditEntry, Pool, Stamp
from orchestration_app.episodes import asides, episodes, runner
from orchestration_app.models import Episode, Executor, Step
from tests.orchestration_app.crew import Served
from tests.training_app.served import Application, ScriptedRouter, promoted
from training_app.models import AlarmDelivery, AlarmReceiver

pytestmark = pytest.mark.django_db(transaction=True)
TASK = {"task": "Refund the order for 80 USD"}


@pytest.fixture
def asking(conducted: Callable[..., Any], executor: Callable[..., Executor]) -> None:
    """Three agents, the second of which asks before it answers."""
    conducted(0, 1, 2)
    executor(0, script={"do": "say", "text": "looked at", "cost": 0.01})
    executor(1, script={"do": "echo", "asks": "Which account?", "cost": 0.02})
    executor(2, script={"do": "say", "text": "checked"})


def test_an_agents_question_makes_the_episode_wait_and_its_answer_lets_it_go_on(asking: None, app: Application) -> None:
    waiting = app.post("/api/orchestrate/", TASK).json()
    assert (waiting["status"], waiting["answer"]) == ("waiting", None)
    assert waiting["questions"] == [
        {"call": 1, "agent": 1, "name": "Billing", "kind": "input", "question": "Which account?"}
    ]
    address = f"/api/episodes/{waiting['episode_id']}/"
    assert app.get(address).json()["trajectory"][1]["status"] == "waiting"
    assert app.post(f"{address}outcome/", {"success": True}).status_code == 409
    done = app.post(f"{address}input/", {"text": "the one of 4711"}).json()
    assert (done["status"], done["questions"], done["missing"]) == ("done", [], [])
    assert [one["output"] for one in done["outputs"]] == ["looked at", "the one of 4711", "checked"]
    assert Step.objects.get(call=1).metadata["aside"]["exchanges"] == [
        {"question": "Which account?", "answer": "the one of 4711"}
    ]
    again = app.post(f"{address}input/", {"text": "too late"})
    assert (again.status_code, again.json()["error"]["code"]) == (409, "not_waiting")


def test_a_stream_ends_with_what_is_waited_for(asking: None, app: Application) -> None:
    told = app.post("/api/orchestrate/", TASK, HTTP_ACCEPT="text/event-stream").content.decode()
    assert told.rstrip().split("\n\n")[-1].startswith("event: waiting\n")


def test_a_process_that_dies_with_an_answer_in_hand_asks_nobody_twice(asking: None, app: Application) -> None:
    key = app.post("/api/orchestrate/", TASK).json()["episode_id"]
    episode = Episode.objects.get(pk=key)
    asides.answer(episode, "4711")
    assert (episode.status, Step.objects.get(call=1).status) == ("queued", "answered")
    attempt = jobs.claim(Episode, episode.pk)  # and dies
    assert attempt is not None
    episode.refresh_from_db()
    assert episodes.interrupted(episode, Episode.objects.filter(pk=episode.pk))
    runner.go_on_here(episode)
    assert (episode.status, Step.objects.filter(call__isnull=False).count()) == ("done", 3)


def test_what_goes_on_under_an_answer_is_not_called_twice(asking: None, app: Application) -> None:
    """Killed while the agent had the answer: whether it worked is not known, so an agent that may not be called again has failed."""
    key = app.post("/api/orchestrate/", TASK).json()["episode_id"]
    episode = Episode.objects.get(pk=key)
    asides.answer(episode, "4711")
    Step.objects.filter(call=1).update(status="running")
    Executor.objects.filter(agent__number=1).update(repeatable=False)
    Stamp.bump()
    runner.go_on_here(episode)
    assert (episode.status, Step.objects.get(call=1).failure) == ("partial", "interrupted")
    assert episode.missing[0]["agent"] == 1


def test_a_waiting_episode_can_be_cancelled_and_counts_as_under_way(asking: None, app: Application) -> None:
    key = app.post("/api/orchestrate/", TASK).json()["episode_id"]
    assert episodes.claim_waiting(9) == []
    assert app.post(f"/api/episodes/{key}/cancel/", {}).json()["status"] == "cancelled"


def test_agents_that_need_nobody_are_called_together_and_wait_together(
    crew: Pool, executor: Callable[..., Executor], app: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("training_app.engine.routing.router.Router", ScriptedRouter)
    promoted(crew, (0, "Triage"), (1, "Billing"), (2, "Checker"))
    executor(0, script={"do": "say", "text": "first"})
    executor(1, script={"do": "echo", "asks": "Which account?"})
    executor(2, script={"do": "say", "text": "last"}, reads_others=True)
    waiting = app.post("/api/orchestrate/", {"task": "triage billing checker"}).json()
    assert [(one["agent"], one["output"]) for one in waiting["outputs"]] == [(0, "first")]
    assert set(Step.objects.values_list("agent", "turn")) == {(0, 0), (1, 0)}
    done = app.post(f"/api/episodes/{waiting['episode_id']}/input/", {"text": "mine"}).json()
    assert [(one["agent"], one["step"]) for one in done["outputs"]] == [(0, 0), (1, 0), (2, 1)]
    assert done["status"] == "done"


@pytest.fixture
def held(conducted: Callable[..., Any], executor: Callable[..., Executor]) -> None:
    """Two agents; calls of the second about more than 50 are approved first."""
    conducted(0, 1)
    executor(0, script={"do": "say", "text": "looked at"})
    executor(1, script={"do": "say", "text": "refunded"}, approval="above", approval_above=50)


def test_a_person_approves_a_call_above_the_limit(
    held: None, crew: Pool, app: Application, client: Client, admin_user: Any
) -> None:
    AlarmReceiver.objects.create(pool=crew, kind="webhook", address="https://example.com/hook", nonce="n")
    below = app.post("/api/orchestrate/", {"task": "Refund 50.00 USD"}).json()
    assert below["status"] == "done"
    waiting = app.post("/api/orchestrate/", TASK).json()
    assert [one["kind"] for one in waiting["questions"]] == ["approval"]
    assert AlarmDelivery.objects.get().event == "episode.waiting"
    key = waiting["episode_id"]
    assert app.post(f"/api/episodes/{key}/approval/", {"approve": True}).status_code == 403
    client.force_login(admin_user)
    page = client.get(f"/p/crew/episodes/{key}/").content.decode()
    assert "Billing waits for your approval" in page
    client.post(f"/p/crew/episodes/{key}/reply/", {"call": 1, "approve": "1"})
    episode = Episode.objects.get(pk=key)
    assert episode.status == "queued"
    runner.go_on_here(episode)
    assert (episode.status, Step.objects.get(episode=key, call=1).output) == ("done", "refunded")
    assert AuditEntry.objects.get(action="call.decided").detail["approved"] is True


def test_an_amount_of_an_earlier_message_needs_approval_too(held: None, app: Application) -> None:
    def talk(last: str) -> dict[str, Any]:
        turns = [("user", "Refund 5,000 USD"), ("assistant", "For which booking?"), ("user", last)]
        messages = [{"role": role, "content": content} for role, content in turns]
        whole: dict[str, Any] = app.post("/api/orchestrate/", {"messages": messages}).json()
        return whole

    for last in ("the one of seat 12", "the last one"):
        (question,) = talk(last)["questions"]
        assert question["kind"] == "approval"
        # Who approves reads what the agent will.
        assert question["question"] == f"user: Refund 5,000 USD\n\nassistant: For which booking?\n\nuser: {last}"
        assert not Step.objects.filter(agent=1, attempts__gt=0).exists()


@pytest.mark.at_length
def test_an_amount_in_the_answer_to_a_question_is_approved_before_the_agent_reads_it(
    conducted: Callable[..., Any], executor: Callable[..., Executor], crew: Pool, app: Application
) -> None:
    conducted(0, 1)
    executor(0, script={"do": "say", "text": "looked at"})
    executor(1, script={"do": "echo", "asks": "How much?"}, approval="above", approval_above=50)
    _key, secret = create_key("ops", [crew], ("ops", "route"))
    for answer, kinds in (("40, please", []), ("900, please", ["approval"])):
        waiting = app.post("/api/orchestrate/", {"task": "Refund 20 USD or so"}).json()
        assert [one["kind"] for one in waiting["questions"]] == ["input"]
        address = f"/api/episodes/{waiting['episode_id']}/"
        then = app.post(f"{address}input/", {"text": answer}).json()
        assert [one["kind"] for one in then["questions"]] == kinds
    assert then["questions"][0]["question"] == f"user: Refund 20 USD or so\n\nagent: How much?\n\nuser: {answer}"
    done = Application(secret, _key).post(f"{address}approval/", {"approve": True}).json()
    assert (done["status"], done["outputs"][-1]["output"]) == ("done", answer)


def test_a_refused_call_is_never_made_and_its_part_is_missing(held: None, crew: Pool, app: Application) -> None:
    _key, secret = create_key("ops", [crew], ("ops", "route"))
    ops = Application(secret, _key)
    key = app.post("/api/orchestrate/", TASK).json()["episode_id"]
    refused = ops.post(f"/api/episodes/{key}/approval/", {"approve": False, "why": "the order was not paid"}).json()
    assert refused["status"] == "partial"
    assert (refused["missing"][0]["reason"], refused["missing"][0]["why"]) == ("denied", "the order was not paid")
    assert Step.objects.get(episode=key, call=1).attempts == 0


@pytest.mark.parametrize(
    ("away", "word"),
    [({"available": False}, "paused"), ({"state": "retired", "retired_at": timezone.now()}, "retired")],
)
@pytest.mark.at_length
def test_an_agent_that_went_away_while_its_call_waited_is_not_called(
    held: None, crew: Pool, app: Application, client: Client, admin_user: Any, away: dict[str, Any], word: str
) -> None:
    _key, secret = create_key("ops", [crew], ("ops", "route"))
    ops = Application(secret, _key)
    early, late = [app.post("/api/orchestrate/", TASK).json()["episode_id"] for _ in range(2)]
    # Approved while the agent was there, and gone before a process goes on.
    assert ops.post(f"/api/episodes/{early}/approval/", {"approve": True, "wait": False}).status_code == 200
    crew.agents.filter(number=1).update(**away)
    Stamp.bump()
    episode = Episode.objects.get(pk=early)
    runner.go_on_here(episode)
    assert [(part["name"], part["reason"]) for part in episode.missing] == [("Billing", "not_now")]
    refused = ops.post(f"/api/episodes/{late}/approval/", {"approve": True})
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "agent_away")
    assert f"Billing is {word}: its call cannot be made." in refused.json()["error"]["message"]
    client.force_login(admin_user)
    page = client.post(f"/p/crew/episodes/{late}/reply/", {"call": 1, "approve": "1"}, follow=True).content.decode()
    assert f"Billing is {word}: its call cannot be made." in page
    assert not Step.objects.filter(agent=1, attempts__gt=0).exists()
    assert ops.post(f"/api/episodes/{late}/approval/", {"approve": False}).json()["status"] == "partial"


@pytest.mark.at_length
def test_a_reply_that_nothing_waits_for_is_told_what_became_of_the_call(
    held: None, crew: Pool, app: Application
) -> None:
    _key, secret = create_key("ops", [crew], ("ops", "route"))
    ops = Application(secret, _key)

    def said(key: str, kind: str, **body: Any) -> str:
        refusal = ops.post(f"/api/episodes/{key}/{kind}/", body)
        assert (refusal.status_code, refusal.json()["error"]["code"]) == (409, "not_waiting")
        words: str = refusal.json()["error"]["message"]
        return words

    key = app.post("/api/orchestrate/", TASK).json()["episode_id"]
    waits = "Nothing in this episode waits for that. What waits: call 1 for approval."
    assert said(key, "input", text="yes") == said(key, "approval", approve=True, call=7) == waits
    ops.post(f"/api/episodes/{key}/approval/", {"approve": True})
    assert said(key, "approval", approve=False) == "Call 1 was approved before."
    assert said(key, "input", text="yes") == "Nothing in this episode waits for a person. Its state: done."
    key = app.post("/api/orchestrate/", TASK).json()["episode_id"]
    ops.post(f"/api/episodes/{key}/approval/", {"approve": False})
    assert said(key, "approval", approve=True) == "Call 1 was refused before."
    key = app.post("/api/orchestrate/", TASK).json()["episode_id"]
    ops.post(f"/api/episodes/{key}/cancel/", {})
    assert said(key, "approval", approve=True) == "Nothing in this episode waits for a person. Its state: cancelled."


@pytest.mark.parametrize(
    ("text", "found"),
    [("refund 1,250.50 USD", [1250.5]), ("1.250,50 EUR", [1250.5]), ("1 250", [1250.0]), ("1.250", [1250.0]),
     ("12.5 and 7", [12.5, 7.0]), ("1'000'000", [1e6]), ("none", []), ("order A-12", [12.0]), ("1,250,000.75", [1250000.75]),
     ("refund EUR5000 of RW123", [5000.0]), ("$5k for 20 kg", [5000.0, 20.0]), ("1,5 тыс., 2 Mio.", [1500.0, 2e6]),
     ("5 mil", [5000.0])],
)  # fmt: skip
def test_amounts_are_read_as_people_write_them(text: str, found: list[float]) -> None:
    assert asides.amounts(text) == found


def test_a_server_error_is_a_missing_part_and_no_done(
    conducted: Callable[..., Any], executor: Callable[..., Executor], agents: Served, app: Application
) -> None:
    conducted(0, 1)
    executor(0)
    executor(1, "webhook", "a long enough secret", address=f"{agents.url}/hook", retries=0)
    agents.only = "500"
    told = app.post("/api/orchestrate/", TASK).json()
    assert (told["status"], [(one["agent"], one["reason"]) for one in told["missing"]]) == ("partial", [(1, "failed")])
    assert "500" in told["missing"][0]["why"]
    assert uuid.UUID(told["episode_id"])


def test_home_says_that_an_episode_waits(
    conducted: Callable[..., Any], executor: Callable[..., Executor], browser: Client
) -> None:
    conducted(0)
    executor(0, script={"do": "echo", "asks": "Which account?"})
    assert "waits for a person" not in browser.get("/").content.decode()
    begun = browser.post("/p/crew/episodes/new/", {"task": "refund"})
    home = browser.get("/").content.decode()
    assert "1 episode waits for a person" in home
    address = re.search(r'href="(/p/crew/episodes/\?[^"]*)"', home)
    assert address is not None
    assert begun.url in browser.get(address[1]).content.decode()
