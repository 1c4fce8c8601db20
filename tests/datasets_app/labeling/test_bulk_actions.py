"""Every bulk action is offered, counts beforehand what it changes, and is taken back in any order with every other one."""

from itertools import product
from typing import Any

import pytest
from django.urls import reverse

from agents_app.models import Agent, AuditEntry, Pool
from datasets_app.labeling import bulk, queue
from datasets_app.labeling.bulk_actions import ACTIONS
from datasets_app.labels import labels
from datasets_app.models import BulkChange, BulkChangeEntry, Gold, Query, QueueItem
from tests.clients import signed_in

pytestmark = pytest.mark.django_db
PAIRS = list(product(ACTIONS, repeat=2))


@pytest.fixture
def mixed(pool: Pool, plain: Any, queries: list[Query], rita: Any) -> list[Query]:
    """0: gold {0}; 1: gold {}; 2: suggested {1}; 3: nothing; 4: deleted, suggested {2}; 5: gold {3}, deleted."""
    every = range(4)
    labels.record(labels.NewLabel(queries[0].pk, source="import", required=[0], asked=every))
    labels.record(labels.NewLabel(queries[1].pk, source="import", required=[], asked=every))
    labels.record(labels.NewLabel(queries[2].pk, source="llm", required=[1], asked=every))
    labels.record(labels.NewLabel(queries[4].pk, source="llm", required=[2], asked=every))
    labels.record(labels.NewLabel(queries[5].pk, source="import", required=[3], asked=every))
    queue.fill(pool, everything=True)
    bulk.delete([queries[4].pk, queries[5].pk])
    return queries


def agent_for(pool: Pool, code: str) -> Agent | None:
    return pool.agents.get(number=0) if ACTIONS[code].takes_agent else None


def counts(pool: Pool) -> dict[int, tuple[Any, ...]]:
    """How every query stands: what a bulk change may change, and undoing has to bring back."""
    gold = {one.query_id: (tuple(one.required), tuple(one.asked)) for one in Gold.objects.all()}
    columns = ("query", "agent__number", "wanted", "extra", "decided", "needed")
    items: dict[int, list[Any]] = {}
    for key, *item in QueueItem.objects.order_by("query", "agent__number").values_list(*columns):
        if item[0] is None or item[1]:  # a question about one agent that nobody wants answered says nothing
            items.setdefault(key, []).append(tuple(item))
    queries = Query.objects.filter(dataset__pool=pool)
    return {
        one.pk: (one.state, one.deleted_at is None, gold.get(one.pk), tuple(items.get(one.pk, ()))) for one in queries
    }


def do(pool: Pool, code: str, author: Any) -> BulkChange:
    return bulk.apply(pool, Query.objects.filter(dataset__pool=pool), code, agent_for(pool, code), author=author)


@pytest.mark.parametrize("code", ACTIONS)
def test_it_changes_what_the_preview_counts_and_undo_brings_it_back(
    pool: Pool, mixed: Any, rita: Any, code: str
) -> None:
    before, chosen = counts(pool), Query.objects.filter(dataset__pool=pool)
    seen = bulk.preview(chosen, code, agent_for(pool, code))
    assert 0 < seen.changes < len(mixed), "the queries of this test are to tell actions apart"
    change = do(pool, code, rita)
    entries = BulkChangeEntry.objects.filter(change=change, before__isnull=False)
    after = counts(pool)
    assert {key for key in before if before[key] != after[key]} == set(entries.values_list("query", flat=True))
    assert entries.count() == change.total == seen.changes
    assert not ACTIONS[code].affected(chosen, agent_for(pool, code)).exists() or code == "send", "once is enough"
    assert bulk.undo(change, rita) == seen.changes
    assert counts(pool) == before
    assert bulk.undo(change, rita) == 0
    kinds = list(AuditEntry.objects.filter(action__startswith="queries.").values_list("action", flat=True))
    assert f"queries.{ACTIONS[code].audited}" in kinds


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_two_changes_are_taken_back_in_either_order(pool: Pool, mixed: Any, rita: Any, first: str, second: str) -> None:
    before = counts(pool)
    one = do(pool, first, rita)
    between = counts(pool)
    two = do(pool, second, rita)
    both = counts(pool)
    bulk.undo(two, rita)
    assert counts(pool) == between
    bulk.undo(one, rita)
    assert counts(pool) == before
    one, two = do(pool, first, rita), do(pool, second, rita)
    assert {key: row[:3] for key, row in counts(pool).items()} == {key: row[:3] for key, row in both.items()}
    bulk.undo(one, rita)
    bulk.undo(two, rita)
    assert counts(pool) == before


@pytest.mark.parametrize("code", ACTIONS)
def test_it_is_offered_on_the_page_and_in_the_admin(pool: Pool, mixed: Any, rita: Any, code: str) -> None:
    action = ACTIONS[code]
    client = signed_in(rita)
    page = client.get(reverse("queries", args=[pool.slug]), {"q": "is:deleted" if action.of_deleted else ""})
    assert f'<option value="{code}">{action.label}</option>' in page.content.decode()
    chosen = {"action": code, "all": "1", "q": "is:deleted" if action.of_deleted else ""}
    preview = client.get(reverse("bulk_preview", args=[pool.slug]), chosen)
    if action.takes_agent:
        assert str(action.question) in preview.content.decode()
        chosen["agent"] = "0"
        preview = client.get(reverse("bulk_preview", args=[pool.slug]), chosen)
    html = preview.content.decode()
    assert str(action.label) in html
    assert str(action.consequence)[:60].replace("'", "&#x27;") in html
    answer = client.post(reverse("bulk_apply", args=[pool.slug]), chosen, follow=True).content.decode()
    change = BulkChange.objects.get()
    assert (change.action, change.changed) == (code, change.total)
    assert action.done(change.total) in answer
    assert reverse("bulk_undo", args=[pool.slug, change.pk]) in answer
    from django.contrib import admin  # once the site's addresses have registered its models

    assert f"bulk_{code}" in [getattr(one, "__name__", one) for one in admin.site.get_model_admin(Query).actions or ()]


def test_an_action_that_is_none_is_refused(pool: Pool, mixed: Any, rita: Any) -> None:
    client = signed_in(rita)
    assert client.post(reverse("bulk_apply", args=[pool.slug]), {"action": "sing", "all": "1"}).status_code == 404
    assert client.get(reverse("bulk_preview", args=[pool.slug]), {"action": "sing", "all": "1"}).status_code == 302


def test_every_layer_belongs_to_actions_that_know_how_to_inherit(pool: Pool) -> None:
    for code, action in ACTIONS.items():
        assert code == action.code
        assert len(code) <= BulkChange._meta.get_field("action").max_length  # type: ignore[operator,union-attr]
        assert action.takes_agent == bool(action.question)
