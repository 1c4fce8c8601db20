"""`python -m benchmarks.screens ADDRESS LOGIN PASSWORD [POOL]`: the screens of docs/screens.md and docs/labeling.md.

Five of a labeler's day, five of ops', two lists. They are taken in Chromium at 1280×800, or at 390×844 where the name says phone, and
written to docs/images. Nothing is changed in the installation but a draft.
"""

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "images"
DESK, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}
#: Name → (path in the pool, window, keys to press there).
Screens = dict[str, tuple[str, dict[str, int], tuple[str, ...]]]
SCREENS: Screens = {
    "labeler-1-home": ("/", DESK, ()),
    "labeler-2-label": ("/p/{pool}/label/", DESK, ("Digit3",)),
    "labeler-3-phone": ("/p/{pool}/label/", PHONE, ()),
    "labeler-4-mine": ("/p/{pool}/label/mine/", DESK, ()),
    "labeler-5-review": ("/p/{pool}/review/", DESK, ()),
    "ops-1-import": ("/p/{pool}/import/", DESK, ()),
    "ops-2-train": ("/p/{pool}/runs/new/", DESK, ()),
    "ops-3-model": ("/p/{pool}/models/1/", DESK, ()),
    "ops-4-playground": ("/p/{pool}/playground/?query=i+was+charged+twice+and+my+parcel+is+lost", DESK, ()),
    "ops-5-alarms": ("/p/{pool}/settings/alarms/", DESK, ()),
    "agreement": ("/p/{pool}/agreement/", DESK, ()),
    "queries": ("/p/{pool}/queries/?q=state:gold", DESK, ()),
}


def take(address: str, login: str, password: str, pool: str, screens: Screens = SCREENS, folder: Path = FOLDER) -> None:
    """Sign in and take each screen."""
    with sync_playwright() as playwright:
        chromium = shutil.which("chromium") or shutil.which("chromium-browser")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_context(base_url=address, viewport=DESK, locale="en-GB").new_page()  # type: ignore[arg-type]
        page.set_default_timeout(60_000)
        page.goto("/login/")
        page.fill('[name="login"]', login)
        page.fill('[name="password"]', password)
        page.keyboard.press("Enter")
        page.wait_for_url(lambda url: "/login/" not in url)
        for name, (path, window, keys) in screens.items():
            page.set_viewport_size(window)  # type: ignore[arg-type]
            page.goto(path.format(pool=pool))
            page.wait_for_load_state("networkidle")
            for key in keys:
                page.keyboard.press(key)
            page.wait_for_timeout(1_000)
            page.screenshot(path=folder / f"{name}.png")
            print(name)
        browser.close()


if __name__ == "__main__":
    address, login, password, pool = [*sys.argv[1:], "support"][:4]
    take(address, login, password, pool)
