"""Review and the list of queries read as much in a large pool as in a small one: what waits, not what is labeled."""

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from datasets_app.labeling import adjudication, queue
from datasets_app.labels import labels
from datasets_app.models import Query
from datasets_app.pages import browse, browse_views, review_views
from routerweb.pages import paging
from tests.page_cost import counted

pytestmark = pytest.mark.both_databases
ALL = [0, 1, 2, 3]


def analyze():
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")


@pytest.mark.at_length
def test_unsure_and_skipped_queries_are_counted_without_those_that_are_sure(pool, add_query, person):
    ana, ben = person("ana"), person("ben")

    def label(first, last):
        texts = [add_query(f"parcel {n}") for n in range(first, last)]
        labels.record_many([labels.NewLabel(one.pk, "human", [1], ALL, author=ana) for one in texts])
        queue.fill(pool)
        for one in texts[::10]:
            queue.open_item(one, ben, pool)
        analyze()

    def cost(cases):
        with counted() as read:
            assert paging.total(cases(pool)).count == 1
        return read.read

    unsure, skipped = add_query("unsure"), add_query("skipped")
    labels.record(labels.NewLabel(unsure.pk, source="human", author=ana, required=[1], asked=ALL, unsure=True))
    queue.fill(pool)
    queue.skip(queue.open_item(skipped, ana, pool), "too hard")
    label(0, 200)
    few = {cases: cost(cases) for cases in (adjudication.doubts, adjudication.passed)}
    label(200, 1_000)
    assert all(cost(cases) <= few[cases] + 20 for cases in few)


def test_a_tab_counts_a_thousand_cases_and_estimates_the_rest(pool, queries, client, rita, monkeypatch):
    monkeypatch.setattr(review_views, "COUNTED", 2)
    Query.objects.update(state=Query.State.DISAGREEMENT)
    client.force_login(rita)
    html = client.get(reverse("review", args=[pool.slug])).content.decode()
    assert ("about " if connection.vendor == "postgresql" else "more than 2") in html


def test_queries_of_an_agent_are_each_listed_once_whatever_else_they_need(pool, queries):
    for place, query in enumerate(queries):
        labels.record(
            labels.NewLabel(query.pk, source="import", required=[[0, 1, 2], [0], [1, 3]][place % 3], asked=ALL)
        )

    def matching(search):
        return [queries.index(query) for query in browse.search(pool, search).queries.order_by("pk")]

    assert matching("agent:0") == [0, 1, 3, 4]
    assert matching("agent:0 agent:1") == [0, 3]
    assert matching("agent:0 -agent:1") == [1, 4]
    assert matching("-agent:0") == [2, 5]


def test_a_search_finds_its_rows_once(client, pool, queries, rita, monkeypatch):
    monkeypatch.setattr(browse_views, "ROWS", 2)
    client.force_login(rita)

    def readings(address, words):
        with CaptureQueriesContext(connection) as seen:
            html = client.get(address).content.decode()
        return [one["sql"] for one in seen if words in one["sql"] and not one["sql"].startswith("EXPLAIN")], html

    address = reverse("queries", args=[pool.slug])
    first, html = readings(f"{address}?q=parcel", "%parcel%")
    assert (len(first), "6 queries" in html, html.count('name="query"')) == (1, True, 2)
    following = re.search(r'rel="next" href="(\?[^"]+)"', html)[1].replace("&amp;", "&")
    html = client.get(address + following).content.decode()
    assert ("6 queries" in html, html.count('name="query"')) == (True, 2)

    for query in queries[:3]:
        queue.fill(pool)
        queue.skip(queue.open_item(query, rita, pool), "too hard")
    skips, html = readings(f"{reverse('review', args=[pool.slug])}?list=skipped", "'skipped'")
    assert (len(skips), "parcel" in html) == (1, True)
    assert html.count("list=skipped") >= 3, "itself and two that come next"
