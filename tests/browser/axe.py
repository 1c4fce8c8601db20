"""What axe-core finds on a page."""

from collections.abc import Sequence

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

#: What is judged anew once the colours turn: all else has been found in light already.
COLOURS = ("color-contrast", "link-in-text-block", "scrollable-region-focusable")

_SCRIPT = Axe().axe_script
_SERIOUS = """async rules => {
    for (const moving of document.getAnimations()) {
        try { moving.finish() } catch { moving.cancel() }
    }
    const options = {resultTypes: ["violations"], preload: false}
    const found = await axe.run(document, rules ? {...options, runOnly: rules} : options)
    return found.violations.filter(one => ["serious", "critical"].includes(one.impact)).map(
        one => `${one.id}: ${one.help}: ` + one.nodes.slice(0, 3).map(node => node.html.slice(0, 200)).join(" | "))
}"""


def findings(page: Page, rules: Sequence[str] | None = None) -> list[str]:
    """The serious and the critical findings, in words, of all rules or of these."""
    if not page.evaluate("'axe' in window"):
        page.wait_for_timeout(150)  # what a page asks for once it has loaded has come
        page.evaluate(_SCRIPT)
    found: list[str] = page.evaluate(_SERIOUS, list(rules) if rules else None)
    return found


def on_a_phone(page: Page) -> list[str]:
    """The serious and the critical findings at 390×844: all rules in light, those about colours in dark; and what the page is wider
    by at 320 pixels."""
    resize(page, 390, 844)
    page.evaluate("document.documentElement.classList.remove('dark')")
    found = [f"phone: {one}" for one in findings(page)]
    page.evaluate("document.documentElement.classList.add('dark')")
    found += [f"phone, dark: {one}" for one in findings(page, COLOURS)]
    resize(page, 320, 640)
    wider = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    return [*found, f"{wider} px too wide at 320"] if wider else found


def resize(page: Page, width: int, height: int) -> None:
    """Give the page this size, and the time to fit itself in: browsers tell it with the next frame."""
    page.set_viewport_size({"width": width, "height": height})
    page.evaluate("new Promise((fitted) => requestAnimationFrame(() => requestAnimationFrame(fitted)))")
