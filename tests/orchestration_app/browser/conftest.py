"""The fixtures of tests/browser: a real Chromium against a real server, and an installation of its own."""

from tests.browser.conftest import *  # noqa: F403
from tests.browser.walks.conftest import first_admin, installation  # noqa: F401
