"""The queue: leases, idle time, order, shares; and many people at once."""

import multiprocessing
import random
import threading
from collections import Counter
from datetime import timedelta

import pytest
from django.contrib.auth.models import Group, User
from django.db import OperationalError, connection, connections
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from agents_app.models import Agent, Pool
from datasets_app.labeling import one_query, orders, queue, sending
from datasets_app.labeling.one_query import Choice
from datasets_app.models import (
    Assignment,
    Dataset,
    Label,
    Query,
    QueueItem,
    QueueSettings,
    SplitGroup,
    group_hash,
    text_hash,
)
from datasets_app.models.labeling import LOTS
from tests.thorough import EVERYTHING

pytestmark = pytest.mark.both_databases


def texts(leases: list[Assignment]) -> list[str]:
    return [lease.item.query.text for lease in leases]


@pytest.mark.parametrize("order", [QueueSettings.Order.RANDOM, QueueSettings.Order.OLDEST])
def test_the_next_item_is_found_without_sorting_what_waits(pool, plain, add_query, person, order):
    for number in range(12):
        add_query(f"question {number}")
    queue.fill(pool)
    QueueSettings.objects.update(order=order)
    with CaptureQueriesContext(connection) as asked:
        assert queue.take(pool, person("ana"))
    chosen = [
        each["sql"]
        for each in asked
        if "queueitem" in each["sql"] and "LIMIT 1" in each["sql"] and "rank" in each["sql"]
    ]
    assert chosen
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SET LOCAL enable_sort = off")  # a sort that is left cannot be done without
            cursor.execute("SET LOCAL enable_seqscan = off")
        for sql in chosen:
            cursor.execute(("EXPLAIN " if connection.vendor == "postgresql" else "EXPLAIN QUERY PLAN ") + sql)
            plan = str(cursor.fetchall())
            assert "Sort" not in plan
            assert "TEMP B-TREE" not in plan


def test_a_browser_may_hold_what_leaves_as_much_to_others(pool, plain, add_query, person):
    for number in range(36):
        add_query(f"question {number}")
    ana, ben = person("ana"), person("ben")
    queue.take(pool, ana)
    assert queue.may_hold(pool, ana) == 35 // 2, "who labels alone leaves a half to whoever comes"
    assert queue.may_hold(pool, ben) == 35 // 4
    queue.take(pool, ben, count=30)
    assert queue.may_hold(pool, ana) == queue.LEAST_HELD
    for number in range(36, 140):
        add_query(f"question {number}")
    queue.release(pool, ben)
    queue.fill(pool)
    assert queue.may_hold(pool, ana) == queue.MOST_HELD


def test_two_people_never_hold_the_same_item(pool, plain, queries, person):
    ana, ben = person("ana"), person("ben")
    first, second = queue.take(pool, ana, count=3), queue.take(pool, ben, count=6)
    assert len(first) == 3
    assert len(second) == 3
    assert {lease.item_id for lease in first}.isdisjoint(lease.item_id for lease in second)
    assert queue.take(pool, ben, beside=[lease.item.query_id for lease in second]) == []


def test_taking_again_returns_what_is_held_and_beside_skips_it(pool, plain, queries, person):
    ana = person("ana")
    first = queue.take(pool, ana)[0]
    assert queue.take(pool, ana)[0] == first
    other = queue.take(pool, ana, beside=[first.item.query_id])[0]
    assert other.item_id != first.item_id


def test_an_idle_lease_is_free_again_and_a_heartbeat_keeps_it(pool, plain, queries, person):
    ana, ben = person("ana"), person("ben")
    kept, left = queue.take(pool, ana, count=2)
    Assignment.objects.update(leased_until=timezone.now() + timedelta(seconds=1))
    assert queue.heartbeat(pool, ana, [kept.item.query_id]) == {kept.item.query_id}
    later = timezone.now() + timedelta(seconds=2)
    assert queue.release_idle(pool, later) == 1
    assert not Assignment.objects.filter(pk=left.pk).exists()
    assert queue.heartbeat(pool, ana, [left.item.query_id]) == set()
    assert queue.take(pool, ben)[0].item_id == left.item_id


def test_a_heartbeat_that_comes_while_idle_leases_are_being_freed_keeps_its_lease(pool, plain, queries, person):
    """The keys of idle leases were read; before they are freed one of them is renewed."""
    kept, left = queue.take(pool, person("ana"), count=2)
    now = timezone.now()
    Assignment.objects.filter(pk=left.pk).update(leased_until=now - timedelta(seconds=1))
    assert queue._free(Assignment.objects.filter(pk__in=[kept.pk, left.pk]), now) == 1
    assert list(Assignment.objects.all()) == [kept]


def test_the_lease_lasts_five_idle_minutes_by_default(pool, queries, person):
    lease = queue.take(pool, person("ana"))[0]
    assert lease.leased_until - lease.taken_at == timedelta(minutes=5)


def test_a_reviewer_can_free_what_somebody_holds(pool, plain, queries, person):
    ana, ben = person("ana"), person("ben")
    held = queue.take(pool, ana, count=6)
    assert queue.take(pool, ben) == []
    holding = queue.holdings(pool)[0]
    assert (holding.person, holding.items) == (ana, 6)
    assert holding.free_at == min(lease.leased_until for lease in held)
    assert queue.release(pool, ana) == 6
    assert queue.holdings(pool) == []
    assert len(queue.take(pool, ben, count=6)) == 6


def test_a_skipped_item_goes_to_others_and_comes_back_when_asked_for(pool, plain, queries, person):
    ana, ben = person("ana"), person("ben")
    lease = queue.take(pool, ana)[0]
    assert queue.skip(lease, "unreadable")
    assert not queue.skip(lease, "again"), "a skip that arrives twice counts once"
    assert queue.take(pool, ana)[0].item_id != lease.item_id
    assert queue.skipped(pool, ana) == 1
    assert queue.take(pool, ben)[0].item_id == lease.item_id
    queue.release(pool, ben)
    queue.release(pool, ana)
    assert queue.offer_skipped(pool, ana) == 1
    assert queue.take(pool, ana)[0].item_id == lease.item_id


def test_overlap_may_change_at_any_time(pool, plain, queries, person, choose):
    ana, ben = person("ana"), person("ben")
    for lease in queue.take(pool, ana, count=6):
        one_query.submit(lease, choose(0), key=str(lease.pk), base=0)
    assert queue.still_open(pool) == 0
    plain.overlap, plain.overlap_share = 2, 1.0
    plain.save()
    queue.resize(plain)
    assert queue.still_open(pool) == 6
    assert queue.take(pool, ana) == [], "nobody is asked the same twice"
    assert len(queue.take(pool, ben, count=9)) == 6
    plain.overlap_share = 0.0
    plain.save()
    queue.resize(plain)
    queue.release(pool, ben)
    assert queue.still_open(pool) == 0


def test_the_shares_hold_over_many_queries_and_are_independent():
    drawn = [queue.lots(0, str(n)) for n in range(4_000)]
    for position in (1, 2, 3):
        assert 0.22 < sum(lot[position] < 2_500 for lot in drawn) / 4_000 < 0.28
    both = sum(lot[1] < 2_500 and lot[2] < 2_500 for lot in drawn) / 4_000
    assert 0.045 < both < 0.08


def test_lots_are_uniform():
    """χ² over twenty equal parts of overlap, blind and evaluation lots and of the random order: 43.8 is passed by 1 in 1,000."""
    drawn = [queue.lots(7, f"query {n}") for n in range(20_000)]
    for position, whole in ((0, 1), (1, LOTS), (2, LOTS), (3, LOTS)):
        parts = Counter(int(20 * lot[position] / whole) for lot in drawn)
        assert sum((parts[part] - 1_000) ** 2 / 1_000 for part in range(20)) < 43.8, position


def test_another_seed_is_another_order_and_the_same_lots():
    one, other = queue.lots(0, "a"), queue.lots(1, "a")
    assert one[0] != other[0]
    assert one[1:] == other[1:]


def test_queries_that_came_with_their_gold_are_asked_about_only_when_sent(pool, plain, queries, person):
    from datasets_app.labels import labels

    labels.record(labels.NewLabel(queries[0].pk, source="import", required=[1], asked=[0, 1, 2, 3]))
    assert len(queue.take(pool, person("ana"), count=9)) == 5
    assert sending.send(Query.objects.filter(pk=queries[0].pk), pool) == 1
    assert queue.still_open(pool) == 1
    assert queue.take(pool, person("ben"))[0].item.query == queries[0]


def test_a_query_that_is_answered_and_sent_again_wants_one_answer_more(pool, plain, queries, person, choose):
    ana, ben = person("ana"), person("ben")
    lease = queue.take(pool, ana)[0]
    one_query.submit(lease, choose(0), key="k", base=0)
    sent = Query.objects.filter(pk=lease.item.query_id)
    assert sending.send(sent, pool) == 1
    assert sending.send(sent, pool) == 0, "it waits already"
    queue.resize(plain)
    assert queue.take(pool, ben)[0].item_id == lease.item_id, "settings that are saved again leave what was sent"


def test_deleted_queries_are_not_asked_about(pool, plain, queries, person):
    Query.objects.filter(pk=queries[0].pk).update(deleted_at=timezone.now())
    queue.fill(pool, everything=True)
    assert queries[0].text not in texts(queue.take(pool, person("ana"), count=9))


def test_the_evaluation_sample_is_drawn_at_random_whatever_the_order(pool, plain, add_query, person):
    made = [add_query(f"text {n}") for n in range(60)]
    plain.evaluation_share = 0.2
    plain.save()
    taken = queue.take(pool, person("ana"), count=20)
    line = [lease for lease in taken if queue.is_evaluation(plain, lease.item)]
    oldest = {query.pk for query in made[:20]}
    assert len(line) >= 4
    assert any(lease.item.query_id not in oldest for lease in line)


@pytest.mark.at_length
def test_the_evaluation_sample_is_as_hard_as_the_pool(pool, plain, add_query, person):
    """By uncertainty the hard fifth comes first; what is marked for evaluation holds no more of it than the pool does."""
    made = [add_query(f"text {n}") for n in range(400)]
    queue.fill(pool, everything=True)
    hard = {query.pk for query in made[::5]}
    plain.order, plain.evaluation_share, plain.overlap_share = QueueSettings.Order.UNCERTAINTY, 0.3, 0.0
    plain.save()
    for item in QueueItem.objects.filter(pool=pool):
        QueueItem.objects.filter(pk=item.pk).update(uncertainty=0.9 if item.query_id in hard else 0.1)
    orders.arrange(plain)
    taken = queue.take(pool, person("ana"), count=100)
    drawn = [lease.item.query_id in hard for lease in taken if lease.drawn]
    chosen = [lease.item.query_id in hard for lease in taken if not lease.drawn]
    assert len(drawn) == 30
    assert sum(drawn) <= 11  # six are to be expected; 12 or more come in one of a hundred
    assert sum(chosen) >= 50  # nearly all that is hard and outside the sample


def test_what_somebody_opens_is_no_random_sample(pool, plain, add_query, person):
    query = add_query("of my choice")
    plain.evaluation_share = 1.0
    plain.save()
    assert not queue.open_item(query, person("ana"), pool).drawn


# --------------------------------------------------------------------------------------------------- many people at once


def busy(count: int, items: int) -> tuple[Pool, list[User]]:
    """A pool of queries that two people each are to answer, and its labelers."""
    pool = Pool.objects.create(slug="busy", name="Busy", next_agent_number=3)
    Agent.objects.bulk_create(
        [Agent(pool=pool, number=n, code=f"A{n}", key=f"agent-{n}", name=f"Agent {n}") for n in range(3)]
    )
    dataset = Dataset.objects.create(pool=pool, name="Queries")
    for n in range(items):
        text = f"query {n}"
        group = SplitGroup.objects.create(pool=pool, key=group_hash(text))
        Query.objects.create(dataset=dataset, text=text, text_hash=text_hash(text), group=group)
    settings = queue.stored_settings(pool)
    settings.overlap, settings.overlap_share = 2, 1.0
    settings.save()
    queue.fill(pool)
    people = [User.objects.create(username=f"p{n}") for n in range(count)]
    Group.objects.get_or_create(name="labeler")[0].user_set.set(people)
    return pool, people


def again(call):
    """What a call returns, made again where the machine is so busy that SQLite gave up waiting for its lock, as the page does."""
    while True:
        try:
            return call()
        except OperationalError as error:
            if "database is locked" not in str(error):
                raise


def work_off(pool: Pool, user: User, number: int) -> None:
    """What one labeler does until nothing is left for them: answer, now and then dawdle, and now and then send a submit twice."""
    draw, settings = random.Random(number), queue.stored_settings(pool)
    while True:
        count = draw.choice((1, 2))
        leases = again(lambda count=count: queue.take(pool, user, count=count))
        if not leases:
            if queue.still_open(pool) == 0 or not queue._candidates(settings, user, None).exists():
                return
            continue
        for lease in leases:
            if draw.random() < 0.05:
                again(
                    lambda lease=lease: queue._free(Assignment.objects.filter(pk=lease.pk))
                )  # as if idle for too long
                continue
            choice = Choice(frozenset({draw.randrange(3)}), False, False, frozenset(range(3)))
            for _ in range(draw.choice((1, 1, 2))):
                again(
                    lambda lease=lease, choice=choice: one_query.submit(
                        lease, choice, key=f"{user.pk}-{lease.item_id}", base=0
                    )
                )


def check_every_item_has_its_two_labels(items: int) -> None:
    current = Label.objects.filter(superseded_at__isnull=True)
    per_query = Counter(current.values_list("query_id", flat=True))
    assert len(per_query) == items, "none lost"
    assert set(per_query.values()) == {2}, "none twice"
    assert len(set(current.values_list("query_id", "author_id"))) == 2 * items
    assert Label.objects.count() == 2 * items, "a submit that arrives twice is one label"
    assert set(QueueItem.objects.values_list("needed", "taken")) == {(2, 2)}
    assert set(Assignment.objects.values_list("state", flat=True)) == {"done"}


@pytest.mark.at_length
def test_people_in_threads_of_one_process_overlap_two(transactional_db):
    """Every item gets exactly two labels, of two different people, whoever skips, dawdles or sends a submit twice."""
    pool, people = busy(8, 40)
    barrier = threading.Barrier(len(people))
    errors: list[BaseException] = []

    def work(number: int, user: User) -> None:
        try:
            barrier.wait()
            work_off(pool, user, number)
        except BaseException as error:
            errors.append(error)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=work, args=(n, user)) for n, user in enumerate(people)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    check_every_item_has_its_two_labels(40)


def _work_alone(pool: Pool, user: User, number: int, barrier) -> None:
    connections.close_all()
    barrier.wait()
    work_off(pool, user, number)


@pytest.mark.at_length
def test_people_in_processes_of_their_own_overlap_two(transactional_db):
    """The same with a process for each person, as behind several web servers."""
    count, items = (20, 200) if EVERYTHING else (6, 40)
    pool, people = busy(count, items)
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(len(people))
    connections.close_all()  # a child must not speak over the parent's connection
    workers = [context.Process(target=_work_alone, args=(pool, user, n, barrier)) for n, user in enumerate(people)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(300)
    assert [worker.exitcode for worker in workers] == [0] * count
    check_every_item_has_its_two_labels(items)
