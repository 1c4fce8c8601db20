"""The web server is killed with SIGKILL in the middle of submits and started again: nothing is lost, nothing is there twice."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import connection
from playwright.sync_api import expect

from datasets_app.models import Assignment, Label
from tests.browser.dying_server import MOMENTS
from tests.browser.test_labeling import LABEL, current_labels, make_pool, press, text_of, wait_saved

ROOT = Path(__file__).parents[2]


class DyingServer:
    """The server's process; `armed` has it die at a moment of the next submit, `start` starts it again at the same address."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.folder, self.url = folder, f"http://127.0.0.1:{self.port}"
        database = f"sqlite:///{connection.settings_dict['NAME']}"
        self.environment = {**os.environ, "DATABASE_URL": database, "TMPDIR": str(folder), "PYTHONPATH": str(ROOT)}
        self.start()

    def start(self) -> None:
        words = [sys.executable, "-W", "ignore", "-m", "tests.browser.dying_server", str(self.port), str(self.folder)]
        with (self.folder / "log").open("a") as log:
            self.process = subprocess.Popen(words, env=self.environment, cwd=ROOT, stdout=log, stderr=log)
        for _ in range(600):
            try:
                urllib.request.urlopen(f"{self.url}/login/", timeout=10).close()
                return
            except (urllib.error.URLError, ConnectionError):
                assert self.process.poll() is None, (self.folder / "log").read_text()
                time.sleep(0.1)
        raise AssertionError((self.folder / "log").read_text())

    def arm(self, moment: str) -> None:
        (self.folder / moment).touch()

    def killed(self) -> bool:
        """Wait until it is gone; whether SIGKILL was why."""
        return self.process.wait(60) == -signal.SIGKILL


@pytest.fixture
def server(transactional_db: None, tmp_path: Path) -> Iterator[DyingServer]:
    running = DyingServer(tmp_path)
    yield running
    running.process.kill()
    running.process.wait(30)


def answer(page, number: int) -> dict[str, list[int]]:
    """Answer the query on screen with one agent; its text and that answer."""
    text = text_of(page)
    press(page, f"Digit{number + 1}", "Enter")
    return {text: [number]}


@pytest.mark.at_length
def test_a_server_killed_in_mid_submit_loses_and_doubles_nothing(sign_in, person, server):
    texts = [f"query {n:02}" for n in range(9)]
    make_pool(12, texts)
    page = sign_in(person("ana"), base_url=server.url).new_page()
    fetched = "**/label/next/**"  # the query to come
    with page.expect_response(fetched):
        page.goto(LABEL)
    expected: dict[str, list[int]] = {}
    for number, moment in enumerate(MOMENTS):
        wait_saved(page)
        server.arm(moment)
        expected |= answer(page, 3 * number)
        assert server.killed()
        # The next query is here already, and can be answered while there is no server.
        expected |= answer(page, 3 * number + 1)
        expect(page.locator("#lb-saved")).to_contain_text("Not saved, retrying", timeout=20_000)
        server.start()
        wait_saved(page)
        page.reload()
        expect(page.locator("html.lb-live #lb-item")).to_be_visible(timeout=20_000)
        assert text_of(page) not in expected, "nothing that was sent is asked again"
        page.wait_for_function(
            "performance.getEntriesByType('resource').some((one) => one.name.includes('/label/next/'))"
        )
        with page.expect_response(fetched):
            expected |= answer(page, 3 * number + 2)
    wait_saved(page)
    expect(page.locator("#lb-nothing")).to_be_visible(timeout=20_000)
    assert sorted(expected) == texts
    assert current_labels() == expected
    assert Label.objects.count() == 9, "zero doubled"
    assert set(Assignment.objects.values_list("state", flat=True)) == {"done"}


@pytest.mark.at_length
def test_what_a_closed_tab_has_left_is_sent_by_the_other(sign_in, person, server):
    make_pool(12, ["one", "two"])
    context = sign_in(person("ana"), base_url=server.url)
    first, second = context.new_page(), context.new_page()
    for page in (first, second):
        page.goto(LABEL)
        expect(page.locator("html.lb-live #lb-item .rw-query-text")).to_have_text("one")
    server.arm("before")
    press(first, "Digit1", "Enter")
    assert server.killed()
    first.close(run_before_unload=True)
    server.start()
    expect(second.locator("#lb-saved")).to_have_text("Saved ✓")
    second.wait_for_function("!Object.keys(localStorage).some((key) => key.includes('.out.'))", timeout=60_000)
    assert current_labels() == {"one": [0]}


@pytest.mark.at_length
def test_two_tabs_of_one_person_and_a_server_that_dies_between_them(sign_in, person, server):
    make_pool(12, ["only one"])
    context = sign_in(person("ana"), base_url=server.url)
    first, second = context.new_page(), context.new_page()
    for page in (first, second):
        page.goto(LABEL)
        expect(page.locator("#lb-item .rw-query-text")).to_have_text("only one")
    server.arm("after")
    press(first, "Digit1", "Enter")
    assert server.killed()
    assert [label.required for label in Label.objects.all()] == [[0]], "it was written, and nobody was told"
    press(second, "Digit2")
    server.start()
    dialog = second.locator("#lb-conflict")
    expect(dialog).to_be_visible(timeout=60_000)
    expect(dialog.locator('[data-side="theirs"]')).to_have_text("Agent 0")
    expect(dialog.locator('[data-side="mine"]')).to_have_text("Agent 1")
    dialog.get_by_role("button", name="Keep this one").press("Enter")
    expect(dialog).to_be_hidden()
    press(second, "Enter")
    for page in (first, second):
        expect(page.locator("#lb-nothing")).to_be_visible(timeout=20_000)
        wait_saved(page)
    assert current_labels() == {"only one": [1]}
    assert Label.objects.count() == 2, "the first one is kept, superseded, and was sent again without a second label"
