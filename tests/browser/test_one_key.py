"""Labeling beside suggestions with as few keys as there can be, and without a connection."""

import random
import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from datasets_app.labels import labels
from datasets_app.models import Label, Query, QueueSettings
from tests.browser.test_labeling import LABEL, current_labels, make_pool, press, text_of, wait_saved

AGENTS, QUERIES, WRONG = 12, 60, 12
SIGNS = "123456789QWE"
#: Keys that a label may take on average, and answers that are kept while there is no connection.
MOST_KEYS, KEPT = 1.5, 40


def key_of(agent: int) -> str:
    sign = SIGNS[agent]
    return f"Digit{sign}" if sign.isdigit() else f"Key{sign}"


def suggest(pool, draws: random.Random) -> tuple[dict[str, list[int]], dict[str, list[int]]]:
    """(what each text needs, what is suggested for it): one to three agents, WRONG suggestions lack one or have another."""
    needed: dict[str, list[int]] = {}
    suggested: dict[str, list[int]] = {}
    queries = list(Query.objects.filter(dataset__pool=pool))
    wrong = set(draws.sample([query.pk for query in queries], WRONG))
    for query in queries:
        truth = draws.sample(range(AGENTS), draws.choice((0, 1, 1, 1, 2, 2, 3)))
        said = list(truth)
        if query.pk in wrong:
            said = [*truth[1:], draws.choice([agent for agent in range(AGENTS) if agent not in truth])]
        needed[query.text], suggested[query.text] = sorted(truth), sorted(said)
        scores = {agent: 0.9 if agent in said else 0.1 for agent in range(AGENTS)}
        labels.record(
            labels.NewLabel(
                query.pk, source="llm", required=said, asked=range(AGENTS), scores=scores, provenance={"model": "m"}
            )
        )
    return needed, suggested


def keys_for(needed: list[int], suggested: list[int]) -> list[str]:
    """The fewest keys: accept at once; else accept, change and send; else choose from nothing and send."""
    if needed == suggested:
        return ["Enter"]
    changed = ["KeyA", *(key_of(agent) for agent in sorted(set(needed) ^ set(suggested))), "Enter"]
    chosen = [*(key_of(agent) for agent in needed), "Enter"] if needed else ["Digit0", "Enter"]
    return min(changed, chosen, key=len)


@pytest.fixture
def page(sign_in, person) -> Iterator[Page]:
    opened = sign_in(person("ana"), viewport={"width": 1280, "height": 800}).new_page()
    opened.set_default_timeout(60_000)
    expect.set_options(timeout=30_000)
    yield opened
    expect.set_options(timeout=5_000)


def label_all(page: Page, needed: dict[str, list[int]], suggested: dict[str, list[int]], most: int) -> int:
    """Label so many queries; the keys that it took."""
    pressed = 0
    for _number in range(most):
        text = text_of(page)
        keys = keys_for(needed[text], suggested[text])
        press(page, *keys)
        pressed += len(keys)
        expect(page.locator("#lb-item .rw-query-text")).not_to_have_text(text)
    return pressed


@pytest.mark.at_length
def test_a_label_beside_a_suggestion_takes_one_key_and_a_half(page: Page) -> None:
    pool = make_pool(AGENTS, [f"query {n:02}" for n in range(QUERIES)])
    needed, suggested = suggest(pool, random.Random(5))
    page.goto(LABEL)
    expect(page.locator("#lb-item .lb-send")).to_have_text("Accept and submit")
    pressed = label_all(page, needed, suggested, QUERIES - 1)
    last = text_of(page)
    press(page, *keys_for(needed[last], suggested[last]))
    expect(page.locator("#lb-nothing")).to_be_visible()
    wait_saved(page)
    assert current_labels() == needed
    assert Label.objects.filter(provenance__one_key=True).count() == QUERIES - WRONG
    print(f"{pressed / (QUERIES - 1):.2f} keys a label")
    assert pressed / (QUERIES - 1) <= MOST_KEYS


@pytest.mark.at_length
def test_forty_answers_are_kept_without_a_connection(page: Page) -> None:
    # A browser leaves at least half of what is open to others, and looks anew as it takes more.
    pool = make_pool(AGENTS, [f"query {n:03}" for n in range(3 * KEPT + 4)])
    needed, suggested = suggest(pool, random.Random(6))
    with page.expect_response(
        lambda answer: "label/next" in answer.url and answer.request.post_data.count("%2C") >= KEPT - 1, timeout=120_000
    ):
        page.goto(LABEL)
    page.wait_for_timeout(500)
    page.context.set_offline(True)
    label_all(page, needed, suggested, KEPT)
    expect(page.locator("#lb-waiting")).to_contain_text(f"{KEPT} answers are stored in this browser")
    assert not Label.objects.filter(source="human").exists()
    page.context.set_offline(False)
    wait_saved(page)
    kept = current_labels()
    assert len(kept) == KEPT
    assert all(kept[text] == needed[text] for text in kept)


def test_on_a_blind_item_nothing_is_accepted_unseen(page: Page) -> None:
    pool = make_pool(2, ["query 0"])
    QueueSettings.objects.filter(pool=pool).update(blind_share=1.0)
    query = Query.objects.get()
    labels.record(labels.NewLabel(query.pk, source="llm", required=[1], asked=[0, 1], provenance={"model": "m"}))
    page.goto(LABEL)
    expect(page.locator("#lb-item .lb-send")).to_have_text("Submit")
    press(page, "Enter")
    expect(page.locator("#lb-problem")).to_contain_text("Choose at least one agent")
    assert not Label.objects.filter(source="human").exists()


@pytest.mark.at_length
def test_keys_are_given_to_other_commands_and_kept(page: Page) -> None:
    make_pool(2, ["query 0", "query 1"])
    page.goto(LABEL)
    press(page, "Shift+Slash")
    page.locator('.lb-rebind[data-command="submit"]').click()
    press(page, "Space")
    page.locator('.lb-rebind[data-command="unsure"]').click()
    press(page, "KeyS")  # the two change places
    expect(page.locator('.lb-rebind[data-command="skip"] kbd')).to_have_text("U")
    press(page, "Escape")
    page.reload()
    expect(page.locator("#lb-item .lb-send + kbd")).to_have_text("␣")
    press(page, "Digit1", "KeyS", "Space")
    expect(page.locator("#lb-item .rw-query-text")).to_have_text("query 1")
    wait_saved(page)
    label = Label.objects.get()
    assert (label.required, label.unsure) == ([0], True)


@pytest.mark.at_length
def test_the_list_beside_leads_back_and_on_and_shows_the_goal(page: Page) -> None:
    make_pool(2, [f"query {n}" for n in range(4)])
    page.goto(LABEL)
    press(page, "KeyL", "Digit1", "Enter")
    expect(page.locator("#lb-item .rw-query-text")).to_have_text("query 1")
    rows = page.locator("#lb-list-items button")
    expect(rows.first).to_have_text(re.compile("query 0.*Agent 0"))
    rows.filter(has_text="query 3").click()
    expect(page.locator("#lb-item .rw-query-text")).to_have_text("query 3")
    rows.filter(has_text="query 0").click()
    expect(page.locator("#lb-item .rw-query-text")).to_have_text("query 0")
    expect(page.locator('[name="agent"][value="0"]')).to_be_checked()
    press(page, "Enter")
    wait_saved(page)
    page.reload()
    expect(rows.first).to_have_text(re.compile("query 0.*Agent 0"))
    rows.first.click()
    expect(page.locator("#lb-item .rw-query-text")).to_have_text("query 0")
    expect(page.locator('[name="agent"][value="0"]')).to_be_checked()
    expect(rows.filter(has_text="query 0")).to_have_count(1)
    page.locator("#lb-goal").fill("1")
    page.locator("#lb-goal").blur()
    expect(page.locator("#lb-goal-said")).to_have_text("1 of 1 today ✓")


HELD = """
const sent = window.fetch;
window.held = [];
window.fetch = async (url, options) => {
  if (String(url).includes("/label/next/")) await new Promise((go) => window.held.push(go));
  return sent(url, options);
};
"""


@pytest.mark.at_length
def test_items_to_come_are_fetched_on_where_one_was_under_way_during_a_submit(page: Page) -> None:
    make_pool(2, [f"query {n}" for n in range(4)])
    page.add_init_script(HELD)
    page.goto(LABEL)
    press(page, "KeyL")
    rows = page.locator("#lb-list-items button")
    for count in (1, 2):
        expect(rows).to_have_count(count)
        page.wait_for_function("window.held.length === 1")
        if count == 1:
            page.evaluate("window.held.pop()()")
    press(page, "Digit1", "Enter")
    expect(page.locator("#lb-item .rw-query-text")).to_have_text("query 1")
    for count in (3, 4):
        page.wait_for_function("window.held.length === 1")
        page.evaluate("window.held.pop()()")
        expect(rows).to_have_count(count)
