"""In which order the queue asks."""

import pytest

from datasets_app.labeling import orders, queue
from datasets_app.labels import disagreement, labels, suggestions
from datasets_app.models import QueueItem, QueueSettings

Order = QueueSettings.Order


@pytest.fixture
def scored(pool, plain, queries):
    """A model is unsure of 3 (about agent 1 above all), then of 1; 5 is the most novel; 4 has the LLM against an import."""
    queue.fill(pool)
    rows = [
        (1, {0: 0.6, 1: 0.95}, 0.2),
        (3, {0: 0.9, 1: 0.6}, 0.3),
        (5, {0: 0.01, 1: 0.02}, 0.9),
    ]
    suggestions.push(pool, "support-1", [suggestions.Scored(queries[n].pk, [], s, novelty) for n, s, novelty in rows])
    labels.record(labels.NewLabel(queries[4].pk, source="import", required=[0], asked=range(4)))
    labels.record(labels.NewLabel(queries[4].pk, source="llm", required=[2], asked=range(4)))
    disagreement.measure([query.pk for query in queries])
    return queries


def served(pool, queries, person):
    keys = [lease.item.query_id for lease in queue.take(pool, person, count=10)]
    return [next(n for n, query in enumerate(queries) if query.pk == key) for key in keys]


def arranged(settings, order, agent=None, seed=0):
    settings.order, settings.order_agent, settings.seed = order, agent, seed
    settings.save()
    orders.arrange(settings)


def test_oldest_first(pool, plain, scored, person):
    arranged(plain, Order.OLDEST)
    assert served(pool, scored, person("ana")) == [0, 1, 2, 3, 4, 5]


def test_random_is_the_seeds_own_and_another_seed_another(pool, plain, scored, person):
    arranged(plain, Order.RANDOM)
    first = served(pool, scored, person("ana"))
    queue.release(pool, QueueItem.objects.first().assignments.get().person)
    arranged(plain, Order.RANDOM, seed=7)
    other = served(pool, scored, person("ben"))
    assert sorted(first) == sorted(other) == [0, 1, 2, 3, 4, 5]
    assert first != other


def test_the_least_certain_first_and_what_nobody_scored_behind(pool, plain, scored, person):
    arranged(plain, Order.UNCERTAINTY)
    assert served(pool, scored, person("ana"))[:3] == [3, 1, 5]


def test_the_least_certain_about_one_agent(pool, plain, scored, person):
    arranged(plain, Order.UNCERTAINTY, pool.agents.get(number=0))
    assert served(pool, scored, person("ana"))[:3] == [1, 3, 5]
    queue.release(pool, QueueItem.objects.filter(taken=1).first().assignments.get().person)
    arranged(plain, Order.UNCERTAINTY, pool.agents.get(number=1))
    assert served(pool, scored, person("ben"))[:3] == [3, 1, 5]


def test_the_most_novel_first(pool, plain, scored, person):
    arranged(plain, Order.NOVELTY)
    assert served(pool, scored, person("ana"))[:3] == [5, 3, 1]


def test_where_the_llm_and_people_disagree_first(pool, plain, scored, person):
    arranged(plain, Order.DISAGREEMENT)
    assert served(pool, scored, person("ana"))[0] == 4


def test_new_scores_move_what_is_asked_at_once(pool, plain, scored, person):
    arranged(plain, Order.UNCERTAINTY)
    suggestions.push(pool, "support-2", [suggestions.Scored(scored[0].pk, [], dict.fromkeys(range(4), 0.5))])
    assert served(pool, scored, person("ana"))[0] == 0


def test_varied_batches_in_the_queue(pool, plain, add_query, person):
    near = [add_query(f"my invoice is wrong {'!' * n}.") for n in range(1)] + [add_query("my invoice is so wrong")]
    far = add_query("the parcel never came")
    queue.fill(pool)
    doubts = [(near[0], 0.5), (near[1], 0.49), (far, 0.3)]
    suggestions.push(pool, "m", [suggestions.Scored(query.pk, [], {0: p}) for query, p in doubts])
    arranged(plain, Order.DIVERSE)
    taken = [lease.item.query for lease in queue.take(pool, person("ana"), count=3)]
    assert taken == [near[0], far, near[1]]


def test_a_varied_order_leaves_what_is_like_the_labeled_for_later(pool, plain, add_query, person):
    known = add_query("my invoice is wrong")
    queue.fill(pool)
    labels.record(labels.NewLabel(known.pk, source="import", required=[0], asked=range(4)))
    like, unlike = add_query("my invoice is wrong!"), add_query("the parcel never came")
    queue.fill(pool)
    suggestions.push(pool, "m", [suggestions.Scored(query.pk, [], {0: 0.5}) for query in (like, unlike)])
    arranged(plain, Order.DIVERSE)
    assert [lease.item.query for lease in queue.take(pool, person("ana"), count=2)] == [unlike, like]


def test_a_varied_order_is_renewed_when_a_model_speaks_and_others_stay(pool, plain, scored):
    arranged(plain, Order.DIVERSE)
    before = dict(QueueItem.objects.values_list("query_id", "rank"))
    suggestions.push(pool, "support-2", [suggestions.Scored(scored[0].pk, [], dict.fromkeys(range(4), 0.5))])
    orders.renew(pool)
    after = dict(QueueItem.objects.values_list("query_id", "rank"))
    assert after[scored[0].pk] == min(after.values()) < before[scored[0].pk]
    arranged(plain, Order.RANDOM)
    ranks = dict(QueueItem.objects.values_list("query_id", "rank"))
    orders.renew(pool)
    assert dict(QueueItem.objects.values_list("query_id", "rank")) == ranks


def test_a_new_pool_asks_in_varied_order_and_at_random_until_a_model_has_spoken(pool, add_query):
    for n in range(5):
        add_query(f"query {n}")
    queue.fill(pool)
    assert queue.stored_settings(pool).order == Order.DIVERSE
    orders.arrange(queue.stored_settings(pool))
    assert all(item.rank == item.random_key for item in QueueItem.objects.all())
