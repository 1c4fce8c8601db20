"""A note that goes with a label: drafted with it, read by reviewers, carried by exports, changed by its author, gone when erased."""

import json
from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from agents_app.models import Pool
from datasets_app.files import exports
from datasets_app.labeling.erasure import of_query
from datasets_app.labels import labels
from datasets_app.models import Draft, Label, Query, QueueSettings
from routerweb.erasing import ErasedQuery
from tests.clients import signed_in

JSON = {"HTTP_ACCEPT": "application/json"}
ALL = [0, 1, 2, 3]
NOTE = "He means the <b>second</b> invoice"


@pytest.fixture
def client(ana: User) -> Client:
    return signed_in(ana)


def send(client: Client, query: Query, what: str, **more: object) -> int:
    fields = {"asked": "0,1,2,3", "base": "0", "agent": ["1"], "writer": "a", "step": 1, "version": 0, **more}
    return client.post(reverse(f"label_{what}", args=["support", query.pk]), fields, **JSON).status_code


def test_it_is_drafted_sent_and_comes_back_by_undo(
    client: Client, pool: Pool, plain: QueueSettings, queries: list[Query]
) -> None:
    client.get(reverse("label", args=["support"]))
    assert send(client, queries[0], "draft", note=NOTE) == 200
    page = client.get(reverse("label", args=["support"])).content.decode()
    assert 'value="He means the &lt;b&gt;second&lt;/b&gt; invoice"' in page
    assert send(client, queries[0], "submit", note=f" {NOTE} ") == 200
    assert Label.objects.get().note == NOTE
    client.post(reverse("label_undo", args=["support"]), {"query": queries[0].pk}, **JSON)
    assert Draft.objects.get().note == NOTE


def test_one_that_is_too_long_is_refused_in_words(
    client: Client, pool: Pool, plain: QueueSettings, queries: list[Query]
) -> None:
    client.get(reverse("label", args=["support"]))
    assert send(client, queries[0], "submit", note="x" * 501) == 400
    assert not Label.objects.exists()


def test_reviewers_read_it_beside_the_disagreement(
    pool: Pool, plain: QueueSettings, query: Query, ana: User, rita: User, person: Callable[..., User]
) -> None:
    labels.record(labels.NewLabel(query.pk, source="human", author=ana, required=[0], asked=ALL, note=NOTE))
    labels.record(labels.NewLabel(query.pk, source="human", author=person("ben"), required=[1], asked=ALL))
    reviewer = signed_in(rita)
    page = reviewer.get(reverse("review", args=["support"])).content.decode()
    shown = "<b>ana</b>: He means the &lt;b&gt;second&lt;/b&gt; invoice"
    assert page.count(shown) == 1
    history = reviewer.get(reverse("label_history", args=["support", query.pk])).content.decode()
    assert "He means the &lt;b&gt;second" in history


@pytest.mark.both_databases
def test_exports_carry_it(pool: Pool, query: Query, ana: User, add_query: Callable[..., Query]) -> None:
    labels.record(labels.NewLabel(query.pk, source="human", author=ana, required=[0], asked=ALL, note=NOTE))
    other = add_query("nothing was said of this one")
    labels.record(labels.NewLabel(other.pk, source="import", required=[1], asked=ALL))
    content = b"".join(exports.encode(exports.rows(exports.selected(pool)), "jsonl"))
    noted, plain = (json.loads(line) for line in content.decode().splitlines())
    assert noted["notes"] == [NOTE]
    assert "notes" not in plain


def test_its_author_changes_it_and_nobody_else(
    client: Client, pool: Pool, query: Query, ana: User, person: Callable[..., User]
) -> None:
    mine = labels.record(labels.NewLabel(query.pk, source="human", author=ana, required=[0], asked=ALL))
    theirs = labels.record(labels.NewLabel(query.pk, source="human", author=person("ben"), required=[1], asked=ALL))
    assert client.post(reverse("label_note", args=["support", mine.pk]), {"note": "  see   above "}).status_code == 302
    assert client.post(reverse("label_note", args=["support", theirs.pk]), {"note": "no"}).status_code == 404
    mine.refresh_from_db()
    theirs.refresh_from_db()
    assert (mine.note, theirs.note) == ("see above", "")
    assert "see above" in client.get(reverse("my_labels", args=["support"])).content.decode()
    said = client.post(reverse("label_note", args=["support", mine.pk]), {"note": "x" * 501}, follow=True)
    assert "longer than 500" in said.content.decode()


def test_erasing_takes_it(pool: Pool, query: Query, ana: User) -> None:
    labels.record(labels.NewLabel(query.pk, source="human", author=ana, required=[0], asked=ALL, note=NOTE))
    of_query(ErasedQuery(query.pk, pool.pk, query.text))
    assert Label.objects.get().note == ""


def test_a_form_about_a_query_that_was_deleted_leads_back_to_the_queue(
    client: Client, pool: Pool, plain: QueueSettings, queries: list[Query]
) -> None:
    client.get(reverse("label", args=["support"]))
    Query.objects.filter(pk=queries[0].pk).update(deleted_at=timezone.now())
    sent = {"asked": "0,1,2,3", "base": "0", "agent": ["1"], "note": NOTE}
    answer = client.post(reverse("label_submit", args=["support", queries[0].pk]), sent)
    assert (answer.status_code, answer["Location"]) == (302, reverse("label", args=["support"]))
