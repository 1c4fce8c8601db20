"""Decisions listed, and queries sent to be labeled."""

import uuid
from datetime import UTC, datetime, timedelta

import pytest

from agents_app import pools
from agents_app.models import AuditEntry
from datasets_app.labeling import queue
from datasets_app.models import Query, QueueItem
from routerweb.pages import paging
from tests.training_app.api.test_api_route import error
from tests.training_app.served import application
from training_app.answering import decisions
from training_app.models import Decision

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases, pytest.mark.commits_for_others]


@pytest.fixture
def app(pool):
    return application(pool, scopes=("route", "ops"))


@pytest.fixture
def labels(pool, person):
    return application(pool, scopes=("label",), labels_as=person("labeler"))


def ids(answer):
    return [one["decision_id"] for one in answer.json()["decisions"]]


def next_part(answer):
    return answer.headers["Link"].removeprefix("<").removesuffix('>; rel="next"')


class TestDecisions:
    @pytest.fixture
    def told(self, app, model):
        told = [app.route(query=text).json()["decision_id"] for text in ("billing", "shipping", "hello")]
        decisions.buffer.write()
        return told

    def test_come_newest_first_with_their_outcome(self, app, told):
        assert (
            app.post("/api/outcomes/", {"decision_id": told[1], "success": False, "agents_used": [0]}).status_code
            == 201
        )
        found = app.get("/api/decisions/").json()
        assert [one["decision_id"] for one in found["decisions"]] == told[::-1]
        assert [one["text"] for one in found["decisions"]] == ["hello", "shipping", "billing"]
        assert found["decisions"][0]["outcome"] is None
        assert found["decisions"][1]["outcome"]["agents_used"] == [0]
        one = app.get(f"/api/decisions/{told[1]}/").json()
        assert one == found["decisions"][1]
        assert one["agents"] == [1]

    @pytest.mark.parametrize(
        ("asked", "places"),
        [
            ("agent=1", [1]), ("model=support-1", [2, 1, 0]), ("stop_reason=none", [2]), ("limit=1", [2]),
            ("stop_reason=stop&agent=0", [0]), ("since=2999-01-01T00:00:00Z", []), ("until=2999-01-01T00:00:00Z", [2, 1, 0]),
        ],
    )  # fmt: skip
    def test_are_chosen(self, app, told, asked, places):
        assert ids(app.get(f"/api/decisions/?{asked}")) == [told[place] for place in places]

    def test_between_two_times(self, app, told):
        start = datetime(2026, 1, 1, tzinfo=UTC)
        for hours, one in enumerate(told):
            Decision.objects.filter(pk=one).update(at=start + timedelta(hours=hours))
        assert ids(app.get("/api/decisions/?since=2026-01-01T01:00:00Z&until=2026-01-01T02:00:00Z")) == [told[1]]

    @pytest.mark.parametrize(
        ("asked", "field"),
        [
            ("agent=x", "agent"), ("agent=7", "agent"), ("model=support-9", "model"),
            ("model=x", "model"), ("stop_reason=why", "stop_reason"),
            ("since=yesterday", "since"), ("until=2026-13-01", "until"), ("limit=1000", "limit"), ("cursor=x", "cursor"),
            ("cursor=WyIxIl0", "cursor"),
        ],
    )  # fmt: skip
    def test_what_cannot_be_asked_is_named(self, app, told, asked, field):
        assert error(app.get(f"/api/decisions/?{asked}"), 400, "invalid")["field"] == field

    def test_come_in_parts_that_deleted_and_new_rows_do_not_move(self, app, told):
        first = app.get("/api/decisions/?limit=1&stop_reason=&since=2000-01-01T00:00:00Z")
        assert ids(first) == [told[2]]
        Decision.objects.filter(pk=told[2]).delete()
        app.route(query="newer")
        decisions.buffer.write()
        second = app.get(next_part(first))
        assert ids(second) == [told[1]]
        third = app.get(next_part(second))
        assert ids(third) == [told[0]]
        assert "Link" not in third.headers

    def test_of_a_rare_agent_end_in_time_and_go_on(self, app, told, monkeypatch):
        monkeypatch.setattr(paging, "STRETCH", 1)
        monkeypatch.setattr(paging, "SECONDS", -1.0)
        answer, parts = app.get("/api/decisions/?agent=0"), []
        while "Link" in answer.headers:
            parts.append(ids(answer))
            answer = app.get(next_part(answer))
        assert [*parts, ids(answer)] == [[], [], [told[0]]]

    def test_of_other_pools_are_not_there(self, app, told):
        stranger = application(pools.create_pool("Other", "other", actor=None), scopes=("ops",))
        assert ids(stranger.get("/api/decisions/")) == []
        error(stranger.get(f"/api/decisions/{told[0]}/"), 404, "not_found")
        error(stranger.get("/api/decisions/?model=support-1"), 400, "invalid")
        error(app.get(f"/api/decisions/{uuid.uuid4()}/"), 404, "not_found")


class TestSending:
    def test_puts_them_into_the_queue(self, labels, pool):
        sent = labels.post(
            "/api/queries/",
            {
                "queries": [
                    "I was charged twice",
                    {"query": "Where is my parcel?", "id": "ticket-4711"},
                    {"messages": [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hello!"},
                                  {"role": "user", "content": "It is broken"}], "conversation": "c1"},
                ]
            },
        )  # fmt: skip
        assert sent.status_code == 201
        assert (sent.json()["dataset"], sent.json()["new"]) == ("Sent", 3)
        assert [one["state"] for one in sent.json()["queries"]] == ["new"] * 3
        rows = [Query.objects.get(pk=one["id"]) for one in sent.json()["queries"]]
        assert [(row.text, row.external_id, row.conversation) for row in rows] == [
            ("I was charged twice", "", ""),
            ("Where is my parcel?", "ticket-4711", ""),
            ("It is broken", "", "c1"),
        ]
        assert [one["content"] for one in rows[2].messages] == ["Hello", "Hello!"]
        queue.fill(pool)
        assert QueueItem.objects.filter(query__in=rows).count() == 3
        assert AuditEntry.objects.get(action="queries.sent").detail == {"queries": 3}

    def test_twice_is_once(self, labels, pool):
        body = {"queries": ["I was charged twice", "i was charged  twice"], "dataset": "Tickets"}
        first, again = labels.post("/api/queries/", body).json(), labels.post("/api/queries/", body).json()
        assert (first["new"], again["new"]) == (1, 0)
        assert [one["state"] for one in again["queries"]] == ["known", "known"]
        assert {one["id"] for one in first["queries"]} == {one["id"] for one in again["queries"]}
        assert Query.objects.get().dataset.name == "Tickets"
        assert AuditEntry.objects.filter(action="queries.sent").count() == 1
        Query.objects.update(deleted_at=datetime.now(UTC))
        assert labels.post("/api/queries/", body).json()["queries"][0]["state"] == "deleted"

    @pytest.mark.parametrize(
        ("queries", "code", "field"),
        [
            (None, "missing", "queries"), ([], "invalid", "queries"), ("x", "invalid", "queries"),
            (["ok", " "], "blank", "queries[1]"), (["ok", 3], "invalid", "queries[1]"), (["a\0b"], "invalid", "queries[0]"),
            ([{"query": 3}], "invalid", "queries[0].query"), ([{}], "missing", "queries[0].query"),
            ([{"query": "ok", "id": 3}], "invalid", "queries[0].id"),
            ([{"query": "ok", "id": "x" * 201}], "too_long", "queries[0].id"),
            ([{"query": "ok", "messages": []}], "invalid", "queries[0].messages"),
            ([{"messages": [{"role": "user"}]}], "missing", "queries[0].messages[0].content"), (["ok"] * 1001, "too_many", "queries"),
        ],
    )  # fmt: skip
    def test_a_bad_one_is_named_and_none_is_taken(self, labels, queries, code, field):
        assert error(labels.post("/api/queries/", {"queries": queries}), 400, code)["field"] == field
        assert not Query.objects.exists()

    def test_needs_the_scope(self, app, pool):
        error(app.post("/api/queries/", {"queries": ["x"]}), 403, "scope_missing")


class TestAgents:
    def test_are_told_again_only_once_they_have_changed(self, app, pool, model):
        first = app.get("/api/agents/")
        tag = first["ETag"]
        for known in (tag, f'"other", {tag}', f"W/{tag}", "*"):
            same = app.get("/api/agents/", {"If-None-Match": known})
            assert (same.status_code, same.content, same["ETag"]) == (304, b"", tag)
        assert app.get("/api/agents/", {"If-None-Match": '"other"'}).json() == first.json()
        assert app.post("/api/agents/0/pause/", {"why": "new index"}).status_code == 200
        changed = app.get("/api/agents/", {"If-None-Match": tag})
        assert changed.status_code == 200
        assert changed["ETag"] != tag
