"""What a labeler wants to be asked about: which items each choice finds, in the queue's order, and which are never among them."""

import pytest
from django.utils import timezone

from datasets_app.labeling import narrowing, queue
from datasets_app.labeling.narrowing import Narrowing
from datasets_app.labels import labels, suggestions
from datasets_app.models import Assignment, Query, QueueItem, TracedTurn

pytestmark = pytest.mark.both_databases


@pytest.fixture
def filled(pool, plain, queries):
    """Six queries in the queue: the model suggests Account for 1 and 4, the LLM Account for 2 and Billing for 3."""
    queue.fill(pool)
    for place, agents in ((1, [1]), (4, [1, 2])):
        suggestions.push(pool, "m", [suggestions.Scored(queries[place].pk, agents, {0: 0.1, 1: 0.9})])
    for place, agents in ((2, [1]), (3, [0])):
        labels.record(
            labels.NewLabel(queries[place].pk, source="llm", required=agents, asked=range(4), provenance={"model": "m"})
        )
    return queries


def places(pool, person, narrow, filled):
    """Which of the queries are handed out one after the other, by their places."""
    keys = [query.pk for query in filled]
    return [keys.index(one.item.query_id) for one in queue.take(pool, person, count=9, narrow=narrow)]


def test_an_agent_that_anybody_suggests(pool, filled, ana):
    account = pool.agents.get(number=1)
    assert queue.waiting_for(pool, ana, Narrowing(account)) == 3
    assert places(pool, ana, Narrowing(account), filled) == [1, 2, 4]
    assert queue.waiting_for(pool, ana, Narrowing(account)) == 3, "what one holds waits for oneself"


def test_what_the_llm_no_longer_says_does_not_count(pool, filled, ana):
    labels.record(labels.NewLabel(filled[2].pk, source="llm", required=[], asked=range(4), provenance={"model": "m"}))
    assert places(pool, ana, Narrowing(pool.agents.get(number=1)), filled) == [1, 4]


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        ("suggested", [1, 2, 3, 4]),
        ("bare", [0, 5]),
        ("disputed", [2]),
        ("against", [3]),
        ("returned", [4]),
        ("traced", [0]),
        ("conversation", [5]),
        ("single", [0, 1, 2, 3, 4]),
    ],
)
def test_kinds(pool, filled, ana, kind, wanted):
    items = {place: QueueItem.objects.filter(query=query) for place, query in enumerate(filled)}
    items[2].update(disagreement=0.5)
    items[3].update(llm_disagreement=0.5)
    items[4].update(note="the customer came back")
    Query.objects.filter(pk=filled[5].pk).update(turn=0)
    TracedTurn.objects.create(pool=pool, query=filled[0], trace="1", source="otel", at=timezone.now())
    assert places(pool, ana, Narrowing(kind=kind), filled) == wanted


def test_an_agent_and_a_kind_are_both_meant(pool, filled, ana):
    QueueItem.objects.filter(query=filled[4]).update(note="again")
    assert places(pool, ana, Narrowing(pool.agents.get(number=1), "returned"), filled) == [4]


@pytest.mark.parametrize(
    ("lot", "kind", "left"), [("evaluation", "single", 5), ("blind", "single", 6), ("blind", "bare", 1)]
)
def test_the_evaluation_sample_is_not_chosen_nor_blind_items_by_a_hint(pool, plain, filled, ana, lot, kind, left):
    QueueItem.objects.filter(pool=pool).update(**{f"{lot}_lot": 9_000})
    QueueItem.objects.filter(query=filled[0]).update(**{f"{lot}_lot": 10})
    setattr(plain, f"{lot}_share", 0.1)
    plain.save()
    assert queue.waiting_for(pool, ana, Narrowing(kind=kind)) == left


def test_what_is_held_beside_it_is_let_go(pool, filled, ana):
    queue.take(pool, ana, count=6)
    queue.keep_only(pool, ana, Narrowing(kind="bare"))
    held = Assignment.objects.filter(person=ana, state=queue.HELD)
    assert set(held.values_list("item__query", flat=True)) == {filled[0].pk, filled[5].pk}
    assert queue.held(pool, ana, None, Narrowing(kind="suggested")) is None
    assert queue.held(pool, ana, None, Narrowing(kind="bare")).item.query == filled[0]


def test_only_the_next_in_line_are_looked_at(pool, filled, ana, monkeypatch):
    monkeypatch.setattr(narrowing, "LOOKED_AT", 3)
    assert places(pool, ana, Narrowing(pool.agents.get(number=1)), filled) == [1, 2, 4], "three are looked at each time"
    queue.release(pool, ana)
    assert queue.waiting_for(pool, ana, Narrowing(pool.agents.get(number=1))) == 2


def test_what_a_pool_does_not_have_is_left_out(pool):
    assert not narrowing.of(pool, 77, "nonsense")
    assert narrowing.of(pool, 1, "single").parameters == {"agent": "1", "kind": "single"}
