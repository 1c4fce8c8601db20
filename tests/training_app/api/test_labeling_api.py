"""The queue over HTTP: the same leases, drafts, labels and secrecy as on the labeling page."""

# ruff: noqa: F811  (fixtures of another folder, imported by name)

import pytest
from django.test import Client
from django.urls import reverse

from agents_app import pools
from agents_app.keys import create_key
from agents_app.models import AuditEntry
from datasets_app.labeling import queue
from datasets_app.labels import labels
from datasets_app.models import Assignment, Draft, Label
from tests.clients import signed_in
from tests.datasets_app.conftest import add_query, ana, dataset, person, plain, pool, queries  # noqa: F401
from tests.training_app.api.errors import error
from tests.training_app.served import Application
from training_app.answering import serving

ASKED = [0, 1, 2, 3]


def item_of(answer) -> dict:
    assert answer.status_code == 200, answer.content
    return answer.json()["item"]


def submit(app, query, agents, key="k", **more):
    body = {"agents": agents, "asked": ASKED, "key": key} | more
    return app.post(f"/api/label/{query}/submit/", body)


def other_app(pool, user) -> Application:
    key, secret = create_key("other", [pool], ["label"], labels_as=user)
    serving.forget()
    return Application(secret, key)


@pytest.fixture
def app(pool, plain, queries, ana) -> Application:
    """An application whose key labels as Ana."""
    key, secret = create_key("Slack", [pool], ["label"], labels_as=ana)
    return Application(secret, key)


PATHS = ["next/", "undo/", "heartbeat/", "release/", "1/draft/", "1/submit/", "1/skip/"]


@pytest.mark.parametrize("path", PATHS)
def test_each_needs_a_key_that_labels(app, pool, path):
    error(Client().post(f"/api/label/{path}", {}), 401, "key_missing")
    _key, secret = create_key("router", [pool], ["route", "ops"])
    serving.forget()
    error(Application(secret, _key).post(f"/api/label/{path}", {}), 403, "scope_missing")
    error(app.get(f"/api/label/{path}"), 405, "method_not_allowed")


def test_whoever_may_not_label_any_more_does_not(app, pool, ana):
    ana.groups.clear()
    assert "ana" in error(app.post("/api/label/next/", {}), 403, "person_refused")["message"]
    app.key.person = None
    app.key.save()
    error(app.post("/api/label/next/", {}), 403, "no_person")


def test_the_audit_trail_says_whose_label_it_is_and_by_which_key(app, pool, queries, ana):
    item = item_of(app.post("/api/label/next/", {}))
    assert submit(app, item["query"], [0]).status_code == 201
    entry = AuditEntry.objects.get(action="label.submitted")
    assert (entry.actor, entry.actor_name) == (ana, "ana by key Slack")


def test_items_come_in_the_queues_order_and_are_leased(app, pool, queries, ana):
    first = item_of(app.post("/api/label/next/", {}))
    assert (first["query"], first["text"]) == (queries[0].pk, queries[0].text)
    assert (first["asked"], first["agent"], first["state"]) == (ASKED, None, "held")
    assert (first["base"], first["version"], first["suggested"], first["suggestions"]) == (0, 0, None, [])
    assert item_of(app.post("/api/label/next/", {}))["query"] == first["query"], "what is held comes first"
    second = item_of(app.post("/api/label/next/", {"beside": [first["query"]]}))
    assert second["query"] == queries[1].pk
    chosen = item_of(app.post("/api/label/next/", {"query": queries[4].pk}))
    assert chosen["query"] == queries[4].pk
    assert Assignment.objects.filter(person=ana, state="held").count() == 3
    again = item_of(app.get(f"/api/label/{first['query']}/"))
    assert again == first | {"leased_until": again["leased_until"]}
    held = [one["query"] for one in (first, second, chosen)]
    assert app.post("/api/label/heartbeat/", {"queries": [*held, queries[5].pk]}).json() == {"held": sorted(held)}
    assert app.post("/api/label/release/", {"queries": [second["query"]]}).json() == {"released": 1}
    assert app.post("/api/label/release/", {}).json() == {"released": 2}
    assert queue.still_open(pool) == 6


def test_reading_takes_nothing(app, queries):
    error(app.get(f"/api/label/{queries[0].pk}/"), 404, "not_taken")
    assert not Assignment.objects.exists()
    error(app.get("/api/label/99999/"), 404, "not_found")


def test_a_label_is_made_once_however_often_it_is_sent(app, queries, ana):
    sent = submit(app, queries[0].pk, [1, 3], seconds=7)
    assert sent.status_code == 201
    assert sent.json() | {"label": None} == {
        "query": queries[0].pk, "new": True, "undone": False, "label": None, "today": 1, "left": 5, "others": 0,
    }  # fmt: skip
    again = submit(app, queries[0].pk, [1, 3])
    assert (again.status_code, again.json()["new"]) == (200, False)
    label = Label.objects.get()
    assert (label.author, label.required, label.asked) == (ana, [1, 3], ASKED)
    assert (label.provenance["api_key"], label.provenance["seconds"]) == ("Slack", 7)
    assert again.json()["label"]["id"] == label.pk


def test_the_empty_set_is_an_answer_and_a_missing_one_is_not(app, queries):
    assert submit(app, queries[0].pk, [], unsure=True).json()["label"]["agents"] == []
    assert Label.objects.get().unsure
    error(app.post(f"/api/label/{queries[1].pk}/submit/", {"asked": ASKED, "key": "a"}), 400, "missing")
    error(app.post(f"/api/label/{queries[1].pk}/submit/", {"agents": [1], "key": "b"}), 400, "missing")
    error(app.post(f"/api/label/{queries[1].pk}/submit/", {"agents": [1], "asked": ASKED}), 400, "missing")
    assert Label.objects.count() == 1


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"agents": [9]}, "agents"),
        ({"agents": ["1"]}, "agents"),
        ({"agents": [2], "asked": [0, 1]}, "agents"),
        ({"asked": [0, 9]}, "asked"),
        ({"agents": [1] * 201}, "agents"),
        ({"unsure": 1}, "unsure"),
        ({"base": -1}, "base"),
        ({"seconds": "9"}, "seconds"),
        ({"key": "x" * 51}, "key"),
        ({"key": 5}, "key"),
        ({"agent": 77}, "agent"),
        ({"agent": True}, "agent"),
    ],
)
def test_a_bad_field_is_named_and_nothing_is_written(app, queries, body, field):
    answer = app.post(f"/api/label/{queries[0].pk}/submit/", {"agents": [1], "asked": ASKED, "key": "k"} | body)
    assert answer.status_code == 400, answer.content
    assert answer.json()["error"]["field"] == field
    assert not Label.objects.exists()


def test_a_stale_submit_shows_both_versions(app, queries):
    first = submit(app, queries[0].pk, [1]).json()["label"]
    refused = error(submit(app, queries[0].pk, [2], key="other"), 409, "stale")
    assert refused["theirs"] == {
        "required": [1], "none": False, "unsure": False, "note": "", "sent": True, "version": 0, "base": first["id"],
    }  # fmt: skip
    assert refused["mine"] == {"required": [2], "none": False, "unsure": False, "note": ""}
    assert submit(app, queries[0].pk, [2], key="other", base=refused["theirs"]["base"]).status_code == 201
    assert [label.required for label in Label.objects.order_by("pk")] == [[1], [2]]


def test_drafts_are_kept_and_a_stale_one_is_refused(app, queries):
    path = f"/api/label/{queries[0].pk}/draft/"
    assert app.post(path, {"agents": [1]}).json() == {"query": queries[0].pk, "version": 1}
    assert app.post(path, {"agents": [1, 2], "version": 1}).json()["version"] == 2
    refused = error(app.post(path, {"agents": [], "none": True, "version": 1}), 409, "stale")
    assert (refused["theirs"]["required"], refused["theirs"]["version"]) == ([1, 2], 2)
    item = item_of(app.get(f"/api/label/{queries[0].pk}/"))
    assert (item["choice"], item["version"]) == ({"agents": [1, 2], "none": False, "unsure": False, "note": ""}, 2)
    assert not Label.objects.exists()


def test_a_save_of_one_window_that_arrives_late_changes_nothing(app, queries):
    path = f"/api/label/{queries[0].pk}/draft/"
    for step, agents in ((1, [1]), (3, [1, 2]), (2, [3]), (3, [3])):
        assert app.post(path, {"agents": agents, "writer": "tab", "step": step}).status_code == 200
    assert Draft.objects.get().required == [1, 2]


def test_skip_and_undo(app, pool, queries):
    error(app.post(f"/api/label/{queries[0].pk}/skip/", {}), 400, "missing")
    item_of(app.post("/api/label/next/", {}))
    assert app.post(f"/api/label/{queries[0].pk}/skip/", {"reason": "garbled"}).json()["skipped"] is True
    assert item_of(app.post("/api/label/next/", {}))["query"] == queries[1].pk
    submit(app, queries[1].pk, [2])
    undone = app.post("/api/label/undo/", {}).json()
    assert (undone["undone"], undone["query"]) == ("submit", queries[1].pk)
    item = item_of(app.get(f"/api/label/{queries[1].pk}/"))
    assert (item["state"], item["choice"]["agents"], item["labels"][0]["current"]) == ("held", [2], False)
    assert submit(app, queries[1].pk, [2]).json()["undone"] is True, "the same key is the submit that was taken back"
    undone = app.post("/api/label/undo/", {"query": queries[0].pk}).json()
    assert (undone["undone"], undone["query"]) == ("skip", queries[0].pk)
    assert app.post("/api/label/undo/", {}).json()["undone"] is None


def test_peers_labels_are_hidden_until_ones_own_is_submitted(app, pool, plain, queries, person):
    plain.overlap, plain.overlap_share = 2, 1.0
    plain.save()
    queue.fill(pool, everything=True)
    ben = other_app(pool, person("ben"))
    submit(ben, queries[0].pk, [2])
    labels.record(labels.NewLabel(queries[0].pk, source="llm", required=[3], asked=ASKED))
    assert item_of(app.post("/api/label/next/", {"query": queries[0].pk}))["labels"] == []
    submit(app, queries[0].pk, [1])
    seen = item_of(app.get(f"/api/label/{queries[0].pk}/"))["labels"]
    assert sorted((label["source"], label["author"]) for label in seen) == [
        ("human", "ana"), ("human", "ben"), ("llm", None),
    ]  # fmt: skip
    rita = other_app(pool, person("rita", "reviewer"))
    assert len(item_of(rita.post("/api/label/next/", {"query": queries[0].pk}))["labels"]) == 3


def test_suggestions_are_shown_and_kept_with_the_label_unless_the_item_is_blind(app, pool, plain, queries):
    for query in queries[:2]:
        labels.record(
            labels.NewLabel(
                query.pk, source="llm", required=[3], asked=ASKED, scores={3: 0.8}, provenance={"model": "m"}
            )
        )
    item = item_of(app.post("/api/label/next/", {}))
    assert item["suggested"] == [3]
    assert item["suggestions"] == [{"source": "llm", "version": "m", "required": [3], "scores": {"3": 0.8}}]
    submit(app, queries[0].pk, [1])
    made = Label.objects.get(source="human").provenance
    assert (made["added"], made["removed"], made["blind"]) == ([1], [3], False)
    plain.blind_share = 1.0
    plain.save()
    hidden = item_of(app.post("/api/label/next/", {"beside": [queries[0].pk]}))
    assert hidden["query"] == queries[1].pk
    assert (hidden["suggested"], hidden["suggestions"], hidden["labels"]) == (None, [], [])


def test_why_there_is_nothing(app, pool, queries, person):
    ben = person("ben")
    for query in queries[:5]:
        submit(app, query.pk, [1], key=f"k{query.pk}")
    app.post(f"/api/label/{queries[5].pk}/skip/", {"reason": "garbled"})
    queue.take(pool, ben)
    found = app.post("/api/label/next/", {}).json()
    assert found["item"] is None
    assert [(one["person"], one["items"]) for one in found["why"]["held"]] == [("ben", 1)]
    assert (found["why"]["skipped"], found["today"], found["left"]) == (1, 5, 0)


def test_the_question_about_one_agent(app, pool, queries, ana):
    labels.record(labels.NewLabel(queries[0].pk, source="human", author=ana, required=[1], asked=ASKED))
    returns = pools.add_agent(pool, "Returns")
    serving.forget()
    item = item_of(app.post("/api/label/next/", {"agent": returns.number}))
    assert (item["query"], item["agent"], item["asked"]) == (queries[0].pk, 4, [4])
    base = item["base"]
    wrong = submit(app, queries[0].pk, [1], agent=4, base=base)
    assert error(wrong, 400, "invalid")["field"] == "agents"
    sent = submit(app, queries[0].pk, [4], agent=4, asked=[4], base=base, key="two").json()
    assert (sent["label"]["agents"], sent["label"]["asked"]) == ([4], [4]), "it stands beside what was said before"
    error(app.post("/api/label/next/", {"agent": 4, "query": queries[1].pk}), 404, "not_found")


def test_another_pools_queries_do_not_exist(app, pool, queries, ana):
    sales = pools.create_pool("Sales", "sales")
    pools.add_agent(sales, "Offers")
    theirs = create_key("sales", [sales], ["label"], labels_as=ana)
    serving.forget()
    other = Application(theirs[1], theirs[0])
    error(submit(other, queries[0].pk, [0]), 404, "not_found")
    error(other.post("/api/label/next/", {"pool": "support"}), 403, "pool_refused")
    assert other.post("/api/label/next/", {}).json()["item"] is None


def test_the_page_and_the_api_see_one_queue(app, pool, queries, ana):
    page = signed_in(ana)
    drawn = page.post(reverse("label_next", args=[pool.slug]), HTTP_ACCEPT="application/json").json()
    item = item_of(app.post("/api/label/next/", {}))
    assert item["query"] == drawn["query"]
    app.post(f"/api/label/{item['query']}/draft/", {"agents": [2], "writer": "x", "step": 1})
    html = page.get(reverse("label_item", args=[pool.slug, item["query"]])).content.decode()
    assert 'name="agent" value="2" checked' in html


def test_a_key_of_another_query_is_refused_and_nothing_is_lost(app, queries):
    assert submit(app, queries[0].pk, [1]).status_code == 201
    refused = error(submit(app, queries[1].pk, [2]), 409, "key_used")
    assert (refused["field"], str(queries[0].pk) in refused["message"]) == ("key", True)
    assert Label.objects.count() == 1
    assert submit(app, queries[1].pk, [2], key="another").status_code == 201
