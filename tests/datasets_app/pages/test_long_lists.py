"""Lists that are longer than what is counted: each part begins after a row, and how many rows there are is estimated."""

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from datasets_app.labels import labels
from datasets_app.models import Query
from datasets_app.pages import browse, browse_views
from routerweb.pages import paging
from tests.clients import signed_in

pytestmark = pytest.mark.both_databases


def texts(part):
    return [one.text for one in part.of(Query.objects.all())]


@pytest.mark.parametrize("order", [["pk"], ["-pk"], ["state", "pk"], ["-state", "-pk"], ["-group__split", "-pk"]])
def test_parts_there_and_back_are_the_list_in_its_order(queries, order):
    rows = Query.objects.all()
    Query.objects.filter(pk__in=[queries[1].pk, queries[4].pk]).update(state="gold")
    wanted = list(rows.order_by(*order).values_list("pk", flat=True))
    there, asked, parts = [], {}, []
    while asked is not None:
        parts.append(paging.part(rows, order, asked, 4))
        there += parts[-1].keys
        asked = dict([parts[-1].next]) if parts[-1].next else None
    assert there == wanted
    assert [one.previous is None for one in parts] == [True, False]
    back = paging.part(rows, order, dict([parts[1].previous]), 4)
    assert (back.keys, back.previous, back.next) == (parts[0].keys, None, parts[0].next)


@pytest.mark.parametrize("asked", [{"after": "no key"}, {"after": "0"}, {"before": "99999999"}, {"after": ""}])
def test_a_place_that_there_is_not_is_the_beginning(queries, asked):
    assert paging.part(Query.objects.all(), ["pk"], asked, 2).keys == [queries[0].pk, queries[1].pk]


def test_a_row_that_was_removed_from_the_list_still_says_where_it_goes_on(queries):
    rest = Query.objects.exclude(pk=queries[1].pk)
    assert paging.part(rest, ["pk"], {"after": str(queries[1].pk)}, 2).keys == [queries[2].pk, queries[3].pk]


def test_a_search_without_an_index_ends_when_its_time_is_up_and_goes_on_from_there(queries, monkeypatch):
    monkeypatch.setattr(paging, "STRETCH", 2)
    monkeypatch.setattr(paging, "SECONDS", -1.0)
    last = queries[5].text
    seen, asked, found = [], {}, []
    while asked is not None:
        one = paging.part(Query.objects.all(), ["pk"], asked, 2, lambda rows: rows.filter(text=last))
        found += texts(one)
        seen.append(one.reached)
        asked = dict([one.next]) if one.next else None
    assert found == [last]
    assert seen == [queries[1].pk, queries[3].pk, None]
    monkeypatch.setattr(paging, "SECONDS", 60.0)
    at_once = paging.part(Query.objects.all(), ["pk"], {}, 2, lambda rows: rows.filter(text=last))
    assert (texts(at_once), at_once.next) == ([last], None)


def test_what_fits_in_several_stretches_comes_once_and_in_order(queries, monkeypatch):
    monkeypatch.setattr(paging, "STRETCH", 1)
    monkeypatch.setattr(paging, "SECONDS", 60.0)
    wanted = [queries[at].pk for at in (0, 2, 5)]
    whole = paging.part(Query.objects.all(), ["pk"], {}, 3, lambda rows: rows.filter(pk__in=wanted))
    assert (whole.keys, whole.next) == (wanted, None)
    first = paging.part(Query.objects.all(), ["-pk"], {}, 2, lambda rows: rows.filter(pk__in=wanted))
    assert first.keys == [wanted[2], wanted[1]]
    rest = paging.part(Query.objects.all(), ["-pk"], dict([first.next]), 2, lambda rows: rows.filter(pk__in=wanted))
    assert (rest.keys, rest.next) == ([wanted[0]], None)


def test_a_long_list_says_about_how_long_it_is_and_counts_when_asked(pool, queries, person, monkeypatch):
    monkeypatch.setattr(paging, "COUNTED", 3)
    monkeypatch.setattr(browse_views, "ROWS", 2)
    client = signed_in(person("olga", "ops"))
    address = reverse("queries", args=[pool.slug])
    html = client.get(address).content.decode()
    assert ("About" if connection.vendor == "postgresql" else "More than 3 queries") in html
    assert "all that match" in html
    exact = client.get(address + "?" + re.search(r'href="\?([^"]*count=exact[^"]*)"', html)[1]).content.decode()
    assert "6 queries" in exact
    assert "Count exactly" not in exact
    following = client.get(address + re.search(r'rel="next" href="(\?[^"]+)"', html)[1]).content.decode()
    assert following.count('name="query"') == 2
    assert 'rel="prev"' in following
    assert "1 query" in client.get(address, {"q": "parcel 4"}).content.decode()


def test_of_a_frequent_agent_a_page_is_read_and_the_rest_is_estimated(pool, queries, person, monkeypatch):
    monkeypatch.setattr(paging, "COUNTED", 3)
    monkeypatch.setattr(browse_views, "ROWS", 2)
    labels.record_many([labels.NewLabel(query.pk, "import", [1], [0, 1, 2]) for query in queries])
    client, address = signed_in(person("olga", "ops")), reverse("queries", args=[pool.slug])
    with CaptureQueriesContext(connection) as seen:
        html = client.get(address, {"q": "agent:1"}).content.decode()
    assert ("About" if connection.vendor == "postgresql" else "More than 3 queries") in html
    assert html.count('name="query"') == 2
    lists = [one["sql"] for one in seen if "ORDER BY" in one["sql"] and "datasets_app_goldagent" in one["sql"]]
    assert [re.search(r"LIMIT (\d+)", sql)[1] for sql in lists] == ["3" if connection.vendor == "postgresql" else "4"]
    for other in ("agent:none", "-agent:1", "agent:1 state:gold", "agent:nobody-of-that-name", ""):
        assert browse.search(pool, other).entries(pool) is None
