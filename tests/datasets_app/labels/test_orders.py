"""In which order the queue asks."""

import numpy as np
import pytest

from datasets_app.labels import disagreement, labels, orders, queue, suggestions
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
    labels.record(queries[4], source="import", required=[0], asked=range(4))
    labels.record(queries[4], source="llm", required=[2], asked=range(4))
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


def test_a_varied_batch_does_not_ask_the_same_thing_twice():
    texts = [
        "my invoice is wrong",
        "my invoice is wrong!",
        "my invoice is wrong?",
        "the parcel never came",
        "app crashes",
    ]
    doubt = np.array([1.0, 0.99, 0.98, 0.6, 0.5])
    assert set(orders.diverse(texts, doubt)[:3]) == {0, 3, 4}
    assert orders.diverse(texts, doubt, weight=0.0) == [0, 1, 2, 3, 4]


def test_varied_batches_in_the_queue(pool, plain, add_query, person):
    near = [add_query(f"my invoice is wrong {'!' * n}.") for n in range(1)] + [add_query("my invoice is so wrong")]
    far = add_query("the parcel never came")
    queue.fill(pool)
    doubts = [(near[0], 0.5), (near[1], 0.49), (far, 0.3)]
    suggestions.push(pool, "m", [suggestions.Scored(query.pk, [], {0: p}) for query, p in doubts])
    arranged(plain, Order.DIVERSE)
    taken = [lease.item.query for lease in queue.take(pool, person("ana"), count=3)]
    assert taken == [near[0], far, near[1]]
