"""From an empty installation to a first query routed: clicks are counted, and at each step the next one must be on the screen."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import expect

from agents_app.background_work import jobs
from datasets_app import tasks as dataset_tasks
from datasets_app.models import Import, Query
from tests.browser.walks.walker import PASSWORD, Walker
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
#: Seconds, on a machine with much else to do.
TRAINED_WITHIN = 1_800


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


@pytest.fixture
def no_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """What would be queued is left to the test, which is the worker."""
    monkeypatch.setattr(jobs, "send", lambda _kind, _key: None)


@pytest.fixture
def newcomer(browser, live_server, transactional_db: None, no_workers: None) -> Iterator[Callable[[str], Walker]]:
    """Signs the first admin of an empty installation in."""
    User.objects.create_superuser("ada@example.com", "ada@example.com", PASSWORD)
    context = browser.new_context(base_url=live_server.url, viewport={"width": 1280, "height": 800})

    def sign_in(walk: str) -> Walker:
        page = context.new_page()
        page.set_default_timeout(30_000)
        page.goto("/")
        ada = Walker(page, walk)
        ada.sign_in("ada@example.com")
        return ada

    yield sign_in
    context.close()


AGENTS = "\n".join(f"{name}: {name} questions" for name in NEEDS)


@pytest.mark.at_length
def test_labels_in_a_messy_file_lead_to_a_routed_query(newcomer: Callable[[str], Walker], tmp_path: Path) -> None:
    path = tmp_path / "tickets.csv"
    path.write_bytes(spreadsheet())
    ada = newcomer("labels")
    ada.create_pool("Help desk", AGENTS)
    ada.choose_file(path)
    ada.sees("What is in which column?")
    ada.look()
    ada.choose(ada.page.get_by_label("Parcels"), "Shipping")
    ada.sees("60 of 60 labels will be kept")
    ada.click(ada.button("Import"))
    work(lambda: dataset_tasks.read_upload(Import.objects.get().pk))
    ada.click(ada.link("Train"))
    assert Query.objects.filter(state="gold").count() == 60
    ada.click(ada.button("Train"))
    ada.sees("Queued")
    ada.look()
    work(train)
    ada.promote_and_route("help-desk-1", "my parcel and the invoice")
    assert ada.hidden == []
    assert ada.clicks <= MOST_CLICKS, ada.clicks


@pytest.mark.process
@pytest.mark.at_length
def test_an_llm_and_no_labels_lead_to_a_routed_query(first_admin: Callable[[str], Walker], tmp_path: Path) -> None:
    """With the installation's own workers and the router as the page offers it."""
    path = tmp_path / "tickets.csv"
    path.write_text("Ticket,Message\n" + "".join(f'{n},"{text}"\n' for n, text in enumerate(texts())))
    with Server() as server:
        server.answer_plainly, server.judge, server.fault = "ready", needed, random_faults(0.08)
        ada = first_admin("llm")
        ada.look()
        ada.sign_in("ada@example.com")
        ada.create_pool("Help desk", AGENTS)
        ada.choose_file(path)
        ada.sees("What is in which column?")
        ada.click(ada.button("Import"))
        ada.click(ada.link("Have an LLM label them"))
        ada.page.get_by_label("Address").fill(server.url)
        ada.page.get_by_label("Model").fill("llama")
        ada.click(ada.page.get_by_label("own network"))
        ada.click(ada.button("Test and save"))
        ada.click(ada.button("Start"))
        ada.look()
        ada.click(ada.link("Train"), 120)
        ada.click(ada.button("Train"))
        ada.sees("Running")
        ada.look()
        ada.promote_and_route("help-desk-1", "my parcel and the invoice", TRAINED_WITHIN)
        chosen = ada.page.locator("#result [aria-pressed=true]")
        expect(chosen).to_have_text([re.compile("Billing"), re.compile("Shipping")])
    ada.tell()
    assert ada.hidden == []
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
