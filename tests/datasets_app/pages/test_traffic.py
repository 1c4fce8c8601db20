"""The page Traffic: what came in as traces, the agents that it names, and a sample of it in the labeling queue."""

import re

import pytest
from django.test import Client
from django.utils import timezone

from agents_app import pools
from agents_app.models import Agent, Pool
from datasets_app.labeling import queue
from datasets_app.labels import labels
from datasets_app.models import Import, Query, QueueItem, TracedTurn
from datasets_app.traces import names, storing, traffic
from datasets_app.traces.spans import AGENT
from datasets_app.traces.turns import Turn
from tests.clients import signed_in

pytestmark = pytest.mark.django_db


@pytest.fixture
def came_in(pool: Pool) -> Pool:
    """120 turns: Billing answers 60 of them, an agent that the pool lacks 60; 10 of these went badly."""
    found = []
    for number in range(120):
        who = "Billing" if number % 2 else "refunds_agent"
        turn = Turn(
            f"trace-{number}",
            1_772_359_200.0 + number,
            [["user", f"question {number} about {who}"]],
            source="Langfuse · shop",
        )
        turn.names, turn.success = [[AGENT, who]], False if number < 20 and not number % 2 else None
        found.append(turn)
    assert storing.store(pool, found).turns == 120
    return pool


@pytest.fixture
def ops(person) -> Client:
    return signed_in(person("olga", "ops"))


def test_it_shows_what_came_in(came_in, ops) -> None:
    seen = traffic.read(came_in)
    assert {(one.agent.name if one.agent else None): (one.turns, one.rated, one.good) for one in seen.answering} == {
        "Billing": (60, 0, 0), None: (60, 10, 0)
    }  # fmt: skip
    assert (seen.missing, seen.sources, seen.unasked) == ([("refunds_agent", 60)], [("Langfuse", 120)], 120)
    assert sum(seen.hours["datasets"][0]["data"]) == sum(count for _label, count in seen.lengths) == 120
    shown = ops.get("/p/support/traffic/").content.decode()
    assert "refunds_agent" in shown
    assert "120 user turns came in." in shown
    assert "conversation" not in shown.partition("120 user turns came in.")[2].partition("</p>")[0]
    TracedTurn.objects.filter(success=False).update(conversation="one talk")
    assert "Their traces name 1 conversation." in ops.get("/p/support/traffic/").content.decode()


def test_it_says_in_which_languages_the_newest_turns_are(came_in, ops, monkeypatch) -> None:
    newest = list(TracedTurn.objects.order_by("-pk").values_list("query", flat=True)[:4])
    for key, text in zip(
        newest, ["Wo ist meine Rechnung?", "Где мой заказ?", "Ich brauche eine Rechnung", "ok"], strict=True
    ):
        Query.objects.filter(pk=key).update(text=text)
    monkeypatch.setattr(traffic, "READ", 4)
    assert traffic.read(came_in).languages == [("German", 2), ("Russian", 1), ("too short to tell, or another", 1)]
    assert "Russian" in ops.get("/p/support/traffic/").content.decode()


def test_hours_count_only_turns_whose_time_is_known(came_in, ops) -> None:
    dataset = came_in.datasets.get(name=storing.DATASET)
    upload = Import.objects.create(dataset=dataset, file_name="chats.jsonl", format="jsonl")
    TracedTurn.objects.filter(success=False).update(upload=upload, at=timezone.now())
    seen = traffic.read(came_in)
    assert (sum(seen.hours["datasets"][0]["data"]), seen.undated) == (110, 10)
    assert "10 turns are from files that say no time." in ops.get("/p/support/traffic/").content.decode()


def test_one_click_adds_the_agents_that_the_pool_lacks(came_in, ops) -> None:
    names_sent = {"name-0": "refunds_agent", "means-0": "new", "name-1": "nobody knows it", "means-1": "new"}
    ops.post("/p/support/traffic/agents/", names_sent)
    added = came_in.agents.get(name="refunds_agent")
    assert came_in.agents.count() == 5
    assert TracedTurn.objects.filter(agents=[added.number]).count() == 60
    assert traffic.read(came_in).missing == []


def _asked(pool: Pool, *who: str) -> None:
    turns_asked = [Turn(f"asked-{n}", 1_772_359_200.0, [["user", f"asked {n}"]]) for n in range(len(who))]
    for turn, name in zip(turns_asked, who, strict=True):
        turn.names = [[AGENT, name]]
    storing.store(pool, turns_asked)


def test_a_name_is_said_to_be_an_agent_another_name_or_none(came_in, ops) -> None:
    _asked(came_in, "doc_desk", "Documents", "documents_v3", "fallback", "later")
    billing = came_in.agents.get(name="Billing")
    sent = [
        "refunds_agent",
        f"agent-{billing.number}",
        "Documents",
        "new",
        "doc_desk",
        "name-Documents",
        "fallback",
        "none",
    ]
    sent += ["later", ""]
    form = {f"{'means' if place % 2 else 'name'}-{place // 2}": value for place, value in enumerate(sent)}
    ops.post("/p/support/traffic/agents/", form)
    documents = came_in.agents.get(name="Documents")
    assert came_in.agents.count() == 5
    assert TracedTurn.objects.filter(agents=[documents.number]).count() == 3
    assert TracedTurn.objects.filter(agents=[billing.number]).count() == 120
    assert [name for name, _turns in traffic.read(came_in).missing] == ["later"]
    # What comes later is read likewise, in other spellings and versions too.
    storing.store(came_in, [turn := Turn("new", 1_772_359_200.0, [["user", "new"]])])
    turn.names = [[AGENT, "DocDesk-v2"]]
    assert names.Roster(came_in).of(turn.names) == [documents.number]
    shown = ops.get("/p/support/traffic/").content.decode()
    assert "3 names that were explained" in shown
    ops.post("/p/support/traffic/agents/", {"forget": "refunds_agent"})
    assert dict(traffic.read(came_in).missing) == {"refunds_agent": 60, "later": 1}
    assert TracedTurn.objects.filter(agents=[billing.number]).count() == 60


def test_names_that_mean_an_agent_that_is_not_there_change_nothing(came_in, ops) -> None:
    sent = {"name-0": "refunds_agent", "means-0": "new", "name-1": "other", "means-1": "agent-99"}
    sent |= {"name-2": "surgery", "means-2": "none"}
    _asked(came_in, "other", "surgery")
    answer = ops.post("/p/support/traffic/agents/", sent)
    assert answer.status_code == 422
    shown = answer.content.decode()
    assert "Choose what “other” is" in shown
    assert came_in.agents.count() == 4
    assert '<option value="none" selected>' in shown  # what was chosen for others is still chosen


def test_a_name_may_be_the_same_as_one_that_is_the_same_as_a_third(came_in) -> None:
    _asked(came_in, "first", "second", "third")
    choices = {"first": "name-second", "second": "name-third", "third": "none", "refunds_agent": "name-refunds_agent"}
    with pytest.raises(pools.PoolError, match="refunds_agent"):
        traffic.explain_names(came_in, choices, None)
    assert traffic.explain_names(came_in, {**choices, "third": "new", "refunds_agent": ""}, None)[0].name == "third"
    third = came_in.agents.get(name="third")
    assert TracedTurn.objects.filter(agents=[third.number]).count() == 3


def test_names_that_begin_alike_are_guessed_to_be_one(came_in, ops) -> None:
    _asked(came_in, "bill_bot", "refund-desk", "Refunds Desk", "Refunds Desk", "surgery")
    shown = ops.get("/p/support/traffic/").content.decode()
    chosen = re.findall(r'<option value="([^"]*)" selected>', shown)
    # refunds_agent, Refunds Desk (begins like it), bill_bot (like Billing), refund-desk and surgery (like none)
    assert chosen == ["new", "name-refunds_agent", f"agent-{came_in.agents.get(name='Billing').number}", "new", "new"]


def test_a_whole_name_goes_before_one_without_its_version(came_in) -> None:
    second = pools.add_agent(came_in, "Billing v2")
    first = came_in.agents.get(name="Billing")
    roster = names.Roster(came_in)
    assert roster.agents("billing_v2") == [second.number]
    assert roster.agents("billing") == [first.number]
    assert roster.agents("billing-agent-v7") == []  # either could be meant
    pools.retire(second, actor=None)
    assert names.Roster(came_in).agents("billing-agent-v7") == [first.number]


def test_each_missing_agent_is_counted_once_a_turn_however_traces_write_it(came_in) -> None:
    spellings = [["refunds_agent", "Refunds Agent"], ["Refunds Agent"], ["refunds"], ["surgery_bot"]]
    asked = [Turn(f"more-{n}", 1_772_359_200.0, [["user", f"more {n}"]]) for n in range(len(spellings))]
    for turn, who in zip(asked, spellings, strict=True):
        turn.names = [[AGENT, name] for name in who]
    storing.store(came_in, asked)
    assert traffic.read(came_in).missing == [("Refunds Agent", 63), ("surgery_bot", 1)]


def test_an_agent_that_is_added_elsewhere_is_read_again_by_a_worker(came_in) -> None:
    from agents_app.models import BackgroundJob

    pools.add_agent(came_in, "Refunds")
    assert BackgroundJob.objects.filter(work=names.WORK).count() == 1
    assert names.read_again(came_in) == 60


def test_what_a_merged_agent_answered_counts_for_the_one_that_took_it_over(came_in) -> None:
    billing, refunds = came_in.agents.get(name="Billing"), pools.add_agent(came_in, "Refunds")
    pools.merge(refunds, billing, None)
    assert names.read_again(came_in) == 60
    seen = traffic.read(came_in)
    assert [(one.agent, one.turns) for one in seen.answering] == [(billing, 120)]
    assert seen.missing == []
    pools.restore(refunds, actor=None)
    names.read_again(came_in)
    assert [one.turns for one in traffic.read(came_in).answering] == [60, 60]


def test_a_retired_agent_is_not_missing(came_in) -> None:
    refunds = pools.add_agent(came_in, "Refunds")
    names.read_again(came_in)
    pools.retire(refunds, actor=None)
    for _again in range(2):
        seen = traffic.read(came_in)
        assert seen.missing == []
        assert [(one.agent.name if one.agent else None, one.turns) for one in seen.answering] == [
            ("Billing", 60),
            (None, 60),
        ]
        names.read_again(came_in)


def test_a_merge_reads_the_names_again(came_in) -> None:
    from agents_app.models import BackgroundJob

    first, second, *_ = came_in.agents.order_by("number")
    pools.merge(second, first, None)
    assert BackgroundJob.objects.filter(work=names.WORK).count() == 1


def test_one_click_queues_the_most_valuable_sample(came_in, ops) -> None:
    assert queue.fill(came_in, everything=True) == 0
    ops.post("/p/support/traffic/label/", {"count": 40})
    assert QueueItem.objects.filter(queue.OPEN).count() == 40
    failed = TracedTurn.objects.filter(success=False).values("query")
    # Half of the sample is random; the other half begins with what went badly.
    assert QueueItem.objects.filter(query__in=failed).count() == 10
    ops.post("/p/support/traffic/label/", {"count": 500})
    assert QueueItem.objects.filter(queue.OPEN).count() == 120
    assert traffic.read(came_in).unasked == 0


def test_a_pool_without_agents_is_asked_for_these_first(came_in, ops) -> None:
    assert "Queue them" in ops.get("/p/support/traffic/").content.decode()
    came_in.agents.update(state=Agent.State.RETIRED)
    shown = ops.get("/p/support/traffic/").content.decode()
    assert "Queue them" not in shown
    assert re.search("rw-button-primary[^>]*>Save", shown)


def test_the_labeling_page_leads_on(came_in, ops, person) -> None:
    """From an empty queue to the traffic, and from enough labels to a training."""
    shown = ops.get("/p/support/label/").content.decode()
    assert "Nothing is queued." in shown
    assert 'href="/p/support/traffic/"' in shown
    lea = signed_in(person("lea"))
    shown = lea.get("/p/support/label/").content.decode()
    assert "once reviewers or ops choose" in shown
    assert "/traffic/" not in shown
    for query in Query.objects.of(came_in)[:12]:
        labels.record(labels.NewLabel(query.pk, source="import", required=[0], asked=[0, 1, 2, 3]))
    assert "Train a router on these labels" in ops.get("/p/support/label/").content.decode()
    assert "Train a router" not in lea.get("/p/support/label/").content.decode()


def test_a_labeler_sees_no_traffic(came_in, person) -> None:
    client = signed_in(person("lea"))
    assert client.get("/p/support/traffic/").status_code == 403
    assert client.post("/p/support/traffic/label/", {"count": 5}).status_code == 403
