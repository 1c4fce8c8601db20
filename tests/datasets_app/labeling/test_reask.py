"""A changed pool: a new agent is not asked about, not negative, and a queue of its own asks that one question."""

import re

import pytest

from agents_app import pools
from datasets_app.figures import progress
from datasets_app.labeling import queue, reask
from datasets_app.labels import labels
from datasets_app.models import Draft, Gold, Label, QueueItem
from tests.clients import signed_in
from tests.datasets_app.addresses import url


@pytest.fixture
def client(ana):
    return signed_in(ana)


@pytest.fixture
def returns(pool, plain, queries, ana, person):
    """Three queries are labeled, one by Ana and two by an import; then the agent 4 Returns is added."""
    labels.record(labels.NewLabel(queries[0].pk, source="human", author=ana, required=[1], asked=range(4)))
    for query in queries[1:3]:
        labels.record(labels.NewLabel(query.pk, source="import", required=[0], asked=range(4)))
    return pools.add_agent(pool, "Returns", actor=ana)


def answer(client, pool, agent, query, yes, **more):
    fields = {"asked": str(agent.number), "base": "0", **({"agent": agent.number} if yes else {"none": "1"})} | more
    return client.post(url("reask_submit", pool, agent.number, query.pk), fields, HTTP_ACCEPT="application/json")


def test_a_new_agent_is_not_asked_and_opens_its_queue(pool, queries, returns):
    assert Gold.objects.get(query=queries[0]).asked == [0, 1, 2, 3]
    assert progress.questions(pool) == [(returns, 3)]
    assert queue.still_open(pool) == 0, "nothing was put into the queue of whole sets"
    assert reask.fill(returns) == 0, "nobody is asked twice"


def test_the_page_tells_of_it_and_asks_one_question(client, pool, queries, returns):
    assert "Returns, 3 quick questions" in client.get(url("label", pool)).content.decode()
    html = client.get(url("reask", pool, 4)).content.decode()
    assert "Does this query need Returns?" in html
    assert html.count('name="agent"') == 1


def test_an_answer_adds_to_what_was_said(client, pool, queries, returns, ana):
    base = str(Label.objects.get(author=ana).pk)
    assert answer(client, pool, returns, queries[0], True, base=base).status_code == 200
    gold = Gold.objects.get(query=queries[0])
    assert (gold.required, gold.asked) == ([1, 4], [0, 1, 2, 3, 4])
    assert answer(client, pool, returns, queries[1], False).status_code == 200
    gold = Gold.objects.get(query=queries[1])
    assert (gold.required, gold.asked) == ([0], [0, 1, 2, 3, 4])
    assert progress.questions(pool) == [(returns, 1)]
    assert Label.objects.get(query=queries[1], source="human").asked == [4]


def test_undo_takes_the_answer_back_and_asks_again(client, pool, queries, returns, ana):
    base = str(Label.objects.get(author=ana).pk)
    answer(client, pool, returns, queries[0], True, base=base)
    undone = client.post(url("reask_undo", pool, 4), HTTP_ACCEPT="application/json").json()
    assert undone["query"] == queries[0].pk
    assert Gold.objects.get(query=queries[0]).asked == [0, 1, 2, 3]
    assert queue.take(pool, ana, agent=returns)[0].item.query == queries[0]


def test_a_question_about_one_agent_takes_no_other(client, pool, queries, returns):
    refused = answer(client, pool, returns, queries[1], True, asked="0,4")
    assert refused.status_code == 400
    assert client.get(url("reask", pool, 9)).status_code == 404
    assert answer(client, pool, pool.agents.get(number=0), queries[1], True).status_code == 404


def test_closing_and_retiring_ask_no_more(pool, queries, returns, ana):
    assert reask.close(returns) == 3
    assert progress.questions(pool) == []
    reask.fill(returns)
    QueueItem.objects.filter(agent=returns).update(needed=1, wanted=True)
    pools.retire(returns, actor=ana)
    assert progress.questions(pool) == []


def test_only_what_was_never_asked_is_asked(pool, queries, returns):
    labels.record(labels.NewLabel(queries[3].pk, source="import", required=[4], asked=range(5)))
    QueueItem.objects.filter(agent=returns).delete()
    assert reask.fill(returns) == 3
    assert not QueueItem.objects.filter(agent=returns, query=queries[3]).exists()


def test_an_agent_of_a_pool_without_gold_asks_nothing(pool, plain, queries, ana):
    pools.add_agent(pool, "Returns", actor=ana)
    assert not QueueItem.objects.filter(agent__isnull=False).exists()


def test_suggestions_stand_beside_the_question_where_the_source_knows_the_agent(client, pool, queries, returns, ana):
    labels.record(labels.NewLabel(queries[1].pk, source="llm", required=[0], asked=range(4), scores={0: 0.9}))
    html = client.get(url("reask_item", pool, 4, queries[1].pk)).content.decode()
    assert "lb-suggested" not in html, "an LLM that had not heard of the agent says nothing of it"
    labels.record(
        labels.NewLabel(queries[1].pk, source="llm", required=[0, 4], asked=range(5), scores={0: 0.9, 4: 0.8})
    )
    html = client.get(url("reask_item", pool, 4, queries[1].pk)).content.decode()
    assert "0.80" in html
    assert "0.90" not in html
    assert answer(client, pool, returns, queries[1], False).status_code == 200
    made = Label.objects.get(author=ana, query=queries[1]).provenance
    assert (made["agent"], made["kept"], made["removed"], made["blind"]) == (4, [], [4], False)


def test_a_blind_question_suggests_nothing(client, pool, plain, queries, returns, ana):
    plain.blind_share = 1.0
    plain.save()
    labels.record(labels.NewLabel(queries[1].pk, source="llm", required=[4], asked=range(5), scores={4: 0.8}))
    assert "lb-suggested" not in client.get(url("reask_item", pool, 4, queries[1].pk)).content.decode()
    answer(client, pool, returns, queries[1], True)
    assert Label.objects.get(author=ana, query=queries[1]).provenance["blind"] is True
    base = str(Label.objects.get(author=ana, query=queries[0]).pk)
    answer(client, pool, returns, queries[0], True, base=base)
    whole, question = Label.objects.current().filter(author=ana, query=queries[0]).order_by("pk")
    assert question.provenance["blind"] is True
    assert not whole.provenance.get("blind"), "what she had said before was not made blind"


def test_blind_lots_are_those_of_the_whole_query(pool, queries, returns):
    for item in QueueItem.objects.filter(agent=returns):
        assert item.blind_lot == queue.lots(0, item.query.text_hash)[2]
    assert QueueItem.objects.filter(agent=returns, blind_lot__gt=0).exists()


def test_an_answer_that_was_taken_back_is_a_draft_of_that_question_alone(client, pool, queries, returns, ana):
    base = str(Label.objects.get(author=ana).pk)
    answer(client, pool, returns, queries[0], True, base=base, unsure="1")
    assert client.post(url("reask_undo", pool, 4), HTTP_ACCEPT="application/json").json()["what"] == "submit"
    draft = Draft.objects.get()
    assert (draft.agent, draft.required, draft.unsure) == (returns, [4], True)
    html = client.get(url("reask_item", pool, 4, queries[0].pk)).content.decode()
    assert re.search(r'name="agent" value="4" checked', html)
    whole = client.get(url("label_item", pool, queries[0].pk)).content.decode()
    assert not re.search(r'name="agent" value="4" checked', whole)
    answer(client, pool, returns, queries[0], True, base=base)
    assert not Draft.objects.exists()


def test_a_draft_of_a_question_is_kept_beside_one_of_the_whole(client, pool, queries, returns, ana):
    fields = {"asked": "4", "base": "0", "unsure": "1", "version": "0", "writer": "tab", "step": "1"}
    json = {"HTTP_ACCEPT": "application/json"}
    assert client.post(url("reask_draft", pool, 4, queries[1].pk), fields, **json).status_code == 200
    fields |= {"asked": "0,1,2,3,4", "agent": "1", "unsure": ""}
    assert client.post(url("label_draft", pool, queries[1].pk), fields, **json).status_code == 200
    assert [(one.agent_id, one.required, one.unsure) for one in Draft.objects.order_by("pk")] == [
        (returns.pk, [], True),
        (None, [1], False),
    ]
    assert answer(client, pool, returns, queries[1], True).status_code == 200
    assert Draft.objects.get().agent_id is None
