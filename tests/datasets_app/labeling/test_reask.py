"""A changed pool: a new agent is not asked about, not negative, and a queue of its own asks that one question."""

import pytest
from django.test import Client
from django.urls import reverse

from agents_app import pools
from datasets_app import labels, queue, reask
from datasets_app.models import Gold, Label, QueueItem


def url(name, pool, *args):
    return reverse(name, args=[pool.slug, *args])


@pytest.fixture
def ana(person):
    return person("ana")


@pytest.fixture
def client(ana):
    client = Client()
    client.force_login(ana)
    return client


@pytest.fixture
def returns(pool, plain, queries, ana, person):
    """Three queries are labeled, one by Ana and two by an import; then the agent 4 Returns is added."""
    labels.record(queries[0], source="human", author=ana, required=[1], asked=range(4))
    for query in queries[1:3]:
        labels.record(query, source="import", required=[0], asked=range(4))
    return pools.add_agent(pool, "Returns", actor=ana)


def answer(client, pool, agent, query, yes, **more):
    fields = {"asked": str(agent.number), "base": "0", **({"agent": agent.number} if yes else {"none": "1"})} | more
    return client.post(url("reask_submit", pool, agent.number, query.pk), fields, HTTP_ACCEPT="application/json")


def test_a_new_agent_is_not_asked_and_opens_its_queue(pool, queries, returns):
    assert Gold.objects.get(query=queries[0]).asked == [0, 1, 2, 3]
    assert reask.open_questions(pool) == [(returns, 3)]
    assert queue.left(pool) == 0, "nothing was put into the queue of whole sets"
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
    assert reask.open_questions(pool) == [(returns, 1)]
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
    assert reask.open_questions(pool) == []
    reask.fill(returns)
    QueueItem.objects.filter(agent=returns).update(needed=1, wanted=True)
    pools.retire(returns, actor=ana)
    assert reask.open_questions(pool) == []


def test_only_what_was_never_asked_is_asked(pool, queries, returns):
    labels.record(queries[3], source="import", required=[4], asked=range(5))
    QueueItem.objects.filter(agent=returns).delete()
    assert reask.fill(returns) == 3
    assert not QueueItem.objects.filter(agent=returns, query=queries[3]).exists()


def test_an_agent_of_a_pool_without_gold_asks_nothing(pool, plain, queries, ana):
    pools.add_agent(pool, "Returns", actor=ana)
    assert not QueueItem.objects.filter(agent__isnull=False).exists()
