"""The admin's actions drive the same functions as the pages."""

import pytest
from django.test import Client
from django.urls import reverse

from agents_app import audit
from agents_app.models import AuditEntry
from datasets_app.labeling import bulk, queue
from datasets_app.labels import disagreement, labels
from datasets_app.models import BulkChange, Gold, Label, PrelabelJob, Query

CHANGELIST = reverse("admin:datasets_app_query_changelist")


@pytest.fixture
def client(person):
    client = Client()
    user = person("root", "admin")
    user.is_superuser = True
    user.save()
    client.force_login(user)
    return client


def act(client, action, *queries, **more):
    fields = {"action": action, "_selected_action": [query.pk for query in queries]} | more
    return client.post(CHANGELIST, fields, follow=True)


def test_sending_asks_labelers(client, pool, plain, queries):
    labels.record(labels.NewLabel(queries[0].pk, source="import", required=[0], asked=range(4)))
    queue.fill(pool)
    assert queue.still_open(pool) == 5
    html = act(client, "bulk_send", queries[0]).content.decode()
    assert "1 query waits for labelers." in html
    assert queue.still_open(pool) == 6
    undo = reverse("bulk_undo", args=[pool.slug, BulkChange.objects.get().pk])
    assert f'action="{undo}"' in html, "the admin draws the button too"
    client.post(undo)
    assert queue.still_open(pool) == 5


def test_accepting_makes_gold_of_suggestions_alone_and_undoes(client, pool, plain, queries):
    labels.record(labels.NewLabel(queries[0].pk, source="llm", required=[2], asked=range(4)))
    labels.record(
        labels.NewLabel(
            queries[1].pk, source="llm", required=[0, 1], asked=range(4), provenance={"fallback": "all-agents"}
        )
    )
    labels.record(labels.NewLabel(queries[2].pk, source="import", required=[0], asked=range(4)))
    labels.record(labels.NewLabel(queries[2].pk, source="llm", required=[3], asked=range(4)))
    assert "1 query was changed." in act(client, "bulk_accept", *queries).content.decode()
    assert Gold.objects.get(query=queries[0]).required == [2]
    assert Gold.objects.get(query=queries[2]).required == [0], "gold that stands is left alone"
    assert Label.objects.get(source="adjudication").provenance["shown"][0]["source"] == "llm"
    change = BulkChange.objects.get()
    assert bulk.undo(change, change.author) == 1
    assert not Gold.objects.filter(query=queries[0]).exists()


def test_prelabeling_starts_a_job(client, pool, plain, queries, settings):
    settings.LLM_MODEL = ""
    assert "Name the server" in act(client, "prelabel_chosen", queries[0]).content.decode()
    settings.LLM_BASE_URL, settings.LLM_MODEL = "http://127.0.0.1:9/v1", "m"
    act(client, "prelabel_chosen", queries[0], queries[1])
    assert PrelabelJob.objects.get().items.count() == 2


@pytest.mark.parametrize("action", ["add", "remove"])
def test_an_agent_is_chosen_counted_and_changed(client, pool, plain, queries, action):
    if action == "remove":
        labels.record(labels.NewLabel(queries[0].pk, source="import", required=[3], asked=range(4)))
    answer = act(client, f"bulk_{action}", queries[0], queries[1])
    assert f"{action.capitalize()} which agent?" in answer.content.decode()
    chosen = {"action": action, "agent": "3", "query": [queries[0].pk, queries[1].pk]}
    changed = 2 if action == "add" else 1
    html = client.get(reverse("bulk_preview", args=[pool.slug]), chosen).content.decode()
    assert f"Change {changed} quer" in html
    client.post(reverse("bulk_apply", args=[pool.slug]), chosen)
    assert BulkChange.objects.get().changed == changed
    assert Query.objects.count() == 6


def test_queries_are_found_by_disagreement(client, pool, plain, queries, person):
    queue.fill(pool)
    for query, ana, ben, llm in ((queries[0], [0], [1], [0]), (queries[1], [2], [2], [3]), (queries[2], [2], [2], [2])):
        labels.record(
            labels.NewLabel(query.pk, source="human", author=person(f"ana{query.pk}"), required=ana, asked=range(4))
        )
        labels.record(
            labels.NewLabel(query.pk, source="human", author=person(f"ben{query.pk}"), required=ben, asked=range(4))
        )
        labels.record(labels.NewLabel(query.pk, source="llm", required=llm, asked=range(4)))
    disagreement.measure([query.pk for query in queries])

    def found(kind):
        shown = client.get(CHANGELIST, {"disagreement": kind}).context["cl"].queryset
        return set(shown.values_list("pk", flat=True))

    assert found("people") == {queries[0].pk}
    assert found("llm") == {queries[0].pk, queries[1].pk}


def test_what_is_sent_is_recorded(client, pool, plain, queries):
    labels.record(labels.NewLabel(queries[0].pk, source="import", required=[0], asked=range(4)))
    act(client, "bulk_send", queries[0])
    entry = AuditEntry.objects.get(action="queries.sent")
    assert (entry.actor_name, entry.detail["queries"]) == ("root", 1)


@pytest.mark.parametrize(("action", "name"), [("label_this", "label_item"), ("review_this", "review_query")])
def test_one_query_leads_to_the_page_where_it_is_worked_on(client, pool, plain, queries, action, name):
    answer = client.post(CHANGELIST, {"action": action, "_selected_action": [queries[0].pk]})
    assert answer.headers["Location"] == reverse(name, args=[pool.slug, queries[0].pk])
    assert client.get(answer.headers["Location"]).status_code == 200
    assert "Choose one query" in act(client, action, queries[0], queries[1]).content.decode()


def test_a_form_leads_on_shows_chips_and_the_audit_trail(client, pool, plain, queries):
    label = labels.record(labels.NewLabel(queries[0].pk, source="import", required=[1], asked=[0, 1]))
    html = client.get(reverse("admin:datasets_app_query_change", args=[queries[0].pk])).content.decode()
    for name in ("query", "label_item", "review_query"):
        assert f'href="{reverse(name, args=[pool.slug, queries[0].pk])}"' in html
    html = client.get(reverse("admin:datasets_app_label_change", args=[label.pk])).content.decode()
    assert html.count("rw-agent-code") == 3, "one that is needed, two that were asked"
    audit.record("query.erased", actor=None, target=f"query {queries[0].pk}", pool=pool, detail={"rows": 3})
    audit.record("query.erased", actor=None, target=f"query {queries[1].pk}", pool=pool)
    html = client.get(reverse("admin:datasets_app_query_history", args=[queries[0].pk])).content.decode()
    assert html.count("query.erased") == 1
    assert "rows: 3" in html
