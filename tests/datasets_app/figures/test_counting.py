"""The figures of large pools: the same as counted live, whatever happened, and counted again only where something has changed."""

import random
from dataclasses import replace
from datetime import timedelta

import pytest
from django.db.models import Count, Exists, OuterRef, Q
from django.utils import timezone

from agents_app.models import Pool
from datasets_app.figures import counting, progress
from datasets_app.labeling import bulk, one_query, queue, sending
from datasets_app.labels import labels, suggestions
from datasets_app.labels.suggestions import Scored
from datasets_app.models import Assignment, PoolFigures, Query, QueueItem
from tests.clients import signed_in
from training_app.training import previews


def fresh(pool):
    """The pool as a page looks it up."""
    return Pool.objects.get(pk=pool.pk)


def shown(pool):
    """Every figure but what is left for one person."""
    one = fresh(pool)
    return (
        progress.states(one), progress.labeled(one), progress.gold(one), progress.by_agent(one), progress.disputes([one]),
        progress.left(one), replace(previews.preview(one), counted_at=None),
    )  # fmt: skip


def left_by_definition(pool, person):
    """What waits is open or held; it is this person's where they have not touched it or hold it."""
    held = Exists(Assignment.objects.filter(item=OuterRef("pk"), state=queue.HELD))
    touched = Assignment.objects.filter(item=OuterRef("pk"), person=person)
    yours = (queue.OPEN & ~Exists(touched)) | Exists(touched.filter(state=queue.HELD))
    items = QueueItem.objects.filter(queue.OPEN | held, pool=pool, agent=None)
    found = items.aggregate(all=Count("pk"), yours=Count("pk", filter=Q(yours)))
    new = queue.not_filled(pool).count()
    return progress.Left(found["yours"] + new, found["all"] - found["yours"])


class Work:
    """Anything that changes a figure, drawn at random."""

    def __init__(self, pool, people, rita, add_query, choose, seed):
        self.pool, self.people, self.rita, self.add_query, self.choose = pool, people, rita, add_query, choose
        self.draw, self.added = random.Random(seed), 0

    def step(self):
        act = self.draw.choice(
            (self.add, self.label, self.label, self.skip, self.suggest, self.llm, self.bulk, self.send)
        )
        act()

    def some(self):
        keys = sorted(Query.objects.filter(dataset__pool=self.pool).values_list("pk", flat=True))
        return Query.objects.filter(pk__in=self.draw.sample(keys, min(len(keys), 3)))

    def add(self):
        self.added += 1
        self.add_query(f"another {self.added}")

    def label(self):
        person = self.draw.choice(self.people)
        for lease in queue.take(self.pool, person):
            if self.draw.random() < 0.7:
                one_query.submit(lease, self.choose(self.draw.randrange(4)), key=str(self.draw.random()), base=0)

    def skip(self):
        for lease in queue.take(self.pool, self.draw.choice(self.people)):
            queue.skip(lease, "too hard")

    def suggest(self):
        suggestions.push(
            self.pool, "model", [Scored(one.pk, (1,), {1: 0.9}) for one in self.some().filter(deleted_at=None)]
        )

    def llm(self):
        for one in self.some():
            labels.record(labels.NewLabel(one.pk, source="llm", required=[2], asked=range(4)))

    def bulk(self):
        action, agent = self.draw.choice(
            ((bulk.DELETE, None), (bulk.RESTORE, None), (bulk.ADD, 1), (bulk.ACCEPT, None))
        )
        agent = agent and self.pool.agents.get(number=agent)
        change = bulk.apply(self.pool, self.some(), action, agent, author=self.rita)
        if self.draw.random() < 0.3:
            bulk.undo(change, self.rita)

    def send(self):
        sending.send(self.some(), self.pool)


@pytest.mark.at_length
@pytest.mark.parametrize("seed", range(2))
def test_stored_figures_are_those_of_a_fresh_count(pool, queries, person, rita, add_query, choose, monkeypatch, seed):
    people = [person("ana"), person("ben")]
    settings = queue.stored_settings(pool)
    settings.overlap_share = 0.5
    settings.save()
    work = Work(pool, people, rita, add_query, choose, seed)
    for _n in range(6):
        for _m in range(5):
            work.step()
        PoolFigures.objects.all().delete()
        live = shown(pool)
        waits = [left_by_definition(pool, one) for one in people]
        assert [progress.left(fresh(pool), one) for one in people] == waits
        counting.count(pool)
        for least in (0, 10_000):  # what is left is a stored figure, or is counted
            monkeypatch.setattr(progress, "LARGE", least)
            assert shown(pool) == live
            assert [progress.left(fresh(pool), one) for one in people] == waits


def test_only_large_pools_have_stored_figures(pool, queries, add_query, monkeypatch):
    monkeypatch.setattr(progress, "LARGE", len(queries))
    assert counting.count_all() == 0
    assert progress.counted_at(fresh(pool)) is None
    add_query("one more")
    assert counting.count_all() == 1
    assert progress.labeled(fresh(pool)).queries == 7
    monkeypatch.setattr(progress, "LARGE", 7)
    assert counting.count_all() == 0
    assert not PoolFigures.objects.exists()


def test_a_pool_that_a_file_makes_large_is_counted_while_the_file_is_read(pool, queries, add_query, monkeypatch):
    monkeypatch.setattr(progress, "LARGE", len(queries) + 1)
    look = counting.when_large(pool)
    look(None)
    add_query("one more")
    look(None)
    assert not PoolFigures.objects.exists()
    add_query("another")
    look(None)
    counted = PoolFigures.objects.get(pool=pool)
    look(None)
    assert PoolFigures.objects.get(pool=pool).counted_at == counted.counted_at


def test_a_large_pool_is_counted_again_once_something_changed_and_never_all_the_time(
    pool, queries, add_query, monkeypatch
):
    monkeypatch.setattr(progress, "LARGE", 1)
    row = PoolFigures.objects.filter(pool=pool)
    assert counting.count_all() == 1
    row.update(seconds=10)
    assert counting.count_all() == 0
    add_query("one more")
    assert counting.count_all() == 0, "it took ten seconds a moment ago"
    row.update(counted_at=timezone.now() - timedelta(seconds=201))
    assert counting.count_all() == 1
    row.update(seconds=0, counted_at=timezone.now() - timedelta(minutes=59))
    assert counting.count_all() == 0, "nothing is new"
    row.update(counted_at=timezone.now() - timedelta(minutes=61))
    assert counting.count_all() == 1


def test_home_says_when_a_large_pool_was_counted(pool, queries, person, add_query):
    client = signed_in(person("olga", "ops"))
    assert "counted" not in client.get("/").content.decode()
    counting.count(pool)
    add_query("not counted yet")
    html = client.get("/").content.decode()
    assert "0 of 6 labeled" in html
    assert "counted" in html
