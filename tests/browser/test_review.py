"""The other pages of labeling: no serious or critical finding, usable on a phone, and the quick question by one key."""

import re

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import expect

from agents_app import pools
from datasets_app.labeling import queue
from datasets_app.labels import disagreement, labels
from datasets_app.models import Label, Query
from datasets_app.prelabeling import jobs as prelabel
from datasets_app.prelabeling import prompts
from tests.browser.axe import COLOURS, findings
from tests.browser.conftest import overflow
from tests.browser.test_labeling import LABEL, make_pool, press, wait_saved
from tests.thorough import EVERYTHING


@pytest.fixture
def worked(transactional_db, person):
    """A pool with a disagreement, agreed labels, an LLM's labels, a skipped query and a pre-labeling job."""
    pool = make_pool(
        12, [f"query {n:02} about word{n % 12} and a rather long text that goes on and on" for n in range(12)]
    )
    ana, ben = person("ana"), person("ben")
    every = range(12)
    queue.fill(pool)
    rows = list(Query.objects.order_by("pk"))
    for n, query in enumerate(rows[:8]):
        labels.record(
            labels.NewLabel(
                query.pk, source="llm", required=[n], asked=every, scores={n: 0.9}, provenance={"model": "m"}
            )
        )
        labels.record(labels.NewLabel(query.pk, source="human", author=ana, required=[n], asked=every))
        labels.record(
            labels.NewLabel(query.pk, source="human", author=ben, required=[n, n + 1] if n % 3 else [n], asked=every)
        )
    queue.skip(queue.open_item(rows[9], ana, pool), "garbled")
    queue.take(pool, ben)
    disagreement.measure([query.pk for query in rows])
    prompts.current(pool)
    prelabel.create(pool, prelabel.unlabeled(pool), base_url="http://127.0.0.1:9/v1", model="m")
    return pool


#: Beside the pages that have a name of their own, which test_everybody visits. `make test` looks at every third.
VARIANTS = (
    "queries/?q=state:gold+agent:A1", "queries/?q=agent:nobody", "queries/change/?action=add&agent=3&all=1&q=",
    "review/?list=skipped", "review/?list=doubts", "agreement/items/?agent=2",
)  # fmt: skip


@pytest.mark.at_length
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_variant_of_a_page_can_be_used_by_everybody(sign_in, person, worked, scheme):
    page = sign_in(person("rita", "reviewer"), color_scheme=scheme).new_page()
    wrong = {}
    for path in VARIANTS if EVERYTHING else VARIANTS[::3]:
        page.set_viewport_size({"width": 1280, "height": 800})
        page.goto(f"/p/big/{path}")
        found = findings(page, COLOURS if scheme == "dark" else None)
        page.set_viewport_size({"width": 320, "height": 640})
        if overflow(page):
            found.append(f"{overflow(page)} px too wide at 320")
        if found:
            wrong[path] = found
    assert wrong == {}


@pytest.mark.at_length
def test_a_quick_question_takes_one_key(sign_in, person, worked):
    returns = pools.add_agent(worked, "Returns")
    page = sign_in(person("cora")).new_page()
    page.goto(LABEL)
    page.get_by_role("link", name="Returns, 8 quick questions").press("Enter")
    for n in range(8):
        expect(page.locator("#lb-item")).to_be_visible()
        before = page.locator("#lb-item").get_attribute("data-query")
        press(page, "Digit1" if n % 2 else "Digit0")
        expect(page.locator(f'#lb-item[data-query="{before}"]')).to_have_count(0)
    wait_saved(page)
    made = Label.objects.filter(author__username="cora")
    assert sorted(map(tuple, made.values_list("required", flat=True))) == [()] * 4 + [(returns.number,)] * 4
    assert set(map(tuple, made.values_list("asked", flat=True))) == {(returns.number,)}


def test_a_disagreement_is_decided_by_keyboard(sign_in, person, worked):
    page = sign_in(person("rita", "reviewer")).new_page()
    page.goto("/p/big/review/")
    expect(page.locator(".rv-disputed")).to_have_count(1)
    expect(page.locator(".rv-settled tr").first).to_be_hidden()
    page.get_by_role("button", name="other agents").press("Enter")
    expect(page.locator(".rv-settled tr").first).to_be_visible()
    text = page.locator(".rw-query-text").first.inner_text()
    page.get_by_label("The guidelines leave a gap").press("Space")
    page.get_by_role("button", name="Take ana's").press("Enter")
    expect(page.get_by_role("button", name="Undo")).to_be_visible()
    decision = Label.objects.get(source="adjudication")
    assert decision.query.text == text
    assert decision.required == Label.objects.get(query=decision.query, author__username="ana").required


@pytest.mark.at_length
def test_a_decision_slides_the_next_disagreement_in(sign_in, person, worked):
    page = sign_in(person("rita", "reviewer")).new_page()
    page.goto("/p/big/review/")
    page.evaluate("window.same = true")
    decided = []
    for left in (5, 4, 3, 2, 1):
        tab = page.get_by_role("navigation", name="Kinds of cases").get_by_role("link", name="Disagreements")
        expect(tab).to_have_text(f"Disagreements {left}")
        text = page.locator("#rv-text").inner_text()
        decided.append(text)
        # The first row is the one in dispute; Enter decides as it is ticked then.
        before = page.locator(".rv-decision input").first.is_checked()
        press(page, "KeyM", "Digit1", "Enter")
        expect(page.get_by_text(text, exact=True).locator("visible=true")).to_have_count(0)
        label = Label.objects.get(source="adjudication", query__text=text)
        assert (len(label.required), label.provenance["reason"]) == (1 if before else 2, "mistake")
    expect(page.get_by_role("heading", name="Nobody disagrees.")).to_be_visible()
    assert page.evaluate("window.same"), "no page was loaded"
    assert len(set(decided)) == 5
    page.keyboard.press("KeyZ") if page.locator("#rv-case").count() else page.get_by_role("button", name="Undo").click()
    expect(page.locator("#rv-text")).to_have_text(decided[-1])


@pytest.mark.at_length
def test_a_decision_without_a_reason_asks_for_one(sign_in, person, worked):
    page = sign_in(person("rita", "reviewer")).new_page()
    page.goto("/p/big/review/")
    text = page.locator("#rv-text").inner_text()
    press(page, "Shift+Digit2")
    expect(page.get_by_label("The query is ambiguous")).to_be_focused()
    press(page, "KeyG", "Shift+Digit2")
    expect(page.locator("#rv-text")).not_to_have_text(text)
    decision = Label.objects.get(source="adjudication")
    assert decision.required == Label.objects.get(query=decision.query, author__username="ben").required
    assert decision.query.text == text


@pytest.mark.at_length
def test_where_a_reason_is_missing_is_in_sight(sign_in, person, worked):
    """The browser's own words stand at the first reason, which the bar at the bottom must not cover; names that are e-mail addresses
    leave the table its column of decisions."""
    for user in User.objects.filter(username__in=["ana", "ben"]):
        User.objects.filter(pk=user.pk).update(username=f"{user.username}papadopoulou@nordwind.example")
    page = sign_in(person("rita", "reviewer"), viewport={"width": 1280, "height": 560}).new_page()
    page.goto("/p/big/review/")
    expect(page.locator("html")).to_have_class(re.compile("rv-live"))
    table = page.locator(".rv-case .rw-scroll")
    assert table.evaluate("table => table.scrollWidth - table.clientWidth") == 0
    page.evaluate("window.scrollTo(0, 0)")
    press(page, "Shift+Digit1")
    reason = page.locator(".rv-why input").first
    expect(reason).to_be_focused()
    page.wait_for_timeout(300)  # a smooth scroll
    assert reason.bounding_box()["y"] + 40 < page.locator(".lb-bar").bounding_box()["y"]
