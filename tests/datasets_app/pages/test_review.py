"""Deciding disagreements, and the figures of agreement."""

import numpy as np
import pytest
from django.urls import reverse

from agents_app import pools
from agents_app.models import Agent
from datasets_app.figures import agreement
from datasets_app.figures.agreement import alpha, alpha_of_agent, alpha_of_sets
from datasets_app.labeling import adjudication, queue
from datasets_app.labels import disagreement, labels
from datasets_app.models import Gold, Label, PrelabelJob, Query, QueueItem, QueueSettings
from datasets_app.prelabeling import prompts
from tests.clients import signed_in
from tests.datasets_app.addresses import url
from tests.llm_server import Server
from training_app.engine import llm

EVERY = range(4)


@pytest.fixture
def client(rita):
    return signed_in(rita)


@pytest.fixture
def pair(person):
    return person("ana"), person("ben")


@pytest.fixture
def disputed(pool, plain, queries, pair):
    """Query 0: {0,1} and {0,2}; query 1: {0} and {3}, further apart; query 2: agreed."""
    queue.fill(pool)
    ana, ben = pair
    for query, one, other in ((queries[0], [0, 1], [0, 2]), (queries[1], [0], [3]), (queries[2], [1], [1])):
        labels.record(labels.NewLabel(query.pk, source="human", author=ana, required=one, asked=EVERY))
        labels.record(labels.NewLabel(query.pk, source="human", author=ben, required=other, asked=EVERY))
    disagreement.measure([query.pk for query in queries])
    return queries


# ---------------------------------------------------------------------------------------------------------- the figures


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ({1}, {1}, 0.0),
        (set(), set(), 0.0),
        ({1}, {2}, 1.0),
        ({1}, set(), 1.0),
        ({1}, {1, 2}, 1 - 1 / 2 * 2 / 3),
        ({1, 2}, {2, 3}, 1 - 1 / 3 * 1 / 3),
    ],
)
def test_masi_by_hand(a, b, expected):
    assert disagreement.masi(a, b) == pytest.approx(expected)
    assert disagreement.masi(b, a) == pytest.approx(expected)


def test_alpha_of_a_textbook_example():
    """Krippendorff 2011, section A: two observers, ten units, binary data: α = 0.095."""
    one = [0, 1, 0, 0, 0, 0, 0, 0, 1, 0]
    other = [1, 1, 1, 0, 0, 1, 0, 0, 0, 0]
    units = [[(frozenset([7] * bit), frozenset([7])) for bit in bits] for bits in zip(one, other, strict=True)]
    figure = alpha_of_agent(units, 7)
    assert figure.value == pytest.approx(0.095, abs=5e-4)
    assert figure.n == 10
    assert figure.low < figure.value < figure.high


def test_the_interval_of_alpha_is_around_it_and_narrows():
    draw = np.random.default_rng(1)
    counts = np.zeros((400, 3))
    for row in counts:
        truth = draw.integers(3)
        for _ in range(draw.integers(2, 4)):
            row[truth if draw.random() < 0.8 else draw.integers(3)] += 1
    figure = alpha(counts, 1 - np.eye(3))
    assert figure.low < figure.value < figure.high
    assert (figure.low + figure.high) / 2 == pytest.approx(figure.value, abs=0.02)
    assert figure.high - figure.low < 0.2
    few = alpha(counts[:40], 1 - np.eye(3))
    assert few.high - few.low > 2 * (figure.high - figure.low)


def test_two_queries_that_agree_are_not_certainty():
    figure = alpha_of_sets([[frozenset({1})] * 2, [frozenset({2})] * 2])
    assert figure.value == 1
    assert figure.low < 0.3


def test_five_people_beside_the_llm_are_one_query_not_five():
    """The same twenty queries with each answer five times over know no more than with each once."""
    draw = np.random.default_rng(0)
    units = [
        ((frozenset({0}) if bit else frozenset(), frozenset({0})), (frozenset({0}), frozenset({0})))
        for bit in draw.random(20) < 0.7
    ]
    units[0] = ((frozenset(), frozenset({0})), (frozenset(), frozenset({0})))
    once = alpha_of_agent(units, 0, list(range(20)))
    five = alpha_of_agent(units * 5, 0, list(range(20)) * 5)
    taken_as_more = alpha_of_agent(units * 5, 0)
    assert (once.n, five.n, taken_as_more.n) == (20, 20, 100)
    assert five.high - five.low == pytest.approx(once.high - once.low, rel=0.1)
    assert taken_as_more.high - taken_as_more.low < 0.6 * (five.high - five.low)


def test_whole_sets_are_of_the_random_overlap(pool, disputed):
    queue.fill(pool, everything=True)
    QueueItem.objects.update(overlap_lot=9_999)
    assert not agreement.report(pool).at_random
    QueueItem.objects.filter(query=disputed[0]).update(overlap_lot=0)
    QueueSettings.objects.filter(pool=pool).update(overlap_share=0.1)
    found = agreement.report(pool)
    assert found.at_random
    assert found.whole.n == 1
    assert found.agents[0][1].n == 3  # per agent it is all of them


def test_agreement_on_sets_is_between_chance_and_one():
    agreed = [[frozenset({n % 3})] * 2 for n in range(30)]
    assert alpha_of_sets(agreed).value == pytest.approx(1.0)
    crossed = [[frozenset({n % 2}), frozenset({1 - n % 2})] for n in range(30)]
    assert alpha_of_sets(crossed).value < 0
    near = [[frozenset({n % 3}), frozenset({n % 3, 9})] for n in range(30)]
    assert 0 < alpha_of_sets(near).value < 1


def test_an_undefined_figure_says_why():
    assert "fewer than 2" in alpha_of_sets([]).why
    assert "fewer than 2" in alpha_of_sets([[frozenset({1})], [frozenset({1}), frozenset({2})]]).why
    same = alpha_of_sets([[frozenset({1}), frozenset({1})]] * 5)
    assert same.value is None
    assert "always gave the same answer" in same.why


def test_the_report_of_a_pool(pool, disputed, pair):
    ana, ben = pair
    labels.record(labels.NewLabel(disputed[2].pk, source="llm", required=[1], asked=EVERY))
    labels.record(labels.NewLabel(disputed[1].pk, source="llm", required=[3], asked=EVERY))
    found = agreement.report(pool)
    one = found.pairs[ana.pk, ben.pk]
    assert one.n == 3
    assert one.exact == pytest.approx(1 / 3)
    assert one.jaccard == pytest.approx((1 / 3 + 0 + 1) / 3)
    assert found.whole.n == 3
    assert [(pair.a, pair.n, pair.exact) for pair in found.llm] == [(ana, 2, 0.5), (ben, 2, 1.0)]
    assert "always gave" not in found.whole.why
    assert found.agents[0][1].n == 3


def test_blind_and_shown_are_apart(pool, plain, queries, person):
    ana = person("ana")
    for number, blind in enumerate((True, True, False, False)):
        labels.record(labels.NewLabel(queries[number].pk, source="llm", required=[1], asked=EVERY))
        made = {"blind": blind} | ({} if blind else {"shown": [{"source": "llm"}]})
        required = [1] if not blind else [2]
        labels.record(
            labels.NewLabel(
                queries[number].pk, source="human", author=ana, required=required, asked=EVERY, provenance=made
            )
        )
    found = agreement.report(pool)
    assert (found.llm_blind.n, found.llm_blind.exact) == (2, 0.0)
    assert (found.llm_shown.n, found.llm_shown.exact) == (2, 1.0)
    assert [figure.n for _agent, _people, figure in found.agents] == [4] * 4
    assert found.agents[2][2].value is not None
    assert agreement.differing(pool, None, None, 2, llm=True) == [queries[0].pk, queries[1].pk]
    assert agreement.differing(pool, None, None, None, llm=True, made="shown") == [queries[2].pk, queries[3].pk]
    assert agreement.differing(pool, None, None, None, llm=True, made="blind") == [queries[0].pk, queries[1].pk]
    assert agreement.report(pool, "unshown").llm[0].n == 2


def test_agents_that_one_was_not_asked_about_stay_out(pool, plain, queries, pair):
    ana, ben = pair
    for query in queries[:2]:
        labels.record(labels.NewLabel(query.pk, source="human", author=ana, required=[0, 3], asked=[0, 3]))
        labels.record(labels.NewLabel(query.pk, source="human", author=ben, required=[0], asked=[0, 1, 2]))
    found = agreement.report(pool)
    assert found.exact == 1.0
    assert found.agents[3][1].n == 0
    labels.record(labels.NewLabel(queries[2].pk, source="human", author=ana, required=[1], asked=EVERY))
    labels.record(labels.NewLabel(queries[2].pk, source="human", author=ben, required=[1], asked=EVERY))
    assert agreement.report(pool).whole.value == 1.0, "what was not asked is no disagreement"
    labels.record(labels.NewLabel(queries[3].pk, source="human", author=ana, required=[0, 1], asked=EVERY))
    labels.record(labels.NewLabel(queries[3].pk, source="human", author=ben, required=[0], asked=EVERY))
    assert agreement.differing(pool, ana.pk, ben.pk, None)[0] == queries[3].pk
    assert agreement.differing(pool, ana.pk, ben.pk, 3) == []


# ------------------------------------------------------------------------------------------------------- deciding


def test_the_furthest_apart_comes_first(pool, disputed):
    assert list(adjudication.disputes(pool)) == [disputed[1], disputed[0]]


def test_the_case_puts_disputed_agents_first(pool, disputed):
    case = adjudication.case(pool, disputed[0])
    assert [(row.agent.number, row.disputed) for row in case.rows] == [(1, True), (2, True), (0, False), (3, False)]
    assert case.union == {0, 1, 2}


def test_a_dispute_that_a_decision_of_a_merged_agent_makes_is_shown(pool, plain, queries, pair, rita):
    ana, ben = pair
    query = queries[0]
    labels.record(labels.NewLabel(query.pk, source="human", author=ana, required=[0], asked=[0, 1]))
    labels.record(labels.NewLabel(query.pk, source="human", author=ben, required=[1], asked=[0, 1]))
    labels.record(labels.NewLabel(query.pk, source="adjudication", author=rita, required=[], asked=[1], partial=True))
    pools.merge(Agent.objects.get(pool=pool, number=1), Agent.objects.get(pool=pool, number=0), None)
    query.refresh_from_db()
    assert query.state == Query.State.DISAGREEMENT, "ben's yes to agent 1 was overruled, so his no to agent 0 stands"
    first = adjudication.case(pool, query).rows[0]
    assert (first.agent.number, first.disputed) == (0, True)
    assert [mark for _voice, mark, _score in first.marks] == ["yes", "no"]


def test_a_decision_is_gold_with_its_reason_and_keeps_the_originals(pool, disputed, rita):
    label = adjudication.decide(
        pool,
        disputed[0],
        adjudication.Ruling(required=frozenset({0, 1}), took="edit", reason="guideline", remark="see 2.1"),
        author=rita,
    )
    assert Gold.objects.get(query=disputed[0]).required == [0, 1]
    assert Gold.objects.get(query=disputed[0]).decided_by["2"] == label.pk
    assert label.reason == "The guidelines leave a gap: see 2.1"
    assert Label.objects.filter(query=disputed[0], source="human", superseded_at__isnull=True).count() == 2
    assert list(adjudication.disputes(pool)) == [disputed[1]]
    assert QueueItem.objects.get(query=disputed[0]).needed == 0
    adjudication.take_back(label, rita)
    assert list(adjudication.disputes(pool)) == [disputed[1], disputed[0]]


def test_a_decision_can_be_undone_on_its_querys_page_long_after_the_note_has_gone(client, pool, disputed):
    address = url("query", pool, disputed[0].pk)
    assert "Undo the decision" not in client.get(address).content.decode()
    client.post(url("review_query", pool, disputed[0].pk), {"take": "union", "reason": "mistake"}, follow=True)
    undo = url("review_undo", pool, Label.objects.get(source="adjudication").pk)
    assert undo in client.get(address).content.decode()
    assert disputed[0] not in adjudication.disputes(pool)
    client.post(undo)
    assert undo not in client.get(address).content.decode()
    assert disputed[0] in adjudication.disputes(pool)


@pytest.mark.parametrize(("take", "expected"), [("union", [0, 1, 2]), ("edit", [3]), ("ana", [0, 1])])
def test_the_buttons_of_the_page(client, pool, disputed, pair, take, expected):
    own = Label.objects.get(query=disputed[0], author=pair[0])
    fields = {"take": str(own.pk) if take == "ana" else take, "agent": ["3"], "reason": "mistake"}
    answer = client.post(url("review_query", pool, disputed[0].pk), fields, follow=True)
    assert Gold.objects.get(query=disputed[0]).required == expected
    assert disputed[1].text in answer.content.decode(), "the next one"
    decision = Label.objects.get(source="adjudication")
    assert decision.provenance["took"] == fields["take"]
    assert url("review_undo", pool, decision.pk) in answer.content.decode()
    client.post(url("review_undo", pool, decision.pk))
    assert Query.objects.get(pk=disputed[0].pk).state == "disagreement"


def test_a_decision_needs_its_reason(client, pool, disputed):
    answer = client.post(url("review_query", pool, disputed[0].pk), {"take": "edit", "agent": ["3"]})
    assert answer.status_code == 422
    assert "Choose why people differed" in answer.content.decode()
    assert not Label.objects.filter(source="adjudication").exists()


def test_unsure_and_skipped_wait_for_a_decision_too(client, pool, plain, queries, person):
    ana = person("ana")
    labels.record(labels.NewLabel(queries[0].pk, source="human", author=ana, required=[1], asked=EVERY, unsure=True))
    queue.skip(queue.open_item(queries[1], ana, pool), "garbled")
    assert queries[0].text in client.get(url("review", pool) + "?list=doubts").content.decode()
    assert queries[1].text in client.get(url("review", pool) + "?list=skipped").content.decode()
    assert "Nobody disagrees." in client.get(url("review", pool)).content.decode()


def test_nobody_is_said_to_differ_about_a_query_that_one_person_found_difficult(client, pool, plain, queries, person):
    queue.skip(queue.open_item(queries[1], person("ana"), pool), "garbled")
    html = client.get(url("review", pool) + "?list=skipped").text
    assert "Why was it difficult?" in html
    assert "differ?" not in html
    answer = client.post(url("review_query", pool, queries[1].pk) + "?list=skipped", {"take": "edit", "agent": ["3"]})
    assert "Choose why it was difficult" in answer.text


def test_a_skipped_query_with_an_llms_label_alone_waits_for_a_decision(client, pool, plain, queries, person):
    ana, ben = person("ana"), person("ben")
    for query in queries[:2]:
        labels.record(labels.NewLabel(query.pk, source="llm", required=[1], asked=EVERY))
        queue.skip(queue.open_item(query, ana, pool), "garbled")
    labels.record(labels.NewLabel(queries[1].pk, source="human", author=ben, required=[1], asked=EVERY, unsure=True))
    assert [query.pk for query in adjudication.passed(pool)] == [queries[0].pk]
    assert queries[0].text in client.get(url("review", pool) + "?list=skipped").text


@pytest.mark.parametrize(("role", "status"), [("labeler", 403), ("ops", 403), ("reviewer", 200), ("admin", 200)])
def test_who_may_review(pool, disputed, person, role, status):
    client = signed_in(person("pat", role))
    assert client.get(url("review", pool)).status_code == status
    if status == 403:
        assert client.post(url("review_query", pool, disputed[0].pk), {"take": "union"}).status_code == 403


def test_the_agreement_page_and_the_queries_behind_a_cell(client, pool, disputed, pair):
    ana, ben = pair
    html = client.get(url("agreement", pool)).content.decode()
    cell = f"?a={ana.pk}&amp;b={ben.pk}"
    assert cell in html
    assert "The LLM has labeled none of these queries." in html
    assert "α with the LLM" not in html
    html = client.get(url("agreement_items", pool) + cell.replace("&amp;", "&")).content.decode()
    assert html.index(disputed[1].text) < html.index(disputed[0].text) < html.index(disputed[2].text)
    html = client.get(url("agreement_items", pool) + "?agent=3").content.decode()
    assert disputed[1].text in html
    assert disputed[0].text not in html


def test_an_empty_agreement_page_says_what_is_missing(client, pool, plain):
    assert "Nobody has labeled here yet." in client.get(url("agreement", pool)).content.decode()
    assert "No label was made this way yet." in client.get(url("agreement", pool) + "?items=shown").content.decode()


# ------------------------------------------------------------------------------------------------------------ the judge


@pytest.fixture
def judged(monkeypatch, settings):
    """Has the LLM say what a test wants, and keeps what it was asked."""
    settings.LLM_BASE_URL, settings.LLM_MODEL = "http://127.0.0.1:9/v1", "m"
    asked = []

    def says(text):
        def complete(self, messages, schema=None):
            asked.append(messages)
            return llm.Completion(text, llm.Usage())

        monkeypatch.setattr(llm.Client, "complete", complete)
        return asked

    return says


def test_the_judge_says_what_it_would_change_and_decides_nothing(client, pool, disputed, judged):
    asked = judged('Well: {"right": false, "missing": [3, 99], "unneeded": [0], "why": "It is about a parcel."}')
    html = client.post(
        url("review_judge", pool, disputed[0].pk), {"agent": ["0"]}, headers={"HX-Request": "true"}
    ).content.decode()
    assert "It is about a parcel." in html
    assert "Shipping" in html
    assert "Billing" in html
    assert "<html" not in html
    assert '"chosen": [0]' in asked[0][1]["content"]
    assert not Label.objects.filter(source="adjudication").exists()
    assert (
        "The judge would choose another set." in client.post(url("review_judge", pool, disputed[0].pk)).content.decode()
    )


@pytest.mark.parametrize("text", ["I agree.", "[]", '{"right": "yes"}'])
def test_a_judge_that_cannot_be_understood_says_so(client, pool, disputed, judged, text):
    judged(text)
    html = client.post(url("review_judge", pool, disputed[0].pk)).content.decode()
    assert "could not be read" in html


def test_without_an_llm_the_judge_says_what_to_do(client, pool, disputed, settings):
    settings.LLM_MODEL = ""
    assert "No LLM is set up" in client.post(url("review_judge", pool, disputed[0].pk)).content.decode()


def test_the_judge_waits_no_longer_than_a_person_does(client, pool, disputed, settings):
    with Server() as server:
        settings.LLM_BASE_URL, settings.LLM_MODEL = server.url, "m"
        server.fault, server.retry_after = (lambda text, nth: "429"), "100"
        html = client.post(url("review_judge", pool, disputed[0].pk)).content.decode()
    assert "no time left" in html
    assert len(server.bodies) == 1


def test_the_judge_asks_nobody_inside(client, pool, disputed, settings):
    with Server() as server:
        job = PrelabelJob.objects.create(pool=pool, base_url=server.url, model="m", prompt=prompts.current(pool))
        settings.INTERNAL_HOSTS = ()
        html = client.post(url("review_judge", pool, disputed[0].pk)).content.decode()
    assert not server.bodies
    assert "INTERNAL_HOSTS" in html
    assert job.base_url not in html


def test_below_thirty_common_labels_there_is_neither_an_alpha_nor_a_bar(client, pool, disputed, pair, monkeypatch):
    html = client.get(url("agreement", pool)).content.decode()
    assert "too few: 3 of at least 30 common labels" in html
    assert 'class="rw-bar"' not in html
    found = agreement.shown(agreement.report(pool))
    assert (found.whole.value, found.jaccard, found.exact, found.agents[0][1].value) == (None, None, None, None)
    monkeypatch.setattr(agreement, "LEAST_SHOWN", 3)
    assert agreement.shown(agreement.report(pool)) == agreement.report(pool)
    assert 'class="rw-bar"' in client.get(url("agreement", pool)).content.decode()


def test_one_key_accepting_is_shown_beside_blind_agreement(client, pool, add_query, rita):
    for number in range(agreement.LEAST_SHOWN):
        accepted = {"one_key": True} if number < 12 else {}
        labels.record(
            labels.NewLabel(add_query(f"query {number}").pk, source="human", author=rita, required=[0], asked=range(4),
            provenance={"via": "queue", "shown": [{}], **accepted},
        ))  # fmt: skip
    found = agreement.report(pool).one_key
    assert (found.accepted, found.shown, found.share) == (12, 30, 0.4)
    shown = client.get(reverse("agreement", args=[pool.slug])).content.decode()
    assert "of 30 labels made beside a suggestion accepted it with one key." in shown
