"""The labeling page and what it sends, as plain forms and as the page's script: drafts, submits, skips, undo, suggestions."""

import re

import pytest
from django.contrib.auth.models import User
from django.core.cache import caches
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from datasets_app.labeling import queue
from datasets_app.labels import labels, suggestions
from datasets_app.models import Assignment, Draft, Label, Query, Submission
from tests.clients import signed_in
from tests.datasets_app.addresses import url

JSON = {"HTTP_ACCEPT": "application/json"}


@pytest.fixture
def client(ana):
    return signed_in(ana)


def item_of(pool, person):
    return queue.take(pool, person)[0].item


def send(client, pool, query, *agents, what="submit", **more):
    fields = {"asked": "0,1,2,3", "base": "0", "agent": list(agents)} | more
    return client.post(url(f"label_{what}", pool, query.pk), fields, **JSON)


# ---------------------------------------------------------------------------------------------------- who may, and how


def test_nobody_without_a_role_opens_it(pool, plain, queries):
    client = Client()
    assert client.get(url("label", pool)).status_code == 302, "sign in first"
    client.force_login(User.objects.create_user("guest@example.com"))
    assert client.get(url("label", pool)).status_code in (403, 404)
    assert send(client, pool, queries[0], 1).status_code in (403, 404)


@pytest.mark.parametrize("name", ["label_draft", "label_submit", "label_skip"])
def test_writing_needs_a_post_and_a_query_of_this_pool(client, pool, plain, queries, name):
    assert client.get(url(name, pool, queries[0].pk)).status_code == 405
    assert client.post(url(name, pool, 10**6)).status_code == 404


def test_the_page_shows_the_item_and_the_progress(client, pool, plain, queries):
    html = client.get(url("label", pool)).content.decode()
    assert queries[0].text in html
    assert "Billing" in html
    assert re.search(r'id="lb-left">\s*6', html), "the one that is held waits for its holder"


def test_an_item_takes_the_same_number_of_database_queries_however_long_the_queue(client, pool, plain, add_query):
    def suggested(text):
        scores = {0: 0.1, 1: 0.8, 2: 0.2, 3: 0.3}
        suggestions.push(pool, "m", [suggestions.Scored(add_query(text).pk, [1], scores)])

    def cost():
        with CaptureQueriesContext(connection) as made:
            taken.append(client.post(url("label_next", pool), {"beside": ",".join(map(str, taken))}).json()["query"])
        return len(made)

    taken: list[int] = []
    for n in range(3):
        suggested(f"few {n}")
    queue.fill(pool)
    cost()  # the page's first item also makes the pool's settings known
    few = cost()
    for n in range(60):
        suggested(f"many {n}")
    queue.fill(pool)
    assert cost() == few < 43
    assert len(set(taken)) == 3


# ----------------------------------------------------------------------------------------------------------- submitting


def test_a_plain_form_labels_and_goes_on(client, pool, plain, queries, ana):
    client.get(url("label", pool))
    answer = client.post(
        url("label_submit", pool, queries[0].pk), {"asked": "0,1,2,3", "base": "0", "agent": ["1", "3"]}, follow=True
    )
    assert queries[1].text in answer.content.decode()
    label = Label.objects.get()
    assert (label.required, label.asked, label.author, label.source) == ([1, 3], [0, 1, 2, 3], ana, "human")
    assert Query.objects.get(pk=queries[0].pk).state == "gold"


def test_the_same_key_twice_is_one_label(client, pool, plain, queries):
    for _ in range(2):
        assert send(client, pool, queries[0], 1, key="once").status_code == 200
    assert Label.objects.count() == Submission.objects.count() == 1
    assert Assignment.objects.get().state == "done"


def test_a_key_is_its_senders_own(client, pool, plain, queries, person):
    send(client, pool, queries[0], 1, key="once")
    other = signed_in(person("ben"))
    send(other, pool, queries[1], 2, key="once")
    assert Label.objects.count() == 2


def test_none_of_these_is_an_answer_and_nothing_chosen_is_not(client, pool, plain, queries):
    refused = send(client, pool, queries[0])
    assert refused.status_code == 400
    assert "None of these agents" in refused.json()["error"]
    assert send(client, pool, queries[0], 1, none="1").status_code == 400
    assert send(client, pool, queries[0], none="1").status_code == 200
    assert Label.objects.get().required == []


def test_unsure_is_a_label_that_decides_nothing(client, pool, plain, queries):
    send(client, pool, queries[0], 1, unsure="1")
    assert Label.objects.get().unsure
    assert Query.objects.get(pk=queries[0].pk).state == "labeled"


def test_an_agent_that_was_not_on_the_page_is_not_asked(client, pool, plain, queries):
    assert send(client, pool, queries[0], 1, asked="0,1").status_code == 200
    assert Label.objects.get().asked == [0, 1]
    assert send(client, pool, queries[1], 3, asked="0,1").status_code == 400


def test_two_tabs_of_one_person_are_told_apart(client, pool, plain, queries):
    """The second tab did not know of the first one's label: 409 with both versions, and nothing is written until one is chosen."""
    assert send(client, pool, queries[0], 1, key="tab-1").status_code == 200
    first = Label.objects.get()
    stale = send(client, pool, queries[0], 2, key="tab-2")
    assert stale.status_code == 409
    assert stale.json()["theirs"]["required"] == [1]
    assert stale.json()["mine"]["required"] == [2]
    assert Label.objects.count() == 1
    assert send(client, pool, queries[0], 2, key="tab-3", base=str(first.pk)).status_code == 200
    assert Label.objects.filter(superseded_at__isnull=True).get().required == [2]
    plain_form = client.post(
        url("label_submit", pool, queries[0].pk), {"asked": "0,1,2,3", "base": "0", "agent": ["3"]}
    )
    assert plain_form.status_code == 409
    assert "Keep this one" in plain_form.content.decode()


def test_a_lease_that_ended_does_not_lose_the_work(client, pool, plain, queries, ana, person):
    held = queue.take(pool, ana)[0]
    queue.release(pool, ana)
    other = queue.take(pool, person("ben"))[0]
    assert other.item_id == held.item_id
    assert send(client, pool, held.item.query, 2).status_code == 200
    assert Assignment.objects.get(person=ana).state == "done"


# --------------------------------------------------------------------------------------------------------------- drafts


def draft(client, pool, query, *agents, writer="a", step=1, version=0, **more):
    return send(client, pool, query, *agents, what="draft", writer=writer, step=step, version=version, **more)


def test_a_draft_is_kept_and_drawn_again(client, pool, plain, queries):
    assert draft(client, pool, queries[0], 2).json() == {"saved": True, "version": 1}
    assert Query.objects.get(pk=queries[0].pk).state == "draft"
    assert Label.objects.count() == 0
    html = client.get(url("label", pool)).content.decode()
    assert re.search(r'name="agent" value="2" checked', html)
    send(client, pool, queries[0], 2)
    assert Draft.objects.count() == 0


def test_a_draft_that_comes_twice_or_late_changes_nothing(client, pool, plain, queries):
    draft(client, pool, queries[0], 1, step=1)
    draft(client, pool, queries[0], 1, 2, step=2)
    draft(client, pool, queries[0], 1, step=1)
    assert Draft.objects.get().required == [1, 2]


def test_a_draft_of_another_tab_is_a_conflict(client, pool, plain, queries):
    draft(client, pool, queries[0], 1, writer="a")
    stale = draft(client, pool, queries[0], 2, writer="b", version=0)
    assert stale.status_code == 409
    assert stale.json()["theirs"]["required"] == [1]
    assert draft(client, pool, queries[0], 2, writer="b", version=stale.json()["theirs"]["version"]).status_code == 200


def test_the_same_draft_of_another_tab_is_no_conflict(client, pool, plain, queries):
    """As when a page that is drawn anew saves what it kept while the old page's save is still on its way."""
    draft(client, pool, queries[0], 1, writer="a")
    assert draft(client, pool, queries[0], 1, writer="b", version=0).status_code == 200
    assert draft(client, pool, queries[0], 1, 2, writer="b", step=2, version=0).status_code == 200
    assert Draft.objects.get().required == [1, 2]


def test_a_draft_that_comes_after_the_submit_is_not_kept(client, pool, plain, queries):
    send(client, pool, queries[0], 1)
    assert draft(client, pool, queries[0], 1, 2).status_code == 409
    assert Draft.objects.count() == 0


# ------------------------------------------------------------------------------------------------------- skip and undo


def test_skip_needs_a_reason_and_undo_takes_it_back(client, pool, plain, queries, ana):
    assert send(client, pool, queries[0], what="skip").status_code == 400
    assert send(client, pool, queries[0], what="skip", reason="It is garbled").status_code == 200
    assert Assignment.objects.get().reason == "It is garbled"
    assert item_of(pool, ana).query == queries[1]
    undone = client.post(url("label_undo", pool), **JSON).json()
    assert (undone["query"], undone["what"]) == (queries[0].pk, "skip")
    assert item_of(pool, ana).query == queries[0]


def test_undo_of_a_submit_brings_back_what_was_chosen(client, pool, plain, queries, ana):
    send(client, pool, queries[0], 1, 3)
    for _ in range(2):  # a request that arrives twice undoes one thing
        assert client.post(url("label_undo", pool), {"query": queries[0].pk}, **JSON).json()["query"] == queries[0].pk
    assert not Label.objects.filter(superseded_at__isnull=True).exists()
    assert Label.objects.count() == 1, "it is withdrawn, not deleted"
    assert item_of(pool, ana).query == queries[0]
    assert Draft.objects.get().required == [1, 3]
    assert Query.objects.get(pk=queries[0].pk).state == "draft"
    assert send(client, pool, queries[0], 2, key="again").status_code == 200


def test_a_draft_after_an_undo_is_no_conflict(client, pool, plain, queries):
    """What undo put back was written by no tab: the page that asked for the undo goes on, whatever version it knew."""
    send(client, pool, queries[0], 1)
    client.post(url("label_undo", pool), {"query": queries[0].pk}, **JSON)
    assert draft(client, pool, queries[0], 2, writer="a", step=5, version=7).status_code == 200
    assert Draft.objects.get().required == [2]


def test_undo_of_a_changed_answer_restores_the_earlier_one(client, pool, plain, queries):
    send(client, pool, queries[0], 1, key="a")
    send(client, pool, queries[0], 2, key="b", base=str(Label.objects.get().pk))
    client.post(url("label_undo", pool), **JSON)
    assert Label.objects.filter(superseded_at__isnull=True).get().required == [1]


def test_undo_goes_back_one_by_one_and_never_into_another_persons_work(client, pool, plain, queries, person):
    other = signed_in(person("ben"))
    send(other, pool, queries[5], 1)
    send(client, pool, queries[0], 1)
    send(client, pool, queries[1], what="skip", reason="no")
    assert [client.post(url("label_undo", pool), **JSON).json()["query"] for _ in range(3)] == [
        queries[1].pk,
        queries[0].pk,
        None,
    ]
    assert Label.objects.filter(superseded_at__isnull=True).count() == 1


# ----------------------------------------------------------------------------------------------------------- suggestions


def llm(query, required, scores):
    provenance = {"model": "gpt", "prompt": "prompt 2"}
    labels.record(
        labels.NewLabel(query.pk, source="llm", required=required, asked=range(4), scores=scores, provenance=provenance)
    )


def test_suggestions_come_first_with_source_and_version(client, pool, plain, queries):
    llm(queries[0], [2, 3], {0: 0.1, 1: 0.2, 2: 0.7, 3: 0.9})
    suggestions.push(pool, "support-3", [suggestions.Scored(queries[0].pk, [3], {0: 0.1, 1: 0.1, 2: 0.4, 3: 0.8})])
    html = client.post(url("label_item", pool, queries[0].pk), **JSON).json()["html"]
    assert re.findall(r'data-agent="(\d)"', html) == ["3", "2", "0", "1"]
    assert re.findall(r'<kbd aria-hidden="true">(\d)</kbd>\s*<input type="checkbox" name="agent"', html) == list("4312")
    assert "gpt · prompt 2" in html
    assert "support-3" in html
    assert "checked" not in html, "a suggestion is never an answer"
    assert "0.90" in html
    german = client.post(url("label_item", pool, queries[0].pk), headers={"accept-language": "de"}, **JSON)
    assert "0,90" in german.json()["html"]


@pytest.mark.parametrize(("checked", "said"), [(9, ""), (10, "100\u202f% as people said, over 10 queries")])
def test_agreement_over_a_few_queries_is_not_shown(client, pool, plain, add_query, person, checked, said):
    caches["process"].clear()
    ben = person("ben")
    for number in range(checked):
        query = add_query(f"checked {number}")
        labels.record(labels.NewLabel(query.pk, source="llm", required=[1], asked=(0, 1, 2, 3)))
        labels.record(labels.NewLabel(query.pk, source="human", author=ben, required=[1], asked=(0, 1, 2, 3)))
    labels.record(labels.NewLabel(add_query("open").pk, source="llm", required=[1], asked=(0, 1, 2, 3)))
    queue.fill(pool)
    page = client.get(url("label", pool)).text
    assert "Suggestions, never answers:" in page
    assert said in page
    assert said or "as people said" not in page


def test_what_became_of_the_suggestion_is_recorded(client, pool, plain, queries):
    llm(queries[0], [1, 2], {})
    client.post(url("label_item", pool, queries[0].pk), **JSON)
    llm(queries[0], [3], {})  # a later suggestion that the person did not see
    send(client, pool, queries[0], 2, 3)
    made = Label.objects.get(source="human").provenance
    assert (made["kept"], made["added"], made["removed"], made["blind"]) == ([2], [3], [1], False)
    assert made["shown"][0] == {
        "source": "llm", "version": "gpt · prompt 2", "required": [1, 2], "proposed": [1, 2],
    }  # fmt: skip


def test_a_blind_item_looks_like_one_without_suggestions(client, pool, plain, queries):
    def drawn():
        html = client.post(url("label_item", pool, queries[0].pk), **JSON).json()["html"]
        return re.sub(r'name="csrfmiddlewaretoken" value="[^"]+"', "", html)

    without = drawn()
    Assignment.objects.all().delete()
    llm(queries[0], [3], {0: 0.1, 1: 0.2, 2: 0.3, 3: 0.9})
    plain.blind_share = 1.0
    plain.save()
    assert drawn() == without
    send(client, pool, queries[0], 3)
    made = Label.objects.get(source="human").provenance
    assert made["blind"] is True
    assert "kept" not in made
    Assignment.objects.all().delete()
    plain.blind_share = 0.0
    plain.save()
    Label.objects.filter(source="human").update(superseded_at="2026-01-01T00:00Z")
    assert drawn() != without, "the comparison can fail"


def test_keywords_are_underlined_and_the_text_is_escaped(client, pool, plain, add_query):
    pool.agents.filter(number=0).update(keywords=["charged", "a & b"])
    query = add_query("<script>x</script> I was Charged, not recharged; a & b")
    html = client.post(url("label_item", pool, query.pk), **JSON).json()["html"]
    assert "&lt;script&gt;x&lt;/script&gt;" in html
    assert '<u title="Billing">Charged</u>, not recharged; <u title="Billing">a &amp; b</u>' in html
    pool.agents.filter(number=0).update(keywords=["返金", "İade"])
    html = client.post(url("label_item", pool, add_query("先月分を返金して。İADE").pk), **JSON).json()["html"]
    assert 'を<u title="Billing">返金</u>して。<u title="Billing">İADE</u>' in html


# ------------------------------------------------------------------------------------------------------ who sees what


def test_other_peoples_labels_are_hidden_until_ones_own_is_sent(client, pool, plain, queries, person):
    other = signed_in(person("ben"))
    send(other, pool, queries[0], 3)
    history = url("label_history", pool, queries[0].pk)
    assert "Shipping" not in client.get(history).content.decode()
    assert "ben" not in client.get(url("label_item", pool, queries[0].pk)).content.decode()
    reviewer = signed_in(person("rita", "reviewer"))
    assert "Shipping" in reviewer.get(history).content.decode()
    send(client, pool, queries[0], 1)
    assert "Shipping" in client.get(history).content.decode()


def test_the_history_says_what_changed(client, pool, plain, queries):
    send(client, pool, queries[0], 1, key="a")
    send(client, pool, queries[0], 1, 3, key="b", base=str(Label.objects.get().pk))
    html = client.get(url("label_history", pool, queries[0].pk)).content.decode()
    assert "+ SH Shipping" in html
    assert "replaced" in html


# ----------------------------------------------------------------------------------------------------------- nothing left


def test_an_empty_queue_says_why(client, pool, plain, queries, person, ana):
    ben = person("ben")
    queue.take(pool, ben, count=6)
    html = client.get(url("label", pool)).content.decode()
    assert "ben has 6 items, free in" in html
    assert "Release" not in html
    reviewer = signed_in(person("rita", "reviewer"))
    assert "Release" in reviewer.get(url("label", pool)).content.decode()
    assert client.post(url("label_release", pool, ben.pk)).status_code == 403
    assert reviewer.post(url("label_release", pool, ben.pk)).status_code == 302
    for back in ("1", "label", "https://example.com/", "//example.com", ""):
        answer = reviewer.post(url("label_release", pool, ben.pk), {"next": back})
        assert (answer.status_code, answer.headers["Location"]) == (302, url("label", pool)), back
    assert reviewer.post(url("label_release", pool, ben.pk), {"next": "/x/"}).headers["Location"] == "/x/"
    assert queries[0].text in client.get(url("label", pool)).content.decode()


def test_an_empty_pool_teaches_the_next_step(client, pool, plain):
    assert "No queries yet." in client.get(url("label", pool)).content.decode()


def test_skipped_items_come_back_on_demand(client, pool, plain, queries):
    for query in queries:
        send(client, pool, query, what="skip", reason="later")
    assert "Show the 6 queries that you skipped" in client.get(url("label", pool)).content.decode()
    client.post(url("label_skipped", pool))
    assert queries[0].text in client.get(url("label", pool)).content.decode()


def test_a_heartbeat_answers_with_what_is_held(client, pool, plain, queries):
    client.get(url("label", pool))
    answer = client.post(url("label_heartbeat", pool), {"queries": f"{queries[0].pk},{queries[1].pk}"})
    assert answer.json() == {"held": [queries[0].pk]}


# ------------------------------------------------------------------------------------------- whatever breaks in between


@pytest.mark.parametrize("breaks", ["queue.finish", "disagreement.measure", "Submission.objects.create"])
def test_a_submit_that_dies_half_way_leaves_nothing_and_may_come_again(
    client, pool, plain, queries, ana, monkeypatch, breaks
):
    """The server is killed between any two writes of a submit: all of them are undone, the browser sends it again."""
    from datasets_app.labeling import one_query

    draft(client, pool, queries[0], 2)
    target, name = breaks.rsplit(".", 1)
    module = {
        "queue": one_query.queue,
        "disagreement": one_query.disagreement,
        "Submission.objects": Submission.objects,
    }
    with monkeypatch.context() as broken:

        def dies(*args, **kwargs):
            raise SystemExit("killed")

        broken.setattr(module[target], name, dies)
        with pytest.raises(SystemExit):
            send(client, pool, queries[0], 2, key="once")
    assert Label.objects.count() == Submission.objects.count() == 0
    assert Draft.objects.get().required == [2], "what was chosen is still there"
    assert Assignment.objects.get().state == "held"
    for _ in range(2):
        assert send(client, pool, queries[0], 2, key="once").status_code == 200
    assert Label.objects.count() == 1
    assert Assignment.objects.get().state == "done"


def test_words_are_named_to_who_holds_the_query_and_never_on_a_blind_item(
    client, pool, plain, queries, ana, monkeypatch
):
    monkeypatch.setattr(
        "routerweb.hooks.words_for_agents._implementations", [lambda pool, said: {1: [(0, len(said), 3)]}]
    )
    of_nobody = client.get(url("label_words", pool, queries[0].pk)).json()
    client.post(url("label", pool))
    lease = queue.held(pool, ana)
    address = url("label_words", pool, lease.item.query_id)
    shown = client.get(address).json()
    Assignment.objects.filter(pk=lease.pk).update(blind=True)
    blind = client.get(address).json()
    assert (of_nobody, blind) == ({"words": None}, {"words": None})
    assert shown == {"words": {"1": [[0, len(lease.item.query.text), 3]]}}
