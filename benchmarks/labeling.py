"""`python -m benchmarks.labeling ADDRESS LOGIN PASSWORD [LABELS]`: keys a label, and the time to the next item, on the demo pool.

Chromium labels the demo's waiting queries in an installation that runs (`make run`), by keyboard alone and with the right answers,
which the demo's generator knows. For each query it takes the shortest way: none, the suggestions put right, or each agent by its key.
What is timed is from the press of Enter until the next query is drawn. Whoever signs in must be a labeler; their labels stay.
"""

import json
import os
import random
import shutil
import sys
from collections.abc import Sequence

import numpy as np
from playwright.sync_api import Page, sync_playwright

from datasets_app.demo import generate

#: Notes when Enter was pressed and when the next query stood on the screen, in milliseconds.
CLOCK = """() => {
    window.waits = []
    let pressed = null, shown = document.querySelector("#lb-item")?.dataset.query
    document.addEventListener("keydown", event => { if (event.code === "Enter") pressed = performance.now() }, true)
    new MutationObserver(() => {
        const now = document.querySelector("#lb-item")?.dataset.query
        if (now === shown || pressed === null) return
        const began = pressed
        shown = now, pressed = null
        requestAnimationFrame(() => setTimeout(() => window.waits.push(performance.now() - began)))
    }).observe(document.body, {childList: true, subtree: true, attributes: true})
}"""
ROWS = """() => [...document.querySelectorAll("#lb-item .lb-row[data-agent]")].map(
    row => [Number(row.dataset.agent), row.querySelector("kbd").textContent.trim(), row.dataset.code])"""


def answers(seed: int = generate.DEFAULT_SEED) -> dict[str, list[int]]:
    """What each of the demo's waiting queries needs: text → agent ids."""
    codes = {
        agent["code"]: agent["id"]
        for agent in map(json.loads, (generate.HERE / "agents.jsonl").read_text().splitlines())
    }
    taken = {generate.same_text_key(row["text"]) for rows in generate.make_splits(seed).values() for row in rows}
    rng = random.Random(f"{seed} waiting")
    rows = generate.composed_rows("train", generate.WAITING, codes, taken, rng)
    return {row["text"]: row["required_agents"] for row in rows}


def shortest(required: Sequence[int], suggested: Sequence[int] | None, keys: dict[int, list[str]]) -> list[str]:
    """The fewest keys that choose `required` and send it. `suggested` is None where nothing is suggested; `keys`: agent → its keys."""
    one_by_one = [key for agent in required for key in keys[agent]] if required else ["Digit0"]
    ways = [one_by_one]
    if suggested is not None:
        changed = sorted(set(required) ^ set(suggested))
        # Taking the last suggested agent away leaves nothing chosen, which is not "none": 0 says that.
        if required or not suggested:
            ways.append(["KeyA", *(key for agent in changed for key in keys[agent])])
    return [*min(ways, key=len), "Enter"]


def place(character: str) -> str:
    """The key that a letter or a digit stands on."""
    return f"Digit{character}" if character.isdecimal() else f"Key{character}"


def label(page: Page, most: int) -> tuple[list[int], list[float]]:
    """Label up to `most` queries; returns the keys that each took, and the milliseconds until the next one stood there."""
    known, taken = answers(), []
    page.evaluate(CLOCK)
    for _n in range(most):
        item = page.locator("#lb-item")
        if item.count() == 0:
            break
        query = item.get_attribute("data-query")
        text = page.locator("#lb-item .rw-query-text").inner_text().strip()
        if text not in known:
            page.keyboard.press("KeyS")
            page.keyboard.press("Digit1")
        else:
            keys = {
                agent: [f"Digit{digit}"] if digit.isdecimal() else ["Period", *map(place, code)]
                for agent, digit, code in page.evaluate(ROWS)
            }
            offered = item.get_attribute("data-suggested") or ""
            suggested = None if offered == "-" else [int(agent) for agent in offered.split(",") if agent]
            pressed = shortest(known[text], suggested, keys)
            for key in pressed:
                page.keyboard.press(key)
            taken.append(len(pressed))
        page.wait_for_function("query => document.querySelector('#lb-item')?.dataset.query !== query", arg=query)
        page.wait_for_timeout(400)  # a person reads; what comes next is fetched meanwhile
    return taken, page.evaluate("window.waits")


def main(address: str, login: str, password: str, most: int) -> None:
    """Sign in, label, and print what it took."""
    with sync_playwright() as playwright:
        chromium = shutil.which("chromium") or shutil.which("chromium-browser")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_context(base_url=address, viewport={"width": 1280, "height": 800}, locale="en-GB").new_page()
        page.set_default_timeout(60_000)
        page.goto("/login/")
        page.fill('[name="login"]', login)
        page.fill('[name="password"]', password)
        page.keyboard.press("Enter")
        page.wait_for_load_state("networkidle")
        page.goto("/p/support/label/")
        page.wait_for_load_state("networkidle")
        before = os.getloadavg()[0]
        taken, waits = label(page, most)
        browser.close()
    if not taken:
        sys.exit("Nothing of the demo waits for this person.")
    middle, high = np.percentile(waits, (50, 95))
    print("| labels | keys a label | next item, median ms | p95 ms | load before and after | cores |")
    print("| --- | --- | --- | --- | --- | --- |")
    load = f"{before:.1f}, {os.getloadavg()[0]:.1f}"
    print(f"| {len(taken)} | {np.mean(taken):.2f} | {middle:.0f} | {high:.0f} | {load} | {os.cpu_count()} |")


if __name__ == "__main__":
    _command, address, login, password, *rest = sys.argv
    main(address, login, password, int(rest[0]) if rest else 50)
