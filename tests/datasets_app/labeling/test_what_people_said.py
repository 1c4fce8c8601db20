"""What people said is what trains: undo in any order, merges that come apart, decisions, deletes and erasures in between."""

import io
import json
from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.urls import reverse

from agents_app import pools
from agents_app.models import Pool
from datasets_app.figures import agreement, progress
from datasets_app.files import imports
from datasets_app.labeling import adjudication, bulk, one_query, queue, sending
from datasets_app.labeling.one_query import Choice
from datasets_app.labels import disagreement, erased_queries, labels, snapshots
from datasets_app.models import Assignment, Query, QueueItem, QueueSettings, group_hash
from tests.clients import signed_in
from tests.datasets_app.labeling.saying import EVERY, agent_of, answer, everything, gold_of, hold, only, said, state_of

# ------------------------------------------------------------------------------------------------ undo in any order


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("decided", [False, True])
def test_bulk_changes_are_undone_in_any_order(
    pool: Pool, plain: QueueSettings, query: Query, rita: User, order: tuple[int, int], decided: bool
) -> None:
    changes = [everything(pool, query, bulk.ADD, 0, rita)]
    decision = None
    if decided:
        decision = adjudication.decide(
            pool, query, adjudication.Ruling(required=frozenset({2}), took="edit", reason="mistake"), author=rita
        )
    changes.append(everything(pool, query, bulk.ADD, 1, rita))
    for place in order:
        bulk.undo(changes[place], rita)
    assert gold_of(query) == (([2], [0, 1, 2, 3]) if decision else None)
    if decision:
        adjudication.take_back(decision, rita)
    assert gold_of(query) is None
    assert state_of(query) == "unlabeled"


def test_sending_is_undone_in_any_order(pool: Pool, plain: QueueSettings, query: Query, ana: User, rita: User) -> None:
    labels.record(labels.NewLabel(query.pk, source="import", required=[0], asked=EVERY))
    queue.fill(pool)
    first = bulk.apply(pool, only(query), bulk.SEND, None, author=rita)
    answer(pool, ana, query, said(0), "a")
    second = bulk.apply(pool, only(query), bulk.SEND, None, author=rita)
    bulk.undo(first, rita)
    assert queue.still_open(pool) == 1, "what was sent once more stays asked"
    bulk.undo(second, rita)
    assert sending.of([query.pk])[query.pk].wanted is False


def test_a_draft_is_a_draft_again_after_a_bulk_change_is_undone(
    pool: Pool, plain: QueueSettings, query: Query, ana: User, rita: User
) -> None:
    one_query.save_draft(hold(pool, ana, query), said(1), base=0, version=0, writer="w", step=1)
    change = everything(pool, query, bulk.ADD, 0, rita)
    bulk.undo(change, rita)
    assert state_of(query) == "draft"


# -------------------------------------------------------------------------------------------------- accepting suggestions


def test_accepting_speaks_of_the_agents_that_the_llm_was_asked_about(
    pool: Pool, plain: QueueSettings, query: Query, rita: User
) -> None:
    labels.record(labels.NewLabel(query.pk, source="llm", required=[1], asked=[0, 1, 2]))
    bulk.apply(pool, only(query), bulk.ACCEPT, None, author=rita)
    assert gold_of(query) == ([1], [0, 1, 2])
    assert progress.questions(pool) == [(agent_of(pool, 3), 1)], "the fourth is asked about on its own"


def test_accepting_leaves_what_was_decided(
    pool: Pool, plain: QueueSettings, query: Query, ana: User, rita: User
) -> None:
    ben = User.objects.create_user("ben")
    everything(pool, query, bulk.ADD, 0, rita)
    labels.record(labels.NewLabel(query.pk, source="human", author=ana, required=[2], asked=EVERY))
    labels.record(labels.NewLabel(query.pk, source="human", author=ben, required=[3], asked=EVERY))
    labels.record(labels.NewLabel(query.pk, source="llm", required=[1, 2], asked=EVERY))
    change = bulk.apply(pool, only(query), bulk.ACCEPT, None, author=rita)
    assert gold_of(query) == ([0, 2], [0, 1, 2, 3]), (
        "the decision of 0 stands, what people agree on stands, 2 and 3 are decided"
    )
    bulk.undo(change, rita)
    assert gold_of(query) == ([0], [0, 1])


# ------------------------------------------------------------------------------------------------------------- merges


def test_each_step_of_a_chain_of_merges_comes_apart(pool: Pool, query: Query) -> None:
    labels.record(labels.NewLabel(query.pk, source="import", required=[0], asked=EVERY))
    pools.merge(agent_of(pool, 0), agent_of(pool, 1), None)
    pools.merge(agent_of(pool, 1), agent_of(pool, 2), None)
    assert gold_of(query) == ([2], [2, 3])
    pools.restore(agent_of(pool, 1), actor=None)
    assert gold_of(query) == ([1], [1, 2, 3])
    pools.restore(agent_of(pool, 0), actor=None)
    assert gold_of(query) == ([0], [0, 1, 2, 3])


def test_a_no_after_a_merge_answers_the_yes_before_it(
    pool: Pool, plain: QueueSettings, query: Query, rita: User
) -> None:
    everything(pool, query, bulk.ADD, 0, rita)
    pools.merge(agent_of(pool, 0), agent_of(pool, 1), None)
    assert gold_of(query) == ([1], [1])
    everything(pool, query, bulk.REMOVE, 1, rita)
    assert gold_of(query) == ([], [1])
    pools.merge(agent_of(pool, 1), agent_of(pool, 2), None)
    assert gold_of(query) is None, "nothing that was overruled travels on"


def test_a_no_before_a_merge_does_not(pool: Pool, plain: QueueSettings, query: Query, rita: User) -> None:
    labels.record(labels.NewLabel(query.pk, source="adjudication", author=rita, required=[0], asked=[0], partial=True))
    labels.record(labels.NewLabel(query.pk, source="adjudication", author=rita, required=[], asked=[1], partial=True))
    pools.merge(agent_of(pool, 0), agent_of(pool, 1), None)
    assert gold_of(query) == ([1], [1]), "it said nothing of what the merged agent does"


def test_a_re_asked_no_to_the_merged_agent_counts(pool: Pool, plain: QueueSettings, query: Query, ana: User) -> None:
    labels.record(labels.NewLabel(query.pk, source="human", author=ana, required=[0], asked=[0]))
    new = pools.add_agent(pool, "Returns")
    pools.merge(agent_of(pool, 0), new, None)
    answer(pool, ana, query, Choice(frozenset(), True, False, frozenset({new.number})), "k", new)
    assert gold_of(query) == ([], [new.number])


def test_disagreement_and_agreement_resolve_merges(pool: Pool, plain: QueueSettings, query: Query, ana: User) -> None:
    ben = User.objects.create_user("ben")
    queue.fill(pool)
    labels.record(labels.NewLabel(query.pk, source="human", author=ana, required=[0], asked=EVERY))
    labels.record(labels.NewLabel(query.pk, source="human", author=ben, required=[1], asked=EVERY))
    disagreement.measure([query.pk])
    assert QueueItem.objects.get(query=query).disagreement == 1.0
    pools.merge(agent_of(pool, 0), agent_of(pool, 1), None)
    assert QueueItem.objects.get(query=query).disagreement == 0.0
    assert agreement.report(pool).exact == 1.0
    pools.restore(agent_of(pool, 0), actor=None)
    assert QueueItem.objects.get(query=query).disagreement == 1.0


# ------------------------------------------------------------------------------------------------- deleted and erased


@pytest.mark.parametrize("how", ["deleted", "erased"])
def test_nobody_is_stuck_on_a_query_that_is_gone(
    pool: Pool, plain: QueueSettings, queries: list[Query], ana: User, rita: User, how: str
) -> None:
    client = signed_in(ana)
    lease = queue.take(pool, ana)[0]
    gone, next_one = lease.item.query, queries[1]
    bulk.apply(pool, only(gone), bulk.DELETE, None, author=rita) if how == "deleted" else erased_queries.erase(
        gone, rita
    )
    assert queue.heartbeat(pool, ana, [gone.pk]) == set()
    assert [one.item.query_id for one in queue.take(pool, ana)] == [next_one.pk]
    assert QueueItem.objects.get(query=gone).taken == 0
    submit = reverse("label_submit", args=[pool.slug, gone.pk])
    told = client.post(submit, {"agent": "1", "asked": "0,1,2,3"}, HTTP_ACCEPT="application/json")
    assert (told.status_code, told.json()["error"]) == (
        410,
        "This query was deleted meanwhile. Continue with the next one.",
    )
    page = client.post(submit, {"agent": "1", "asked": "0,1,2,3"}, follow=True)
    assert "This query was deleted meanwhile" in page.content.decode()
    assert next_one.text in page.content.decode()
    with pytest.raises(one_query.Gone):
        one_query.submit(_of(lease, pool, ana), said(1), key="k", base=0)


def _of(lease: Assignment, pool: Pool, person: User) -> Assignment:
    lease.person, lease.item.pool = person, pool
    return lease


def test_a_restored_query_keeps_the_questions_of_a_re_ask(
    pool: Pool, plain: QueueSettings, query: Query, rita: User
) -> None:
    labels.record(labels.NewLabel(query.pk, source="import", required=[0], asked=EVERY))
    new = pools.add_agent(pool, "Returns")
    change = bulk.apply(pool, only(query), bulk.DELETE, None, author=rita)
    assert progress.questions(pool) == []
    bulk.undo(change, rita)
    assert progress.questions(pool) == [(new, 1)]


def test_what_an_erased_query_taught_stays(
    pool: Pool, plain: QueueSettings, queries: list[Query], ana: User, rita: User
) -> None:
    answer(pool, ana, queries[0], said(1), "a")
    change = everything(pool, queries[1], bulk.ADD, 0, rita)
    decision = adjudication.decide(
        pool, queries[2], adjudication.Ruling(required=frozenset({3}), took="edit", reason="mistake"), author=rita
    )
    before = [gold_of(query) for query in queries[:3]]
    for query in queries[:3]:
        erased_queries.erase(query, rita)
    assert one_query.undo(pool, ana) is None
    assert bulk.undo(change, rita) == 0
    with pytest.raises(adjudication.DecisionError, match="erased"):
        adjudication.take_back(decision, rita)
    assert [gold_of(query) for query in queries[:3]] == before


def test_a_bulk_change_that_began_before_a_delete_leaves_what_was_deleted(
    pool: Pool, plain: QueueSettings, queries: list[Query], rita: User
) -> None:
    chosen = Query.objects.filter(pk__in=[one.pk for one in queries[:2]])
    for action, agent in ((bulk.ADD, agent_of(pool, 0)), (bulk.SEND, None)):
        QueueItem.objects.filter(query__in=chosen).update(wanted=False, needed=0)
        change = bulk.start(pool, chosen, action, agent, author=rita)
        deleted = bulk.apply(pool, only(queries[0]), bulk.DELETE, None, author=rita)
        bulk.go_on(change)
        bulk.undo(deleted, rita)
        queue.fill(pool, everything=True)
    assert gold_of(queries[0]) is None
    assert gold_of(queries[1]) == ([0], [0])


def test_an_old_snapshot_with_an_erased_row_does_not_come_back(
    pool: Pool, add_query: Callable[..., Query], rita: User
) -> None:
    elsewhere = pool.datasets.create(name="Elsewhere")
    first = add_query("where is my parcel", "train")
    labels.record(labels.NewLabel(first.pk, source="import", required=[0], asked=EVERY))
    old = snapshots.take(pool)
    erased_queries.erase(first, rita)
    again = add_query("where is my parcel", "train", elsewhere)
    labels.record(labels.NewLabel(again.pk, source="import", required=[0], asked=EVERY))
    new = snapshots.take(pool)
    assert new != old
    assert [row["text"] for row in snapshots.rows(new)] == ["where is my parcel"]
    assert snapshots.verify(old)
    assert snapshots.verify(new)
    assert snapshots.take(pool) == new


# -------------------------------------------------------------------------------------------------------------- splits


def test_a_split_that_a_snapshot_used_is_for_ever(pool: Pool, add_query: Callable[..., Query]) -> None:
    query = add_query("where is my parcel")
    labels.record(labels.NewLabel(query.pk, source="llm", required=[0], asked=EVERY))
    first = snapshots.take(pool, include_llm=True)
    assert [row["split"] for row in snapshots.rows(first)] == ["train"]
    row = {"text": "Where is my parcel?", "required_agents": [0]}
    imports.read_file(query.dataset, io.BytesIO(json.dumps(row).encode()), "jsonl", split="test")
    second = snapshots.take(pool)
    assert {row["split"] for row in snapshots.rows(second)} == {"train"}


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("hi ❤", "hi ❤\ufe0f", True),
        ("❤", "❤\ufe0f", True),
        ("❤\ufe0f", "☀\ufe0f", False),
        ("👩\u200d💻", "👩💻", True),
        ("👩\u200d💻", "👨\u200d💻", False),
        ("❤\ufe0f\u200d🔥", "❤\u200d🔥", True),
        ("می\u200cخواهم", "میخواهم", True),
        ("!!!", "???", False),
        ("\u200d", "\ufe0f", False),
    ],
)
def test_what_nobody_sees_neither_parts_nor_joins_groups(one: str, other: str, alike: bool) -> None:
    assert (group_hash(one) == group_hash(other)) is alike


# ------------------------------------------------------------------------------------------------------------ decisions


def test_a_decision_taken_back_puts_its_query_into_the_queue_again(
    pool: Pool, plain: QueueSettings, query: Query, ana: User, rita: User
) -> None:
    queue.skip(queue.take(pool, ana)[0], "no idea")
    first = adjudication.decide(
        pool, query, adjudication.Ruling(required=frozenset({1}), took="edit", reason="mistake"), author=rita
    )
    assert queue.still_open(pool) == 0
    second = adjudication.decide(
        pool, query, adjudication.Ruling(required=frozenset({2}), took="edit", reason="mistake"), author=rita
    )
    adjudication.take_back(first, rita)
    assert queue.still_open(pool) == 0, "a later decision stands"
    assert gold_of(query) == ([2], [0, 1, 2, 3])
    adjudication.take_back(second, rita)
    assert queue.still_open(pool) == 1
    assert gold_of(query) is None
    with pytest.raises(labels.LabelError, match="already withdrawn"):
        adjudication.take_back(second, rita)


def test_a_dispute_about_an_agent_that_was_retired_since_is_decided(
    pool: Pool, plain: QueueSettings, query: Query, ana: User, rita: User
) -> None:
    queue.fill(pool)
    labels.record(labels.NewLabel(query.pk, source="human", author=ana, required=[0, 2], asked=EVERY))
    labels.record(labels.NewLabel(query.pk, source="human", author=rita, required=[0], asked=EVERY))
    pools.retire(agent_of(pool, 2), actor=None)
    client = signed_in(rita)
    page = reverse("review_query", args=[pool.slug, query.pk])
    asked = client.get(page).content.decode().split('name="asked" value="')[1].split('"')[0]
    pools.add_agent(pool, "Returns")
    client.post(page, {"take": "edit", "agent": ["0"], "reason": "mistake", "asked": asked})
    assert state_of(query) == "gold"
    assert gold_of(query) == ([0], [0, 1, 2, 3]), "the new agent was not on the page"
