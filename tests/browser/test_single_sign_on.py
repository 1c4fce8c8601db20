"""Single sign-on, walked in Chromium between two real processes: this site's server, and a provider that was made elsewhere.

What a test client does not do is done here: the Content-Security-Policy of the sign-in page has to let its form lead to the provider,
and the session's cookie has to come back from there.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.conftest import overflow
from tests.browser.test_four_eyes_walk import PHONE, picture
from tests.routerweb.test_server import Server, prepared, python  # noqa: F401

pytestmark = [pytest.mark.at_length, pytest.mark.process, pytest.mark.any_database]
#: Who stands at the provider: invited, not invited, invited with an address that it has not verified, and deactivated.
PEOPLE = [
    {"sub": "ana", "email": "Ana@example.com", "email_verified": True},
    {"sub": "bob", "email": "bob@example.com", "email_verified": True},
    {"sub": "cai", "email": "cai@example.com", "email_verified": False},
    {"sub": "dee", "email": "dee@example.com", "email_verified": True},
]
INVITE = """
import django
django.setup()
from agents_app.accounts import people
invited = {name: people.invite(f"{name}@example.com", "ops", None).user for name in ("ana", "cai", "dee")}
people.deactivate(invited["dee"], None)
"""
ASK_AGAIN = """
import django
django.setup()
from allauth.socialaccount.models import SocialAccount, SocialToken
print(SocialAccount.objects.count(), SocialToken.objects.count())
"""


@pytest.fixture(scope="module")
def issuer() -> Iterator[str]:
    """The provider's address, its process beside this one."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    claims = [word for person in PEOPLE for word in ("--user-claims", json.dumps(person))]
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "oidc_provider_mock", "--port", port, *claims],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    address = f"http://127.0.0.1:{port}"
    for _attempt in range(200):
        try:
            urllib.request.urlopen(f"{address}/.well-known/openid-configuration", timeout=5).read()
            break
        except OSError:
            assert process.poll() is None, "the provider has ended"
            time.sleep(0.1)
    yield address
    process.kill()
    process.wait(10)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, prepared: tuple[Path, str], issuer: str) -> Iterator[Server]:  # noqa: F811
    folder = Path(shutil.copytree(prepared[0], tmp_path_factory.mktemp("sso") / "installation"))
    python(folder, "-c", INVITE)
    started = Server(
        folder, prepared[1],
        OIDC_ISSUER=issuer, OIDC_CLIENT_ID="routerweb", OIDC_CLIENT_SECRET="a client's secret", OIDC_NAME="Example ID",
    )  # fmt: skip
    yield started
    os.killpg(started.process.pid, signal.SIGKILL)
    started.process.wait(10)


@pytest.fixture
def fresh(browser: Browser, server: Server) -> Iterator[BrowserContext]:
    """A browser that nobody is signed in to; what the page's policy refuses fails the test at its end."""
    context = browser.new_context(base_url=server.address)
    refused: list[str] = []
    context.on("console", lambda said: refused.append(said.text) if "Content Security Policy" in said.text else None)
    yield context
    context.close()
    assert refused == []


def walk(page: Page, who: str, begin: str = "/login/") -> None:
    page.goto(begin)
    page.get_by_role("button", name="Sign in with Example ID").click()
    page.get_by_role("button", name=who, exact=True).click()


def test_an_invited_person_walks_there_and_back(fresh: BrowserContext, server: Server, issuer: str) -> None:
    page, asked = fresh.new_page(), []
    page.on("request", lambda request: asked.append(request.url))
    walk(page, "ana", "/login/?next=/audit/")
    expect(page).to_have_url(f"{server.address}/audit/")
    expect(page.get_by_role("heading", name="Audit trail")).to_be_visible()
    there = parse_qs(urlsplit(next(url for url in asked if url.startswith(f"{issuer}/") and "?" in url)).query)
    assert len(there["code_challenge"][0]) == 43
    assert there["code_challenge_method"] == ["S256"]
    assert there["redirect_uri"] == [f"{server.address}/login/oidc/callback/"]
    assert {"openid", "email"} <= set(there["scope"][0].split())
    assert "client_secret" not in there
    assert python(server.folder, "-c", ASK_AGAIN) == "0 0", "nothing of the provider is stored"
    again = fresh.new_page()
    again.goto("/")
    expect(again).not_to_have_url(f"{server.address}/login/?next=/")


@pytest.mark.parametrize(
    ("who", "said"),
    [
        # What each of them is told, tests/agents_app/accounts/test_oidc.py asks too.
        pytest.param("bob", "bob@example.com has not been invited"),
        pytest.param("cai", "has not verified your e-mail address"),
        pytest.param("dee", "was deactivated"),
        # This provider forgets the state when somebody says no (RFC 6749, 4.1.2.1), so it could be anybody's answer.
        ("Deny", "it came too late, twice, or from elsewhere"),
    ],
)
def test_anybody_else_is_told_why_not(fresh: BrowserContext, server: Server, who: str, said: str) -> None:
    page = fresh.new_page()
    walk(page, who)
    expect(page.get_by_text(said)).to_be_visible()
    page.goto("/audit/")
    expect(page).to_have_url(f"{server.address}/login/?next=/audit/")


def test_the_two_doors_on_a_phone(browser: Browser, server: Server) -> None:
    context = browser.new_context(base_url=server.address, **PHONE)
    page = context.new_page()
    page.goto("/login/")
    expect(page.get_by_role("button", name="Sign in with Example ID")).to_be_visible()
    assert overflow(page) == 0
    picture(page, "login-phone")
    walk(page, "bob")
    expect(page.get_by_text("You have no account here").first).to_be_visible()
    assert overflow(page) == 0
    picture(page, "refused-phone")
    context.close()
