"""Proposals by HTTP: listed, looked for, accepted, declined, merged; what is refused; and the client's calls."""

import json
import sys
from pathlib import Path

import httpx
import pytest

from agents_app.models import Agent, AuditEntry, BackgroundJob, Pool
from datasets_app.models import Query, QueueItem
from tests.training_app.served import Application, application
from training_app.api.schema import document
from training_app.models import AgentProposal, Decision

sys.path.insert(0, str(Path(__file__).parents[3] / "client" / "src"))

from routerweb_client import Client, Refused

Kind, State = AgentProposal.Kind, AgentProposal.State


@pytest.fixture
def app(labeled: Pool) -> Application:
    return application(labeled, scopes=("ops",))


@pytest.fixture
def missing(labeled: Pool) -> AgentProposal:
    fields = {"agents": [1], "scores": {"1": 0.2}, "steps": 1, "stop_reason": "stop", "microseconds": 1}
    texts = [f"my visa number {n} runs out" for n in range(8)]
    keys = [str(Decision.objects.create(pool=labeled, text=text, confidence=0.1, **fields).pk) for text in texts]
    figures = {"count": 8, "share": 0.5, "went": {"1": 8}}
    return AgentProposal.objects.create(
        pool=labeled, kind=Kind.MISSING, name="Visas", decisions=keys, size=8, figures=figures
    )


@pytest.fixture
def overlap(labeled: Pool) -> AgentProposal:
    return AgentProposal.objects.create(pool=labeled, kind=Kind.OVERLAP, agents=[0, 1], figures={"share": 0.3})


def test_open_proposals_are_listed_unless_a_state_is_asked_for(
    app: Application, missing: AgentProposal, overlap: AgentProposal
) -> None:
    answer = app.get("/api/proposals/?pool=support").json()
    second, first = answer["proposals"]  # the newest first
    assert set(first) == set(json.loads(document())["components"]["schemas"]["Proposal"]["required"])
    assert (first["id"], first["kind"], first["queries"], first["share"]) == (missing.pk, "missing", 8, 0.5)
    assert first["went"] == {"1": 8}
    assert "visa" in first["words"]
    assert len(first["examples"]) == 6
    assert (second["agents"], second["words"], second["examples"]) == ([0, 1], [], [])
    app.post(f"/api/proposals/{overlap.pk}/decline/", {})
    assert len(app.get("/api/proposals/").json()["proposals"]) == 1
    (closed,) = app.get("/api/proposals/?state=declined").json()["proposals"]
    assert (closed["id"], closed["state"]) == (overlap.pk, "declined")
    assert app.get("/api/proposals/?state=lost").json()["error"]["field"] == "state"


def test_a_worker_looks(app: Application, labeled: Pool) -> None:
    answer = app.post("/api/proposals/", {"pool": "support"})
    job = BackgroundJob.objects.get(work="proposals")
    assert (answer.status_code, answer.json()) == (202, {"pool": "support", "job": job.pk})
    assert job.arguments == {"pool": labeled.pk}


def test_an_accepted_agent_has_the_proposals_name_and_its_queries_wait(
    app: Application, labeled: Pool, missing: AgentProposal
) -> None:
    answer = app.post(f"/api/proposals/{missing.pk}/accept/", {"description": "passports and visas"})
    assert (answer.status_code, answer.json()["state"]) == (200, "accepted")
    agent = Agent.objects.get(pool=labeled, name="Visas")
    assert agent.description == "passports and visas"
    queries = Query.objects.filter(dataset__pool=labeled, text__contains="visa")
    assert QueueItem.objects.filter(query__in=queries).count() == 8
    assert AuditEntry.objects.get(action="proposal.accepted").actor_name == "key test"
    again = app.post(f"/api/proposals/{missing.pk}/accept/", {"name": "More visas"})
    assert (again.status_code, again.json()["error"]["code"]) == (409, "cannot_decide")


def test_missing_queries_may_belong_to_an_agent_that_is_there(
    app: Application, labeled: Pool, missing: AgentProposal
) -> None:
    before = labeled.agents.count()
    assert app.post(f"/api/proposals/{missing.pk}/accept/", {"into": 99}).status_code == 409
    assert app.post(f"/api/proposals/{missing.pk}/accept/", {"into": "1"}).status_code == 400
    assert app.post(f"/api/proposals/{missing.pk}/accept/", {"into": 1}).json()["state"] == "accepted"
    assert labeled.agents.count() == before
    assert QueueItem.objects.filter(query__text__contains="visa").count() == 8


def test_what_cannot_be_done_is_refused(app: Application, missing: AgentProposal, overlap: AgentProposal) -> None:
    taken = app.post(f"/api/proposals/{missing.pk}/accept/", {"name": "Billing"})
    assert (taken.status_code, taken.json()["error"]["field"]) == (400, "name")
    assert app.post(f"/api/proposals/{overlap.pk}/accept/", {"name": "New"}).status_code == 409
    assert app.post(f"/api/proposals/{missing.pk}/merge/", {"into": 0}).status_code == 409
    wrong = app.post(f"/api/proposals/{overlap.pk}/merge/", {"into": 2})
    assert (wrong.status_code, wrong.json()["error"]["field"]) == (400, "into")
    assert app.post(f"/api/proposals/{overlap.pk + 1}/decline/", {}).status_code == 404
    assert set(AgentProposal.objects.values_list("state", flat=True)) == {State.OPEN}


def test_two_agents_become_one(app: Application, labeled: Pool, overlap: AgentProposal) -> None:
    answer = app.post(f"/api/proposals/{overlap.pk}/merge/", {"into": 0})
    assert (answer.status_code, answer.json()["state"]) == (200, "accepted")
    merged = Agent.objects.get(pool=labeled, number=1).merged_into
    assert merged is not None
    assert merged.number == 0


def test_the_client_lists_and_decides(app: Application, missing: AgentProposal, overlap: AgentProposal) -> None:
    def served(request: httpx.Request) -> httpx.Response:
        address = request.url.raw_path.decode()
        body = json.loads(request.content) if request.content else {}
        answer = app.get(address) if request.method == "GET" else app.post(address, body)
        return httpx.Response(answer.status_code, content=answer.content)

    client = Client("http://x", "k", pool="support", transport=httpx.MockTransport(served))
    assert [(one.id, one.kind, one.agents) for one in client.proposals()] == [
        (overlap.pk, "overlap", (0, 1)),
        (missing.pk, "missing", ()),
    ]
    assert client.decide_proposal(missing.pk, "accept", name="Visa office").state == "accepted"
    assert Agent.objects.filter(name="Visa office").exists()
    assert client.decide_proposal(overlap.pk, "merge", into=1).state == "accepted"
    with pytest.raises(Refused, match="meanwhile"):
        client.decide_proposal(overlap.pk, "decline")
