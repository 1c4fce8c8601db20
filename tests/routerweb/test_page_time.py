"""On PostgreSQL a page that reads too long ends and says so, and words are found by an index of trigrams."""

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.core.checks import run_checks
from django.db import connection
from django.http import HttpResponse

from agents_app.models import Pool
from datasets_app.models import Query
from datasets_app.queries import adding
from routerweb.database import trigrams
from routerweb.pages import page_time
from training_app.pages.home import home_views

pytestmark = [pytest.mark.both_databases, pytest.mark.django_db]


def test_a_page_compiles_no_query(monkeypatch, client):
    seen = []

    def look(request, pool, more, known):
        with connection.cursor() as cursor:
            cursor.execute("SHOW jit" if connection.vendor == "postgresql" else "SELECT 'off'")
            seen.append(cursor.fetchone())
        return HttpResponse()

    monkeypatch.setattr(home_views, "_draw", look)
    client.force_login(User.objects.create_superuser("ada"))
    assert client.get("/").status_code == 200
    assert seen == [("off",)]


def slow(request):
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_sleep(10)")
    return HttpResponse("read all")


def test_a_page_that_reads_too_long_ends_and_says_so(monkeypatch, client):
    monkeypatch.setattr(page_time, "SECONDS", 0.1)
    monkeypatch.setattr(home_views, "_draw", lambda request, pool, more, known: slow(request))
    client.force_login(User.objects.create_superuser("ada"))
    answer = client.get("/")
    if connection.vendor == "postgresql":
        assert (answer.status_code, "took too long" in answer.content.decode()) == (503, True)
        monkeypatch.undo()
        assert client.get("/").status_code == 200, "the connection goes on"
    else:
        assert answer.content == b"read all"


@pytest.mark.django_db(transaction=True)
def test_migrate_makes_the_index_of_words_that_lacks():
    pool = Pool.objects.create(slug="support", name="Support")
    texts = [adding.NewQuery(f"invoice {number} is wrong") for number in range(40)]
    adding.find_or_add(adding.dataset_of(pool), texts, "test")
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("DROP INDEX IF EXISTS datasets_app_query_words")
        assert not trigrams.are_indexed(Query)
        trigrams.make_all()
        with connection.cursor() as cursor:
            cursor.execute("SET enable_seqscan = off; SET enable_indexscan = off")
            plan = Query.objects.filter(text__icontains="invoice").explain()
            cursor.execute("RESET enable_seqscan; RESET enable_indexscan")
        assert "datasets_app_query_words" in plan
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1 FROM pg_stats WHERE tablename = 'datasets_app_query_words'")
            assert cursor.fetchone(), (
                "how frequent words are is known at once, so that a frequent one is not looked up in it"
            )
    assert trigrams.are_indexed(Query) == (connection.vendor == "postgresql")
    assert not [found for found in run_checks(databases=["default"]) if found.id == "routerweb.W001"]


@pytest.mark.django_db(transaction=True)
def test_who_may_not_create_the_extension_hears_once_what_to_do(caplog):
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has no extensions.")
    try:
        with connection.cursor() as cursor:
            cursor.execute("DROP EXTENSION IF EXISTS pg_trgm CASCADE")
            cursor.execute("CREATE ROLE reader")
            cursor.execute("SET ROLE reader")
        for one in apps.get_app_configs():
            trigrams.make_all(app_config=one)
        (said,) = [line for line in caplog.messages if "Searches of words" in line]
        assert "permission denied" in said
        assert "superuser run CREATE EXTENSION pg_trgm" in said
        (found,) = [found for found in run_checks(databases=["default"]) if found.id == "routerweb.W001"]
        assert found.hint == trigrams.HINT
    finally:
        with connection.cursor() as cursor:
            cursor.execute("RESET ROLE")
            cursor.execute("DROP ROLE IF EXISTS reader")
        trigrams.make_all()
    assert trigrams.are_indexed(Query)
