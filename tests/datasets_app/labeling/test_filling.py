"""How queries come into the queue: a bounded part for whoever waits, the rest by the clock, and never the same item twice."""

import pytest
from django.db import connection, transaction

from agents_app.models import Agent, Pool
from datasets_app.labeling import bulk, filling, queue, sending
from datasets_app.models import Dataset, Query, QueueItem, QueueSettings, SplitGroup, group_hash, text_hash
from tests.at_once import at_once


@pytest.fixture
def many(add_query):
    """Adds so many queries more."""

    def add(count, start=0):
        return [add_query(f"text {n}") for n in range(start, start + count)]

    return add


def filled(pool):
    return list(QueueItem.objects.filter(pool=pool).order_by("query").values_list("query_id", flat=True))


def test_who_takes_work_waits_for_a_few_items_only(pool, plain, many, ana, monkeypatch):
    monkeypatch.setattr(queue, "ON_THE_WAY", 4)
    keys = [query.pk for query in many(10)]
    queue.take(pool, ana)
    assert filled(pool) == keys[:4]
    queue.take(pool, ana, count=2)
    assert filled(pool) == keys[:8]
    assert filling.fill_all() == 2
    assert filled(pool) == keys
    assert queue.not_filled(pool).count() == 0


def test_what_is_opened_or_sent_comes_in_and_nothing_else_does(pool, plain, many, ana, rita):
    one, two, three, four = many(4)
    queue.open_item(two, ana, pool)
    assert filled(pool) == [two.pk]
    sending.send(Query.objects.filter(pk=four.pk), pool)
    assert filled(pool) == [two.pk, four.pk]
    bulk.apply(pool, Query.objects.filter(pk=three.pk), bulk.DELETE, None, author=rita)
    filling.fill(pool)
    assert filled(pool) == [one.pk, two.pk, four.pk]
    bulk.restore(pool, [three.pk])
    assert filled(pool) == [one.pk, two.pk, three.pk, four.pk], "it was deleted before the queue knew of it"


def test_windows_pass_over_other_pools_keys(pool, plain, many, add_query, monkeypatch):
    monkeypatch.setattr(filling, "WINDOW", 3)
    monkeypatch.setattr(filling, "BATCH", 2)
    other = Dataset.objects.create(pool=Pool.objects.create(slug="other", name="Other"), name="Other")
    first = many(5)
    for n in range(8):
        add_query(f"elsewhere {n}", in_dataset=other)
    last = many(4, start=5)
    assert filling.fill(pool) == 9
    assert filled(pool) == [query.pk for query in first + last]
    assert QueueSettings.objects.get(pool=pool).filled_to == last[-1].pk
    with_no_more_to_do = QueueItem.objects.count()
    assert filling.fill_all_again() == 0
    assert QueueItem.objects.count() == with_no_more_to_do


def test_what_was_committed_late_is_found(pool, plain, many, ana):
    late, *_rest, last = many(6)
    QueueSettings.objects.filter(pool=pool).update(filled_to=last.pk)
    assert filling.fill(pool) == 0
    assert [lease.item.query for lease in queue.take(pool, ana)] == [late]
    QueueItem.objects.all().delete()
    assert filling.fill_all() == 0, "nothing is newer"
    assert filling.fill_all_again() == 6


@pytest.mark.django_db(transaction=True)
def test_two_fillers_share_the_work():
    pool = Pool.objects.create(slug="busy", name="Busy", next_agent_number=1)
    Agent.objects.create(pool=pool, number=0, code="AA", key="agent", name="Agent")
    dataset = Dataset.objects.create(pool=pool, name="Queries")
    for n in range(300):
        group = SplitGroup.objects.create(pool=pool, key=group_hash(f"text {n}"))
        Query.objects.create(dataset=dataset, text=f"text {n}", text_hash=text_hash(f"text {n}"), group=group)
    queue.stored_settings(pool)
    counts = at_once(4, lambda _n: filling.fill(pool))
    assert QueueItem.objects.count() == 300
    assert sum(counts) == 300, f"made once, not once by each: {counts}"


@pytest.mark.django_db(transaction=True)
def test_neither_a_page_nor_the_clock_waits_for_another_filler():
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has one writer at a time")
    pool = Pool.objects.create(slug="busy", name="Busy")
    dataset = Dataset.objects.create(pool=pool, name="Queries")
    group = SplitGroup.objects.create(pool=pool, key=group_hash("text"))
    Query.objects.create(dataset=dataset, text="text", text_hash=text_hash("text"), group=group)
    settings = queue.stored_settings(pool)
    with transaction.atomic():
        QueueSettings.objects.select_for_update().get(pk=settings.pk)
        assert at_once(1, lambda _n: filling.fill(pool, limit=5)) == [0]
        assert at_once(1, lambda _n: filling.fill_all()) == [0]
        assert at_once(1, lambda _n: filling.fill_all_again()) == [0]
    assert filling.fill(pool, limit=5) == 1
