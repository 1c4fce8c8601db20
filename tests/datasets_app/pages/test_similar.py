"""The similar queries of the label page: shown without a write, held while one chooses, sent with the answer, by script and form."""

import pytest
from django.contrib.messages import get_messages
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from datasets_app.labeling import alike, one_query, queue
from datasets_app.models import Assignment, Label
from tests.clients import signed_in

JSON = {"HTTP_ACCEPT": "application/json"}


@pytest.fixture
def client(ana):
    alike._compared.cache_clear()
    return signed_in(ana)


@pytest.fixture
def item(pool, plain, queries, ana):
    lease = queue.take(pool, ana)[0]
    one_query.reveal(lease)
    return lease.item.query


def address(pool, query, name="label_similar"):
    return reverse(name, args=[pool.slug, query.pk])


def test_a_get_shows_them_in_full_and_writes_nothing(client, pool, queries, item):
    with CaptureQueriesContext(connection) as made:
        reply = client.get(address(pool, item), **JSON).json()
    assert not [one["sql"] for one in made if one["sql"].split()[0] in ("INSERT", "UPDATE", "DELETE")]
    assert (reply["count"], set(reply["queries"])) == (5, {query.pk for query in queries[1:]})
    assert all(query.text in reply["html"] for query in queries[1:])


def test_a_post_holds_them_and_lets_go_of_those_that_it_names(client, pool, queries, item, ana):
    reply = client.post(address(pool, item), **JSON).json()
    assert Assignment.objects.filter(person=ana, state=queue.HELD).count() == 6
    let_go = ",".join(map(str, reply["queries"][1:]))
    assert client.post(address(pool, item), {"let_go": let_go}, **JSON).json()["count"] == 0
    kept = Assignment.objects.filter(person=ana, state=queue.HELD).values_list("item__query", flat=True)
    assert set(kept) == {item.pk, reply["queries"][0]}


def test_a_submit_answers_what_is_ticked_and_frees_the_rest(client, pool, queries, item):
    reply = client.post(address(pool, item), **JSON).json()
    ticked, rest = reply["queries"][:2], reply["queries"][2:]
    fields = {"asked": "0,1,2,3", "base": "0", "agent": ["1"], "similar": ticked, "let_go": ",".join(map(str, rest))}
    sent = client.post(address(pool, item, "label_submit"), fields, **JSON)
    assert (sent.status_code, sent.json()["left_out"], sent.json()["today"]) == (200, 0, 3)
    assert set(Label.objects.filter(required=[1]).values_list("query", flat=True)) == {item.pk, *ticked}
    assert not Assignment.objects.filter(state=queue.HELD).exists()


def test_plain_forms_show_tick_and_send_them_and_say_what_was_left_out(client, pool, queries, item, person):
    html = client.get(address(pool, item)).content.decode()
    assert f'name="similar" value="{queries[1].pk}"' in html
    others = queue.take(pool, person("ben"))[0].item.query
    fields = {"asked": "0,1,2,3", "base": "0", "agent": ["1"], "similar": [queries[1].pk, queries[2].pk]}
    answer = client.post(address(pool, item, "label_submit"), fields)
    assert "1 similar query was left out" in next(str(one) for one in get_messages(answer.wsgi_request))
    assert set(Label.objects.values_list("query", flat=True)) == {item.pk, queries[1].pk, queries[2].pk} - {others.pk}


def test_it_costs_the_same_however_long_the_queue(client, pool, plain, item, add_query):
    def cost():
        alike._compared.cache_clear()
        with CaptureQueriesContext(connection) as made:
            client.get(address(pool, item), **JSON)
        return len(made)

    few = cost()
    for n in range(40):
        add_query(f"question number {n + 10}: where is my parcel {n + 10}?")
    queue.fill(pool)
    assert cost() == few < 25
