"""From an empty pool to four agents that answer: one behind A2A, one behind MCP, one behind OpenAI's API, one behind a webhook."""

import contextlib
from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from benchmarks.orchestration import protocol_servers as servers
from tests.applications import running
from tests.browser.walks.walker import Walker

pytestmark = [pytest.mark.at_length, pytest.mark.process]
MOST_CLICKS = 25
#: Name → its description, the word that stands on the page for how it is called, and the rest of its address.
AGENTS = {
    "Account": ("passwords, log-in and user accounts", "A2A agent", "/"),
    "Stock": ("how many articles are in stock", "MCP tools", "/mcp"),
    "Writer": ("writes letters and texts", "Chat completion", "/v1"),
    "Billing": ("invoices, payments, refunds", "Webhook", "/hook"),
}
TASK = "My invoice was charged twice, and my account needs another password"


@pytest.fixture
def own_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The servers stand on this machine."""
    monkeypatch.setenv("INTERNAL_HOSTS", "127.0.0.1")


def test_four_kinds_of_agents_are_set_up_and_answer(own_hosts: None, first_admin: Callable[[str], Walker]) -> None:
    with contextlib.ExitStack() as stack:
        addresses = {
            "Account": stack.enter_context(running(lambda own: servers.a2a("Account", own))),
            "Stock": stack.enter_context(running(lambda _own: servers.mcp_server("Stock").streamable_http_app())),
            "Writer": stack.enter_context(running(lambda _own: servers.openai("Writer"))),
            "Billing": stack.enter_context(running(lambda _own: servers.webhook("Billing"))),
        }
        ada = first_admin("called")
        ada.sign_in("ada@example.com")
        ada.create_pool("Crew", "\n".join(f"{name}: {about}" for name, (about, _kind, _path) in AGENTS.items()))
        ada.click(ada.page.get_by_role("link", name="Settings", exact=True))
        ada.click(ada.link("Executors"))
        ada.click(ada.link("Set how Account is called"))
        for number, (name, (_about, kind, path)) in enumerate(AGENTS.items()):
            ada.click(ada.link(kind))
            ada.page.get_by_label("Address").fill(addresses[name] + path)
            if name == "Writer":
                ada.page.get_by_label("Model").fill("small")
            if name == "Billing":
                ada.page.get_by_label("Signing secret").fill("a-secret-of-both-sides")
            ada.page.keyboard.press("Enter")
            ada.sees(f"{name} is called like this from now on.")
            if number < len(AGENTS) - 1:
                ada.click(ada.link("Set up the next agent"))
        ada.click(ada.button("Check readiness"))
        ada.sees("4 agents answered.")
        ada.click(ada.link("Give them a task"))
        ada.page.get_by_label("Task").fill(TASK)
        ada.click(ada.button("Begin"))
        ada.sees("Billing: ")
        expect(ada.page.get_by_role("button", name="Cancel the episode")).to_have_count(0)
        ada.look()
    ada.tell()
    assert ada.hidden == []
    assert ada.clicks <= MOST_CLICKS, ada.clicks
