"""From an empty installation to a first query routed, as somebody does it who has never seen the product: clicks are counted, and at
each step the next one must be on the screen as it is. Fields are reached by the keyboard, as on any form."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Locator, Page, expect

from agents_app.background_work import jobs
from agents_app.models import Pool
from datasets_app import labeling_tasks
from datasets_app import tasks as dataset_tasks
from datasets_app.models import Import, PrelabelJob, Query
from tests.llm_server import Server, random_faults
from training_app.models import Run
from training_app.training import runs, tasks

NEEDS = {
    "Billing": ("refund", "invoice", "charge"),
    "Shipping": ("parcel", "courier", "delivery"),
    "Technical": ("crash", "error", "login"),
}
PLACES = ("today", "since monday", "again", "twice", "please help", "on my phone", "for my order", "in the app")
MOST_CLICKS, MOST_CLICKS_WITH_AN_LLM = 10, 12
PASSWORD = "a-long-password-1"
#: A folder for a picture of each page of the walks; none are taken without it.
PICTURES = os.environ.get("WALK_PICTURES", "")


def spreadsheet() -> bytes:
    """What somebody exports from a help desk, 60 rows with answers: a title above, their own column names, semicolons, two teams in a
    cell, and one name that no agent has."""
    rows = ["Tickets of January;;", ";;", "Message;Team(s);Opened"]
    for name, words in NEEDS.items():
        said = "Parcels" if name == "Shipping" else name
        rows += [f"my {word} {place};{said};2026-01-0{n + 1}" for word in words for n, place in enumerate(PLACES[:5])]
    rows += [f"the invoice and the crash {place};Billing / Technical;2026-01-01" for place in PLACES]
    rows += [f"what a nice day {place};[];2026-01-01" for place in PLACES[:7]]
    return "\n".join(rows).encode("cp1252")


def texts() -> list[str]:
    """200 queries that nobody has labeled: of one need, of two, of none."""
    words = [word for words in NEEDS.values() for word in words]
    one = [f"my {word} {place}" for word in words for place in PLACES]
    two = [f"my {a} and my {b} {place}" for a, b in zip(words, words[3:], strict=False) for place in PLACES]
    none = [f"{what} {place}" for what in ("what a nice day", "who won", "sing a song", "hello") for place in PLACES]
    more = [f"the {word} {place}, please" for word in words for place in PLACES]
    return [*one, *two, *none, *more][:200]


def needed(text: str, roster: list[dict[str, object]]) -> list[object]:
    """What the LLM says: the agents whose words stand in the text."""
    return [agent["id"] for agent in roster if any(word in text for word in NEEDS[str(agent["name"])])]


class Newcomer:
    """Clicks only what can be seen without scrolling, and counts."""

    def __init__(self, page: Page, walk: str) -> None:
        self.page, self.walk, self.clicks, self.stops = page, walk, 0, []
        self.seen = 0

    def look(self) -> None:
        """Take a picture of the page, where they are asked for."""
        self.seen += 1
        if PICTURES:
            self.page.screenshot(path=Path(PICTURES) / f"{self.walk}-{self.seen:02}.png")

    def click(self, what: Locator) -> None:
        expect(what).to_be_visible(timeout=30_000)
        self.look()
        box = what.bounding_box()
        if box is None or box["y"] < 0 or box["y"] + box["height"] > (self.page.viewport_size or {})["height"]:
            self.stops.append(what.inner_text())
        what.click()
        self.clicks += 1

    def button(self, name: str) -> Locator:
        return self.page.locator("main").get_by_role("button", name=name, exact=True)

    def link(self, name: str) -> Locator:
        return self.page.locator("main").get_by_role("link", name=name, exact=True)

    def make_the_pool(self) -> None:
        """On Home, where the first field has the focus."""
        expect(self.page.get_by_label("Name")).to_be_focused()
        self.page.keyboard.type("Help desk")
        self.page.get_by_label("Agents").fill("\n".join(f"{name}: {name} questions" for name in NEEDS))
        self.click(self.button("Make the pool"))

    def bring(self, path: Path) -> None:
        """Choose the file; the page that follows says what was understood of it."""
        with self.page.expect_file_chooser() as chooser:
            self.click(self.page.locator('.transfer-drop input[type="file"]'))
        chooser.value.set_files(path)
        self.click(self.button("Import"))
        expect(self.page.locator("main")).to_contain_text("What is in which column?")

    def train_and_route(self) -> None:
        """From the page that launches a run to an answer in the playground."""
        self.click(self.button("Train"))
        expect(self.page.locator("main")).to_contain_text("Queued")
        self.look()
        work(train)
        self.click(self.button(f"Promote {Pool.objects.get().slug}-1"))
        self.click(self.link("Route a query"))
        expect(self.page.locator("#query")).to_be_focused()
        self.page.keyboard.type("my parcel and the invoice")
        self.page.keyboard.press("Control+Enter")
        expect(self.page.locator("#result")).to_contain_text("The set", timeout=30_000)
        self.look()


@pytest.fixture
def no_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """What would be queued is left to the test, which is the worker."""
    monkeypatch.setattr(jobs, "send", lambda _kind, _key: None)


@pytest.fixture
def newcomer(browser, live_server, transactional_db: None, no_workers: None) -> Iterator[Callable[[str], Newcomer]]:
    """Signs the first admin of an empty installation in."""
    User.objects.create_superuser("ada@example.com", "ada@example.com", PASSWORD)
    context = browser.new_context(base_url=live_server.url, viewport={"width": 1280, "height": 800})

    def sign_in(walk: str) -> Newcomer:
        page = context.new_page()
        page.set_default_timeout(30_000)
        page.goto("/")
        page.get_by_label("E-mail").fill("ada@example.com")
        page.get_by_label("Password").fill(PASSWORD)
        page.keyboard.press("Enter")
        return Newcomer(page, walk)

    yield sign_in
    context.close()


@pytest.mark.at_length
def test_labels_in_a_messy_file_lead_to_a_routed_query(newcomer: Callable[[str], Newcomer], tmp_path: Path) -> None:
    path = tmp_path / "tickets.csv"
    path.write_bytes(spreadsheet())
    ada = newcomer("labels")
    ada.make_the_pool()
    ada.bring(path)
    means = ada.page.get_by_label("Parcels")
    ada.look()
    means.select_option(label="Shipping")
    ada.clicks += 1
    expect(ada.page.locator("main")).to_contain_text("60 of 60 labels will be kept")
    ada.click(ada.button("Import"))
    work(lambda: dataset_tasks.read_upload(Import.objects.get().pk))
    ada.click(ada.link("Train"))
    assert Query.objects.filter(state="gold").count() == 60
    ada.train_and_route()
    assert ada.stops == []
    assert ada.clicks <= MOST_CLICKS, ada.clicks


@pytest.mark.at_length
def test_an_llm_and_no_labels_lead_to_a_routed_query(newcomer: Callable[[str], Newcomer], tmp_path: Path) -> None:
    path = tmp_path / "tickets.csv"
    path.write_text("Ticket,Message\n" + "".join(f'{n},"{text}"\n' for n, text in enumerate(texts())))
    with Server() as server:
        server.answer_plainly, server.judge, server.fault = "ready", needed, random_faults(0.08)
        ada = newcomer("llm")
        ada.make_the_pool()
        ada.bring(path)
        ada.click(ada.button("Import"))
        work(lambda: dataset_tasks.read_upload(Import.objects.get().pk))
        ada.click(ada.link("Have an LLM label them"))
        ada.page.get_by_label("Address").fill(server.url)
        ada.page.get_by_label("Model").fill("llama")
        ada.click(ada.page.get_by_label("own network"))
        ada.click(ada.button("Test and save"))
        ada.click(ada.button("Start"))
        expect(ada.page.locator("main")).to_contain_text("Queued")
        ada.look()
        work(lambda: labeling_tasks.prelabel(str(PrelabelJob.objects.get().pk)))
        ada.click(ada.link("Train"))
        ada.train_and_route()
    assert Query.objects.filter(state="gold").count() == 0
    assert ada.stops == []
    assert ada.clicks <= MOST_CLICKS_WITH_AN_LLM, ada.clicks


def work(job: Callable[[], object]) -> None:
    """What a worker does meanwhile, with the shortest training that makes a model."""
    assert job() == "done"


def train() -> str:
    run = Run.objects.get()
    Run.objects.filter(pk=run.pk).update(
        config={
            **run.config,
            "encoder": "linear",
            "svm_c": 1.0,
            "total_steps": 200,
            "judging_folds": 0,
            "sentences": False,
        }
    )
    attempt = runs.claim(run.pk)
    assert attempt
    return tasks.work(run.pk, attempt)
