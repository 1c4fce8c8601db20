"""From an export of the conversations that somebody's agents had to a router of these agents: clicks are counted from the imported
traces on, and at each step the next one must be on the screen."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests import talks
from tests.browser.walks.walker import Walker

pytestmark = [pytest.mark.at_length, pytest.mark.process]
MOST_CLICKS = 10
CONVERSATIONS, LABELS = 1_000, 200
#: Seconds, on a machine with much else to do.
TRAINED_WITHIN = 1_800


def langfuse(made: dict[str, list[talks.Exchange]]) -> str:
    """Langfuse's export as JSON lines, a trace for each user turn."""
    lines = []
    for name, messages, turn in talks.turns_in(made):
        key, at = f"{name}/{len(messages)}", f"2026-03-01T10:{len(messages):02}:0"
        answered = {
            "id": f"o{key}", "traceId": key, "parentObservationId": None, "startTime": f"{at}1.000Z",
            "type": "AGENT", "name": turn.answered, "input": messages[-1]["content"], "output": turn.answer,
        }  # fmt: skip
        trace = {
            "id": key, "timestamp": f"{at}0.000Z", "name": "chat", "sessionId": name, "input": {"messages": messages},
            "output": {"role": "assistant", "content": turn.answer}, "scores": [], "observations": [answered],
        }  # fmt: skip
        lines.append(json.dumps(trace))
    return "\n".join(lines)


def label(ada: Walker, needed: dict[str, str], count: int) -> None:
    """Answer so many queries as a labeler does, by keys alone; `needed` is the agent of each text."""
    expect(ada.page.locator("html.lb-live")).to_be_attached()  # until then no key is listened for
    shown = ada.page.locator("#lb-item .rw-query-text")
    for _number in range(count):
        text = shown.inner_text()
        row = ada.page.locator("#lb-item .lb-row[data-agent]").filter(has_text=needed[text])
        ada.page.keyboard.press(f"Digit{row.locator('kbd').inner_text()}")
        ada.page.keyboard.press("Enter")
        expect(shown.filter(has_text=text)).to_have_count(0)


def test_conversations_lead_to_a_router(first_admin: Callable[[str], Walker], tmp_path: Path) -> None:
    made = talks.talks(CONVERSATIONS)
    needed = {turn.asked: turn.needed for turns in made.values() for turn in turns}
    traces = tmp_path / "traces.jsonl"
    traces.write_text(langfuse(made))
    ada = first_admin("traces")
    ada.sign_in("ada@example.com")
    ada.create_pool("Assistant")
    ada.choose_file(traces)
    ada.look()
    ada.click(ada.button("Import"))
    expect(ada.link("See who answered")).to_be_visible(timeout=300_000)
    ada.tell()
    ada.restart()
    ada.click(ada.link("See who answered"))
    ada.click(ada.button("Save"))
    ada.sees("5 agents were added.")
    ada.click(ada.button("Queue them and label"))
    ada.look()
    label(ada, needed, LABELS)
    ada.click(ada.link("Train"))
    ada.click(ada.button("Train"))
    ada.promote_and_route("assistant-1", "a table for two in Oslo tonight", TRAINED_WITHIN)
    ada.tell()
    assert ada.hidden == []
    assert ada.clicks <= MOST_CLICKS, ada.clicks
