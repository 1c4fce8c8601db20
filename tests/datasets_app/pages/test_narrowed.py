"""The label page of what somebody wants to be asked about: in its address, for the session, with a way back where nothing waits."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from datasets_app.labeling import queue
from datasets_app.labels import suggestions
from datasets_app.models import Assignment
from tests.clients import signed_in
from tests.datasets_app.addresses import url

JSON = {"HTTP_ACCEPT": "application/json"}


@pytest.fixture
def client(ana):
    return signed_in(ana)


@pytest.fixture
def account(pool, plain, queries):
    """The model suggests Account for the third query alone."""
    queue.fill(pool)
    suggestions.push(pool, "m", [suggestions.Scored(queries[2].pk, [1], {1: 0.9})])
    return queries[2]


def test_a_choice_stands_in_the_address_and_is_kept_for_the_session(client, pool, account):
    client.get(url("label", pool))
    answer = client.post(url("label_narrow", pool), {"agent": "1", "kind": "suggested"})
    assert answer.url == url("label", pool) + "?agent=1&kind=suggested"
    assert not Assignment.objects.exists(), "what was held beside it is free"
    for address in (answer.url, url("label", pool)):
        html = client.get(address).content.decode()
        assert f'data-query="{account.pk}"' in html
        assert '<b id="lb-narrowed">1</b>' in html
        assert 'data-narrow="?agent=1&amp;kind=suggested"' in html
    assert Assignment.objects.get().item.query == account
    client.post(url("label_narrow", pool))
    assert 'data-narrow="' not in client.get(url("label", pool)).content.decode()


def test_the_script_is_given_what_the_address_asks_for(client, pool, account):
    reply = client.post(url("label_next", pool) + "?agent=1", **JSON).json()
    assert (reply["query"], reply["narrowed"]) == (account.pk, 1)
    reply = client.post(url("label_next", pool) + "?agent=1", {"beside": account.pk}, **JSON).json()
    assert reply["query"] is None
    assert "No query of this kind waits for you." in reply["html"]
    assert "Show all queries" in reply["html"]


def test_an_empty_choice_says_so_and_leads_back(client, pool, account):
    html = client.get(url("label", pool) + "?kind=disputed").content.decode()
    assert "No query of this kind waits for you." in html
    assert "6 other queries wait." in html
    assert f'action="{url("label_narrow", pool)}"' in html
    assert not Assignment.objects.exists()


def test_it_costs_the_same_however_long_the_queue(client, pool, account, add_query):
    def cost():
        queue.release(pool, Assignment.objects.get().person) if Assignment.objects.exists() else None
        with CaptureQueriesContext(connection) as made:
            assert client.post(url("label_next", pool) + "?kind=single", **JSON).json()["query"]
        return len(made)

    cost()
    few = cost()
    for n in range(40):
        add_query(f"one more {n}")
    queue.fill(pool)
    assert cost() == few < 60
