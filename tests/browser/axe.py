"""What axe-core finds on a page."""

from collections.abc import Sequence

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

#: What a colour decides, and what a narrow window changes. All else has been found in light already.
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
