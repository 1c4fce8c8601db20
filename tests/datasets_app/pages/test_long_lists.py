"""Lists that are longer than what is counted: their pages are turned on, and say “more than”."""

import pytest
from django.core.paginator import EmptyPage
from django.test import Client
from django.urls import reverse

from datasets_app.models import Query
from datasets_app.pages import browse_views
from routerweb import paging


@pytest.fixture
def short(monkeypatch, queries):
    """Three rows are counted, of six queries; two stand on a page."""
    monkeypatch.setattr(paging, "COUNTED", 3)
    return paging.LongPaginator(Query.objects.order_by("pk"), 2)


def test_pages_beyond_the_count_are_found(short, queries):
    assert (short.count, short.more, short.num_pages) == (3, True, 2)
    found = [short.page(number) for number in (1, 2, 3)]
    assert [list(page) for page in found] == [queries[:2], queries[2:4], queries[4:]]
    assert [page.has_next() for page in found] == [True, True, False]
    assert [page.end_index() for page in found] == [2, 4, 6]
    assert found[1].next_page_number() == 3


@pytest.mark.parametrize("number", [0, -1, 4, 10**30])
def test_a_page_that_there_is_not_is_none(short, number):
    with pytest.raises(EmptyPage):
        short.page(number)
    assert short.get_page(number).number == 2, "the last one that was counted"


def test_a_list_that_is_counted_whole_ends_where_it_ends(short, monkeypatch):
    monkeypatch.setattr(paging, "COUNTED", 6)
    assert (short.count, short.more, short.num_pages) == (6, False, 3)
    assert not short.page(3).has_next()
    with pytest.raises(EmptyPage):
        short.page(4)


def test_the_list_of_queries_says_more_than(short, pool, person, monkeypatch):
    monkeypatch.setattr(browse_views, "ROWS", 2)
    client = Client()
    client.force_login(person("olga", "ops"))
    address = reverse("queries", args=[pool.slug])
    html = client.get(address).content.decode()
    assert "More than 3 queries" in html
    assert "1 to 2 of more than 3" in html
    assert "all that match" in html
    last = client.get(address, {"page": 3}).content.decode()
    assert "5 to 6 of more than 3" in last
    assert 'rel="next"' not in last
    few = client.get(address, {"q": "parcel 4"}).content.decode()
    assert "1 query" in few
