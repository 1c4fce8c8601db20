"""Proposals about agents: found in traffic, accepted, declined, merged, rewritten; and their page."""

import random
import uuid
from collections.abc import Sequence

import numpy as np
import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from agents_app import pools
from agents_app.background_work import work
from agents_app.models import Agent, BackgroundJob, Pool
from datasets_app.labels import labels
from datasets_app.models import Query, QueueItem
from training_app.engine.reading import sentences
from training_app.engine.routing import asking
from training_app.models import AgentProposal, Decision, Outcome
from training_app.pages.watching import proposal_views
from training_app.rollout import outcomes, trials
from training_app.watching import proposals

Kind, State = AgentProposal.Kind, AgentProposal.State
#: The real one: most tests are not about descriptions.
attracting = proposals._attracting
AXES = ("invoice", "parcel", "crash", "visa", "garden")


@pytest.fixture(autouse=True)
def meaning(monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts mean what the words of AXES in them say."""

    def embed(texts: Sequence[str]) -> np.ndarray:
        rows = []
        for text in texts:
            noise = np.random.default_rng(sum(text.encode())).normal(0, 0.05, sentences.SIZE // 64)
            row = np.concatenate([[float(word in text) for word in AXES], noise])
            rows.append(np.pad(row, (0, sentences.SIZE - len(row))))
        found = np.array(rows, np.float32)
        return found / np.linalg.norm(found, axis=1, keepdims=True)

    monkeypatch.setattr(sentences, "embed", embed)
    monkeypatch.setattr(sentences, "installed", lambda: True)
    monkeypatch.setattr(proposals, "_attracting", lambda _pool, _roster: [])


def decide(pool: Pool, text: str, agents: list[int], confidence: float, **scores: float) -> Decision:
    return Decision.objects.create(
        pool=pool,
        text=text,
        agents=agents,
        scores=scores or {"0": 0.1},
        confidence=confidence,
        steps=1,
        stop_reason="stop",
        microseconds=1,
    )


@pytest.fixture
def traffic(labeled: Pool) -> Pool:
    """20 unsure queries about visas, 6 sure ones about gardens, and 30 on which two agents are as likely."""
    rng = random.Random(1)
    for i in range(20):
        decide(labeled, f"my visa number {i} runs out {rng.random()}", [1], 0.1)
    for i in range(6):
        decide(labeled, f"the garden {i}", [0], 0.95)
    for i in range(30):
        decide(labeled, f"an invoice for parcel {i}", [0], 0.9, **{"0": 0.5, "1": 0.45, "2": 0.01})
    return labeled


def test_a_look_finds_what_is_missing_and_what_overlaps(traffic: Pool) -> None:
    proposals.look(traffic)
    missing = AgentProposal.objects.get(kind=Kind.MISSING)
    assert (missing.size, missing.figures["went"]) == (20, {"1": 20})
    assert "visa" in proposals.words(missing)
    assert missing.name
    assert all("visa" in text for text in proposals.example_queries(missing))
    overlap = AgentProposal.objects.filter(kind=Kind.OVERLAP).first()
    assert overlap is not None
    assert (overlap.agents, overlap.figures["count"]) == ([0, 1], 30)
    proposals.look(traffic)
    assert AgentProposal.objects.filter(kind=Kind.MISSING).count() == 1, "a look replaces what was open"


def test_the_command_names_no_agent_that_has_no_name_yet(
    traffic: Pool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(proposals, "words", lambda _proposal: [])  # as of queries without a word
    call_command("propose_agents", "--pool", "support")
    count = AgentProposal.objects.get(kind=Kind.MISSING).figures["count"]
    lines = capsys.readouterr().out.splitlines()
    assert f"Missing agent, not named yet ({count} queries)" in lines
    assert "Overlapping agents: Billing, Shipping (30 queries)" in lines


def test_a_proposal_stores_no_query(traffic: Pool) -> None:
    proposals.look(traffic)
    stored = list(AgentProposal.objects.values("agents", "decisions", "keys", "figures"))
    assert len(stored) > 1
    assert not [word for word in ("visa", "runs out", "invoice", "parcel") if word in str(stored)]
    Decision.objects.filter(text__contains="visa").update(text="")  # as erasing does
    missing = AgentProposal.objects.get(kind=Kind.MISSING)
    assert "visa" not in f"{proposals.example_queries(missing)} {proposals.words(missing)}"


def test_failed_queries_count_and_labeled_ones_do_not(labeled: Pool) -> None:
    for i in range(10):
        made = decide(labeled, f"the garden {i}", [0], 0.95)
        Outcome.objects.create(decision_id=made.pk, pool=labeled, success=False)
    outcomes.send_to_labeling(labeled, "the garden 9", "failed")
    garden = Query.objects.get(text="the garden 9")
    labels.record(labels.NewLabel(query_id=garden.pk, source="import", required=[0], asked=[0, 1, 2]))
    proposals.look(labeled)
    assert AgentProposal.objects.get(kind=Kind.MISSING).size == 9


def test_sure_answers_to_queries_unlike_those_of_their_agent_count(labeled: Pool) -> None:
    for i in range(40):
        decide(labeled, f"the garden {i}", [0], 0.95)
        decide(labeled, f"my invoice {i}", [0], 0.95)
    proposals.look(labeled)
    missing = AgentProposal.objects.get(kind=Kind.MISSING)
    assert (missing.size, missing.figures["went"]) == (40, {"0": 40})
    assert "garden" in proposals.words(missing)


def test_queries_of_an_agent_without_labels_are_its_own(labeled: Pool, ops: User) -> None:
    pools.add_agent(labeled, "Gardens", "plants and trees", actor=ops)
    for i in range(40):
        decide(labeled, f"the garden {i}", [3], 0.95)
        decide(labeled, f"my invoice {i}", [0], 0.95)
    proposals.look(labeled)
    assert not AgentProposal.objects.filter(kind=Kind.MISSING).exists()


def test_what_was_surely_routed_to_nobody_may_lack_an_agent(labeled: Pool) -> None:
    for i in range(9):
        decide(labeled, f"the garden {i}", [], 0.95)
    proposals.look(labeled)
    assert AgentProposal.objects.get(kind=Kind.MISSING).size == 9


def test_agents_that_are_needed_together_are_not_confused(labeled: Pool) -> None:
    for i in range(30):
        decide(labeled, f"an invoice for parcel {i}", [0, 1], 0.9, **{"0": 0.95, "1": 0.9, "2": 0.01})
    proposals.look(labeled)
    assert not AgentProposal.objects.filter(kind=Kind.OVERLAP).exists()


def test_an_accepted_agent_is_there_and_its_queries_wait_for_labels(traffic: Pool, ops: User) -> None:
    proposals.look(traffic)
    agent = proposals.accept(AgentProposal.objects.get(kind=Kind.MISSING), "Visas", "passports and visas", actor=ops)
    assert (agent.name, agent.number) == ("Visas", 3)
    visas = Query.objects.filter(dataset__pool=traffic, text__contains="visa")
    assert visas.count() == 20
    assert QueueItem.objects.filter(query__in=visas, agent=None).count() == 20
    proposals.look(traffic)
    assert not AgentProposal.objects.filter(kind=Kind.MISSING, state=State.OPEN).exists()


def test_a_declined_one_does_not_return_for_the_same_queries(traffic: Pool, ops: User) -> None:
    proposals.look(traffic)
    one = AgentProposal.objects.get(kind=Kind.MISSING)
    proposals.decline(one, actor=ops)
    with pytest.raises(proposals.ProposalError):
        proposals.decline(AgentProposal.objects.get(pk=one.pk), actor=ops)
    proposals.look(traffic)
    assert not AgentProposal.objects.filter(kind=Kind.MISSING, state=State.OPEN).exists()
    for _ in range(40):
        decide(traffic, f"a visa for my dog {uuid.uuid4()}", [1], 0.1)
    proposals.look(traffic)
    assert AgentProposal.objects.get(kind=Kind.MISSING, state=State.OPEN).size == 60, "mostly other queries"


def test_nobody_asks_for_an_agent_and_two_are_always_together(labeled: Pool) -> None:
    Agent.objects.update(created_at="2020-01-01T00:00:00Z")
    for i in range(proposals.TRAFFIC):
        decide(labeled, f"an invoice for parcel {i}", [0, 1], 0.99)
    proposals.look(labeled)
    found = {one.kind: one.agents for one in AgentProposal.objects.all()}
    assert found == {Kind.UNUSED: [2], Kind.TOGETHER: [0, 1]}


def test_agents_merge_and_descriptions_change(traffic: Pool, ops: User) -> None:
    proposals.look(traffic)
    one = AgentProposal.objects.get(kind=Kind.OVERLAP)
    with pytest.raises(proposals.ProposalError, match="which of the two"):
        proposals.merge(one, 2, actor=ops)
    proposals.merge(one, 0, actor=ops)
    assert Agent.objects.get(pool=traffic, number=1).merged_into.number == 0
    other = AgentProposal.objects.create(pool=traffic, kind=Kind.OVERLAP, agents=[0, 2])
    proposals.rewrite(other, {0: " invoices ", 2: "crashes"}, actor=ops)
    assert [agent.description for agent in traffic.agents.active().order_by("number")] == ["invoices", "crashes"]


def test_missing_queries_may_belong_to_an_agent_that_is_there(traffic: Pool, browser: Client) -> None:
    proposals.look(traffic)
    missing = AgentProposal.objects.get(kind=Kind.MISSING)
    address = reverse("proposals", args=["support"])
    refused = browser.post(address, {"do": "belong", "proposal": missing.pk, "into": ""}, follow=True).text
    assert "Choose the active agent" in refused
    before = traffic.agents.count()
    browser.post(address, {"do": "belong", "proposal": missing.pk, "into": "0"})
    missing.refresh_from_db()
    assert (missing.state, traffic.agents.count()) == (State.ACCEPTED, before)
    assert QueueItem.objects.filter(query__text__contains="visa").count() == missing.size


def test_what_looks_is_work_that_is_registered() -> None:
    assert {proposals.LOOK, proposals.SCHEDULED_LOOK} <= work.every().keys()


def test_the_page(traffic: Pool, browser: Client) -> None:
    address = reverse("proposals", args=["support"])
    assert "No worker has looked at the traffic of this pool yet" in browser.get(address).text
    browser.post(address, {"do": "look"})
    job = BackgroundJob.objects.get(work="proposals")
    assert job.arguments == {"pool": traffic.pk}
    BackgroundJob.objects.filter(pk=job.pk).update(status="done", finished_at=timezone.now())
    looked = browser.get(address).text
    assert "no group of queries was found" in looked
    assert "Look again" in looked
    call_command("propose_agents", "--pool", "support")
    page = browser.get(address).text
    assert "Missing: " in page
    assert "my visa number" in page
    overlap = AgentProposal.objects.get(kind=Kind.OVERLAP)
    tried = browser.post(
        address, {"do": "try", "proposal": overlap.pk, "description-0": "invoice <b>", "description-1": "parcel"}
    )
    assert tried.status_code == 200
    assert "labeled quer" in tried.text
    assert "invoice &lt;b&gt;" in tried.text
    assert Agent.objects.get(pool=traffic, number=0).description == ""
    missing = AgentProposal.objects.get(kind=Kind.MISSING)
    refused = browser.post(address, {"do": "accept", "proposal": missing.pk, "name": ""}, follow=True)
    assert AgentProposal.objects.get(pk=missing.pk).state == State.OPEN, refused.text
    wish = {"do": "accept", "proposal": missing.pk, "name": "Visas", "description": "visas"}
    assert "Until then its description says which queries it gets." in browser.post(address, wish, follow=True).text
    assert Agent.objects.filter(pool=traffic, name="Visas").exists()
    browser.post(address, {"do": "decline", "proposal": overlap.pk})
    assert AgentProposal.objects.get(pk=overlap.pk).state == State.DECLINED


@pytest.mark.parametrize("cold", [True, False])
def test_beside_a_model_a_new_agent_waits_unless_descriptions_route(
    traffic: Pool, browser: Client, monkeypatch: pytest.MonkeyPatch, cold: bool
) -> None:
    call_command("propose_agents", "--pool", "support")
    missing = AgentProposal.objects.get(kind=Kind.MISSING)
    monkeypatch.setattr(proposal_views.registry, "active", lambda _pool: object())
    trials.change_settings(traffic, [("cold", cold)], actor=None)
    wish = {"do": "accept", "proposal": missing.pk, "name": "Visas", "description": "visas"}
    said = browser.post(reverse("proposals", args=["support"]), wish).wsgi_request._messages._queued_messages
    assert ("no query is routed to it" in str(said[0])) is not cold


def test_replies_to_questions_of_the_router_tell_of_no_missing_agent(labeled: Pool) -> None:
    for i in range(12):
        said = [{"role": "user", "content": f"my visa number {i} runs out"}]
        said += [{"role": "assistant", "content": asking.BEGINS + "Billing or Shipping?"}]
        decision = decide(labeled, "neither", [1], 0.1)
        Decision.objects.filter(pk=decision.pk).update(messages=said)
    proposals.look(labeled)
    assert not AgentProposal.objects.filter(kind=Kind.MISSING).exists()


def test_replies_are_shown_named_and_told_with_what_was_said_before(labeled: Pool, browser: Client) -> None:
    rng = random.Random(1)
    for i in range(12):
        said = [{"role": "user", "content": f"my visa number {i} runs out {rng.random()}"}]
        said += [{"role": "assistant", "content": "Shall we renew it?"}]
        decision = decide(labeled, "yes", [1], 0.1)
        Decision.objects.filter(pk=decision.pk).update(messages=said)
    proposals.look(labeled)
    missing = AgentProposal.objects.get(kind=Kind.MISSING)
    assert missing.name == "Number out runs"
    assert "visa" in proposals.words(missing)
    assert "renew" not in proposals.words(missing)  # the assistant said it
    shown = browser.get(reverse("proposals", args=["support"])).text
    assert "runs out" in shown


def test_an_agent_without_a_description_attracts_nothing_by_it(
    labeled: Pool, browser: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proposals, "_attracting", attracting)
    monkeypatch.setattr(proposals, "DRAWN", 1)
    monkeypatch.setattr(proposals, "DRAWN_IN_VAIN", 0.0)
    proposals.look(labeled)
    assert not AgentProposal.objects.filter(kind=Kind.ATTRACTS).exists()
    labeled.agents.update(description="an invoice, a parcel or a crash")
    proposals.look(labeled)
    assert AgentProposal.objects.filter(kind=Kind.ATTRACTS).exists()
    shown = browser.get(reverse("proposals", args=["support"])).text
    assert "of all that it draws" in shown
    assert "of the smaller agent" not in shown
