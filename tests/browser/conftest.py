"""A real Chromium against a real server: people sign in by their session, pages are seen as they are drawn."""

import os
from collections.abc import Callable, Iterator

import pytest
from django.conf import settings
from django.contrib.auth.models import Group, User
from playwright.sync_api import Browser, BrowserContext, Page

from tests.clients import signed_in

# Playwright's own event loop runs in the tests' thread; Django's ORM is used beside it, never inside it.
os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "/browser/" in str(item.path):
            item.add_marker(pytest.mark.browser)


def pytest_itemcollected(item: pytest.Item) -> None:
    """The database plays no part in these tests."""
    item.add_marker(pytest.mark.any_database)


@pytest.fixture(scope="session")
def browser(running_chromium: Browser) -> Browser:
    return running_chromium


@pytest.fixture
def person(transactional_db: None) -> Callable[..., User]:
    """Makes a person of a role."""

    def make(name: str, role: str = "labeler") -> User:
        user = User.objects.create_user(name, f"{name}@example.com", "secret-enough-1", is_staff=True)
        user.groups.add(Group.objects.get_or_create(name=role)[0])
        return user

    return make


@pytest.fixture
def sign_in(browser: Browser, live_server) -> Iterator[Callable[..., BrowserContext]]:
    """Opens a browser of its own for a person who is signed in. Whatever a page's script raises, and whatever the page's
    Content-Security-Policy refuses, fails the test at its end."""
    contexts: list[BrowserContext] = []
    raised: list[str] = []

    def enter(user: User, base_url: str = live_server.url, **options) -> BrowserContext:
        client = signed_in(user)
        context = browser.new_context(base_url=base_url, **options)
        context.set_default_timeout(10_000)
        context.set_default_navigation_timeout(60_000)  # the first page of a process imports every view
        cookie = client.cookies[settings.SESSION_COOKIE_NAME].value
        context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": cookie, "url": base_url}])
        context.on("page", lambda page: page.on("pageerror", lambda error: raised.append(str(error))))
        context.on("console", lambda said: raised.append(said.text) if "Content Security Policy" in said.text else None)
        contexts.append(context)
        return context

    yield enter
    for context in contexts:
        context.close()
    assert raised == []


def overflow(page: Page) -> int:
    """By how many pixels the page is wider than the window."""
    width: int = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    return width
