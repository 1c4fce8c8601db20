"""The queue and what is taken back in it: undo, skips, a submit's key, labels made after peers' were seen."""

import threading
from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.urls import reverse

from agents_app import pools
from agents_app.models import Pool
from datasets_app.figures import agreement
from datasets_app.labeling import one_query, queue
from datasets_app.labeling.one_query import Choice
from datasets_app.models import Assignment, Label, Query, QueueItem, QueueSettings
from tests.clients import signed_in
from tests.datasets_app.labeling.saying import answer, gold_of, hold, said


def test_undoing_a_resubmit_leaves_the_query_answered(
    pool: Pool, plain: QueueSettings, query: Query, ana: User, person: Callable[..., User]
) -> None:
    answer(pool, ana, query, said(1), "a")
    answer(pool, ana, query, said(2), "b")
    assert one_query.undo(pool, ana) == one_query.Undone(query, "submit")
    assert gold_of(query) == ([1], [0, 1, 2, 3])
    Assignment.objects.update(leased_until="2020-01-01T00:00Z")
    assert queue.take(pool, ana) == []
    assert queue.take(pool, person("ben")) == []


def test_a_skip_that_somebody_else_has_taken_over_is_not_held_twice(
    pool: Pool, plain: QueueSettings, query: Query, ana: User, person: Callable[..., User]
) -> None:
    ben = person("ben")
    queue.skip(queue.take(pool, ana)[0], "no idea")
    assert queue.take(pool, ben)
    undone = one_query.undo(pool, ana)
    assert undone == one_query.Undone(query, "skip", held=False)
    assert list(Assignment.objects.filter(state="held").values_list("person__username", flat=True)) == ["ben"]
    assert QueueItem.objects.get(query=query).taken == 1
    queue.release(pool, ben)
    assert queue.take(pool, ana), "it is as if she had never skipped it"


def test_the_queues_undo_after_a_re_ask_takes_back_its_own_query(
    pool: Pool, plain: QueueSettings, queries: list[Query], ana: User
) -> None:
    answer(pool, ana, queries[0], said(1), "a")
    answer(pool, ana, queries[1], said(2), "b")
    new = pools.add_agent(pool, "Returns")
    answer(pool, ana, queries[1], Choice(frozenset({4}), False, False, frozenset({4})), "c", new)
    assert one_query.undo(pool, ana) == one_query.Undone(queries[1], "submit")
    assert gold_of(queries[0]) == ([1], [0, 1, 2, 3])
    assert gold_of(queries[1]) == ([4], [4]), "what she said of the new agent stays"


# ------------------------------------------------------------------------------------------------------------ the key


def test_a_submits_key_is_that_querys_alone(
    pool: Pool, plain: QueueSettings, queries: list[Query], ana: User, person: Callable[..., User]
) -> None:
    client = signed_in(ana)
    fields = {"agent": "1", "asked": "0,1,2,3", "key": "same"}
    urls = [reverse("label_submit", args=[pool.slug, query.pk]) for query in queries[:2]]
    assert client.post(urls[0], fields, HTTP_ACCEPT="application/json").status_code == 200
    assert client.post(urls[0], fields, HTTP_ACCEPT="application/json").status_code == 200, "sent twice, one label"
    told = client.post(urls[1], fields, HTTP_ACCEPT="application/json")
    assert told.status_code == 409
    assert f"already used for query {queries[0].pk}." in told.json()["error"]
    page = client.post(urls[1], fields)
    assert page.status_code == 409
    assert 'value="1" checked' in page.content.decode(), "nothing is lost on screen"
    assert Label.objects.count() == 1
    with pytest.raises(one_query.KeyUsed, match="by somebody else"):
        answer(pool, person("ben"), queries[0], said(1), f"{ana.pk}:same")


@pytest.mark.both_databases
@pytest.mark.django_db(transaction=True)
def test_one_key_for_two_queries_at_the_same_moment(
    pool: Pool, plain: QueueSettings, queries: list[Query], ana: User
) -> None:
    leases = [hold(pool, ana, query) for query in queries[:2]]
    start, ended = threading.Barrier(2), []

    def send(lease: Assignment) -> None:
        start.wait()
        try:
            ended.append(one_query.submit(lease, said(1), key="same", base=0)[1])
        except one_query.KeyUsed as error:
            ended.append(error.query_id)
        finally:
            connection.close()

    threads = [threading.Thread(target=send, args=(lease,)) for lease in leases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(type, ended), key=str) == [bool, int]
    assert Label.objects.count() == 1


# ------------------------------------------------------------------------------------------------------- who has looked


def test_a_label_made_after_seeing_peers_is_marked_and_left_out_of_agreement(
    pool: Pool, plain: QueueSettings, query: Query, ana: User, person: Callable[..., User]
) -> None:
    ben = person("ben")
    answer(pool, ben, query, said(1, 2), "b")
    assert [label.author for label in one_query.visible_labels(query, ana)] == [], "not before her own"
    answer(pool, ana, query, said(0), "a")
    assert agreement.report(pool).exact == 0.0
    assert len(one_query.visible_labels(query, ana)) == 2
    one_query.undo(pool, ana)
    copied = answer(pool, ana, query, said(1, 2), "c")
    assert copied.label.provenance["peers_seen"] is True
    assert agreement.report(pool).exact is None, "a copy is no agreement"
    assert "peers_seen" not in Label.objects.get(author=ben).provenance
