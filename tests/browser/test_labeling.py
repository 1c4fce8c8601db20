"""Labeling as a person does it: by keyboard alone, on a bad network, in two tabs, on a phone."""

import re
from collections import Counter

import pytest
from django.conf import settings
from django.utils import timezone
from playwright.sync_api import expect

from agents_app.models import Agent, Pool
from datasets_app.labeling import queue
from datasets_app.labels import labels
from datasets_app.models import Assignment, Dataset, Label, Query, QueueSettings, SplitGroup, group_hash, text_hash
from tests.browser.axe import findings
from tests.browser.conftest import overflow
from tests.clients import signed_in

LABEL = "/p/big/label/"


def make_pool(agents: int, texts: list[str]) -> Pool:
    """A pool "big" of agents A0, A1, … B0, …, whose queries are asked oldest first, none blind, none twice."""
    pool = Pool.objects.create(slug="big", name="Big", next_agent_number=agents)
    Agent.objects.bulk_create(
        [
            Agent(
                pool=pool,
                number=n,
                code=f"{chr(65 + n // 10)}{n % 10}",
                key=f"agent-{n}",
                name=f"Agent {n}",
                description=f"knows about matter {n}",
                keywords=[f"word{n}"],
            )
            for n in range(agents)
        ]
    )
    dataset = Dataset.objects.create(pool=pool, name="Queries")
    for text in texts:
        group = SplitGroup.objects.create(pool=pool, key=group_hash(text))
        Query.objects.create(dataset=dataset, text=text, text_hash=text_hash(text), group=group)
    settings = queue.stored_settings(pool)
    settings.order = QueueSettings.Order.OLDEST
    settings.overlap_share = settings.blind_share = settings.evaluation_share = 0.0
    settings.save()
    return pool


def press(page, *keys):
    for key in keys:
        page.keyboard.press(key)


def code_keys(code):
    return ["Period", f"Key{code[0]}", f"Digit{code[1]}"]


def text_of(page):
    return page.locator("#lb-item .rw-query-text").inner_text()


def current_labels():
    return {
        label.query.text: label.required
        for label in Label.objects.filter(superseded_at__isnull=True, source="human").select_related("query")
    }


def wait_saved(page, timeout=120_000):
    expect(page.locator("#lb-saved")).to_have_text(re.compile("^Saved"), timeout=timeout)


@pytest.mark.at_length
def test_twenty_queries_fifty_agents_no_pointer(sign_in, person):
    """Digits, codes, filter, none, accept, unsure, skip and undo: every label is right, and no pointer event was ever seen."""
    texts = [f"query {n:02}" for n in range(20)]
    pool = make_pool(50, texts)
    suggested = Query.objects.get(text="query 07")
    scores = {n: 0.9 if n in (11, 44) else 0.1 for n in range(50)}
    labels.record(
        labels.NewLabel(
            suggested.pk, source="llm", required=[11, 44], asked=range(50), scores=scores, provenance={"model": "m"}
        )
    )
    page = sign_in(person("ana")).new_page()
    page.add_init_script(
        "window.pointers = 0;"
        "for (const kind of ['pointerdown', 'pointerup', 'pointermove', 'mousedown', 'mousemove', 'touchstart', 'wheel'])"
        "  addEventListener(kind, () => (window.pointers += 1), true);"
    )
    page.goto(LABEL)
    expected = {}
    for n in range(20):
        text = text_of(page)
        assert text == texts[n]
        if n == 3:
            press(page, "Digit0", "Enter")
            expected[text] = []
        elif n == 7:
            assert page.locator(".lb-row[data-agent]").first.get_attribute("data-agent") == "11", "suggested first"
            press(page, "KeyA", "Digit2", "Enter")
            expected[text] = [1, 11, 44]
        elif n == 9:
            press(page, "Slash")
            page.keyboard.type("matter 33")
            press(page, "Enter", "KeyU", "Enter")
            expected[text] = [33]
        elif n == 11:
            press(page, "KeyS", "Digit2")
        elif n == 13:  # submitted wrongly, taken back, put right
            press(page, "Digit1", "Enter", "KeyZ")
            assert text_of(page) == text
            press(page, "Digit1", *code_keys("D4"), *code_keys("E0"), "KeyZ", "Enter")
            expected[text] = [34]
        else:
            press(page, f"Digit{n % 9 + 1}", *code_keys(f"{'BCDE'[n % 4]}{n % 10}"), "Enter")
            expected[text] = [n % 9, 10 + n % 4 * 10 + n % 10]
        if n < 19:
            expect(page.locator("#lb-item .rw-query-text")).to_have_text(texts[n + 1])
    wait_saved(page)
    assert current_labels() == expected
    assert Label.objects.get(query=suggested, source="human").provenance["added"] == [1]
    assert Label.objects.get(query__text="query 09", source="human").unsure
    assert Assignment.objects.get(item__query__text="query 11").state == "skipped"
    expect(page.locator("#lb-nothing")).to_contain_text("Show the 1 query that you skipped")
    press(page, "KeyZ")
    expect(page.locator("#lb-item .rw-query-text")).to_have_text("query 19")
    assert page.evaluate("window.pointers") == 0
    assert pool.agents.count() == 50


@pytest.mark.at_length
def test_one_request_in_five_is_lost_and_nothing_else(sign_in, person):
    """Requests that never arrive, answers that never come back, and reloads in between: zero lost, zero doubled."""
    texts = [f"query {n:02}" for n in range(20)]
    make_pool(12, texts)
    page = sign_in(person("ana")).new_page()
    seen = Counter()

    def unreliable(route):
        seen["all"] += 1
        if seen["all"] % 5:
            return route.continue_()
        seen["lost"] += 1
        if seen["lost"] % 2:
            route.fetch()  # the server has done it, and its answer is lost
        return route.abort()

    page.goto(LABEL)
    page.route(re.compile(r"/label/(\d+/(draft|submit|skip)|next|undo|heartbeat)/"), unreliable)
    expected = {}
    while len(expected) < 20:
        # Until the page's script runs, a reload shows what the server knows: maybe an item that is on its way.
        expect(page.locator("html.lb-live #lb-item")).to_be_visible(timeout=20_000)
        text = text_of(page)
        assert text not in expected, "nothing that was sent is asked again"
        number = len(expected)
        press(page, f"Digit{number % 9 + 1}")
        if number % 3 == 0:
            press(page, "Digit9") if number % 9 != 8 else press(page, "Digit1")
        expected[text] = sorted({number % 9} | ({8 if number % 9 != 8 else 0} if number % 3 == 0 else set()))
        if number % 6 == 2:
            page.wait_for_timeout(350)  # so that a draft is on its way too
        press(page, "Enter")
        if number % 7 == 3:
            page.reload()
    wait_saved(page)
    expect(page.locator("#lb-nothing")).to_be_visible(timeout=20_000)
    assert seen["lost"] >= 5
    assert current_labels() == expected
    assert Label.objects.count() == 20, "zero doubled"
    assert set(Assignment.objects.values_list("state", flat=True)) == {"done"}


def test_what_is_chosen_stays_while_the_server_is_away_over_a_reload_too(sign_in, person):
    make_pool(12, ["only one"])
    page = sign_in(person("ana")).new_page()
    page.goto(LABEL)
    away = re.compile(r"/draft/")
    page.route(away, lambda route: route.abort())
    press(page, "Digit3", "Digit5")
    expect(page.locator("#lb-saved")).to_contain_text("Not saved, retrying")
    page.reload()
    expect(page.locator('[name="agent"]:checked')).to_have_count(2)
    page.unroute(away)
    wait_saved(page)
    press(page, "Enter")
    expect(page.locator("#lb-nothing")).to_be_visible()
    wait_saved(page)
    assert current_labels() == {"only one": [2, 4]}


@pytest.mark.at_length
def test_what_is_saved_says_so_while_the_next_query_does_not_arrive(sign_in, person):
    make_pool(12, ["one", "two"])
    page = sign_in(person("ana")).new_page()
    away = re.compile(r"/label/next/")
    page.route(away, lambda route: route.abort())
    page.goto(LABEL)
    press(page, "Digit1", "Enter")
    saved = page.locator("#lb-saved")
    expect(saved).to_have_text("Saved. Loading the next query failed, retrying")
    page.unroute(away)
    expect(page.locator("#lb-item .rw-query-text")).to_have_text("two", timeout=20_000)
    expect(saved).to_have_text("Saved ✓")


def signed_in_again(context, user, base_url):
    """As after the form: a session of its own, and a token of its own."""
    client = signed_in(user)
    client.get("/account/")
    # The session first: between the two, the page may send its old token for somebody who is no longer there.
    for name in (settings.SESSION_COOKIE_NAME, settings.CSRF_COOKIE_NAME):
        context.add_cookies([{"name": name, "value": client.cookies[name].value, "url": base_url}])


@pytest.mark.at_length
def test_what_waits_while_signed_out_is_sent_once_the_person_has_signed_in_again(sign_in, person, live_server):
    """Signing in makes a new token: the page that was open asks for it, and never for somebody else's."""
    make_pool(12, ["one", "two", "three"])
    ana, ben = person("ana"), person("ben")
    context = sign_in(ana)
    page = context.new_page()
    page.goto(LABEL)
    expect(page.locator("html.lb-live #lb-item")).to_be_visible()
    context.clear_cookies(name=settings.SESSION_COOKIE_NAME)
    press(page, "Digit3", "Enter")
    saved = page.locator("#lb-saved")
    expect(saved).to_contain_text("Signed out. Sign in in another tab")
    expect(saved.get_by_role("link")).to_have_attribute("href", "/login/")
    signed_in_again(context, ben, live_server.url)
    with page.expect_response(lambda answer: answer.url.endswith("/account/")):
        page.evaluate("dispatchEvent(new Event('focus'))")
    page.wait_for_timeout(1500)
    expect(saved).to_contain_text("Signed out")
    assert current_labels() == {}
    signed_in_again(context, ana, live_server.url)
    page.evaluate("dispatchEvent(new Event('focus'))")
    wait_saved(page)
    assert current_labels() == {"one": [2]}
    assert Label.objects.get(source="human").author == ana
    press(page, "Digit4", "Enter")
    expect(page.locator("#lb-item .rw-query-text")).to_have_text("three")
    wait_saved(page)
    assert current_labels() == {"one": [2], "two": [3]}


@pytest.mark.at_length
def test_two_tabs_of_one_person_see_both_versions(sign_in, person):
    make_pool(12, ["only one", "another"])
    context = sign_in(person("ana"))
    first, second = context.new_page(), context.new_page()
    for page in (first, second):
        page.goto(LABEL)
        expect(page.locator("#lb-item .rw-query-text")).to_have_text("only one")
    press(first, "Digit1", "Enter")
    wait_saved(first)
    press(second, "Digit2")
    dialog = second.locator("#lb-conflict")
    expect(dialog).to_be_visible()
    expect(dialog.locator('[data-side="theirs"]')).to_have_text("Agent 0")
    expect(dialog.locator('[data-side="mine"]')).to_have_text("Agent 1")
    dialog.get_by_role("button", name="Keep this one").press("Enter")
    expect(dialog).to_be_hidden()
    press(second, "Enter")
    expect(second.locator("#lb-item .rw-query-text")).to_have_text("another")
    wait_saved(second)
    assert current_labels() == {"only one": [1]}
    assert Label.objects.filter(query__text="only one").count() == 2, "the first one is kept, superseded"


@pytest.mark.parametrize("texts", [["one"], ["one", "two"]])
@pytest.mark.at_length
def test_an_answer_to_a_query_that_was_deleted_meanwhile_is_said_to_be_lost(sign_in, person, texts):
    """The last of the queue too: beside "Every query is labeled" it would look as if it had counted."""
    make_pool(3, texts)
    page = sign_in(person("ana")).new_page()
    page.goto(LABEL)
    press(page, "Digit1")
    wait_saved(page)
    Query.objects.filter(text="one").update(deleted_at=timezone.now())
    press(page, "Enter")
    expect(page.locator("#lb-problem")).to_have_text(re.compile("^A query that you answered was deleted meanwhile"))
    expect(page.locator("#lb-item .rw-query-text" if texts[1:] else "#lb-nothing h2")).to_be_visible()
    assert not current_labels()


@pytest.mark.at_length
def test_a_key_right_after_a_dialog_has_closed_goes_to_the_query(sign_in, person):
    """Chromium leaves the focus on the closed dialog's button until it draws the next frame."""
    make_pool(12, ["one", "two"])
    page = sign_in(person("ana")).new_page()
    page.goto(LABEL)
    press(page, "Digit1")
    page.evaluate(
        """() => {
          document.querySelector('[data-lb="help"]').click();
          const close = document.querySelector("#lb-help form button");
          close.focus();
          close.click();
          const enter = { code: "Enter", key: "Enter", bubbles: true, cancelable: true };
          document.activeElement.dispatchEvent(new KeyboardEvent("keydown", enter));
        }"""
    )
    expect(page.locator("#lb-item .rw-query-text")).to_have_text("two")
    wait_saved(page)
    assert current_labels() == {"one": [0]}


@pytest.mark.at_length
def test_keys_go_by_their_place_and_can_be_switched_off(sign_in, person):
    make_pool(12, ["only one"])
    page = sign_in(person("ana")).new_page()
    page.goto(LABEL)
    cyrillic = "document.body.dispatchEvent(new KeyboardEvent('keydown', {code: 'KeyU', key: 'г', bubbles: true}))"
    page.evaluate(cyrillic)
    expect(page.locator('[name="unsure"]')).to_be_checked()
    page.keyboard.press("Shift+Slash")
    page.get_by_label("Single-key shortcuts").press("Space")
    page.keyboard.press("Escape")
    page.evaluate(cyrillic)
    press(page, "Digit1")
    expect(page.locator('[name="unsure"]')).to_be_checked()
    expect(page.locator('[name="agent"]:checked')).to_have_count(0)


@pytest.mark.at_length
def test_enter_that_ends_a_composed_word_neither_chooses_nor_submits(sign_in, person):
    """Chromium and Firefox say that the key composes; Safari says it with the code 229 alone."""
    make_pool(12, ["一つ目", "二つ目"])
    page = sign_in(person("ana")).new_page()
    page.goto(LABEL)

    def composed(**how):
        page.evaluate(
            "how => document.activeElement.dispatchEvent(new KeyboardEvent('keydown',"
            " {code: 'Enter', key: 'Enter', bubbles: true, cancelable: true, ...how}))",
            how,
        )

    for how in ({"isComposing": True}, {"keyCode": 229}):
        press(page, "Slash")
        page.keyboard.type("matter 3")
        composed(**how)
        expect(page.locator("#lb-filter")).to_be_focused()
        expect(page.locator('[name="agent"]:checked')).to_have_count(0)
        press(page, "Escape", "KeyN")
        composed(**how)
        expect(page.locator('[name="note"]')).to_be_focused()
        press(page, "Escape")
        composed(**how)
    expect(page.locator("#lb-item .rw-query-text")).to_have_text("一つ目")
    assert current_labels() == {}


@pytest.mark.at_length
def test_a_turkish_keyboard_has_the_point_where_others_have_the_slash(sign_in, person):
    make_pool(12, ["only one"])
    page = sign_in(person("ana")).new_page()
    page.goto(LABEL)

    def turkish(**pressed):
        page.evaluate(
            "pressed => document.body.dispatchEvent(new KeyboardEvent('keydown', {...pressed, bubbles: true}))", pressed
        )

    turkish(code="Slash", key=".")
    expect(page.locator("#lb-spelling")).to_have_text("._")
    turkish(code="KeyA", key="a")
    turkish(code="Digit3", key="3")
    expect(page.locator('[name="agent"]:checked')).to_have_value("3")
    turkish(code="Digit7", key="/", shiftKey=True)
    expect(page.locator("#lb-filter")).to_be_focused()


@pytest.mark.at_length
def test_a_letter_is_the_key_that_shows_it(sign_in, person):
    """On a German keyboard Z is where others have Y; the equals sign is above the zero."""
    make_pool(12, ["first", "second"])
    page = sign_in(person("ana")).new_page()
    page.goto(LABEL)

    def german(**pressed):
        page.evaluate(
            "pressed => document.body.dispatchEvent(new KeyboardEvent('keydown', {...pressed, bubbles: true}))", pressed
        )

    press(page, "Digit1", "Enter")
    expect(page.locator("#lb-item .rw-query-text")).to_have_text("second")
    german(code="KeyZ", key="y")
    expect(page.locator("#lb-item .rw-query-text")).to_have_text("second")
    german(code="KeyY", key="z")
    expect(page.locator("#lb-item .rw-query-text")).to_have_text("first")
    page.keyboard.press("Shift+Slash")
    page.locator('[data-command="skip"]').click()
    german(code="Digit0", key="=", shiftKey=True)
    expect(page.locator('[data-command="skip"] kbd')).to_have_text("=")


@pytest.mark.at_length
def test_nothing_moves_once_an_item_is_drawn(sign_in, person):
    make_pool(12, ["one", "two"])
    query = Query.objects.get(text="one")
    labels.record(
        labels.NewLabel(
            query.pk, source="llm", required=[7], asked=range(12), scores={n: 0.1 * (n == 7) for n in range(12)}
        )
    )
    page = sign_in(person("ana")).new_page()
    page.goto(LABEL)
    where = "[...document.querySelectorAll('.lb-row')].map((row) => [row.dataset.agent, Math.round(row.getBoundingClientRect().top)])"
    before = page.evaluate(where)
    press(page, "Digit1", "Digit4", "Digit8")
    wait_saved(page)
    assert page.evaluate(where) == before
    press(page, "Slash")
    page.keyboard.type("matter 3")
    assert page.locator(".lb-rows > li:visible kbd").all_inner_texts() == ["4"], "a key stays with its agent"
    press(page, "Escape")
    assert page.evaluate(where) == before


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.at_length)])
def test_it_can_be_used_by_everybody(sign_in, person, scheme):
    """No serious or critical finding of axe-core, at a desk and at 320 pixels, with suggestions and dialogs open."""
    make_pool(12, ["a query with word1 in it", "another"])
    query = Query.objects.get(text="a query with word1 in it")
    labels.record(
        labels.NewLabel(query.pk, source="llm", required=[7], asked=range(12), scores=dict.fromkeys(range(12), 0.1))
    )
    page = sign_in(person("ana"), color_scheme=scheme).new_page()
    page.goto(LABEL)
    press(page, "KeyG", "Digit1")
    wait_saved(page)
    assert findings(page) == []
    press(page, "KeyS")
    assert findings(page) == []
    press(page, "Escape")
    page.set_viewport_size({"width": 320, "height": 640})
    assert overflow(page) == 0
    assert findings(page) == []
