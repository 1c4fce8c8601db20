"""The fixtures of tests/browser: a real Chromium against a real server."""

from tests.browser.conftest import *  # noqa: F403
