"""Similar queries in one action: what is offered beside an item, what its answer becomes for each of them, and what is left out."""

import pytest
from django.db import connection
from django.utils import timezone

from datasets_app.labeling import alike, one_query, queue
from datasets_app.labeling.one_query import Choice
from datasets_app.models import Assignment, Dataset, Draft, Gold, Label, Query, QueueItem, Submission

pytestmark = pytest.mark.both_databases

ALL = frozenset(range(4))
BILLING = Choice(frozenset({0}), False, False, ALL)


@pytest.fixture(autouse=True)
def forgotten():
    """What is compared is kept for a minute."""
    alike._compared.cache_clear()


@pytest.fixture
def twice(add_query):
    """Four queries, oldest first, of which the first three are alike."""
    return [
        add_query("my card was charged twice for order 71"),
        add_query("my card was charged twice for order 88"),
        add_query("hello, my card was charged twice for order 90"),
        add_query("the speaker does not find the wifi"),
    ]


def held(pool, person):
    lease = queue.take(pool, person)[0]
    lease.item.pool, lease.person = pool, person
    return lease


def keys(found):
    return {one.query.pk for one in found}


def test_what_waits_and_reads_alike_is_offered_the_nearest_first(pool, plain, twice, ana):
    found = alike.waiting(held(pool, ana))
    assert [one.query for one in found] == [twice[1], twice[2]]
    assert found[0].likeness > found[1].likeness >= alike.ALIKE


def test_a_query_that_is_leased_while_the_queue_is_read_is_compared(pool, plain, twice, ana):
    lease = held(pool, ana)
    leased = []

    def lease_after_the_first_read(execute, sql, params, many, context):
        rows = execute(sql, params, many, context)
        if not leased and '"text"' in sql:
            leased.append(sql)
            leased.extend(queue.take(pool, ana, beside=[lease.item.query_id]))
        return rows

    with connection.execute_wrapper(lease_after_the_first_read):
        found = alike.waiting(lease)
    assert len(leased) == 2
    assert [one.query for one in found] == [twice[1], twice[2]]


def test_an_exact_double_in_another_dataset_is_offered_wherever_it_stands_in_line(
    pool, plain, twice, ana, add_query, monkeypatch
):
    double = add_query(twice[0].text.upper(), in_dataset=Dataset.objects.create(pool=pool, name="More"))
    lease = held(pool, ana)
    monkeypatch.setattr(alike, "COMPARED", 1)
    assert [one.query for one in alike.waiting(lease)] == [double, twice[1]], (
        "the one held and the one next in line are compared"
    )


def test_nothing_blind_drawn_answered_or_held_by_others_is_offered(pool, plain, twice, ana, person):
    lease = held(pool, ana)
    item = QueueItem.objects.get(query=twice[1])
    ben = person("ben")
    taken = queue.take_these(plain, ben, [item])
    assert keys(alike.waiting(lease)) == {twice[2].pk}
    queue.skip(queue.take_these(plain, ana, [QueueItem.objects.get(query=twice[2])])[0], "no")
    assert alike.waiting(lease) == []
    queue.release(pool, ben)
    assert keys(alike.waiting(lease)) == {twice[1].pk}
    assert taken[0].item == item
    for lot in ("blind", "evaluation"):
        setattr(plain, f"{lot}_share", (getattr(item, f"{lot}_lot") + 1) / 10_000)
        plain.save()
        assert twice[1].pk not in keys(alike.waiting(lease))
        setattr(plain, f"{lot}_share", 0.0)


def test_nothing_is_offered_beside_a_blind_item_or_a_turn(pool, plain, twice, ana):
    lease = held(pool, ana)
    lease.blind = True
    assert alike.waiting(lease) == [] == alike.take(lease, [twice[1].pk])
    lease.blind = False
    Query.objects.filter(pk=twice[1].pk).update(turn=0)
    assert keys(alike.waiting(lease)) == {twice[2].pk}
    lease.item.query.turn = 2
    assert alike.waiting(lease) == []


def test_each_gets_a_label_of_its_own_and_gold_as_any_label(pool, plain, twice, ana):
    lease = held(pool, ana)
    sent, new = one_query.submit(lease, BILLING, key="k", base=0, similar=[twice[1].pk])
    assert new
    label = Label.objects.get(query=twice[1])
    assert (label.required, label.author, label.partial) == ([0], ana, False)
    assert label.provenance == {"via": "similar", "like": twice[0].pk, "blind": False}
    assert Label.objects.get(query=twice[0]).provenance["via"] == "queue"
    assert set(Gold.objects.values_list("query", flat=True)) == {twice[0].pk, twice[1].pk}
    assert Assignment.objects.get(item__query=twice[1]).state == queue.DONE
    assert QueueItem.objects.get(query=twice[1]).taken == 1
    again, new = one_query.submit(lease, BILLING, key="k", base=0, similar=[twice[1].pk, twice[2].pk])
    assert not new
    assert again == sent
    assert Label.objects.count() == 2, "what arrives twice makes nothing twice"


def test_what_may_not_be_answered_with_it_is_left_out(pool, plain, twice, ana, person):
    queue.take_these(plain, person("ben"), [_item(pool, twice[1])])
    sent, _new = one_query.submit(held(pool, ana), BILLING, key="k", base=0, similar=[twice[1].pk, twice[2].pk, 10**9])
    assert [one.item.query for one in sent.followers.all()] == [twice[2]]


def test_overlap_counts_this_person_once(pool, plain, twice, ana, person):
    item = _item(pool, twice[1])
    QueueItem.objects.filter(pk=item.pk).update(needed=2)
    queue.take_these(plain, person("ben"), [item])
    one_query.submit(held(pool, ana), BILLING, key="k", base=0, similar=[twice[1].pk])
    item.refresh_from_db()
    assert (item.taken, item.needed) == (2, 2)


@pytest.mark.parametrize("named", [None, 0, 1])
def test_one_undo_takes_all_of_them_back(pool, plain, twice, ana, named):
    lease = held(pool, ana)
    one_query.submit(lease, BILLING, key="k", base=0, similar=[twice[1].pk, twice[2].pk])
    undone = one_query.undo(pool, ana, None if named is None else twice[named])
    assert undone is not None
    assert undone.query == twice[0]
    assert not Label.objects.current().exists()
    assert not Gold.objects.exists()
    assert set(Assignment.objects.values_list("state", flat=True)) == {queue.HELD}
    assert Draft.objects.filter(required=[0]).count() == 3
    assert one_query.undo(pool, ana) is None
    assert Submission.objects.filter(undone_at=None).count() == 0


def test_undo_leaves_what_was_deleted_meanwhile(pool, plain, twice, ana):
    one_query.submit(held(pool, ana), BILLING, key="k", base=0, similar=[twice[1].pk])
    Query.objects.filter(pk=twice[1].pk).update(deleted_at=timezone.now())
    assert one_query.undo(pool, ana).query == twice[0]
    assert [label.query for label in Label.objects.current()] == [twice[1]]


def _item(pool, query):
    queue.fill(pool)
    return QueueItem.objects.get(query=query)
