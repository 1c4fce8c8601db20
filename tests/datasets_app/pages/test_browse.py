"""Finding queries, and changing everything that a search returns."""

import json

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from agents_app.models import AuditEntry
from datasets_app.labeling import bulk, queue, sending
from datasets_app.labels import labels
from datasets_app.models import Assignment, BulkChange, Draft, Gold, Label, Query, QueueItem, SplitGroup
from datasets_app.pages import browse
from tests import page_cost
from tests.clients import signed_in
from tests.datasets_app.addresses import url

pytestmark = pytest.mark.both_databases


@pytest.fixture
def client(rita):
    return signed_in(rita)


@pytest.fixture
def known(pool, queries, person):
    """0: gold {0}; 1: gold {}; 2: disagreement; 3: an LLM label; 4 and 5: nothing."""
    ana, ben = person("ana"), person("ben")
    every = range(4)
    labels.record(labels.NewLabel(queries[0].pk, source="import", required=[0], asked=every))
    labels.record(labels.NewLabel(queries[1].pk, source="human", author=ana, required=[], asked=every))
    labels.record(labels.NewLabel(queries[2].pk, source="human", author=ana, required=[1], asked=every))
    labels.record(labels.NewLabel(queries[2].pk, source="human", author=ben, required=[2], asked=every))
    labels.record(labels.NewLabel(queries[3].pk, source="llm", required=[3], asked=every))
    SplitGroup.objects.filter(pk=queries[0].group_id).update(split="test")
    return queries


def found(pool, queries, text):
    keys = list(browse.search(pool, text).queries.values_list("pk", flat=True))
    return sorted(position for position, query in enumerate(queries) if query.pk in keys)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", [0, 1, 2, 3, 4, 5]),
        ("agent:billing", [0]),
        ("agent:BI", [0]),
        ("agent:0", [0]),
        ("agent:bil", [0]),
        ("agent:none", [1]),
        ("state:gold", [0, 1]),
        ("state:disagreement", [2]),
        ("split:test", [0]),
        ("split:none -state:gold", [2, 3, 4, 5]),
        ("source:llm", [3]),
        ("-source:llm -source:human", [0, 4, 5]),
        ("by:ANA", [1, 2]),
        ("by:ana by:ben", [2]),
        ("number 3", [3]),
        ('"number 3: where"', [3]),
        ("dataset:tickets state:unlabeled", [4, 5]),
        ("dataset:other", []),
        ("after:2001-01-01", [0, 1, 2, 3, 4, 5]),
        ("before:2001-01-01", []),
        ("is:deleted", []),
        ('unclosed "quote', []),
        ("it's", []),
    ],
)
def test_the_search_line(pool, known, text, expected):
    result = browse.search(pool, text)
    assert result.problems == ()
    assert found(pool, known, text) == expected


@pytest.mark.parametrize(
    ("text", "sought"),
    [
        ("Где мой ЗАКАЗ", "заказ"),
        ("где мой заказ", "ЗАКАЗ"),
        ("Şifremi unuttum", "şifremi"),
        ("ŞİFREMİ UNUTTUM", "şifremi"),
        ("şifremi unuttum", "ŞİFREMİ"),
        ("iade ne zaman", "İADE"),
        ("Kargom ışık hızında", "IŞIK"),
        ("Größe falsch", "GRÖ"),
        ("ガス代の請求", "ガス"),
        ("أين الطرد", "الطرد"),
        ("बिल की कॉपी", "बिल"),
        ("ที่อยู่จัดส่ง", "ที่"),
        ("caf\u00e9 closed", "cafe\u0301"),
    ],
)
def test_a_word_is_found_in_any_case_of_its_language(pool, add_query, text, sought):
    query = add_query(text)
    assert list(browse.search(pool, sought).queries) == [query]


@pytest.mark.parametrize(
    "text", ["agent:bilng", "state:golden", "split:x", "by:nobody", "after:soon", "is:odd", "disagreement:x"]
)
def test_a_term_that_cannot_be_read_finds_nothing_and_says_why(pool, known, text):
    result = browse.search(pool, f"number {text}")
    assert not result.queries.exists()
    assert text in result.problems[0]


def test_another_pools_queries_are_never_found(pool, known, client):
    from agents_app.models import Pool

    other = Pool.objects.create(slug="other", name="Other")
    assert not browse.search(other, "").queries.exists()
    assert client.get(url("query", other, known[0].pk)).status_code == 404


def test_disagreement_orders_by_people_and_by_the_llm(pool, plain, known, person):
    queue.fill(pool)
    from datasets_app.labels import disagreement

    labels.record(labels.NewLabel(known[0].pk, source="llm", required=[0, 1], asked=range(4)))
    disagreement.measure([query.pk for query in known])
    assert found(pool, known, "disagreement:people") == [2]
    assert found(pool, known, "disagreement:people>0.9") == [2]
    assert found(pool, known, "disagreement:llm>0.1") == [0]


# ------------------------------------------------------------------------------------------------------------ the page


@pytest.mark.parametrize(("role", "status"), [("labeler", 403), ("reviewer", 200), ("ops", 200), ("admin", 200)])
def test_who_may_browse(pool, known, person, role, status):
    client = signed_in(person("pat", role))
    for name, *args in (("queries",), ("query", known[0].pk), ("queries_export",)):
        assert client.get(url(name, pool, *args)).status_code == status
    if status == 403:
        assert client.post(url("bulk_apply", pool), {"action": "delete", "all": "1"}).status_code == 403
        assert client.post(url("query_erase", pool, known[0].pk), {"sure": "1"}).status_code == 403


def test_the_list_takes_the_same_number_of_database_queries_however_long(client, pool, plain, known, add_query):
    def cost():
        with CaptureQueriesContext(connection) as made:
            assert client.get(url("queries", pool) + "?q=split:none&sort=text").status_code == 200
        return len(made)

    cost()
    few = cost()
    for n in range(60):
        labels.record(labels.NewLabel(add_query(f"more {n}").pk, source="import", required=[n % 4], asked=range(4)))
    assert cost() <= few < page_cost.queries(22)  # fewer where no row of the page has a suggestion


def test_the_list_shows_sets_states_and_chips(client, pool, known):
    html = client.get(url("queries", pool) + "?q=state:gold+agent:BI").content.decode()
    assert known[0].text in html
    assert known[1].text not in html
    assert 'href="?q=agent%3ABI"' in html, "a chip takes its own term away"


def test_the_list_shows_what_the_llm_suggests(client, pool, known):
    labels.record(
        labels.NewLabel(known[4].pk, source="llm", required=[1], asked=range(4), provenance={"fallback": "keyword"})
    )
    rows = {row["query"].pk: row["suggested"] for row in client.get(url("queries", pool)).context["rows"]}
    assert [(str(source), [agent.number for agent in agents]) for source, agents in rows[known[3].pk]] == [("LLM", [3])]
    assert rows[known[4].pk] == []  # what stood in for an answer suggests nothing
    assert ">Suggested</th>" in client.get(url("queries", pool)).content.decode()
    assert ">Suggested</th>" not in client.get(url("queries", pool), {"q": "state:gold"}).content.decode()


def test_a_later_turn_is_listed_with_what_its_user_said_before(client, pool, known):
    said = [{"role": "user", "content": "a table for two"}, {"role": "assistant", "content": "At seven?"}]
    Query.objects.filter(pk=known[5].pk).update(text="yes", messages=said)
    html = client.get(url("queries", pool)).content.decode()
    assert '<span class="rw-muted">a table for two →</span> yes</a>' in html
    assert "At seven?" not in html


def test_an_htmx_request_gets_the_list_alone(client, pool, known):
    html = client.get(url("queries", pool), headers={"HX-Request": "true"}).content.decode()
    assert "<html" not in html
    assert known[0].text in html


def test_export_writes_what_the_search_returns(client, pool, known):
    lines = b"".join(client.get(url("queries_export", pool) + "?q=state:gold").streaming_content).decode().splitlines()
    assert [json.loads(line)["required_agents"] for line in lines] == [[0], []]


# ------------------------------------------------------------------------------------------------------------- in bulk


def gold_of(query):
    return Gold.objects.filter(query=query).values_list("required", "asked").first()


def test_adding_one_agent_touches_nothing_else_and_undoes_as_one(pool, plain, known, rita):
    before = {query.pk: gold_of(query) for query in known}
    seen = bulk.preview(browse.search(pool, "").queries, bulk.ADD, pool.agents.get(number=0))
    assert (seen.matches, seen.changes, seen.unlabeled) == (6, 5, 3)
    change = bulk.apply(pool, browse.search(pool, "").queries, bulk.ADD, pool.agents.get(number=0), author=rita)
    assert (change.total, change.changed) == (5, 5)
    assert change.finished_at is not None
    assert gold_of(known[0]) == before[known[0].pk]
    assert gold_of(known[1]) == ([0], [0, 1, 2, 3])
    assert gold_of(known[2])[0] == [0], "the dispute about 1 and 2 stays open"
    assert gold_of(known[4]) == ([0], [0])
    assert Label.objects.filter(source="human", superseded_at__isnull=True).count() == 3, "people's labels stay"
    assert bulk.undo(change, rita) == 5
    assert bulk.undo(change, rita) == 0
    assert {query.pk: gold_of(query) for query in known} == before


def test_removing_an_agent_keeps_an_earlier_decision_about_the_others(pool, plain, known, rita):
    labels.record(labels.NewLabel(known[2].pk, source="adjudication", author=rita, required=[1, 2], asked=range(4)))
    agent = pool.agents.get(number=1)
    change = bulk.apply(pool, browse.search(pool, "agent:1").queries, bulk.REMOVE, agent, author=rita)
    assert change.changed == 1
    assert gold_of(known[2]) == ([2], [0, 1, 2, 3])
    bulk.undo(change, rita)
    assert gold_of(known[2]) == ([1, 2], [0, 1, 2, 3])


def test_what_was_said_since_a_bulk_change_survives_its_undo(pool, plain, known, rita):
    change = bulk.apply(pool, browse.search(pool, "").queries, bulk.ADD, pool.agents.get(number=0), author=rita)
    labels.record(labels.NewLabel(known[4].pk, source="adjudication", author=rita, required=[3], asked=range(4)))
    assert bulk.undo(change, rita) == 4
    assert gold_of(known[4]) == ([3], [0, 1, 2, 3])


def test_a_change_that_was_interrupted_is_gone_on_with(pool, plain, add_query, rita, monkeypatch):
    monkeypatch.setattr(bulk, "BATCH", 4)
    for n in range(10):
        add_query(f"query {n}")
    change = bulk.start(pool, browse.search(pool, "").queries, bulk.ADD, pool.agents.get(number=1), author=rita)
    applied, real = [], bulk._apply

    def dies_the_second_time(change, entries):
        applied.append(len(entries))
        if len(applied) == 2:
            raise RuntimeError("killed")
        real(change, entries)

    monkeypatch.setattr(bulk, "_apply", dies_the_second_time)
    with pytest.raises(RuntimeError):
        bulk.go_on(change)
    assert Label.objects.count() == 4
    assert bulk.go_on(change).changed == 10
    assert bulk.go_on(change).changed == 10
    assert Label.objects.count() == 10


def wanted_of(pool):
    return dict(QueueItem.objects.filter(pool=pool).values_list("query_id", "needed"))


def test_sending_to_the_queue_is_counted_and_undone_as_one(client, pool, plain, known, rita, person):
    queue.fill(pool)
    queue.finish(queue.open_item(known[4], person("cora"), pool))  # had all the answers that it was to have
    before = wanted_of(pool)
    chosen = browse.search(pool, "").queries
    seen = bulk.preview(chosen, bulk.SEND, None)
    assert (seen.matches, seen.changes) == (6, 3), "0 and 1 are gold, 4 is answered; the others wait already"
    assert wanted_of(pool) == before, "a look changes nothing"
    html = client.post(url("bulk_apply", pool), {"q": "", "all": "1", "action": "send"}, follow=True).content.decode()
    assert "3 queries wait for labelers." in html
    change = BulkChange.objects.get()
    assert url("bulk_undo", pool, change.pk) in html
    assert queue.still_open(pool) == 6
    queue.finish(queue.open_item(known[0], person("dora"), pool))
    html = client.post(url("bulk_undo", pool, change.pk), follow=True).content.decode()
    assert "The change of 3 queries is undone." in html
    assert wanted_of(pool) == before
    assert Assignment.objects.filter(person__username="dora", state="done").exists(), "an answer that came since stays"
    assert AuditEntry.objects.filter(action="queries.sent").count() == 1


def test_what_was_sent_once_more_stays_asked_when_the_first_sending_is_undone(pool, plain, known, rita, person):
    queue.fill(pool)
    one = Query.objects.filter(pk=known[0].pk)
    first = bulk.apply(pool, one, bulk.SEND, None, author=rita)
    queue.finish(queue.open_item(known[0], person("cora"), pool))
    second = bulk.apply(pool, one, bulk.SEND, None, author=rita)
    assert bulk.undo(first, rita) == 0
    assert sending.unasked(one).count() == 0
    assert bulk.undo(second, rita) == 1
    assert sending.unasked(one).count() == 1


def test_queries_that_nobody_queued_yet_are_not_counted_as_sent(pool, plain, known, rita):
    change = bulk.apply(pool, browse.search(pool, "").queries, bulk.SEND, None, author=rita)
    assert change.total == 2, "the gold ones; the others come into the queue of themselves"
    assert bulk.undo(change, rita) == 2
    queue.fill(pool)
    assert queue.still_open(pool) == 4


def test_small_changes_and_those_of_a_command_stay_undoable_on_the_list_each_by_its_own_button(
    client, pool, plain, known, rita
):
    client.force_login(rita)
    keys = [query.pk for query in known]
    first = bulk.apply(pool, Query.objects.filter(pk__in=keys[:3]), bulk.SEND, None, author=rita)
    second = bulk.apply(pool, Query.objects.filter(pk__in=keys[:1]), bulk.DELETE, None, author=rita)
    third = bulk.apply(pool, Query.objects.filter(pk__in=keys), bulk.ADD, pool.agents.get(number=0), author=rita)
    assert f"Add an agent ({third.agent.name}): " in client.get(url("queries", pool)).content.decode()
    for _visit in range(2):
        html = client.get(url("queries", pool)).content.decode()
        assert [url("bulk_undo", pool, change.pk) in html for change in (first, second)] == [True, True]
    assert [change.total for change in (first, second)] == [2, 1]
    assert "Send to queue: 2 queries, by rita" in html
    assert "Delete: 1 query, by rita" in html
    client.post(url("bulk_undo", pool, first.pk))
    html = client.get(url("queries", pool)).content.decode()
    assert [url("bulk_undo", pool, change.pk) in html for change in (first, second)] == [False, True]


def test_a_change_that_a_worker_made_is_undone_from_the_list(client, pool, plain, known, rita, monkeypatch):
    monkeypatch.setattr(bulk, "AT_ONCE", 1)
    client.post(url("bulk_apply", pool), {"q": "", "all": "1", "action": "add", "agent": "3"})
    change = BulkChange.objects.get()
    undo = url("bulk_undo", pool, change.pk)
    assert undo not in client.get(url("queries", pool)).content.decode(), "it is under way"
    bulk.go_on(change)
    assert undo in client.get(url("queries", pool)).content.decode()
    client.post(undo)
    assert undo not in client.get(url("queries", pool)).content.decode()


def test_the_page_counts_first_and_offers_the_undo(client, pool, plain, known):
    asked = {"q": "source:human", "all": "1", "action": "add", "agent": "3"}
    html = client.get(url("bulk_preview", pool), asked).content.decode()
    assert "Change 2 queries" in html
    assert Label.objects.filter(source="adjudication").count() == 0, "a look changes nothing"
    html = client.post(url("bulk_apply", pool), asked, follow=True).content.decode()
    change = BulkChange.objects.get()
    assert url("bulk_undo", pool, change.pk) in html
    assert change.search == "source:human"
    client.post(url("bulk_undo", pool, change.pk))
    assert Label.objects.filter(source="adjudication", superseded_at__isnull=True).count() == 0


def test_ticked_queries_alone_are_changed(client, pool, plain, known):
    client.post(url("bulk_apply", pool), {"q": "", "query": [known[4].pk], "action": "add", "agent": "3"})
    assert BulkChange.objects.get().changed == 1
    for nothing_chosen in ({"q": ""}, {"q": "state:golden", "all": "1"}):
        client.post(url("bulk_apply", pool), nothing_chosen | {"action": "delete"})
    answer = client.get(url("bulk_preview", pool), {"q": "", "action": "delete"}, follow=True)
    assert "Tick the queries first" in answer.content.decode()
    assert not Query.objects.filter(deleted_at__isnull=False).exists(), "a typing error never widens a change"


def test_deleted_queries_leave_the_queue_and_come_back(client, pool, plain, known, rita):
    queue.fill(pool)
    open_before = queue.still_open(pool)
    client.post(url("query_delete", pool, known[4].pk))
    assert queue.still_open(pool) == open_before - 1
    assert found(pool, known, "is:deleted") == [4]
    assert found(pool, known, "") == [0, 1, 2, 3, 5]
    client.post(url("query_restore", pool, known[4].pk))
    assert queue.still_open(pool) == open_before
    assert found(pool, known, "") == [0, 1, 2, 3, 4, 5]


def test_erasing_forgets_drafts_and_remarks_and_asks_no_more(client, pool, plain, known, person):
    ana = person("cora")
    lease = queue.open_item(known[4], ana, pool)
    Draft.objects.create(query=known[4], person=ana, required=[1])
    queue.skip(lease, "this is Mrs Miller of 4 Elm Road")
    QueueItem.objects.filter(pk=lease.item_id).update(note="Mrs Miller was sent to the wrong agent")
    before = queue.still_open(pool)
    client.post(url("query_erase", pool, known[4].pk), {"sure": "1"})
    assert not Draft.objects.exists()
    assert Assignment.objects.get(pk=lease.pk).reason == ""
    assert QueueItem.objects.get(pk=lease.item_id).note == ""
    assert queue.still_open(pool) == before - 1


def test_erasing_takes_out_what_an_llm_said_of_the_text(client, pool, plain, known):
    made = {"model": "m", "fallback": "keyword", "error": "names agent 'Ana Diaz', which does not exist"}
    label = labels.record(labels.NewLabel(known[0].pk, source="llm", required=[1], asked=range(4), provenance=made))
    client.post(url("query_erase", pool, known[0].pk), {"sure": "1"})
    label.refresh_from_db()
    assert label.provenance == {"model": "m", "fallback": "keyword"}


def test_erasing_asks_first_and_takes_the_text_out(client, pool, plain, known):
    client.post(url("query_erase", pool, known[0].pk))
    assert Query.objects.get(pk=known[0].pk).text
    client.post(url("query_erase", pool, known[0].pk), {"sure": "1"})
    assert Query.objects.get(pk=known[0].pk).text == ""
    assert known[0].text not in client.get(url("query", pool, known[0].pk)).content.decode()


def test_one_querys_page_says_who_decided_what(client, pool, plain, known):
    html = client.get(url("query", pool, known[2].pk)).content.decode()
    assert html.count("in dispute") == 2, "agents 1 and 2"
    assert "ana" in html
    assert "ben" in html


def test_sending_to_the_queue_from_the_page(client, pool, plain, known):
    queue.fill(pool)
    before = queue.still_open(pool)
    client.post(url("query_send", pool, known[0].pk))
    assert queue.still_open(pool) == before + 1


def test_the_way_back_keeps_the_whole_search(client, pool, known):
    html = client.get(
        url("bulk_preview", pool), {"action": "delete", "all": "1", "q": 'parcel & "a #1"'}
    ).content.decode()
    assert "?q=parcel+%26+%22a+%231%22" in html
